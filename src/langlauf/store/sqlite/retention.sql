-- Retention. Each kind has a query that finds old jobs page by page, for a reader, and the changes for the writer.
--
-- The finders give: finished_at and rowid (the position of the page), org_id, job_id, how many rows would go, how many
-- bytes they hold, whether nothing of the kind would be left, and whether it is kept back: while a delivery is pending
-- everything of the job is, and while it is held all but its events. An in_app message is a record and not a delivery: it
-- stays pending for ever.

-- name: retirable_results
-- A partial is not kept longer than the final that followed it: the job would show a result it no longer has.
SELECT finished_at, rowid, org_id, job_id,
    (SELECT count(*) FROM job_results AS result
     WHERE result.org_id = jobs.org_id AND result.job_id = jobs.job_id AND result.removed_at IS NULL
       AND jobs.finished_at <= CASE
           WHEN result.result_kind = 'final' THEN :final_cutoff
           WHEN jobs.status = 'completed' THEN :completed_cutoff
           ELSE :partial_cutoff END),
    (SELECT coalesce(sum(coalesce(octet_length(result.payload), 0) + coalesce(octet_length(result.views), 0)), 0)
     FROM job_results AS result
     WHERE result.org_id = jobs.org_id AND result.job_id = jobs.job_id),
    NOT EXISTS (SELECT 1 FROM job_results AS result
     WHERE result.org_id = jobs.org_id AND result.job_id = jobs.job_id AND result.removed_at IS NULL
       AND jobs.finished_at > CASE
           WHEN result.result_kind = 'final' THEN :final_cutoff
           WHEN jobs.status = 'completed' THEN :completed_cutoff
           ELSE :partial_cutoff END),
    held_at IS NOT NULL OR EXISTS (SELECT 1 FROM notifications AS message
            WHERE message.org_id = jobs.org_id AND message.job_id = jobs.job_id
              AND message.channel <> 'in_app' AND message.delivery_status = 'pending')
FROM jobs INDEXED BY idx_jobs_results_kept
WHERE finished_at IS NOT NULL AND result_id IS NOT NULL AND result_expired_at IS NULL
  AND finished_at <= :cutoff AND (finished_at, rowid) > (:after_time, :after_row)
ORDER BY finished_at, rowid LIMIT :limit

-- name: retirable_events
SELECT finished_at, rowid, org_id, job_id,
    (SELECT count(*) FROM job_events AS event
     WHERE event.org_id = jobs.org_id AND event.job_id = jobs.job_id),
    0,
    1,
    EXISTS (SELECT 1 FROM notifications AS message
            WHERE message.org_id = jobs.org_id AND message.job_id = jobs.job_id
              AND message.channel <> 'in_app' AND message.delivery_status = 'pending')
FROM jobs INDEXED BY idx_jobs_events_kept
WHERE finished_at IS NOT NULL AND events_expired_at IS NULL
  AND finished_at <= :cutoff AND (finished_at, rowid) > (:after_time, :after_row)
ORDER BY finished_at, rowid LIMIT :limit

-- name: retirable_jobs
-- The rows that go are the records themselves; their weight is in what they take along.
SELECT finished_at, rowid, org_id, job_id,
    1,
    (SELECT coalesce(sum(octet_length(chunk.payload)), 0) FROM job_chunks AS chunk
     WHERE chunk.org_id = jobs.org_id AND chunk.job_id = jobs.job_id),
    1,
    held_at IS NOT NULL OR EXISTS (SELECT 1 FROM notifications AS message
            WHERE message.org_id = jobs.org_id AND message.job_id = jobs.job_id
              AND message.channel <> 'in_app' AND message.delivery_status = 'pending')
FROM jobs INDEXED BY idx_jobs_finished
WHERE finished_at IS NOT NULL AND finished_at <= :cutoff AND (finished_at, rowid) > (:after_time, :after_row)
ORDER BY finished_at, rowid LIMIT :limit

-- name: may_retire
-- Asked again by the writer, because a page may be older than a change.
SELECT finished_at, status FROM jobs
WHERE org_id = :org_id AND job_id = :job_id AND finished_at <= :cutoff
  AND (held_at IS NULL OR :kind = 'events')
  AND NOT EXISTS (
      SELECT 1 FROM notifications AS message
      WHERE message.org_id = :org_id AND message.job_id = :job_id
        AND message.channel <> 'in_app' AND message.delivery_status = 'pending')

-- name: entomb_results
-- What is left says that there was a result: its id, its org and when it went.
UPDATE job_results SET removed_at = :now, payload = NULL, summary_json = NULL, views = NULL
WHERE org_id = :org_id AND job_id = :job_id AND removed_at IS NULL
  AND EXISTS (SELECT 1 FROM jobs AS job WHERE job.org_id = :org_id AND job.job_id = :job_id AND job.held_at IS NULL)
  AND :finished_at <= CASE result_kind WHEN 'final' THEN :final_cutoff ELSE :partial_cutoff END

-- name: mark_results_expired
UPDATE jobs SET result_expired_at = :now
WHERE org_id = :org_id AND job_id = :job_id AND result_expired_at IS NULL
  AND NOT EXISTS (
      SELECT 1 FROM job_results AS result
      WHERE result.org_id = :org_id AND result.job_id = :job_id AND result.removed_at IS NULL)

-- name: delete_events
DELETE FROM job_events WHERE org_id = :org_id AND job_id = :job_id

-- name: mark_events_expired
UPDATE jobs SET events_expired_at = :now WHERE org_id = :org_id AND job_id = :job_id AND events_expired_at IS NULL

-- name: delete_job
-- Its input, log, snapshots, tombstones, messages, chunks and key go with it.
DELETE FROM jobs WHERE org_id = :org_id AND job_id = :job_id AND held_at IS NULL

-- name: kept_payloads
-- What snapshots of these jobs name outside of the store, a row each; a job that names nothing has one row without.
SELECT job.org_id, job.job_id, job.finished_at IS NOT NULL, result.result_payload_ref
FROM json_each(:jobs) AS asked
CROSS JOIN jobs AS job ON job.org_id = asked.value ->> 0 AND job.job_id = asked.value ->> 1
LEFT JOIN job_results AS result ON result.org_id = job.org_id AND result.job_id = job.job_id
    AND result.removed_at IS NULL AND result.result_payload_ref <> 'inline:'

-- name: count_ended
SELECT count(*) FROM jobs INDEXED BY idx_jobs_status_priority_queued WHERE status IN ('completed', 'failed', 'canceled')

-- name: count_with_end
SELECT count(*) FROM jobs INDEXED BY idx_jobs_finished WHERE finished_at IS NOT NULL

-- name: count_snapshots
SELECT (SELECT count(*) FROM job_results INDEXED BY idx_job_results_created)
     - (SELECT count(*) FROM job_results INDEXED BY idx_job_results_removed WHERE removed_at IS NOT NULL)

-- name: count_events
SELECT count(*) FROM job_events
