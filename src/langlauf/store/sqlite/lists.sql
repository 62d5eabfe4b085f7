-- What lists of an org read. Each names its org: a test refuses a query here that does not. None of them looks at more than
-- it was told to, whatever the number of jobs.

-- name: walk_jobs
-- So many of the newest jobs before a position.
SELECT one.rowid, one.queued_at, one.job_id FROM jobs AS one INDEXED BY idx_jobs_org_queued
WHERE one.org_id = :org_id AND (one.queued_at, one.job_id) < (:before_at, :before_id) AND one.queued_at >= :since
ORDER BY one.queued_at DESC, one.job_id DESC LIMIT :walk

-- name: walk_failed
-- The same of those that failed.
SELECT one.rowid, one.queued_at, one.job_id FROM jobs AS one INDEXED BY idx_jobs_failed
WHERE one.org_id = :org_id AND one.failed_at IS NOT NULL
  AND (one.queued_at, one.job_id) < (:before_at, :before_id) AND one.queued_at >= :since
ORDER BY one.queued_at DESC, one.job_id DESC LIMIT :walk

-- name: walk_few
-- All jobs in a state, where they are known to be few.
SELECT one.rowid, one.queued_at, one.job_id FROM jobs AS one INDEXED BY idx_jobs_org_status_updated
WHERE one.org_id = :org_id AND one.status = :status
  AND (one.queued_at, one.job_id) < (:before_at, :before_id) AND one.queued_at >= :since
ORDER BY one.queued_at DESC, one.job_id DESC

-- name: count_status
-- How many jobs are in a state, counted no further than told.
SELECT count(*) FROM (
    SELECT 1 FROM jobs AS one INDEXED BY idx_jobs_org_status_updated
    WHERE one.org_id = :org_id AND one.status = :status LIMIT :most)

-- name: read_walked
-- Of the rows of a walk, the first that fit. CROSS JOIN keeps the order of the walk, so that it ends with the last one wanted.
SELECT {job_columns}, lease.expires_at
FROM json_each(:rows) AS walked CROSS JOIN jobs AS job ON job.rowid = walked.value
LEFT JOIN leases AS lease USING (org_id, job_id)
WHERE job.org_id = :org_id
  AND (:status IS NULL OR job.status = :status)
  AND (:analysis IS NULL OR job.analysis = :analysis)
  AND (:error_code IS NULL OR job.error_code = :error_code)
  AND (:text IS NULL
    OR instr(lower(job.job_id), :text) > 0 OR instr(lower(job.analysis), :text) > 0
    OR instr(lower(job.step), :text) > 0
    OR instr(lower(job.error_code), :text) > 0 OR instr(lower(job.error_message), :text) > 0
    OR EXISTS (
        SELECT 1 FROM job_inputs AS input WHERE input.org_id = :org_id AND input.job_id = job.job_id
          AND CASE WHEN octet_length(input.payload) <= :largest THEN instr(lower(input.payload), :text) > 0 END))
LIMIT :limit

-- name: read_failures
-- Failed jobs, newest first, and whether somebody had them run again.
SELECT one.job_id, one.analysis, one.error_code, substr(one.error_message, 1, :longest), one.queued_at, one.failed_at,
    EXISTS (SELECT 1 FROM jobs AS again INDEXED BY idx_jobs_retry_of
            WHERE again.org_id = :org_id AND again.retry_of = one.job_id)
FROM jobs AS one INDEXED BY idx_jobs_failed
WHERE one.org_id = :org_id AND one.failed_at IS NOT NULL
  AND (one.queued_at, one.job_id) < (:before_at, :before_id) AND one.queued_at >= :since
ORDER BY one.queued_at DESC, one.job_id DESC LIMIT :limit

-- name: walk_unfinished
-- Jobs that work and have a snapshot already: as few as run or wait for another attempt.
SELECT one.rowid, one.queued_at, one.job_id FROM jobs AS one INDEXED BY idx_jobs_org_status_updated
WHERE one.org_id = :org_id AND one.status = 'partial'

-- name: count_history
SELECT count(*) FROM jobs AS one INDEXED BY idx_jobs_history
WHERE one.org_id = :org_id AND one.finished_at IS NOT NULL AND one.result_id IS NOT NULL AND one.result_expired_at IS NULL

-- name: walk_history
SELECT one.rowid, one.queued_at, one.job_id FROM jobs AS one INDEXED BY idx_jobs_history
WHERE one.org_id = :org_id AND one.finished_at IS NOT NULL AND one.result_id IS NOT NULL AND one.result_expired_at IS NULL
ORDER BY one.queued_at DESC, one.job_id DESC LIMIT :limit OFFSET :offset

-- name: walk_history_back
-- The same from the other end.
SELECT one.rowid, one.queued_at, one.job_id FROM jobs AS one INDEXED BY idx_jobs_history
WHERE one.org_id = :org_id AND one.finished_at IS NOT NULL AND one.result_id IS NOT NULL AND one.result_expired_at IS NULL
ORDER BY one.queued_at, one.job_id LIMIT :limit OFFSET :offset

-- name: read_history
SELECT job.result_id, job.job_id, result.created_at, job.status, input.payload
FROM json_each(:rows) AS walked CROSS JOIN jobs AS job ON job.rowid = walked.value
JOIN job_inputs AS input USING (org_id, job_id)
JOIN job_results AS result ON result.org_id = job.org_id AND result.result_id = job.result_id
WHERE job.org_id = :org_id
ORDER BY job.queued_at DESC, job.job_id DESC

-- name: read_inbox
-- Messages for people, newest first, and whether nobody has seen them.
SELECT {notification_columns},
    notification.read_at IS NULL AND notification.created_at > coalesce(
        (SELECT mark.read_until FROM inbox_marks AS mark WHERE mark.org_id = :org_id), 0)
FROM notifications AS notification INDEXED BY idx_notifications_inbox
WHERE notification.org_id = :org_id AND notification.channel = 'in_app'
  AND (notification.created_at, notification.notification_id) < (:before_at, :before_id)
ORDER BY notification.created_at DESC, notification.notification_id DESC LIMIT :limit

-- name: count_unread
-- Among the newest so many, down to where all are seen.
SELECT count(*) FROM (
    SELECT one.read_at FROM notifications AS one INDEXED BY idx_notifications_inbox
    WHERE one.org_id = :org_id AND one.channel = 'in_app' AND one.created_at > coalesce(
        (SELECT mark.read_until FROM inbox_marks AS mark WHERE mark.org_id = :org_id), 0)
    ORDER BY one.created_at DESC LIMIT :walk)
WHERE read_at IS NULL

-- name: read_held
SELECT {job_columns}, lease.expires_at
FROM jobs AS job INDEXED BY idx_jobs_held LEFT JOIN leases AS lease USING (org_id, job_id)
WHERE job.org_id = :org_id AND job.held_at IS NOT NULL AND (job.held_at, job.job_id) < (:before_at, :before_id)
ORDER BY job.held_at DESC, job.job_id DESC LIMIT :limit
