-- A look over all orgs, for operators. The looks of one org are in reads.sql, under names of their own.

-- name: all_ended
SELECT ended.org_id, ended.analysis, ended.status, ended.queued_at, ended.started_at, ended.finished_at, ended.error_code,
    CASE ended.status WHEN 'failed' THEN ended.job_id END
FROM jobs AS ended INDEXED BY idx_jobs_finished WHERE ended.finished_at >= :since
ORDER BY ended.finished_at DESC LIMIT :most

-- name: all_queued
SELECT queued_at FROM (
    SELECT * FROM (
        SELECT one.queued_at FROM jobs AS one
        WHERE one.status = 'queued' AND one.priority_class = 'default' AND one.queued_at >= :since
        ORDER BY one.queued_at DESC LIMIT :most)
    UNION ALL SELECT * FROM (
        SELECT one.queued_at FROM jobs AS one
        WHERE one.status = 'queued' AND one.priority_class = 'expedite' AND one.queued_at >= :since
        ORDER BY one.queued_at DESC LIMIT :most))
ORDER BY queued_at DESC LIMIT :most

-- name: all_queues
SELECT lane.org_id, lane.analysis, lane.waiting,
    (SELECT one.queued_at FROM jobs AS one INDEXED BY idx_jobs_lane_head
     WHERE one.org_id = lane.org_id AND one.analysis = lane.analysis AND one.priority_class = 'expedite'
       AND one.started_at IS NULL AND one.finished_at IS NULL ORDER BY one.queued_at, one.job_id LIMIT 1),
    (SELECT one.queued_at FROM jobs AS one INDEXED BY idx_jobs_lane_head
     WHERE one.org_id = lane.org_id AND one.analysis = lane.analysis AND one.priority_class = 'default'
       AND one.started_at IS NULL AND one.finished_at IS NULL ORDER BY one.queued_at, one.job_id LIMIT 1)
FROM lanes AS lane WHERE lane.waiting > 0 LIMIT :most

-- name: all_underway
SELECT lease.org_id, lease.job_id, job.analysis, job.queued_at, job.started_at, job.cancel_requested_at,
    job.next_attempt_at, lease.expires_at
FROM leases AS lease CROSS JOIN jobs AS job USING (org_id, job_id)
UNION ALL SELECT * FROM (
    SELECT job.org_id, job.job_id, job.analysis, job.queued_at, job.started_at, job.cancel_requested_at,
        job.next_attempt_at, NULL
    FROM jobs AS job INDEXED BY idx_jobs_retry_eligible WHERE job.next_attempt_at IS NOT NULL LIMIT :most)
LIMIT :most
