-- What metrics tell of all that waits and runs, over all orgs: each a look at an index, or as many rows as jobs run.

-- name: backlog_waiting
SELECT analysis, waiting FROM waiting_counts

-- name: backlog_oldest
-- When the first of each class was accepted.
SELECT min(queued_at) FROM (
    SELECT * FROM (
        SELECT one.queued_at FROM jobs AS one INDEXED BY idx_jobs_status_priority_queued
        WHERE one.status = 'queued' AND one.priority_class = 'default' ORDER BY one.queued_at LIMIT 1)
    UNION ALL SELECT * FROM (
        SELECT one.queued_at FROM jobs AS one INDEXED BY idx_jobs_status_priority_queued
        WHERE one.status = 'queued' AND one.priority_class = 'expedite' ORDER BY one.queued_at LIMIT 1))

-- name: backlog_running
-- CROSS JOIN: the leases first, whatever statistics say.
SELECT job.analysis, sum(lease.expires_at > :now), sum(lease.expires_at <= :now),
    min(CASE WHEN lease.expires_at > :now THEN job.attempt_started_at END)
FROM leases AS lease CROSS JOIN jobs AS job USING (org_id, job_id) GROUP BY job.analysis

-- name: backlog_retrying
SELECT count(*) FROM (
    SELECT 1 FROM jobs AS job INDEXED BY idx_jobs_retry_eligible WHERE job.next_attempt_at IS NOT NULL LIMIT :most)

-- name: backlog_orgs_waiting
-- As many rows as orgs that wait: only where the operator wants orgs told.
SELECT org_id, sum(waiting) FROM lanes WHERE waiting > 0 GROUP BY org_id
