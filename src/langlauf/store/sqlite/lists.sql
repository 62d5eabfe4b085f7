-- Lists of an org. Each query names its org: a test refuses one that does not. None of them reads more rows than
-- its limit, whatever the number of jobs.
--
-- A position is an instant and an id. The indexes have the instant; those of one instant, a batch at the most, are put in the
-- order of their ids.

-- name: walk_jobs
-- So many of the newest jobs before a position.
SELECT one.job, one.queued_at, one.job_id FROM job_rows AS one INDEXED BY idx_jobs_org_queued
WHERE one.org = {org} AND (one.queued_at, one.job_id) < (:before_at, :before_id) AND one.queued_at >= :since
ORDER BY one.queued_at DESC, one.job_id DESC LIMIT :walk

-- name: walk_failed
-- The same of those that failed.
SELECT one.job, one.queued_at, one.job_id FROM job_rows AS one INDEXED BY idx_jobs_failed
WHERE one.org = {org} AND one.failed_at IS NOT NULL
  AND (one.queued_at, one.job_id) < (:before_at, :before_id) AND one.queued_at >= :since
ORDER BY one.queued_at DESC, one.job_id DESC LIMIT :walk

-- name: walk_few
-- All jobs in a state that has few: each state has its own index.
SELECT few.job, few.queued_at, few.job_id
FROM (SELECT one.job, one.queued_at, one.job_id FROM job_rows AS one INDEXED BY idx_jobs_org_status_updated
      WHERE one.org = {org} AND one.status = :status AND one.finished_at IS NOT NULL
      UNION ALL
      SELECT one.job, one.queued_at, one.job_id FROM job_rows AS one INDEXED BY idx_jobs_lane_head
      WHERE :status = 'queued' AND one.org = {org} AND one.started_at IS NULL AND one.finished_at IS NULL
      UNION ALL
      SELECT * FROM ({started::status}) WHERE :status IN ('running', 'partial')) AS few
WHERE (few.queued_at, few.job_id) < (:before_at, :before_id) AND few.queued_at >= :since
ORDER BY few.queued_at DESC, few.job_id DESC

-- name: count_status
-- How many jobs are in a state, counted up to a limit.
SELECT CASE
    WHEN :status = 'queued' THEN (
        SELECT min(:most, coalesce(sum(lane.waiting + lane.scheduled), 0)) FROM lane_rows AS lane
        WHERE lane.org = {org})
    WHEN :status IN ('running', 'partial') THEN (
        SELECT count(*) FROM (SELECT 1 FROM ({started::status}) LIMIT :most))
    ELSE (
        SELECT count(*) FROM (
            SELECT 1 FROM job_rows AS one INDEXED BY idx_jobs_org_status_updated
            WHERE one.org = {org} AND one.status = :status AND one.finished_at IS NOT NULL LIMIT :most))
    END

-- name: read_walked
-- The first matching rows of a scan. CROSS JOIN keeps the order of the scan, so that it stops at the limit.
SELECT {job_columns}, job.lease_expires_at
FROM json_each(:rows) AS walked CROSS JOIN jobs AS job ON job.row = walked.value
WHERE job.org_id = :org_id
  AND (:status IS NULL OR job.status = :status)
  AND (:analysis IS NULL OR job.analysis = :analysis)
  AND (:error_code IS NULL OR job.error_code = :error_code)
  AND (:text IS NULL
    OR instr(lower(job.job_id), :text) > 0 OR instr(lower(job.analysis), :text) > 0
    OR instr(lower(job.label), :text) > 0 OR instr(lower(job.step), :text) > 0
    OR instr(lower(job.error_code), :text) > 0 OR instr(lower(job.error_message), :text) > 0
    OR EXISTS (
        SELECT 1 FROM job_rows AS own LEFT JOIN inputs AS large ON large.job = own.job
        WHERE own.job = job.row AND CASE WHEN coalesce(octet_length(own.input), octet_length(large.input)) <= :largest
            THEN instr(lower(coalesce(own.input, large.input)), :text) > 0 END))
LIMIT :limit

-- name: read_failures
-- Failed jobs, newest first, and whether they were retried by a user.
SELECT one.job_id, (SELECT analysis.name FROM analyses AS analysis WHERE analysis.analysis = one.analysis), one.error_code,
    substr(one.error_message, 1, :longest), one.queued_at, one.failed_at,
    EXISTS (SELECT 1 FROM job_rows AS again INDEXED BY idx_jobs_retry_of
            WHERE again.org = one.org AND again.retry_of = one.job_id)
