-- An org as a whole. {table}, {key} and {own} stand for names that the file itself told.

-- name: org_tables
-- Every table with rows of orgs, how it names them, and the columns of its key.
SELECT one.name, max(part.name) FILTER (WHERE part.name IN ('org', 'org_id')),
    json_group_array(part.name) FILTER (WHERE part.pk > 0)
FROM sqlite_schema AS one CROSS JOIN pragma_table_info(one.name) AS part
WHERE one.type = 'table'
GROUP BY one.name HAVING max(part.name IN ('org', 'org_id'))

-- name: org_count
SELECT count(*) FROM {table} WHERE {own}

-- name: org_held
SELECT count(*) FROM job_rows INDEXED BY idx_jobs_held
WHERE org = (SELECT org FROM orgs WHERE org_id = :org_id) AND held_at IS NOT NULL

-- name: org_unended
SELECT job_id FROM job_rows INDEXED BY idx_jobs_lane_head
WHERE org = (SELECT org FROM orgs WHERE org_id = :org_id) AND started_at IS NULL AND finished_at IS NULL
UNION ALL
SELECT job_id FROM job_rows INDEXED BY idx_jobs_lane_due
WHERE org = (SELECT org FROM orgs WHERE org_id = :org_id) AND next_attempt_at IS NOT NULL
UNION ALL
SELECT job_id FROM job_rows INDEXED BY idx_jobs_timeout_detection
WHERE org = (SELECT org FROM orgs WHERE org_id = :org_id) AND deadline_at IS NOT NULL
LIMIT :limit

-- name: org_revoke_key
UPDATE api_keys SET revoked_at = :now, version = (SELECT max(version) + 1 FROM api_keys)
WHERE key_id = (SELECT key_id FROM api_keys WHERE org_id = :org_id AND revoked_at IS NULL LIMIT 1)

-- name: org_forget_keys
UPDATE api_keys SET name = '', last_used_at = NULL
WHERE org_id = :org_id AND (name <> '' OR last_used_at IS NOT NULL)

-- name: org_remove_ended
-- What belongs to a job goes with it.
DELETE FROM job_rows WHERE job IN (
    SELECT job FROM job_rows INDEXED BY idx_jobs_org_status_updated
    WHERE org = (SELECT org FROM orgs WHERE org_id = :org_id) AND status IN ('completed', 'failed', 'canceled')
      AND finished_at IS NOT NULL AND (:with_held OR held_at IS NULL) LIMIT :limit)

-- name: org_remove_leased
-- With its lease gone, nothing that a worker writes later is taken.
DELETE FROM job_rows WHERE job IN (
    SELECT job FROM job_rows INDEXED BY idx_jobs_timeout_detection
    WHERE org = (SELECT org FROM orgs WHERE org_id = :org_id) AND deadline_at IS NOT NULL
      AND (:with_held OR held_at IS NULL) LIMIT :limit)
RETURNING analysis

-- name: org_remove_rows
DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE {own} AND {goes} LIMIT :limit)
