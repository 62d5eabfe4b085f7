-- Every write a job sees, in the order of its life. Format: a line "-- name: …", a sentence, the statement.
-- {job_columns} and its like stand for the fields of a record; {fence} for "this attempt still holds its lease".

-- name: find_idempotency_key
-- What an org's key was used for.
SELECT job_id, payload_hash FROM idempotency_keys WHERE org_id = :org_id AND idempotency_key = :key

-- name: find_duplicate
-- A job of the same org, analysis and input that has not ended. Left alone, the planner walks the org's whole history.
SELECT job_id FROM jobs INDEXED BY idx_jobs_duplicates
WHERE org_id = :org_id AND analysis = :analysis AND request_payload_hash = :payload_hash
  AND finished_at IS NULL
LIMIT 1

-- name: waiting_of_org
SELECT coalesce(sum(waiting), 0) FROM lanes WHERE org_id = :org_id

-- name: waiting_of_analysis
SELECT waiting FROM waiting_counts WHERE analysis = :analysis

-- name: waiting_of_all
SELECT coalesce(sum(waiting), 0) FROM waiting_counts

-- name: last_ticket
-- The highest, which is one of the newest: of jobs that came at the same moment, ids and tickets have orders of their own.
SELECT coalesce(max(ticket), 0) FROM jobs INDEXED BY idx_jobs_lane_head
WHERE org_id = :org_id AND analysis = :analysis AND priority_class = :priority_class
  AND started_at IS NULL AND finished_at IS NULL
  AND queued_at = (
      SELECT newest.queued_at FROM jobs AS newest INDEXED BY idx_jobs_lane_head
      WHERE newest.org_id = :org_id AND newest.analysis = :analysis AND newest.priority_class = :priority_class
        AND newest.started_at IS NULL AND newest.finished_at IS NULL
      ORDER BY newest.queued_at DESC LIMIT 1)

-- name: insert_job
INSERT INTO jobs ({job_names}) VALUES ({job_values})

-- name: insert_input
INSERT INTO job_inputs (org_id, job_id, payload) VALUES (?, ?, ?)

-- name: insert_wish
INSERT INTO job_wishes (org_id, job_id, channel, target, lane, language) VALUES (?, ?, ?, ?, ?, ?)

-- name: insert_key
INSERT INTO idempotency_keys (org_id, idempotency_key, job_id, payload_hash, created_at)
VALUES (:org_id, :key, :job_id, :payload_hash, :now)

-- name: copy_chunks
-- A resumed job starts with the finished chunks of the one it repeats.
INSERT INTO job_chunks (org_id, job_id, chunk_key, payload, created_at)
SELECT org_id, :job_id, chunk_key, payload, created_at FROM job_chunks
WHERE org_id = :org_id AND job_id = :resume_from

-- name: insert_event
INSERT INTO job_events ({event_names}) VALUES ({event_values})

-- name: last_feed_mark
-- The last place in the feed of an org, for who needs one behind it.
SELECT event.feed_mark FROM job_events AS event INDEXED BY idx_job_events_feed
WHERE event.org_id = :org_id AND event.feed_mark IS NOT NULL ORDER BY event.feed_mark DESC LIMIT 1

-- name: insert_event_behind
-- An event whose place in the feed is not that of its time.
INSERT INTO job_events ({event_names}, feed_at) VALUES ({event_values}, ?)

-- name: insert_result
INSERT INTO job_results ({snapshot_names}, payload, views) VALUES ({snapshot_values}, ?, ?)

-- name: insert_notification
INSERT INTO notifications ({notification_names}) VALUES ({notification_values})

-- name: lane_join
-- Counts waiting jobs in. An org that has some keeps its place, and all its lanes show it; one that had none joins where the
-- virtual clock stands, not where it left.
INSERT INTO lanes (org_id, analysis, waiting, virtual_start, served)
SELECT :org_id, :analysis, :change,
    coalesce(max(mine.virtual_start) FILTER (WHERE mine.waiting > 0),
             max((SELECT virtual_now FROM lane_clock), coalesce(max(mine.virtual_start), 0))),
    coalesce(max(mine.served), 0)
