-- Every write a job sees, in the order of its life. Format: a line "-- name: …", a sentence, the statement.
-- {job_columns} and its like stand for the fields of a record; {fence} for "this attempt still holds its lease". Statements with
-- numbered values are run for many rows at once.

-- name: find_org
SELECT org FROM orgs WHERE org_id = ?

-- name: make_org
INSERT INTO orgs (org_id) VALUES (?) RETURNING org

-- name: name_of_org
SELECT org_id FROM orgs WHERE org = :org

-- name: find_analysis
SELECT analysis FROM analyses WHERE name = ?

-- name: make_analysis
INSERT INTO analyses (name) VALUES (?) RETURNING analysis

-- name: name_of_analysis
SELECT name FROM analyses WHERE analysis = :analysis

-- name: find_idempotency_key
-- What an org's key was used for.
SELECT job.job_id, lower(hex(job.payload_hash)) FROM key_rows AS used JOIN job_rows AS job ON job.job = used.job
WHERE used.org = :org AND used.idempotency_key = :key

-- name: find_duplicates
-- A job of the same org, analysis and input that has not ended, with the index of the submission.
SELECT ?1, (SELECT job_id FROM job_rows INDEXED BY idx_jobs_duplicates
            WHERE substr(payload_hash, 1, 8) = substr(?2, 1, 8) AND payload_hash = ?2 AND org = ?3 AND analysis = ?4
              AND finished_at IS NULL
            LIMIT 1)

-- name: waiting_of_org
-- Those that wait for their time count against a quota as well.
SELECT coalesce(sum(waiting + scheduled), 0) FROM lane_rows WHERE org = :org

-- name: waiting_of_analysis
SELECT waiting + scheduled FROM analyses WHERE analysis = :analysis

-- name: waiting_of_all
SELECT coalesce(sum(waiting + scheduled), 0) FROM analyses

-- name: last_ticket
SELECT max(coalesce(max(ticket), 0), 0) FROM job_rows INDEXED BY idx_jobs_lane_head
WHERE org = :org AND analysis = :analysis AND expedite = :expedite AND started_at IS NULL AND finished_at IS NULL

-- name: last_job
SELECT coalesce(max(job), 0) FROM job_rows

-- name: insert_job
INSERT INTO job_rows (
    job, org, analysis, job_id, status, expedite, ticket, queued_at, updated_at, payload_hash, payload_ref, timeout_seconds,
    max_retries, trace_id, request_id, requested_by_user_id, api_key_id, estimated_seconds, retry_of, traceparent, tracestate, input,
    label, tool_client, run_at, start_by, schedule, planned_at, based_on, reusable)
VALUES (?1, ?2, ?3, ?4, 'queued', ?5, ?6, ?7, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
    ?23, ?24, ?25, ?26, ?27, ?28)

-- name: find_reusable
-- A result that a new job may have: of its own org, the same analysis, input and version, recent enough and still in a row.
SELECT origin.job_id, origin.job, origin.code
FROM job_rows AS origin INDEXED BY idx_jobs_reusable JOIN codes ON codes.code = origin.code
WHERE substr(origin.payload_hash, 1, 8) = substr(:hash, 1, 8) AND origin.reusable = 1 AND origin.status = 'completed'
  AND origin.finished_at >= :since AND origin.payload_hash = :hash AND origin.org = :org AND origin.analysis = :analysis
  AND codes.version = :version AND origin.result_expired_at IS NULL
  AND EXISTS (SELECT 1 FROM result_rows AS final
      WHERE final.job = origin.job AND final.result_kind = 'final' AND final.payload IS NOT NULL)
ORDER BY origin.finished_at DESC LIMIT 1

-- name: start_reused
UPDATE job_rows SET status = 'running', attempt = 1, started_at = :now, attempt_started_at = :now, event_seq = 2
WHERE job = :job AND status = 'queued'

-- name: copy_final
INSERT INTO result_rows (job, result_seq, org, result_id, result_kind, schema_version, created_at, summary_json, payload, views)
SELECT :job, 1, org, :result_id, 'final', schema_version, :now, summary_json, payload, views
FROM result_rows WHERE job = :origin AND result_kind = 'final'

