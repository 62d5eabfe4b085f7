-- The feed of an org: one walk along one index, however many jobs there are.

-- name: read_feed
-- What a failed job has to show is in its own record.
SELECT {event_columns}, event.feed_mark, CASE event.event_type WHEN 'job.failed' THEN (
    SELECT job.result_id FROM jobs AS job WHERE job.org_id = event.org_id AND job.job_id = event.job_id) END
FROM job_events AS event INDEXED BY idx_job_events_feed
WHERE event.org_id = :org_id AND event.feed_mark IS NOT NULL
  AND (event.feed_mark, event.job_id, event.event_seq) > (:mark, :job_id, :event_seq)
ORDER BY event.feed_mark, event.job_id, event.event_seq LIMIT :limit

-- name: read_feed_end
-- The last place of all, for who begins there.
SELECT event.feed_mark, event.occurred_at, event.job_id, event.event_seq
FROM job_events AS event INDEXED BY idx_job_events_feed
WHERE event.org_id = :org_id AND event.feed_mark IS NOT NULL
ORDER BY event.feed_mark DESC, event.job_id DESC, event.event_seq DESC LIMIT 1

-- name: feed_home
-- Which store this is, and since when.
SELECT life, began_at FROM feed_home