FROM lanes AS mine WHERE mine.org_id = :org_id
ON CONFLICT (org_id, analysis) DO UPDATE SET
    waiting = waiting + excluded.waiting, virtual_start = excluded.virtual_start, served = excluded.served

-- name: lane_leave
-- Counts waiting jobs out. Apart from joining: an upsert checks the row it would insert, and that has no minus.
UPDATE lanes SET waiting = waiting + :change WHERE org_id = :org_id AND analysis = :analysis

-- name: live_leases
-- How many jobs run: leases that have ended do not count.
SELECT count(*) FROM leases WHERE expires_at > :now

-- name: pulses
-- How the followed jobs of all orgs are doing, in one look.
SELECT job.org_id, job.job_id, job.event_seq, job.result_expired_at IS NOT NULL, job.events_expired_at IS NOT NULL,
    lease.expires_at
FROM json_each(:jobs) AS followed
CROSS JOIN jobs AS job ON job.org_id = followed.value ->> 0 AND job.job_id = followed.value ->> 1
LEFT JOIN leases AS lease ON lease.org_id = job.org_id AND lease.job_id = job.job_id

-- name: org_pulses
-- A mark of each followed org that any change of its jobs changes: when each of its states was last written. One look into
-- the index for each.
SELECT followed.value, group_concat(coalesce((
    SELECT job.updated_at FROM jobs AS job INDEXED BY idx_jobs_org_status_updated
    WHERE job.org_id = followed.value AND job.status = state.name
    ORDER BY job.updated_at DESC LIMIT 1), 0), '.')
FROM json_each(:orgs) AS followed
CROSS JOIN (
    SELECT 'queued' AS name UNION ALL SELECT 'running' UNION ALL SELECT 'partial'
    UNION ALL SELECT 'completed' UNION ALL SELECT 'failed' UNION ALL SELECT 'canceled') AS state
GROUP BY followed.value

-- name: running_by_analysis
SELECT job.analysis, count(*) FROM leases AS lease CROSS JOIN jobs AS job USING (org_id, job_id)
WHERE lease.expires_at > :now GROUP BY job.analysis

-- name: lost_leases
-- What had the slots that a sweep is about to give back to it. CROSS JOIN: the leases first, whatever statistics say.
SELECT org_id, job.analysis FROM leases AS lease CROSS JOIN jobs AS job USING (org_id, job_id)
WHERE lease.expires_at <= :now AND lease.expires_at > :oldest AND job.cancel_requested_at IS NULL

-- name: running_by_org
SELECT org_id, count(*) FROM leases WHERE expires_at > :now GROUP BY org_id

-- name: due_lanes
-- The orgs whose jobs of an analysis may go on, the longest due first. A lane may say so too early, never too late.
SELECT org_id, due_at FROM lanes
WHERE analysis = :analysis AND due_at <= :now AND org_id NOT IN (SELECT value FROM json_each(:full))
ORDER BY due_at, org_id LIMIT :lanes

-- name: lane_due
-- The jobs of a lane that had started and wait for their next attempt: lost, released, or to be retried.
SELECT next_attempt_at, job_id FROM jobs INDEXED BY idx_jobs_lane_due
WHERE org_id = :org_id AND analysis = :analysis AND next_attempt_at IS NOT NULL
ORDER BY next_attempt_at LIMIT :most

-- name: due_job
-- One of them with what a claim needs. Attempt and event are the next ones.
SELECT org_id, job_id, attempt + 1, event_seq + 1, analysis, timeout_seconds, progress_percent, retry_count, max_retries,
    trace_id, request_id, priority_class, queued_at, traceparent, tracestate,
    (SELECT payload FROM job_inputs AS input WHERE input.org_id = jobs.org_id AND input.job_id = jobs.job_id)
FROM jobs WHERE org_id = :org_id AND job_id = :job_id

-- name: lane_due_at
UPDATE lanes SET due_at = :due_at WHERE org_id = :org_id AND analysis = :analysis

-- name: waiting_lanes
-- The orgs with waiting jobs of an analysis whose turn is next.
SELECT virtual_start, served, org_id, waiting FROM lanes
WHERE analysis = :analysis AND waiting > 0 AND org_id NOT IN (SELECT value FROM json_each(:full))
ORDER BY virtual_start, served, org_id LIMIT :lanes

