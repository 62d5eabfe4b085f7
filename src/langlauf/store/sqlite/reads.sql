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

-- name: read_inputs
SELECT job_id, payload FROM job_inputs
WHERE org_id = :org_id AND job_id IN (SELECT value FROM json_each(:job_ids)) AND octet_length(payload) <= :largest

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

-- name: read_payload_size
-- The size is in the row's head; a payload comes with it where it is small.
SELECT octet_length(payload), CASE WHEN octet_length(payload) <= :small THEN payload END FROM job_results
WHERE org_id = :org_id AND result_id = :result_id AND payload IS NOT NULL

-- name: read_payload_row
SELECT rowid FROM job_results WHERE org_id = :org_id AND result_id = :result_id AND payload IS NOT NULL

-- name: read_views
SELECT views FROM job_results WHERE org_id = :org_id AND result_id = :result_id

-- name: read_notifications
SELECT {notification_columns} FROM notifications AS notification
WHERE notification.org_id = :org_id AND notification.job_id = :job_id
  AND (:channel IS NULL OR notification.channel = :channel)
ORDER BY notification.created_at DESC, notification.notification_id DESC LIMIT :limit

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

-- name: read_ended
-- The newest that ended since then. A job is not updated after its end, so that the last update is the end.
SELECT ended.org_id, ended.analysis, ended.status, ended.queued_at, ended.started_at, ended.finished_at, ended.error_code,
    CASE ended.status WHEN 'failed' THEN ended.job_id END
FROM (SELECT * FROM (
          SELECT one.rowid AS row, one.updated_at FROM jobs AS one
          WHERE one.org_id = :org_id AND one.status = 'completed' AND one.updated_at >= :since
          ORDER BY one.updated_at DESC LIMIT :most)
      UNION ALL SELECT * FROM (
          SELECT one.rowid AS row, one.updated_at FROM jobs AS one
          WHERE one.org_id = :org_id AND one.status = 'failed' AND one.updated_at >= :since
          ORDER BY one.updated_at DESC LIMIT :most)
      UNION ALL SELECT * FROM (
          SELECT one.rowid AS row, one.updated_at FROM jobs AS one
          WHERE one.org_id = :org_id AND one.status = 'canceled' AND one.updated_at >= :since
          ORDER BY one.updated_at DESC LIMIT :most)
      ORDER BY updated_at DESC LIMIT :most) AS newest
CROSS JOIN jobs AS ended ON ended.rowid = newest.row

-- name: read_queued
-- A job that waits was not updated since it was queued.
SELECT one.updated_at FROM jobs AS one
WHERE one.org_id = :org_id AND one.status = 'queued' AND one.updated_at >= :since
ORDER BY one.updated_at DESC LIMIT :most

-- name: read_queues
-- With the oldest of each class, each one look into the index.
SELECT lane.org_id, lane.analysis, lane.waiting,
    (SELECT one.queued_at FROM jobs AS one INDEXED BY idx_jobs_lane_head
     WHERE one.org_id = lane.org_id AND one.analysis = lane.analysis AND one.priority_class = 'expedite'
       AND one.started_at IS NULL AND one.finished_at IS NULL ORDER BY one.queued_at, one.job_id LIMIT 1),
    (SELECT one.queued_at FROM jobs AS one INDEXED BY idx_jobs_lane_head
     WHERE one.org_id = lane.org_id AND one.analysis = lane.analysis AND one.priority_class = 'default'
       AND one.started_at IS NULL AND one.finished_at IS NULL ORDER BY one.queued_at, one.job_id LIMIT 1)
FROM lanes AS lane
WHERE lane.org_id = :org_id AND lane.waiting > 0 LIMIT :most

-- name: read_underway
SELECT lease.org_id, lease.job_id, job.analysis, job.queued_at, job.started_at, job.cancel_requested_at,
    job.next_attempt_at, lease.expires_at
FROM leases AS lease CROSS JOIN jobs AS job USING (org_id, job_id) WHERE lease.org_id = :org_id
UNION ALL SELECT * FROM (
    SELECT job.org_id, job.job_id, job.analysis, job.queued_at, job.started_at, job.cancel_requested_at,
        job.next_attempt_at, NULL
    FROM jobs AS job INDEXED BY idx_jobs_lane_due WHERE job.org_id = :org_id AND job.next_attempt_at IS NOT NULL
    LIMIT :most)
LIMIT :most

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