-- name: complete_reused
UPDATE job_rows SET
    status = 'completed', progress_percent = 100, result_id = :result_id, finished_at = :now, event_seq = 3,
    estimated_seconds = 0, reused_from = :origin_id, code = :code, reusable = NULL
WHERE job = :job AND status = 'running'

-- name: copy_trail
-- The sources and earlier attempts of the run whose result is reused: its own record may go first.
INSERT INTO chunk_rows (job, org, chunk_key, created_at, payload)
SELECT :job, org, chunk_key, created_at, payload FROM chunk_rows
WHERE job = :origin AND chunk_key >= 'langlauf:' AND chunk_key < 'langlauf;'

-- name: insert_large_input
INSERT INTO inputs (job, input) VALUES (?, ?)

-- name: insert_wish
INSERT INTO job_wishes (org_id, job_id, channel, target, lane, language) VALUES (?, ?, ?, ?, ?, ?)

-- name: insert_key
INSERT INTO key_rows (org, idempotency_key, job, created_at) VALUES (:org, :key, :job, :now)

-- name: copy_chunks
-- A resumed job starts with the finished chunks of the one it repeats, and their sources; not with its attempts.
INSERT INTO chunk_rows (job, org, chunk_key, created_at, payload, total)
SELECT :job, done.org, done.chunk_key, done.created_at, done.payload, done.total
FROM job_rows AS origin JOIN chunk_rows AS done ON done.job = origin.job
WHERE origin.job_id = :resume_from AND origin.org = :org
  AND NOT (done.chunk_key >= 'langlauf:attempt:' AND done.chunk_key < 'langlauf:attempt;')

-- name: insert_event
INSERT INTO event_rows (
    job, event_seq, org, event_type, occurred_at, feed_at, actor_type, payload_json, event_id, trace_id, request_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: last_feed_place
SELECT feed_at FROM event_rows INDEXED BY idx_job_events_feed
WHERE org = :org AND feed_at IS NOT NULL ORDER BY feed_at DESC LIMIT 1

-- name: outgoing_event
-- The values of a message about an event. The result of a failed job is in its own record.
SELECT event.org_id, event.job_id, event.event_seq, event.event_id, event.event_type, event.occurred_at, event.trace_id,
    coalesce(event.payload_json ->> 'result_id', CASE event.event_type WHEN 'job.failed' THEN job.result_id END)
FROM job_rows AS job JOIN job_events AS event ON event.job_id = job.job_id
WHERE job.job = :job AND event.event_seq = :event_seq

-- name: insert_result
INSERT INTO result_rows (
    job, result_seq, org, result_id, result_kind, schema_version, payload_ref, created_at, summary_json, payload, views)
-- A large payload comes as bytes of its text.
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, CAST(? AS TEXT), ?)

-- name: touch_org
-- Followers of an org see by the version that something changed.
UPDATE orgs SET version = version + 1 WHERE org = ?

-- name: count_jobs
UPDATE analyses SET waiting = waiting + ?1, running = running + ?2, scheduled = scheduled + ?3 WHERE analysis = ?4

-- name: lane_join
-- An org that has waiting jobs keeps its place; one that had none joins where the virtual clock stands, not where it left. All
-- lanes of an org show the same turn.
INSERT INTO lane_rows (org, analysis, waiting, virtual_start, served)
SELECT :org, :analysis, :change,
    coalesce(max(virtual_start) FILTER (WHERE waiting > 0), max((SELECT virtual_now FROM lane_clock), coalesce(max(virtual_start), 0))),
    coalesce(max(served), 0)
FROM lane_rows WHERE org = :org
ON CONFLICT (org, analysis) DO UPDATE SET
    waiting = waiting + excluded.waiting, virtual_start = excluded.virtual_start, served = excluded.served

-- name: lane_leave
-- A statement of its own: an upsert checks constraints on the inserted row, which must not be negative.
UPDATE lane_rows SET waiting = waiting + :change WHERE org = :org AND analysis = :analysis

-- name: lane_due_by
-- The first job of a lane that had started may go on at this time, or at the one that is known.
INSERT INTO lane_rows (org, analysis, due_at) VALUES (:org, :analysis, :due_at)
ON CONFLICT (org, analysis) DO UPDATE SET due_at = min(coalesce(due_at, excluded.due_at), excluded.due_at)