FROM job_rows AS one INDEXED BY idx_jobs_failed
WHERE one.org = {org} AND one.failed_at IS NOT NULL
  AND (one.queued_at, one.job_id) < (:before_at, :before_id) AND one.queued_at >= :since
ORDER BY one.queued_at DESC, one.job_id DESC LIMIT :limit

-- name: walk_unfinished
-- Jobs that work and have a snapshot already: as few as run or wait for another attempt. Pages of the history are counted, so
-- that the order inside of an instant is that of the index.
SELECT job, queued_at, job FROM ({started:'partial'})

-- name: count_history
SELECT count(*) {with_result}

-- name: walk_history
SELECT one.job, one.queued_at, one.job {with_result}
ORDER BY one.queued_at DESC, one.job DESC LIMIT :limit OFFSET :offset

-- name: walk_history_back
-- The same from the other end.
SELECT one.job, one.queued_at, one.job {with_result}
ORDER BY one.queued_at, one.job LIMIT :limit OFFSET :offset

-- name: read_history
SELECT job.result_id, job.job_id, result.created_at, job.status,
    coalesce(job.input, (SELECT large.input FROM inputs AS large WHERE large.job = job.job))
FROM json_each(:rows) AS walked CROSS JOIN job_rows AS job ON job.job = walked.value
CROSS JOIN result_rows AS result ON result.result_id = job.result_id
WHERE job.org = {org}
ORDER BY job.queued_at DESC, job.job DESC

-- name: read_held
SELECT {job_columns}, job.lease_expires_at
FROM (SELECT one.job, one.held_at, one.job_id FROM job_rows AS one INDEXED BY idx_jobs_held
      WHERE one.org = {org} AND one.held_at IS NOT NULL AND (one.held_at, one.job_id) < (:before_at, :before_id)
      ORDER BY one.held_at DESC, one.job_id DESC LIMIT :limit) AS held
CROSS JOIN jobs AS job ON job.row = held.job
ORDER BY held.held_at DESC, held.job_id DESC

-- name: read_inbox
-- In-app messages, newest first, and whether they are unread: those derived from the ends of jobs, and those that
-- an earlier system left. Of jobs none is looked for that ended before the last of a whole page of the latter.
WITH stored AS MATERIALIZED (
    SELECT coalesce((
        SELECT one.created_at FROM outbox AS one INDEXED BY idx_notifications_inbox
        WHERE one.org_id = :org_id AND one.channel = 'in_app'
          AND (one.created_at, one.notification_id) < (:before_at, :before_id)
        ORDER BY one.created_at DESC, one.notification_id DESC LIMIT 1 OFFSET :limit - 1), 0) AS oldest),
page AS MATERIALIZED (
    {messages_of:completed|failed}
    UNION ALL SELECT * FROM (
        SELECT one.created_at, one.notification_id, NULL FROM outbox AS one INDEXED BY idx_notifications_inbox
        WHERE one.org_id = :org_id AND one.channel = 'in_app'
          AND (one.created_at, one.notification_id) < (:before_at, :before_id)
        ORDER BY one.created_at DESC, one.notification_id DESC LIMIT :limit)
    ORDER BY created_at DESC, id DESC LIMIT :limit)
SELECT {notification_columns}, notification.read_at IS NULL AND notification.created_at > {seen_until}
FROM page CROSS JOIN messages AS notification ON notification.job_id = page.job_id
UNION ALL
SELECT {notification_columns}, notification.read_at IS NULL AND notification.created_at > {seen_until}
FROM page CROSS JOIN outbox AS notification ON notification.org_id = :org_id AND notification.notification_id = page.id
WHERE page.job_id IS NULL
ORDER BY notification.created_at DESC, notification.notification_id DESC

-- name: read_unread
-- Among the newest so many, down to where all are seen.
SELECT count(*) FROM (
    {unread_of:completed|failed}
    UNION ALL SELECT created_at, read_at FROM (
        SELECT one.created_at, one.read_at FROM outbox AS one INDEXED BY idx_notifications_inbox
        WHERE one.org_id = :org_id AND one.channel = 'in_app'
          AND one.created_at > {seen_until}
        ORDER BY one.created_at DESC LIMIT :walk)
    ORDER BY created_at DESC LIMIT :walk)
WHERE read_at IS NULL
