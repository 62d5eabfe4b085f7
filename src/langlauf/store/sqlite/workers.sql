-- Who works: no tenant data, and nothing that a job depends on.

-- name: note_worker
-- A worker that stops does not come back; its next life has another id.
INSERT INTO workers ({worker_names}, seen_at) VALUES ({worker_named}, :now)
ON CONFLICT (worker_id) DO UPDATE SET
    busy = excluded.busy, slots = excluded.slots, stopping = excluded.stopping, seen_at = excluded.seen_at
WHERE workers.stopping <= excluded.stopping

-- name: forget_worker
DELETE FROM workers WHERE worker_id = :worker_id

-- name: forget_silent_workers
DELETE FROM workers WHERE seen_at < :before

-- name: all_workers
-- Each with the jobs that it holds, and until when: one walk over as many rows as run.
SELECT {worker_columns}, worker.seen_at, coalesce(held.jobs, 0), held.until
FROM workers AS worker LEFT JOIN (
    SELECT job.worker_id, count(*) AS jobs, max(job.lease_expires_at) AS until
    FROM job_rows AS job INDEXED BY idx_jobs_timeout_detection WHERE job.deadline_at IS NOT NULL GROUP BY job.worker_id
) AS held ON held.worker_id = worker.worker_id
ORDER BY worker.started_at, worker.worker_id

-- name: note_duty
-- Processes have the same duties: the latest success of any of them counts.
INSERT INTO duties (name, succeeded_at, host) VALUES (:name, :now, :host)
ON CONFLICT (name) DO UPDATE SET succeeded_at = excluded.succeeded_at, host = excluded.host
WHERE duties.succeeded_at <= excluded.succeeded_at

-- name: all_duties
SELECT name, succeeded_at, host FROM duties ORDER BY name

-- name: probe_write
-- Some pages, so that a file without room refuses it.
INSERT INTO duties (name, succeeded_at, host) VALUES ('write probe', :now, hex(zeroblob(8192)))

-- name: probe_erase
DELETE FROM duties WHERE name = 'write probe'
