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
-- Each with the jobs that it holds, and until when: a few rows, as many as run.
SELECT {worker_columns}, worker.seen_at, count(lease.job_id), max(lease.expires_at)
FROM workers AS worker LEFT JOIN leases AS lease ON lease.worker_id = worker.worker_id
GROUP BY worker.worker_id ORDER BY worker.started_at, worker.worker_id
