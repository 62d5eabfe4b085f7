-- The feed of an org: one walk along one index, however many jobs there are.

-- name: read_feed
-- What a failed job has to show is in its own record.
SELECT {event_columns}, event.feed_at, CASE event.event_type WHEN 'job.failed' THEN (
    SELECT job.result_id FROM job_rows AS job WHERE job.job_id = event.job_id) END
FROM job_events AS event
WHERE event.org_id = :org_id AND event.feed_at > :mark
ORDER BY event.feed_at LIMIT :limit

-- name: read_feed_end
-- The last place of all, for who begins there.
SELECT event.feed_at, event.occurred_at, event.job_id, event.event_seq FROM job_events AS event
WHERE event.org_id = :org_id AND event.feed_at IS NOT NULL
ORDER BY event.feed_at DESC LIMIT 1

-- name: feed_home
-- Which store this is, and since when.
SELECT life, began_at FROM feed_home
