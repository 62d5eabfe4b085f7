-- Every read of tenant data. Each names its org: a test refuses a query here that does not.

-- name: read_job
SELECT {job_columns}, job.lease_expires_at FROM jobs AS job WHERE job.org_id = :org_id AND job.job_id = :job_id

-- name: read_status
-- The same with the result of a completed job. The size is in the row's head: a payload over the limit is not read.
SELECT {job_columns}, job.lease_expires_at, CASE job.status WHEN 'completed' THEN (
    SELECT CASE WHEN octet_length(result.payload) <= :limit THEN result.payload END FROM result_rows AS result
    WHERE result.result_id = job.result_id AND result.org = job.org) END
FROM jobs AS job WHERE job.org_id = :org_id AND job.job_id = :job_id

-- name: read_latest_events
SELECT {event_columns} FROM job_events AS event
WHERE event.org_id = :org_id AND event.job_id = :job_id ORDER BY event.event_seq DESC LIMIT :limit

-- name: read_events
SELECT {event_columns} FROM job_events AS event
WHERE event.org_id = :org_id AND event.job_id = :job_id AND event.event_seq > :after
ORDER BY event.event_seq LIMIT :limit

-- name: read_payload
SELECT payload FROM job_inputs WHERE org_id = :org_id AND job_id = :job_id

-- name: read_inputs
-- Sizes are in the heads of the rows: what is too large is not read.
SELECT job.job_id, coalesce(job.input, large.input)
FROM json_each(:job_ids) AS wanted CROSS JOIN job_rows AS job ON job.job_id = wanted.value
LEFT JOIN inputs AS large ON large.job = job.job
WHERE job.org = {org} AND coalesce(octet_length(job.input), octet_length(large.input)) <= :largest

-- name: read_results
SELECT {snapshot_columns} FROM job_results AS snapshot
WHERE snapshot.org_id = :org_id AND snapshot.job_id = :job_id AND snapshot.removed_at IS NULL
ORDER BY snapshot.result_seq

-- name: read_snapshot
-- The payload and its views are read only on request.
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
SELECT row FROM job_results WHERE org_id = :org_id AND result_id = :result_id AND payload IS NOT NULL

-- name: read_views
SELECT views FROM job_results WHERE org_id = :org_id AND result_id = :result_id

-- name: read_notifications
SELECT {notification_columns} FROM notifications AS notification
WHERE notification.org_id = :org_id AND notification.job_id = :job_id
  AND (:channel IS NULL OR notification.channel = :channel)
ORDER BY notification.created_at DESC, notification.notification_id DESC LIMIT :limit

-- name: walk_completed
-- So many of the last completed jobs before a position, and whether each is one of an analysis whose result is still there.
SELECT one.job, one.finished_at, one.job_id,
    one.result_expired_at IS NULL AND one.analysis = (SELECT analysis FROM analyses WHERE name = :analysis)
FROM job_rows AS one INDEXED BY idx_jobs_org_status_updated
WHERE one.org = {org} AND one.status = 'completed' AND one.finished_at IS NOT NULL
  AND (one.finished_at, one.job_id) < (:before_at, :before_id)
ORDER BY one.finished_at DESC, one.job_id DESC LIMIT :walk

-- name: read_completed
-- Of the rows of a walk what looking back wants of them.
SELECT done.job_id, done.result_id, done.finished_at,
    coalesce(done.input, (SELECT large.input FROM inputs AS large WHERE large.job = done.job))
FROM json_each(:rows) AS walked CROSS JOIN job_rows AS done ON done.job = walked.value
WHERE done.org = {org}

-- name: read_ended
-- The newest that ended since then.
SELECT :org_id, analysis.name, ended.status, ended.queued_at, ended.started_at, ended.finished_at, ended.error_code,
    CASE ended.status WHEN 'failed' THEN ended.job_id END
FROM ({newest_of_org:completed|failed|canceled} ORDER BY finished_at DESC LIMIT :most) AS newest
CROSS JOIN job_rows AS ended ON ended.job = newest.job
CROSS JOIN analyses AS analysis ON analysis.analysis = ended.analysis

-- name: read_tails
-- The lanes and classes whose last job came since then, and what is behind that one.
{tails:} AND lane.org = {org} LIMIT :most

-- name: read_waiting
-- Tickets are given in the order of time.
SELECT one.ticket, one.queued_at FROM job_rows AS one INDEXED BY idx_jobs_lane_head
WHERE one.org = {org} AND one.analysis = :analysis AND one.expedite = :expedite AND one.ticket >= 0 AND one.ticket < :behind
  AND one.started_at IS NULL AND one.finished_at IS NULL
ORDER BY one.ticket DESC LIMIT :most

-- name: read_queues
-- With the oldest of each class, each one look into the index.
SELECT :org_id, analysis.name, lane.waiting, {oldest_queued}
FROM lane_rows AS lane JOIN analyses AS analysis USING (analysis)
WHERE lane.org = {org} AND lane.waiting > 0 LIMIT :most