-- name: lane_heads
-- The waiting jobs of a lane whose turn is next, with the same columns as due_job.
SELECT org_id, job_id, attempt + 1, event_seq + 1, analysis, timeout_seconds, progress_percent, retry_count, max_retries,
    trace_id, request_id, priority_class, queued_at, traceparent, tracestate,
    (SELECT payload FROM job_inputs AS input WHERE input.org_id = jobs.org_id AND input.job_id = jobs.job_id)
FROM jobs INDEXED BY idx_jobs_lane_head
WHERE org_id = :org_id AND analysis = :analysis AND started_at IS NULL AND finished_at IS NULL
ORDER BY priority_class DESC, queued_at, job_id LIMIT :starts

-- name: clock_advance
-- The clock follows the turns, and counts who was served.
UPDATE lane_clock SET virtual_now = max(virtual_now, :virtual_now), served = served + 1

-- name: org_advance
UPDATE lanes SET virtual_start = :virtual_start, served = (SELECT served FROM lane_clock) WHERE org_id = :org_id

-- name: claim_job
-- The attempt number is the fencing token: it grows here and nowhere else. An attempt that starts with progress of another
-- has no pace until it gets beyond it.
UPDATE jobs SET
    status = CASE status WHEN 'queued' THEN 'running' ELSE status END,
    started_at = coalesce(started_at, :now),
    attempt_started_at = :now,
    attempt = attempt + 1,
    paced_percent = progress_percent,
    paced_at = CASE progress_percent WHEN 0 THEN :now END,
    progress_at = CASE progress_percent WHEN 0 THEN :now END,
    next_attempt_at = NULL,
    event_seq = event_seq + 1,
    updated_at = :now
WHERE org_id = :org_id AND job_id = :job_id
  AND (status = 'queued' OR (status IN ('running', 'partial') AND next_attempt_at <= :now))

-- name: insert_lease
INSERT INTO leases (org_id, job_id, attempt, worker_id, expires_at, deadline_at) VALUES (?, ?, ?, ?, ?, ?)

-- name: renew_lease
-- A lease that has ended cannot be renewed, even if nobody took the job yet.
UPDATE leases SET expires_at = :expires_at
WHERE org_id = :org_id AND job_id = :job_id AND attempt = :attempt AND expires_at > :now
RETURNING (SELECT CASE WHEN cancel_requested_at IS NOT NULL THEN coalesce(cancel_reason, '') END FROM jobs
           WHERE jobs.org_id = leases.org_id AND jobs.job_id = leases.job_id)

-- name: record_progress
-- What changes neither the percent nor the step is no news and touches nothing. The pace of an attempt is measured from
-- where it began to compute: not from what stored chunks brought, nor from what an attempt before it had done. The last
-- news that a log has room for says that it is the last.
UPDATE jobs SET
    limit_reached = iif(event_seq + 1 >= :last_news, 'events', limit_reached),
    progress_percent = max(progress_percent, :percent),
    step = coalesce(:step, step),
    progress_at = iif(:percent > progress_percent OR :replayed, :now, progress_at),
    paced_at = iif((:percent > progress_percent AND paced_at IS NULL) OR :replayed, :now, paced_at),
    paced_percent = iif((:percent > progress_percent AND paced_at IS NULL) OR :replayed,
                        max(:percent, progress_percent), paced_percent),
    event_seq = event_seq + 1,
    updated_at = :now
WHERE org_id = :org_id AND job_id = :job_id AND status IN ('running', 'partial')
  AND (:percent > progress_percent OR :step <> coalesce(step, '')) AND limit_reached IS NOT 'events' AND {fence}
RETURNING event_seq, progress_percent, step, limit_reached, trace_id, request_id

