-- Holding results.

-- name: find_held_job
SELECT job_id, removed_at FROM job_results WHERE org_id = :org_id AND result_id = :result_id

-- name: hold_job
-- What retention took cannot be held any more, and who held it first stays.
UPDATE job_rows SET held_at = :now, held_by = :by, hold_reason = :reason
WHERE org = (SELECT org FROM orgs WHERE org_id = :org_id) AND job_id = :job_id AND held_at IS NULL
  AND EXISTS (SELECT 1 FROM result_rows AS result
              WHERE result.result_id = :result_id AND result.job = job_rows.job AND result.removed_at IS NULL)

-- name: release_job
UPDATE job_rows SET held_at = NULL, held_by = NULL, hold_reason = NULL
WHERE org = (SELECT org FROM orgs WHERE org_id = :org_id) AND job_id = :job_id AND held_at IS NOT NULL
