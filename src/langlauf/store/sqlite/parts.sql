-- What several queries have in common. A part may name others.

-- name: org
(SELECT org FROM orgs WHERE org_id = :org_id)

-- name: oldest_queued
-- When the first job in line of a lane was queued.
nullif(min(coalesce({first_queued:1}, 1 << 62), coalesce({first_queued:0}, 1 << 62)), 1 << 62)

-- name: first_queued
-- The same of one class: one look.
(SELECT one.queued_at FROM job_rows AS one INDEXED BY idx_jobs_lane_head
     WHERE one.org = lane.org AND one.analysis = lane.analysis AND one.expedite = {0}
       AND one.ticket >= 0 AND one.started_at IS NULL AND one.finished_at IS NULL ORDER BY one.ticket LIMIT 1)

-- name: newest_of_org
-- The jobs of an org that ended last in a state.
SELECT * FROM (
    SELECT one.job, one.finished_at FROM job_rows AS one INDEXED BY idx_jobs_org_status_updated
    WHERE one.org = {org} AND one.status = '{0}' AND one.finished_at >= :since ORDER BY one.finished_at DESC LIMIT :most)

-- name: newest_kept
-- The jobs that ended last, by what is kept of them: the index has them so.
SELECT * FROM (
    SELECT one.job, one.finished_at FROM job_rows AS one INDEXED BY idx_jobs_finished
    WHERE one.kept = {0} AND one.finished_at >= :since ORDER BY one.finished_at DESC LIMIT :most)

-- name: oldest_kept
-- The jobs that ended first behind a position, by what is kept of them.
SELECT * FROM (
    SELECT one.finished_at, one.job FROM job_rows AS one INDEXED BY idx_jobs_finished
    WHERE one.kept = {0} AND one.finished_at <= :cutoff AND (one.finished_at, one.job) > (:after_time, :after_row)
    ORDER BY one.finished_at, one.job LIMIT :limit)

-- name: pending_delivery
EXISTS (
        SELECT 1 FROM outbox AS message INDEXED BY idx_notifications_job_channel
        WHERE message.job_id = {0} AND message.channel <> 'in_app' AND message.delivery_status = 'pending')

-- name: expired
-- A partial is not kept longer than the final that followed it: the job would show a result it no longer has.
job.finished_at <= CASE WHEN result.result_kind = 'final' THEN :final_cutoff
        WHEN job.status = 'completed' THEN :completed_cutoff ELSE :partial_cutoff END

-- name: messages_of
-- In-app messages about jobs of an org that ended in a state, newest first, before a position.
SELECT * FROM (
        SELECT one.finished_at AS created_at, substr(one.job_id, 1, 14) || '4' || substr(one.job_id, 16) AS id, one.job_id
        FROM job_rows AS one INDEXED BY idx_jobs_org_status_updated
        WHERE one.org = {org} AND one.status = '{0}'
          AND one.finished_at <= :before_at AND one.finished_at >= (SELECT oldest FROM stored)
          AND (one.imported_at IS NULL OR one.imported_at < one.finished_at)
          AND (one.finished_at < :before_at OR id < :before_id)
        ORDER BY one.finished_at DESC, id DESC LIMIT :limit)

-- name: unread_of
-- The newest of them that came since the org has seen all.
SELECT created_at, read_at FROM (
        SELECT one.finished_at AS created_at, one.read_at FROM job_rows AS one INDEXED BY idx_jobs_org_status_updated
        WHERE one.org = {org} AND one.status = '{0}' AND one.finished_at > {seen_until}
          AND (one.imported_at IS NULL OR one.imported_at < one.finished_at)
        ORDER BY one.finished_at DESC LIMIT :walk)

-- name: seen_until
-- Until when an org has marked all messages as read.
coalesce((SELECT mark.read_until FROM inbox_marks AS mark WHERE mark.org_id = :org_id), 0)

-- name: tails
-- Of lanes and classes with waiting jobs the last one, and what is behind it.
SELECT last.org, last.analysis, last.expedite, last.ticket + 1
FROM lane_rows AS lane {0}
CROSS JOIN (SELECT 1 AS expedite UNION ALL SELECT 0) AS class
CROSS JOIN job_rows AS last ON last.job = (
    SELECT one.job FROM job_rows AS one INDEXED BY idx_jobs_lane_head
    WHERE one.org = lane.org AND one.analysis = lane.analysis AND one.expedite = class.expedite
      AND one.started_at IS NULL AND one.finished_at IS NULL
    ORDER BY one.ticket DESC LIMIT 1)
WHERE lane.waiting > 0 AND last.queued_at >= :since

-- name: started
-- Jobs of an org in a state that have started and not ended: those with a lease, and those that are to go on.
SELECT one.job, one.queued_at, one.job_id FROM job_rows AS one INDEXED BY idx_jobs_timeout_detection
WHERE one.org = {org} AND one.status = {0} AND one.deadline_at IS NOT NULL
UNION ALL
SELECT one.job, one.queued_at, one.job_id FROM job_rows AS one INDEXED BY idx_jobs_lane_due
WHERE one.org = {org} AND one.status = {0} AND one.next_attempt_at IS NOT NULL

-- name: with_result
-- Jobs of an org that have ended with a result which is still there.
FROM job_rows AS one INDEXED BY idx_jobs_history
WHERE one.org = {org} AND one.finished_at IS NOT NULL AND one.result_id IS NOT NULL AND one.result_expired_at IS NULL

-- name: lanes_out
-- The lanes that have something to send, each with when its first message is due and how many are being sent: one look per
-- lane, however much waits in it.
WITH RECURSIVE walk (org_id, lane) AS (
    SELECT * FROM (
        SELECT org_id, lane FROM outbox INDEXED BY idx_notifications_due
        WHERE delivery_status = 'pending' AND channel <> 'in_app' AND lane IS NOT NULL ORDER BY org_id, lane LIMIT 1)
    UNION ALL
    SELECT next.org_id, next.lane FROM walk CROSS JOIN outbox AS next NOT INDEXED
    ON next.rowid = coalesce(
        (SELECT later.rowid FROM outbox AS later INDEXED BY idx_notifications_due
         WHERE later.delivery_status = 'pending' AND later.channel <> 'in_app'
           AND later.org_id = walk.org_id AND later.lane > walk.lane
         ORDER BY later.lane LIMIT 1),
        (SELECT later.rowid FROM outbox AS later INDEXED BY idx_notifications_due
         WHERE later.delivery_status = 'pending' AND later.channel <> 'in_app' AND later.lane IS NOT NULL
           AND later.org_id > walk.org_id
         ORDER BY later.org_id, later.lane LIMIT 1))
)
SELECT walk.org_id, walk.lane,
    (SELECT min(first.scheduled_at) FROM outbox AS first INDEXED BY idx_notifications_due
     WHERE first.delivery_status = 'pending' AND first.channel <> 'in_app'
       AND first.org_id = walk.org_id AND first.lane = walk.lane) AS due_at,
    (SELECT count(*) FROM outbox AS flying INDEXED BY idx_notifications_claimed
     WHERE flying.org_id = walk.org_id AND flying.lane = walk.lane AND flying.claimed_until > :now) AS flying,
    coalesce(trouble.failures, 0) AS failures, trouble.paused_until
FROM walk LEFT JOIN delivery_lanes AS trouble ON trouble.org_id = walk.org_id AND trouble.lane = walk.lane