-- name: record_partial
-- A worker that was told of a failed commit writes again: a snapshot that is there already changes nothing. The first one
-- that does not fit any more is progress without a snapshot, and says so; those after it change nothing.
UPDATE jobs SET
    limit_reached = CASE WHEN event_seq + 1 >= :last_news THEN 'events'
                         WHEN partial_bytes + :size > :most_bytes THEN 'partials' END,
    status = iif((event_seq + 1 < :last_news AND partial_bytes + :size <= :most_bytes), 'partial', status),
    progress_percent = max(progress_percent, :percent),
    step = coalesce(:step, step),
    partial_count = partial_count + (event_seq + 1 < :last_news AND partial_bytes + :size <= :most_bytes),
    partial_bytes = partial_bytes + iif((event_seq + 1 < :last_news AND partial_bytes + :size <= :most_bytes), :size, 0),
    result_id = iif((event_seq + 1 < :last_news AND partial_bytes + :size <= :most_bytes), :result_id, result_id),
    progress_at = iif(:percent > progress_percent OR :replayed, :now, progress_at),
    paced_at = iif((:percent > progress_percent AND paced_at IS NULL) OR :replayed, :now, paced_at),
    paced_percent = iif((:percent > progress_percent AND paced_at IS NULL) OR :replayed,
                        max(:percent, progress_percent), paced_percent),
    event_seq = event_seq + 1,
    updated_at = :now
WHERE org_id = :org_id AND job_id = :job_id AND status IN ('running', 'partial') AND {fence}
  AND NOT EXISTS (SELECT 1 FROM job_results AS shown WHERE shown.org_id = jobs.org_id AND shown.result_id = :result_id)
  AND limit_reached IS NULL
RETURNING event_seq, progress_percent, step, partial_count, limit_reached, trace_id, request_id

-- name: record_checkpoint
-- The first value of a chunk counts; a checkpoint has no event, it is not news for people.
INSERT INTO job_chunks (org_id, job_id, chunk_key, payload, created_at)
SELECT :org_id, :job_id, :key, :payload, :now
FROM jobs WHERE org_id = :org_id AND job_id = :job_id AND status IN ('running', 'partial') AND {fence}
ON CONFLICT DO NOTHING

-- name: holds_lease
-- The bound that the job has reached, where the attempt may still write.
SELECT limit_reached FROM jobs WHERE org_id = :org_id AND job_id = :job_id AND {fence}

-- name: give_up_lease
-- Ending an attempt starts with taking its lease: whoever does that, and only that one, may write the end.
DELETE FROM leases WHERE org_id = :org_id AND job_id = :job_id AND attempt = :attempt AND expires_at > :now

-- name: take_lease
-- The sweep takes leases that have ended, or whose attempt should have.
DELETE FROM leases WHERE org_id = :org_id AND job_id = :job_id AND attempt = :attempt

-- name: end_completed
UPDATE jobs SET
    status = 'completed', progress_percent = 100, result_id = :result_id, finished_at = :now, updated_at = :now,
    event_seq = event_seq + 1, canceled_by = NULL, cancel_reason = NULL, estimated_seconds = 0
WHERE org_id = :org_id AND job_id = :job_id AND attempt = :attempt AND status IN ('running', 'partial')
RETURNING event_seq, partial_count, analysis, paced_percent, paced_at, trace_id, request_id

-- name: end_failed
UPDATE jobs SET
    status = 'failed', finished_at = :now, failed_at = :now, updated_at = :now, error_code = :code,
    error_message = :message, error_meta = :meta, retryable = :retryable, retry_hint = :hint,
    error_count = error_count + 1, lost_count = lost_count + :lost, crash_count = crash_count + :crashed,
    event_seq = event_seq + :events,
    next_attempt_at = NULL, canceled_by = NULL, cancel_reason = NULL
WHERE org_id = :org_id AND job_id = :job_id AND attempt = :attempt AND status IN ('running', 'partial')
RETURNING event_seq, result_id, progress_percent, trace_id, request_id

-- name: end_retry
UPDATE jobs SET
    retry_count = retry_count + 1, error_count = error_count + 1, last_retry_at = :now, retry_reason = :reason,
    next_attempt_at = :next_attempt_at, event_seq = event_seq + :events, updated_at = :now
WHERE org_id = :org_id AND job_id = :job_id AND attempt = :attempt AND status IN ('running', 'partial')
  AND cancel_requested_at IS NULL
RETURNING event_seq, retry_count, trace_id, request_id

-- name: crashes_so_far
SELECT crash_count, lost_count, cancel_requested_at IS NOT NULL, cancel_reason
FROM jobs WHERE org_id = :org_id AND job_id = :job_id

