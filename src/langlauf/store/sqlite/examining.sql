-- What `doctor` asks of a file. Each is a walk along an index, and no longer than it was asked for.

-- name: kept_beyond_results
-- Retention begins with the oldest: the youngest beyond an age are the last it comes to. What is held it leaves alone.
SELECT count(*), coalesce(sum(held_at IS NULL AND result_id IS NOT NULL AND result_expired_at IS NULL), 0) FROM (
    SELECT held_at, result_id, result_expired_at FROM jobs INDEXED BY idx_jobs_finished
    WHERE finished_at IS NOT NULL AND finished_at <= :before ORDER BY finished_at DESC LIMIT :most)

-- name: kept_beyond_events
SELECT count(*), coalesce(sum(held_at IS NULL AND events_expired_at IS NULL), 0) FROM (
    SELECT held_at, events_expired_at FROM jobs INDEXED BY idx_jobs_finished
    WHERE finished_at IS NOT NULL AND finished_at <= :before ORDER BY finished_at DESC LIMIT :most)

-- name: kept_beyond_jobs
SELECT count(*), coalesce(sum(held_at IS NULL), 0) FROM (
    SELECT held_at FROM jobs INDEXED BY idx_jobs_finished
    WHERE finished_at IS NOT NULL AND finished_at <= :before ORDER BY finished_at DESC LIMIT :most)

-- name: newest_blobs
-- What the jobs that ended last keep outside of the file.
SELECT result.org_id, result.job_id, result.result_id, result.result_payload_ref
FROM (SELECT org_id, job_id FROM jobs INDEXED BY idx_jobs_finished
      WHERE finished_at IS NOT NULL ORDER BY finished_at DESC LIMIT :most) AS ended
CROSS JOIN job_results AS result ON result.org_id = ended.org_id AND result.job_id = ended.job_id
WHERE result.result_payload_ref <> 'inline:' AND result.removed_at IS NULL

-- name: any_key
SELECT EXISTS (SELECT 1 FROM api_keys)

-- name: delivery_state
-- Messages to the outside: how many wait, since when the longest overdue of a lane that is not paused is due, and who gets
-- nothing at present.
SELECT
    (SELECT count(*) FROM notifications INDEXED BY idx_notifications_due
     WHERE delivery_status = 'pending' AND channel <> 'in_app' AND lane IS NOT NULL),
    (SELECT min(message.scheduled_at) FROM notifications AS message INDEXED BY idx_notifications_due
     WHERE message.delivery_status = 'pending' AND message.channel <> 'in_app' AND message.lane IS NOT NULL
       AND message.scheduled_at <= :now
       AND coalesce(message.claimed_until, 0) <= :now
       AND NOT EXISTS (SELECT 1 FROM delivery_lanes AS lane
                       WHERE lane.org_id = message.org_id AND lane.lane = message.lane AND lane.paused_until > :now)),
    (SELECT count(*) FROM delivery_lanes WHERE paused_until > :now),
    (SELECT count(*) FROM webhook_endpoints WHERE disabled_at IS NOT NULL)