-- name: read_underway
-- What workers hold, over all orgs, is few; what waits for another attempt is found by its org.
SELECT :org_id, found.job_id, analysis.name, found.queued_at, found.started_at, found.cancel_requested_at,
    found.next_attempt_at, found.lease_expires_at
FROM (SELECT * FROM job_rows AS job INDEXED BY idx_jobs_timeout_detection
      WHERE job.deadline_at IS NOT NULL AND job.org = {org}
      UNION ALL SELECT * FROM job_rows AS job INDEXED BY idx_jobs_lane_due
      WHERE job.next_attempt_at IS NOT NULL AND job.org = {org}) AS found
JOIN analyses AS analysis ON analysis.analysis = found.analysis
LIMIT :most

-- name: read_chunk
SELECT payload FROM job_chunks WHERE org_id = :org_id AND job_id = :job_id AND chunk_key = :key

-- name: read_chunks
SELECT chunk_key, payload FROM job_chunks
WHERE org_id = :org_id AND job_id = :job_id AND chunk_key IN (SELECT value FROM json_each(:keys))

-- name: read_kept_parts
-- Counted up to a limit, without the trail. The total grows with each map of a job: the largest is the newest.
SELECT count(*), max(total) FROM (SELECT total FROM job_chunks WHERE org_id = :org_id AND job_id = :job_id
    AND NOT (chunk_key >= 'langlauf:' AND chunk_key < 'langlauf;') LIMIT :most)

-- name: read_resumed
-- Chunks that a job did not compute: they are older than the job, which began with those of another one.
SELECT count(*) FROM job_chunks AS chunk JOIN jobs AS job ON job.org_id = chunk.org_id AND job.job_id = chunk.job_id
WHERE chunk.org_id = :org_id AND chunk.job_id = :job_id AND chunk.created_at < job.queued_at
  AND NOT (chunk.chunk_key >= 'langlauf:' AND chunk.chunk_key < 'langlauf;')

-- name: read_trail
-- The keys of a trail begin with langlauf: and a semicolon is the character behind that colon.
SELECT chunk_key, payload, created_at FROM job_chunks
WHERE org_id = :org_id AND job_id = :job_id AND chunk_key >= 'langlauf:' AND chunk_key < 'langlauf;'
ORDER BY created_at, row

-- name: read_reruns
-- Jobs that repeat a job, or started from its input, the newest first; numbers of rows rise with time.
SELECT {job_columns}, job.lease_expires_at
FROM (SELECT * FROM (
          SELECT again.job_id FROM job_rows AS again INDEXED BY idx_jobs_retry_of
          WHERE again.org = {org} AND again.retry_of = :job_id
          ORDER BY again.job DESC LIMIT :most)
      UNION ALL SELECT * FROM (
          SELECT changed.job_id FROM job_rows AS changed INDEXED BY idx_jobs_based_on
          WHERE changed.org = {org} AND changed.based_on = :job_id
          ORDER BY changed.job DESC LIMIT :most)) AS found
CROSS JOIN jobs AS job ON job.job_id = found.job_id AND job.org_id = :org_id
ORDER BY job.queued_at DESC, job.job_id DESC LIMIT :most

-- name: read_ranks
-- The first and the last of each analysis and class, each one look into the index.
SELECT analysis.name, class.name, lane.waiting, first.ticket, last.ticket, first.queued_at, last.queued_at
FROM lane_rows AS lane
CROSS JOIN analyses AS analysis ON analysis.analysis = lane.analysis
CROSS JOIN (SELECT 'expedite' AS name, 1 AS expedite UNION ALL SELECT 'default', 0) AS class
CROSS JOIN job_rows AS first ON first.job = (
    SELECT one.job FROM job_rows AS one INDEXED BY idx_jobs_lane_head
    WHERE one.org = lane.org AND one.analysis = lane.analysis AND one.expedite = class.expedite
      AND one.ticket >= 0 AND one.started_at IS NULL AND one.finished_at IS NULL
    ORDER BY one.ticket LIMIT 1)
CROSS JOIN job_rows AS last ON last.job = (
    SELECT one.job FROM job_rows AS one INDEXED BY idx_jobs_lane_head
    WHERE one.org = lane.org AND one.analysis = lane.analysis AND one.expedite = class.expedite
      AND one.started_at IS NULL AND one.finished_at IS NULL
    ORDER BY one.ticket DESC LIMIT 1)
WHERE lane.org = {org} AND lane.waiting > 0

-- name: read_feed
-- The result of a failed job is in its own record.
SELECT {event_columns}, event.feed_at, CASE event.event_type WHEN 'job.failed' THEN (
    SELECT job.result_id FROM job_rows AS job WHERE job.job_id = event.job_id) END
FROM job_events AS event
WHERE event.org_id = :org_id AND event.feed_at > :mark
ORDER BY event.feed_at LIMIT :limit

-- name: read_feed_end
-- The last position of the feed.
SELECT event.feed_at, event.occurred_at, event.job_id, event.event_seq FROM job_events AS event
WHERE event.org_id = :org_id AND event.feed_at IS NOT NULL
ORDER BY event.feed_at DESC LIMIT 1
