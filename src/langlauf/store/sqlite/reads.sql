-- Every read of tenant data. Each names its org: a test refuses a query here that does not.

-- name: read_job
SELECT {job_columns}, lease.expires_at FROM jobs AS job LEFT JOIN leases AS lease USING (org_id, job_id)
WHERE job.org_id = :org_id AND job.job_id = :job_id

-- name: read_latest_events
SELECT {event_columns} FROM job_events AS event
WHERE event.org_id = :org_id AND event.job_id = :job_id ORDER BY event.event_seq DESC LIMIT :limit

-- name: read_events_after
SELECT {event_columns} FROM job_events AS event
WHERE event.org_id = :org_id AND event.job_id = :job_id AND event.event_seq > :after
ORDER BY event.event_seq LIMIT :limit

-- name: read_small_payload
-- The size is in the row's head: a payload over the limit is not read.
SELECT CASE WHEN octet_length(payload) <= :limit THEN payload END FROM job_results
WHERE org_id = :org_id AND result_id = :result_id

-- name: read_input
SELECT payload FROM job_inputs WHERE org_id = :org_id AND job_id = :job_id

-- name: read_snapshots
SELECT {snapshot_columns} FROM job_results AS snapshot
WHERE snapshot.org_id = :org_id AND snapshot.job_id = :job_id AND snapshot.removed_at IS NULL
ORDER BY snapshot.result_seq

-- name: read_snapshot
-- A payload that nobody asked for is not read, and neither are the views of it.
SELECT {snapshot_columns}, CASE WHEN :whole THEN snapshot.payload END, CASE WHEN :whole THEN snapshot.views END
FROM job_results AS snapshot
WHERE snapshot.org_id = :org_id AND snapshot.result_id = :result_id

-- name: read_newest_snapshot
-- The final one has the highest number, so the newest is the last.
SELECT {snapshot_columns}, CASE WHEN :whole THEN snapshot.payload END, CASE WHEN :whole THEN snapshot.views END
FROM job_results AS snapshot
WHERE snapshot.org_id = :org_id AND snapshot.job_id = :job_id
ORDER BY snapshot.result_seq DESC LIMIT 1

-- name: read_notifications
SELECT {notification_columns} FROM notifications AS notification
WHERE notification.org_id = :org_id AND notification.job_id = :job_id
  AND (:channel IS NULL OR notification.channel = :channel)
ORDER BY notification.created_at DESC, notification.notification_id DESC LIMIT :limit

-- name: read_end_of_walk
-- Where a walk over so many of the newest jobs before a position ends; none where it reaches the oldest.
SELECT one.queued_at, one.job_id FROM jobs AS one
WHERE one.org_id = :org_id AND (one.queued_at, one.job_id) < (:before_at, :before_id)
ORDER BY one.queued_at DESC, one.job_id DESC LIMIT 1 OFFSET :walk - 1

-- name: read_jobs
-- Of one walk, those that fit. However few they are, it looks at no more than the walk.
WITH walked AS MATERIALIZED (
    SELECT one.rowid AS row FROM jobs AS one
    WHERE one.org_id = :org_id AND (one.queued_at, one.job_id) < (:before_at, :before_id)
    ORDER BY one.queued_at DESC, one.job_id DESC LIMIT :walk)
SELECT {job_columns}, lease.expires_at
FROM walked CROSS JOIN jobs AS job ON job.rowid = walked.row LEFT JOIN leases AS lease USING (org_id, job_id)
WHERE job.org_id = :org_id
  AND (:status IS NULL OR job.status = :status)
  AND (:analysis IS NULL OR job.analysis = :analysis)
  AND (:text IS NULL OR EXISTS (
      SELECT 1 FROM job_inputs AS input
      WHERE input.org_id = :org_id AND input.job_id = job.job_id
        AND (instr(lower(input.payload), :text) > 0 OR instr(job.job_id, :text) > 0)))
ORDER BY job.queued_at DESC, job.job_id DESC LIMIT :limit

-- name: read_history
WITH walked AS MATERIALIZED (
    SELECT one.rowid AS row FROM jobs AS one
    WHERE one.org_id = :org_id AND (one.queued_at, one.job_id) < (:before_at, :before_id)
    ORDER BY one.queued_at DESC, one.job_id DESC LIMIT :walk)
SELECT job.result_id, job.job_id, result.created_at, job.status, input.payload
FROM walked CROSS JOIN jobs AS job ON job.rowid = walked.row
JOIN job_inputs AS input USING (org_id, job_id)
JOIN job_results AS result ON result.org_id = job.org_id AND result.result_id = job.result_id
WHERE job.org_id = :org_id AND job.result_id IS NOT NULL AND job.result_expired_at IS NULL
ORDER BY job.queued_at DESC, job.job_id DESC LIMIT :limit OFFSET :offset

-- name: count_history
WITH walked AS MATERIALIZED (
    SELECT one.rowid AS row FROM jobs AS one
    WHERE one.org_id = :org_id AND (one.queued_at, one.job_id) < (:before_at, :before_id)
    ORDER BY one.queued_at DESC, one.job_id DESC LIMIT :walk)
SELECT count(*) FROM walked CROSS JOIN jobs AS job ON job.rowid = walked.row
WHERE job.org_id = :org_id AND job.result_id IS NOT NULL AND job.result_expired_at IS NULL

-- name: read_completed
-- Completed jobs of an analysis before a position, with their inputs: so many and no more.
SELECT done.job_id, done.result_id, done.finished_at, input.payload
FROM (
    SELECT one.job_id, one.result_id, one.finished_at FROM jobs AS one INDEXED BY idx_jobs_completed
    WHERE one.org_id = :org_id AND one.analysis = :analysis AND one.status = 'completed'
      AND one.result_expired_at IS NULL AND (one.finished_at, one.job_id) < (:before_at, :before_id)
    ORDER BY one.finished_at DESC, one.job_id DESC LIMIT :limit) AS done
CROSS JOIN job_inputs AS input ON input.org_id = :org_id AND input.job_id = done.job_id
ORDER BY done.finished_at DESC, done.job_id DESC

-- name: read_chunk
SELECT payload FROM job_chunks WHERE org_id = :org_id AND job_id = :job_id AND chunk_key = :key

-- name: read_chunks
SELECT chunk_key, payload FROM job_chunks
WHERE org_id = :org_id AND job_id = :job_id AND chunk_key IN (SELECT value FROM json_each(:keys))

-- name: read_ranks
-- The first and the last of each analysis and class, each one look into the index.
SELECT lane.analysis, class.name, lane.waiting, first.ticket, last.ticket, first.queued_at, last.queued_at
FROM lanes AS lane
CROSS JOIN (SELECT 'expedite' AS name UNION ALL SELECT 'default') AS class
CROSS JOIN jobs AS first ON first.rowid = (
    SELECT one.rowid FROM jobs AS one INDEXED BY idx_jobs_lane_head
    WHERE one.org_id = lane.org_id AND one.analysis = lane.analysis AND one.priority_class = class.name
      AND one.started_at IS NULL AND one.finished_at IS NULL
    ORDER BY one.queued_at, one.job_id LIMIT 1)
CROSS JOIN jobs AS last ON last.rowid = (
    SELECT one.rowid FROM jobs AS one INDEXED BY idx_jobs_lane_head
    WHERE one.org_id = lane.org_id AND one.analysis = lane.analysis AND one.priority_class = class.name
      AND one.started_at IS NULL AND one.finished_at IS NULL
    ORDER BY one.queued_at DESC, one.job_id DESC LIMIT 1)
WHERE lane.org_id = :org_id AND lane.waiting > 0