-- name: lane_schedule
-- Jobs that wait for their time are not in line. The first of them may join it then, or the one that is known.
INSERT INTO lane_rows (org, analysis, scheduled, next_run_at) VALUES (:org, :analysis, :change, :run_at)
ON CONFLICT (org, analysis) DO UPDATE SET
    scheduled = scheduled + excluded.scheduled, next_run_at = min(coalesce(next_run_at, excluded.next_run_at), excluded.next_run_at)

-- name: lane_unschedule
UPDATE lane_rows SET scheduled = scheduled + :change WHERE org = :org AND analysis = :analysis

-- name: lanes_to_run
-- The lanes with jobs whose time has come, the longest due first. A lane may say so too early, never too late.
SELECT org, analysis FROM lane_rows WHERE next_run_at <= :now ORDER BY next_run_at LIMIT :lanes

-- name: jobs_to_run
SELECT job, expedite, ticket FROM job_rows INDEXED BY idx_jobs_lane_head
WHERE org = :org AND analysis = :analysis AND expedite = :expedite AND ticket >= -:now AND ticket < 0
  AND started_at IS NULL AND finished_at IS NULL
ORDER BY ticket DESC LIMIT :most

-- name: enter_line
UPDATE job_rows SET ticket = ?2 WHERE job = ?1 AND ticket < 0 AND status = 'queued'

-- name: lane_next_run
-- When the first that is left has its time.
UPDATE lane_rows SET next_run_at = (
    SELECT min((
        SELECT -one.ticket FROM job_rows AS one INDEXED BY idx_jobs_lane_head
        WHERE one.org = :org AND one.analysis = :analysis AND one.expedite = class.expedite AND one.ticket < 0
          AND one.started_at IS NULL AND one.finished_at IS NULL
        ORDER BY one.ticket DESC LIMIT 1))
    FROM (SELECT 0 AS expedite UNION ALL SELECT 1) AS class)
WHERE org = :org AND analysis = :analysis

-- name: late_jobs
-- What should have started by now.
SELECT org, job_id FROM job_rows INDEXED BY idx_jobs_start_by
WHERE start_by <= :now AND started_at IS NULL AND finished_at IS NULL ORDER BY start_by LIMIT :most

-- name: next_start
-- The next time after now at which a job may start, or is too late: the first of each kind.
SELECT min(at) FROM (
    SELECT min(next_run_at) AS at FROM lane_rows WHERE next_run_at > :now
    UNION ALL
    SELECT min(start_by) FROM job_rows INDEXED BY idx_jobs_start_by WHERE start_by > :now AND started_at IS NULL AND finished_at IS NULL
    UNION ALL
    SELECT min(lane.due_at) FROM analyses CROSS JOIN lane_rows AS lane INDEXED BY idx_lanes_due
    WHERE lane.analysis = analyses.analysis AND lane.due_at > :now)

-- name: running_of_all
-- How many jobs run, including expired leases that are not swept yet.
SELECT coalesce(sum(running), 0) FROM analyses

-- name: live_leases
-- The same by org and analysis, without those.
SELECT org, analysis, count(*) FROM job_rows INDEXED BY idx_jobs_timeout_detection
WHERE deadline_at IS NOT NULL AND lease_expires_at > :now GROUP BY org, analysis

-- name: count_live_leases
SELECT count(*) FROM job_rows INDEXED BY idx_jobs_timeout_detection
WHERE deadline_at IS NOT NULL AND lease_expires_at > :now

-- name: lost_leases
-- Expired leases whose jobs a sweep is about to give back.
SELECT org, analysis FROM job_rows INDEXED BY idx_jobs_timeout_detection
WHERE deadline_at IS NOT NULL AND lease_expires_at <= :now AND lease_expires_at > :oldest AND cancel_requested_at IS NULL

-- name: pauses
SELECT org_id, analysis, paused_until FROM pauses

-- name: due_lanes
-- The orgs whose jobs of an analysis may go on, the longest due first. A lane may say so too early, never too late.
SELECT org, due_at, virtual_start, served FROM lane_rows
WHERE analysis = :analysis AND due_at <= :now AND org NOT IN (SELECT value FROM json_each(:excluded))
ORDER BY due_at, org LIMIT :lanes

