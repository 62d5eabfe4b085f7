-- Retention. Each kind has a query that finds old jobs page by page, for a reader, and the changes for the writer.
--
-- `kept` says what there still is of a job that has ended, and leads the index: what was taken is not walked over again.
--
-- The finders give: finished_at and the job's key (the position of the page), org_id, job_id, how many rows would go, how
-- many bytes they hold, whether nothing of the kind would be left, and whether it is kept back: while a delivery is pending
-- everything of the job is, and while it is held all but its events. A message for people is a record and not a delivery.

-- name: retirable_results
SELECT job.finished_at, job.job, (SELECT org.org_id FROM orgs AS org WHERE org.org = job.org), job.job_id,
    (SELECT count(*) FROM result_rows AS result WHERE result.job = job.job AND result.removed_at IS NULL AND {expired}),
    (SELECT coalesce(sum(coalesce(octet_length(result.payload), 0) + coalesce(octet_length(result.views), 0)), 0)
     FROM result_rows AS result WHERE result.job = job.job),
    NOT EXISTS (
        SELECT 1 FROM result_rows AS result WHERE result.job = job.job AND result.removed_at IS NULL AND NOT {expired}),
    job.held_at IS NOT NULL OR {pending_delivery:job.job_id}
FROM ({oldest_kept:2|3} ORDER BY finished_at, job LIMIT :limit) AS old
CROSS JOIN job_rows AS job ON job.job = old.job ORDER BY old.finished_at, old.job

-- name: retirable_events
SELECT job.finished_at, job.job, (SELECT org.org_id FROM orgs AS org WHERE org.org = job.org), job.job_id,
    (SELECT count(*) FROM event_rows AS event WHERE event.job = job.job), 0, 1, {pending_delivery:job.job_id}
FROM ({oldest_kept:1|3} ORDER BY finished_at, job LIMIT :limit) AS old
CROSS JOIN job_rows AS job ON job.job = old.job ORDER BY old.finished_at, old.job

-- name: retirable_jobs
-- The rows that go are the records themselves; their weight is in what they take along.
SELECT job.finished_at, job.job, (SELECT org.org_id FROM orgs AS org WHERE org.org = job.org), job.job_id, 1,
    (SELECT coalesce(sum(octet_length(chunk.payload)), 0) FROM chunk_rows AS chunk WHERE chunk.job = job.job), 1,
    job.held_at IS NOT NULL OR {pending_delivery:job.job_id}
FROM ({oldest_kept:0|1|2|3} ORDER BY finished_at, job LIMIT :limit) AS old
CROSS JOIN job_rows AS job ON job.job = old.job ORDER BY old.finished_at, old.job

-- name: may_retire
-- Asked again by the writer, because a page may be older than a change.
SELECT job.job, job.finished_at, job.status FROM job_rows AS job
WHERE job.org = {org} AND job.job_id = :job_id AND job.finished_at <= :cutoff AND (job.held_at IS NULL OR :kind = 'events')
  AND NOT {pending_delivery::job_id}

-- name: entomb_results
-- What is left says that there was a result: its id, its org and when it went.
UPDATE result_rows SET removed_at = :now, payload = NULL, summary_json = NULL, views = NULL
WHERE job = :job AND removed_at IS NULL
  AND EXISTS (SELECT 1 FROM job_rows AS one WHERE one.job = :job AND one.held_at IS NULL)
  AND :finished_at <= CASE result_kind WHEN 'final' THEN :final_cutoff ELSE :partial_cutoff END

-- name: mark_results_expired
-- A job that never had a result has lost none: it is only not looked at again.
UPDATE job_rows SET kept = kept & 1, result_expired_at = CASE WHEN result_id IS NOT NULL THEN :now END
WHERE job = :job AND kept & 2 AND held_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM result_rows AS result WHERE result.job = :job AND result.removed_at IS NULL)

-- name: delete_events
DELETE FROM event_rows WHERE job = :job

-- name: mark_events_expired
UPDATE job_rows SET kept = kept & 2, events_expired_at = :now WHERE job = :job AND kept & 1

-- name: delete_job
-- Its input, log, snapshots, tombstones, messages, chunks and key go with it.
DELETE FROM job_rows WHERE job = :job AND held_at IS NULL

-- name: old_codes
-- Code that no worker has run for long, and whether a job names it: one walk over all jobs, and none where there is no such code.
SELECT old.code, old.code IN (SELECT job.code FROM job_rows AS job WHERE job.code IN (SELECT code FROM codes WHERE seen_at < :before))
FROM codes AS old WHERE old.seen_at < :before

-- name: prune_code
DELETE FROM codes WHERE code = :code AND seen_at < :before

-- name: code_is_named
-- It is not looked at again for as long.
UPDATE codes SET seen_at = :now WHERE code = :code

-- name: kept_payloads
-- What snapshots of these jobs name outside of the store, a row each; a job that names nothing has one row without.
SELECT asked.value ->> 0, job.job_id, job.finished_at IS NOT NULL, result.payload_ref
FROM json_each(:jobs) AS asked
CROSS JOIN job_rows AS job ON job.job_id = asked.value ->> 1
    AND job.org = (SELECT org.org FROM orgs AS org WHERE org.org_id = asked.value ->> 0)
LEFT JOIN result_rows AS result ON result.job = job.job AND result.removed_at IS NULL AND result.payload_ref IS NOT NULL

-- name: count_ended
-- All jobs but those that wait, run or are to go on: each a walk along an index.
SELECT (SELECT count(*) FROM job_rows)
     - (SELECT count(*) FROM job_rows INDEXED BY idx_jobs_lane_head WHERE started_at IS NULL AND finished_at IS NULL)
     - (SELECT count(*) FROM job_rows INDEXED BY idx_jobs_timeout_detection WHERE deadline_at IS NOT NULL)
     - (SELECT count(*) FROM job_rows INDEXED BY idx_jobs_lane_due WHERE next_attempt_at IS NOT NULL)

-- name: count_with_end
SELECT count(*) FROM job_rows INDEXED BY idx_jobs_finished WHERE finished_at IS NOT NULL

-- name: count_snapshots
SELECT (SELECT count(*) FROM result_rows)
     - (SELECT count(*) FROM result_rows INDEXED BY idx_job_results_removed WHERE removed_at IS NOT NULL)

-- name: count_events
SELECT count(*) FROM event_rows

-- name: find_held_job
SELECT job_id, removed_at FROM job_results WHERE org_id = :org_id AND result_id = :result_id

-- name: hold_job
-- A removed result cannot be held, and the first holder stays.
UPDATE job_rows SET held_at = :now, held_by = :by, hold_reason = :reason
WHERE org = {org} AND job_id = :job_id AND held_at IS NULL AND EXISTS (SELECT 1 FROM result_rows AS result
              WHERE result.result_id = :result_id AND result.job = job_rows.job AND result.removed_at IS NULL)

-- name: release_job
UPDATE job_rows SET held_at = NULL, held_by = NULL, hold_reason = NULL
WHERE org = {org} AND job_id = :job_id AND held_at IS NOT NULL