-- name: end_given_back
-- Released at shutdown, lost with its worker or with its own process: it may go on at once.
UPDATE jobs SET
    lost_count = lost_count + :lost, crash_count = crash_count + :crashed, next_attempt_at = :now,
    event_seq = event_seq + 1, updated_at = :now
WHERE org_id = :org_id AND job_id = :job_id AND attempt = :attempt AND status IN ('running', 'partial')
  AND cancel_requested_at IS NULL
RETURNING event_seq, trace_id, request_id

-- name: end_canceled
-- Who asked and why was noted with the request; a cancel without one brings its own words.
UPDATE jobs SET
    status = 'canceled', finished_at = :now, canceled_at = :now, updated_at = :now,
    canceled_by = coalesce(canceled_by, :by), cancel_reason = coalesce(cancel_reason, :reason),
    cancel_requested_at = coalesce(cancel_requested_at, :now), next_attempt_at = NULL, event_seq = event_seq + 1
WHERE org_id = :org_id AND job_id = :job_id AND status IN ('queued', 'running', 'partial')
RETURNING event_seq, canceled_by, cancel_reason, result_id, attempt, trace_id, request_id, analysis

-- name: request_cancel
UPDATE jobs SET
    cancel_requested_at = :now, canceled_by = :by, cancel_reason = :reason, event_seq = event_seq + 1, updated_at = :now
WHERE org_id = :org_id AND job_id = :job_id AND status IN ('running', 'partial') AND cancel_requested_at IS NULL
RETURNING event_seq, trace_id

-- name: job_view
SELECT {job_columns}, lease.expires_at FROM jobs AS job LEFT JOIN leases AS lease USING (org_id, job_id)
WHERE job.org_id = :org_id AND job.job_id = :job_id

-- name: sweepable
-- Attempts whose worker vanished, or that should have been stopped by now, page by page: out of time, or canceled and
-- not ended although their lease lives.
SELECT org_id, job_id, attempt FROM leases AS lease
WHERE (expires_at <= :now OR deadline_at + :grace <= :now OR EXISTS (
    SELECT 1 FROM jobs AS job WHERE job.org_id = lease.org_id AND job.job_id = lease.job_id
      AND job.cancel_requested_at + :cancel_grace <= :now))
  AND (org_id, job_id) > (:after_org, :after_job)
ORDER BY org_id, job_id LIMIT :limit

-- name: sweepable_one
-- The same asked again by the writer, with what the decision needs. CROSS JOIN: the lease first, whatever statistics say.
SELECT lease.deadline_at, job.attempt_started_at, job.timeout_seconds, job.retry_count, job.max_retries, job.lost_count,
    job.cancel_requested_at, job.cancel_reason
FROM leases AS lease CROSS JOIN jobs AS job USING (org_id, job_id)
WHERE lease.org_id = :org_id AND lease.job_id = :job_id AND lease.attempt = :attempt
  AND (lease.expires_at <= :now OR lease.deadline_at + :grace <= :now
       OR job.cancel_requested_at + :cancel_grace <= :now)

-- name: tidy_lanes
-- A lane that is empty and behind the virtual clock says nothing: its org would join at the clock anyway.
DELETE FROM lanes
WHERE waiting = 0 AND due_at IS NULL AND virtual_start <= (SELECT virtual_now FROM lane_clock)

-- name: pace_update
INSERT INTO pace (analysis, runs, mean_seconds) VALUES (:analysis, :runs, :mean)
ON CONFLICT (analysis) DO UPDATE SET
    runs = runs + :runs, mean_seconds = mean_seconds + :weight * (:mean - mean_seconds)

-- name: read_paces
SELECT analysis, mean_seconds FROM pace

-- name: virtual_now
SELECT virtual_now FROM lane_clock

-- name: all_waiting_lanes
SELECT org_id, analysis, waiting, max(virtual_start, (SELECT virtual_now FROM lane_clock)) FROM lanes WHERE waiting > 0

-- name: all_runs
-- What runs, as far as estimates need it. CROSS JOIN: the leases first, whatever statistics say.
SELECT lease.org_id, job.analysis, job.attempt_started_at, job.progress_percent, job.paced_percent, job.paced_at,
    job.progress_at
FROM leases AS lease CROSS JOIN jobs AS job USING (org_id, job_id) WHERE lease.expires_at > :now