-- name: lane_due
-- The jobs of a lane that had started and wait for their next attempt, and whether they were given back: lost or released, and
-- not to be retried.
SELECT job, next_attempt_at, coalesce(last_retry_at < attempt_started_at, 1) FROM job_rows INDEXED BY idx_jobs_lane_due
WHERE org = :org AND analysis = :analysis AND next_attempt_at IS NOT NULL
ORDER BY next_attempt_at LIMIT :most

-- name: lane_due_at
UPDATE lane_rows SET due_at = :due_at WHERE org = :org AND analysis = :analysis

-- name: waiting_lanes
-- The orgs with waiting jobs of an analysis whose turn is next.
SELECT org, waiting, virtual_start, served FROM lane_rows
WHERE analysis = :analysis AND waiting > 0 AND org NOT IN (SELECT value FROM json_each(:excluded))
ORDER BY virtual_start, served, org LIMIT :lanes

-- name: lane_heads
-- The waiting jobs of a lane whose turn is next, those in line: not what waits for its time, nor what should have started before.
-- The scan is in the order of turns: ORDER BY would sort all of the lane.
SELECT one.job, one.expedite, max(one.queued_at, coalesce(one.run_at, 0))
FROM (SELECT 1 AS expedite UNION ALL SELECT 0) AS class CROSS JOIN job_rows AS one INDEXED BY idx_jobs_lane_head
WHERE one.org = :org AND one.analysis = :analysis AND one.expedite = class.expedite AND one.ticket >= 0
  AND one.started_at IS NULL AND one.finished_at IS NULL AND (one.start_by IS NULL OR one.start_by > :now)
LIMIT :starts

-- name: clock_advance
-- The virtual clock follows the turns, and counts the served orgs.
UPDATE lane_clock SET virtual_now = max(virtual_now, :virtual_now), served = served + :turns

-- name: org_advance
-- So many were served behind it in the same claim.
UPDATE lane_rows SET virtual_start = :virtual_start, served = (SELECT served FROM lane_clock) - :behind WHERE org = :org

-- name: claimable_jobs
-- The values of a claim. Attempt and event are those of the attempt that is about to start.
SELECT job, org, job_id, attempt + 1, event_seq + 1, analysis, timeout_seconds, progress_percent, retry_count, max_retries,
    trace_id, request_id, queued_at, traceparent, tracestate, planned_at,
    coalesce(input, (SELECT large.input FROM inputs AS large WHERE large.job = job_rows.job))
FROM job_rows WHERE job = ?

-- name: claim_jobs
-- The attempt number is the fencing token: it grows here and nowhere else. An attempt that starts with progress of another
-- has no pace until it gets beyond it.
UPDATE job_rows SET
    status = CASE status WHEN 'queued' THEN 'running' ELSE status END,
    started_at = coalesce(started_at, ?2),
    attempt_started_at = ?2,
    attempt = attempt + 1,
    paced_percent = progress_percent,
    paced_at = CASE progress_percent WHEN 0 THEN ?2 END,
    progress_at = CASE progress_percent WHEN 0 THEN ?2 END,
    next_attempt_at = NULL,
    worker_id = ?3,
    lease_expires_at = ?4,
    deadline_at = ?5,
    reusable = iif(attempt = 0 OR code IS ?6, reusable, NULL),
    code = ?6,
    event_seq = event_seq + 1,
    updated_at = ?2
WHERE job = ?1 AND ((status = 'queued' AND ticket >= 0) OR (status IN ('running', 'partial') AND next_attempt_at <= ?2))

-- name: renew_lease
-- An expired lease cannot be renewed, even if the job was not swept yet.
UPDATE job_rows SET lease_expires_at = :expires_at
WHERE job_id = :job_id AND org = :org AND attempt = :attempt AND lease_expires_at > :now
RETURNING CASE WHEN cancel_requested_at IS NOT NULL THEN coalesce(cancel_reason, '') END

