-- The queries of `doctor` for a file. Each is a bounded index scan.

-- name: kept_beyond
-- The youngest jobs beyond an age: how many there are, and how many still have the part. Retention begins with the oldest:
-- these are the last it comes to. What is held it leaves alone.
SELECT count(*), count(*) FILTER (WHERE held_at IS NULL AND CASE :kind
    WHEN 'events' THEN events_expired_at IS NULL
    WHEN 'results' THEN result_id IS NOT NULL AND result_expired_at IS NULL
    ELSE true END)
FROM (
    SELECT held_at, result_id, result_expired_at, events_expired_at FROM (
        SELECT * FROM (SELECT job FROM job_rows WHERE kept = 0 AND finished_at <= :before ORDER BY finished_at DESC LIMIT :most)
        UNION ALL
        SELECT * FROM (SELECT job FROM job_rows WHERE kept = 1 AND finished_at <= :before ORDER BY finished_at DESC LIMIT :most)
        UNION ALL
        SELECT * FROM (SELECT job FROM job_rows WHERE kept = 2 AND finished_at <= :before ORDER BY finished_at DESC LIMIT :most)
        UNION ALL
        SELECT * FROM (SELECT job FROM job_rows WHERE kept = 3 AND finished_at <= :before ORDER BY finished_at DESC LIMIT :most))
    CROSS JOIN job_rows USING (job) ORDER BY finished_at DESC LIMIT :most)

-- name: newest_blobs
-- What the jobs that ended last keep outside of the file.
SELECT result.org_id, result.job_id, result.result_id, result.result_payload_ref
FROM (
    SELECT * FROM (SELECT job FROM job_rows WHERE kept = 3 AND finished_at IS NOT NULL ORDER BY finished_at DESC LIMIT :most)
    UNION ALL
    SELECT * FROM (
        SELECT job FROM job_rows WHERE kept = 2 AND finished_at IS NOT NULL ORDER BY finished_at DESC LIMIT :most)) AS ended
CROSS JOIN result_rows AS own ON own.job = ended.job
CROSS JOIN job_results AS result ON result.row = own.result
WHERE own.payload_ref IS NOT NULL AND own.removed_at IS NULL

-- name: planned_analyses
-- Of each analysis with planned runs the schedule whose run is the first, and how many there are.
SELECT analysis, org_id, name, min(next_run_at), count(*) FROM schedules WHERE next_run_at IS NOT NULL GROUP BY analysis

-- name: delivery_state
-- Messages to the outside: how many wait, since when the longest overdue of a lane that is not paused is due, and who gets
-- nothing at present.
SELECT
    (SELECT count(*) FROM outbox INDEXED BY idx_notifications_due
     WHERE delivery_status = 'pending' AND channel <> 'in_app' AND lane IS NOT NULL),
    (SELECT min(message.scheduled_at) FROM outbox AS message INDEXED BY idx_notifications_due
     WHERE message.delivery_status = 'pending' AND message.channel <> 'in_app' AND message.lane IS NOT NULL
       AND message.scheduled_at <= :now
       AND coalesce(message.claimed_until, 0) <= :now
       AND NOT EXISTS (SELECT 1 FROM delivery_lanes AS lane
                       WHERE lane.org_id = message.org_id AND lane.lane = message.lane AND lane.paused_until > :now)),
    (SELECT count(*) FROM delivery_lanes WHERE paused_until > :now),
    (SELECT count(*) FROM webhook_endpoints WHERE disabled_at IS NOT NULL)