-- name: reporting_jobs
-- What a progress report changes, with the index of the report; no row where it changes nothing or the lease is lost.
-- The last event that fits into a log says that it is the last.
SELECT ?1, job, event_seq + 1, max(progress_percent, ?6), coalesce(?7, step), iif(event_seq + 1 >= ?9, 'events', limit_reached)
FROM job_rows
WHERE job_id = ?2 AND org = ?3 AND attempt = ?4 AND lease_expires_at > ?5 AND status IN ('running', 'partial')
  AND (?6 > progress_percent OR ?7 <> coalesce(step, '')) AND limit_reached IS NOT 'events'

-- name: record_progress
-- A report that changes neither the percent nor the step touches nothing. The pace of an attempt is measured from
-- where it began to compute: not from what stored chunks brought, nor from what an attempt before it had done.
UPDATE job_rows SET
    limit_reached = iif(event_seq + 1 >= ?9, 'events', limit_reached),
    progress_percent = max(progress_percent, ?6),
    step = coalesce(?7, step),
    progress_at = iif(?6 > progress_percent OR ?8, ?5, progress_at),
    paced_at = iif((?6 > progress_percent AND paced_at IS NULL) OR ?8, ?5, paced_at),
    paced_percent = iif((?6 > progress_percent AND paced_at IS NULL) OR ?8, max(?6, progress_percent), paced_percent),
    event_seq = event_seq + 1,
    updated_at = ?5
WHERE job = ?1 AND org = ?3 AND attempt = ?4 AND lease_expires_at > ?5 AND status IN ('running', 'partial')
  AND (?6 > progress_percent OR ?7 <> coalesce(step, '')) AND limit_reached IS NOT 'events'

-- name: showing_jobs
-- What a partial snapshot changes, with the index of the write; no row where the lease is lost. A worker that
-- got an error for a commit writes again: a stored snapshot changes nothing. The first one that does not fit any
-- more is progress without a snapshot, and says so; those after it change nothing.
SELECT ?1, job, event_seq + 1, max(progress_percent, ?6), coalesce(?7, step),
    CASE WHEN event_seq + 1 >= ?12 THEN 'events' WHEN partial_bytes + ?10 > ?11 THEN 'partials' END, partial_count + 1
FROM job_rows
WHERE job_id = ?2 AND org = ?3 AND attempt = ?4 AND lease_expires_at > ?5 AND status IN ('running', 'partial')
  AND NOT EXISTS (SELECT 1 FROM result_rows AS shown WHERE shown.result_id = ?9) AND limit_reached IS NULL

-- name: record_partial
UPDATE job_rows SET
    limit_reached = CASE WHEN event_seq + 1 >= ?12 THEN 'events' WHEN partial_bytes + ?10 > ?11 THEN 'partials' END,
    status = iif((event_seq + 1 < ?12 AND partial_bytes + ?10 <= ?11), 'partial', status),
    progress_percent = max(progress_percent, ?6),
    step = coalesce(?7, step),
    partial_count = partial_count + (event_seq + 1 < ?12 AND partial_bytes + ?10 <= ?11),
    partial_bytes = partial_bytes + iif((event_seq + 1 < ?12 AND partial_bytes + ?10 <= ?11), ?10, 0),
    result_id = iif((event_seq + 1 < ?12 AND partial_bytes + ?10 <= ?11), ?9, result_id),
    progress_at = iif(?6 > progress_percent OR ?8, ?5, progress_at),
    paced_at = iif((?6 > progress_percent AND paced_at IS NULL) OR ?8, ?5, paced_at),
    paced_percent = iif((?6 > progress_percent AND paced_at IS NULL) OR ?8, max(?6, progress_percent), paced_percent),
    event_seq = event_seq + 1,
    updated_at = ?5
WHERE job = ?1 AND org = ?3 AND attempt = ?4 AND lease_expires_at > ?5 AND status IN ('running', 'partial')
  AND NOT EXISTS (SELECT 1 FROM result_rows AS shown WHERE shown.result_id = ?9) AND limit_reached IS NULL

-- name: record_checkpoint
-- The first value of a chunk counts; a checkpoint has no event.
INSERT INTO chunk_rows (job, org, chunk_key, created_at, payload, total)
SELECT job, org, :key, :now, :payload, :total
FROM job_rows WHERE job_id = :job_id AND org = :org AND status IN ('running', 'partial') AND {fence}
ON CONFLICT DO NOTHING

-- name: holds_lease
-- The limit that the job has reached, where the attempt still holds its lease.
SELECT limit_reached FROM job_rows WHERE job_id = :job_id AND org = :org AND {fence}

-- name: completing_jobs
-- The values of a job's end, with the index of the write; no row where the lease is lost. It is
-- a statement of its own: an UPDATE with RETURNING materialises its rows, which costs more than a look-up.
SELECT ?1, job, event_seq + 1, partial_count, analysis, paced_percent, paced_at FROM job_rows
WHERE job_id = ?2 AND org = ?3 AND attempt = ?4 AND lease_expires_at > ?5 AND status IN ('running', 'partial')

-- name: end_completed
-- The lease ends with the job: only its holder may write the end.
UPDATE job_rows SET
    status = 'completed', progress_percent = 100, result_id = ?2, finished_at = ?3, updated_at = ?3,
    event_seq = event_seq + 1, canceled_by = NULL, cancel_reason = NULL, estimated_seconds = 0, paced_at = NULL, progress_at = NULL,
    worker_id = NULL, lease_expires_at = NULL, deadline_at = NULL
WHERE job = ?1 AND attempt = ?4 AND lease_expires_at > ?3 AND status IN ('running', 'partial')

-- name: end_failed
UPDATE job_rows SET
    status = 'failed', finished_at = :now, failed_at = :now, updated_at = :now, error_code = :code,
    error_message = :message, error_meta = :meta, retryable = :retryable, retry_hint = :hint,
    error_count = error_count + 1, lost_count = lost_count + :lost, crash_count = crash_count + :crashed,
    event_seq = event_seq + :events,
    next_attempt_at = NULL, canceled_by = NULL, cancel_reason = NULL,
    worker_id = NULL, lease_expires_at = NULL, deadline_at = NULL
WHERE job_id = :job_id AND org = :org AND status IN ('running', 'partial') AND {fence}
RETURNING job, event_seq, analysis

-- name: end_retry
UPDATE job_rows SET
    retry_count = retry_count + 1, error_count = error_count + 1, last_retry_at = :now, retry_reason = :reason,
    next_attempt_at = :next_attempt_at, event_seq = event_seq + :events, updated_at = :now,
    worker_id = NULL, lease_expires_at = NULL, deadline_at = NULL
WHERE job_id = :job_id AND org = :org AND status IN ('running', 'partial') AND cancel_requested_at IS NULL AND {fence}
RETURNING job, event_seq, analysis, retry_count

-- name: keep_attempt
-- What is known of an attempt once the job goes on, or its result is another job's: the log is removed before the job.
INSERT INTO chunk_rows (job, org, chunk_key, created_at, payload)
SELECT :job, ran.org, 'langlauf:attempt:' || ran.attempt, :now, json_object('attempt', ran.attempt,
    'started_at', ran.attempt_started_at, 'ended_at', coalesce(ran.finished_at, :now), 'outcome', :outcome, 'why', :why,
    'host', codes.host, 'version', codes.version)
FROM job_rows AS ran LEFT JOIN codes ON codes.code = ran.code WHERE ran.job = :ran
ON CONFLICT DO NOTHING

-- name: crashes_so_far
SELECT crash_count, lost_count, cancel_requested_at IS NOT NULL, cancel_reason
FROM job_rows WHERE job_id = :job_id AND org = :org AND {fence}

-- name: end_given_back
-- Released at shutdown, lost with its worker or with its own process: it may go on at once.
UPDATE job_rows SET
    lost_count = lost_count + :lost, crash_count = crash_count + :crashed, next_attempt_at = :now,
    event_seq = event_seq + 1, updated_at = :now,
    worker_id = NULL, lease_expires_at = NULL, deadline_at = NULL
WHERE job_id = :job_id AND org = :org AND status IN ('running', 'partial') AND cancel_requested_at IS NULL AND {fence}
RETURNING job, event_seq, analysis

-- name: end_canceled
-- The requester and the reason were stored with the request; a cancel without one brings its own. A worker has to hold
-- its lease; a job without a live lease is canceled by any caller.
UPDATE job_rows SET
    status = 'canceled', finished_at = :now, canceled_at = :now, updated_at = :now,
    canceled_by = coalesce(canceled_by, :by), cancel_reason = coalesce(cancel_reason, :reason),
    cancel_requested_at = coalesce(cancel_requested_at, :now), next_attempt_at = NULL, event_seq = event_seq + 1,
    worker_id = NULL, lease_expires_at = NULL, deadline_at = NULL
WHERE job_id = :job_id AND org = :org AND status IN ('queued', 'running', 'partial')
  AND (:unheld AND (lease_expires_at IS NULL OR lease_expires_at <= :now) OR {fence})
RETURNING job, event_seq, analysis, canceled_by, cancel_reason, result_id, attempt, ticket

-- name: request_cancel
UPDATE job_rows SET
    cancel_requested_at = :now, canceled_by = :by, cancel_reason = :reason, event_seq = event_seq + 1, updated_at = :now
WHERE job_id = :job_id AND org = :org AND status IN ('running', 'partial') AND cancel_requested_at IS NULL
RETURNING job, event_seq

-- name: job_view
SELECT {job_columns}, job.lease_expires_at FROM jobs AS job WHERE job.org_id = :org_id AND job.job_id = :job_id

-- name: sweepable
-- Attempts whose worker vanished, or that should have been stopped by now, page by page: out of time, or canceled and
-- not ended although their lease lives.
SELECT orgs.org_id, job.job_id, job.attempt, job.job
FROM job_rows AS job INDEXED BY idx_jobs_timeout_detection JOIN orgs ON orgs.org = job.org
WHERE job.deadline_at IS NOT NULL
  AND (lease_expires_at <= :now OR deadline_at + :grace <= :now OR cancel_requested_at + :cancel_grace <= :now)
  AND job.job > :after
ORDER BY job.job LIMIT :limit

-- name: sweepable_one
-- The same checked again by the writer, with the values of the decision.
SELECT deadline_at, attempt_started_at, timeout_seconds, retry_count, max_retries, lost_count, cancel_requested_at, cancel_reason
FROM job_rows
WHERE job_id = :job_id AND org = :org AND attempt = :attempt AND lease_expires_at IS NOT NULL
  AND (lease_expires_at <= :now OR deadline_at + :grace <= :now OR cancel_requested_at + :cancel_grace <= :now)

-- name: tidy_lanes
-- A lane that is empty and behind the virtual clock holds no information: its org would join at the clock anyway.
DELETE FROM lane_rows
WHERE waiting = 0 AND scheduled = 0 AND due_at IS NULL AND virtual_start <= (SELECT virtual_now FROM lane_clock)

-- name: pace_update
UPDATE analyses SET
    runs = runs + :runs, mean_seconds = coalesce(mean_seconds + :weight * (:mean - mean_seconds), :mean)
WHERE analysis = :analysis

-- name: read_paces
SELECT name, mean_seconds FROM analyses WHERE mean_seconds IS NOT NULL

-- name: virtual_now
SELECT virtual_now FROM lane_clock

-- name: all_waiting_lanes
SELECT org_id, analysis, waiting, max(virtual_start, (SELECT virtual_now FROM lane_clock)) FROM lanes WHERE waiting > 0

-- name: all_runs
-- Running jobs, as far as estimates need them.
SELECT orgs.org_id, analyses.name, job.attempt_started_at, job.progress_percent, job.paced_percent, job.paced_at, job.progress_at
FROM job_rows AS job INDEXED BY idx_jobs_timeout_detection
JOIN orgs ON orgs.org = job.org JOIN analyses ON analyses.analysis = job.analysis
WHERE job.deadline_at IS NOT NULL AND job.lease_expires_at > :now

-- name: job_fingerprints
-- The fingerprints of followed jobs of all orgs, in one query.
SELECT job.org_id, job.job_id, job.event_seq, job.result_expired_at IS NOT NULL, job.events_expired_at IS NOT NULL,
    job.lease_expires_at, job.held_at
FROM json_each(:jobs) AS followed CROSS JOIN jobs AS job
ON job.org_id = followed.value ->> 0 AND job.job_id = followed.value ->> 1

-- name: org_versions
-- A version of each followed org that changes with any of its jobs.
SELECT followed.value, CAST(coalesce(orgs.version, 0) AS TEXT)
FROM json_each(:orgs) AS followed LEFT JOIN orgs ON orgs.org_id = followed.value
