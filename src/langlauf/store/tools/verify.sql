-- The invariants about records, for every store: each reads them under the names that all stores have. A query has the name of its
-- rule and finds what breaks it: org_id, job_id, evidence. What only one store can break is beside its schema, as own_ and the rule.
-- {is_json:x} and {json:x} stand for what the databases spell differently. Records of a job are looked up job by job, never
-- joined from the outside or grouped: some are views, which a database would build as a whole for that.
-- A job with imported_at may lack what the earlier system did not keep; what retention took leaves a note in the job.

-- name: orphans
SELECT child.org_id, child.job_id, 'rows of outbox without their job' FROM outbox AS child
WHERE NOT EXISTS (SELECT 1 FROM jobs AS job WHERE job.org_id = child.org_id AND job.job_id = child.job_id)
GROUP BY child.org_id, child.job_id
UNION ALL
SELECT child.org_id, child.job_id, 'rows of job_wishes without their job' FROM job_wishes AS child
WHERE NOT EXISTS (SELECT 1 FROM jobs AS job WHERE job.org_id = child.org_id AND job.job_id = child.job_id)
GROUP BY child.org_id, child.job_id
UNION ALL
SELECT child.org_id, child.job_id, 'rows of delivery_attempts without their message' FROM delivery_attempts AS child
WHERE NOT EXISTS (
    SELECT 1 FROM outbox AS message
    WHERE message.org_id = child.org_id AND message.notification_id = child.notification_id AND message.job_id = child.job_id)
GROUP BY child.org_id, child.job_id

-- name: known_values
-- The tables' own constraints say the same: this finds what came in past them.
SELECT org_id, job_id, 'a row of jobs' FROM jobs
WHERE status NOT IN ('queued', 'running', 'partial', 'completed', 'failed', 'canceled')
   OR priority_class NOT IN ('default', 'expedite') OR canceled_by NOT IN ('user', 'system', 'worker')
   OR retry_hint NOT IN ('retry_with_backoff', 'check_input_and_retry')
   OR partial_count < 0 OR error_count < 0 OR retry_count < 0 OR max_retries < 0 OR attempt < 0 OR event_seq < 0
   OR lost_count < 0 OR crash_count < 0 OR partial_bytes < 0
   OR limit_reached NOT IN ('events', 'partials')
   OR timeout_seconds <= 0 OR length(org_id) NOT BETWEEN 1 AND 128
UNION ALL
SELECT org_id, job_id, 'a row of job_events' FROM job_events WHERE actor_type NOT IN ('system', 'worker', 'user')
UNION ALL
SELECT org_id, job_id, 'a row of job_results' FROM job_results
WHERE result_kind NOT IN ('partial', 'final')
   OR ((payload IS NULL) <> (removed_at IS NOT NULL) AND result_payload_ref = 'inline:')
   OR (result_payload_ref <> 'inline:' AND (payload IS NOT NULL OR result_payload_ref NOT LIKE 'blob:sha256:%'))
UNION ALL
SELECT org_id, job_id, 'a row of outbox' FROM outbox
WHERE channel NOT IN ('in_app', 'email', 'webhook') OR attempt_count < 0
   OR delivery_status NOT IN ('pending', 'sent', 'failed', 'suppressed')
UNION ALL
SELECT org_id, job_id, 'a row of delivery_attempts' FROM delivery_attempts
WHERE status NOT IN ('pending', 'sent', 'failed', 'suppressed') OR attempt < 1 OR seconds < 0
UNION ALL
SELECT org_id, job_id, 'a row of job_wishes' FROM job_wishes WHERE channel NOT IN ('email', 'webhook')
UNION ALL
SELECT org_id, CAST(NULL AS text), 'a row of webhook_endpoints' FROM webhook_endpoints
WHERE version < 1 OR (disabled_at IS NULL) <> (disabled_reason IS NULL) OR length(org_id) NOT BETWEEN 1 AND 128
   OR replace(replace(replace(replace(replace(replace(subjects, 'queued,', ''), 'started,', ''), 'partial,', ''), 'completed,', ''),
       'failed,', ''), 'canceled,', '') <> ','
UNION ALL
SELECT org_id, CAST(NULL AS text), 'a row of delivery_lanes' FROM delivery_lanes WHERE failures < 1
UNION ALL
SELECT org_id, CAST(NULL AS text), 'a row of mail_marks' FROM mail_marks
WHERE mark NOT IN ('allowed', 'unsubscribed') OR address <> lower(address) OR length(org_id) NOT BETWEEN 1 AND 128

-- name: ended_has_time
SELECT org_id, job_id, 'status ' || status || ', finished_at ' || coalesce(CAST(finished_at AS text), 'null') FROM jobs
WHERE (finished_at IS NOT NULL) <> (status IN ('completed', 'failed', 'canceled'))

-- name: times_ordered
SELECT org_id, job_id, 'queued_at ' || queued_at || ', started_at ' || coalesce(CAST(started_at AS text), 'null')
    || ', attempt_started_at ' || coalesce(CAST(attempt_started_at AS text), 'null')
    || ', finished_at ' || coalesce(CAST(finished_at AS text), 'null')
FROM jobs
WHERE imported_at IS NULL
  AND (started_at < queued_at OR attempt_started_at < started_at
       OR finished_at < coalesce(attempt_started_at, queued_at))

-- name: attempt_has_start
SELECT org_id, job_id, 'attempt ' || attempt || ', started_at ' || coalesce(CAST(started_at AS text), 'null') FROM jobs
WHERE (attempt > 0) <> (started_at IS NOT NULL)

-- name: progress_bounds
SELECT org_id, job_id, 'status ' || status || ', progress_percent ' || progress_percent FROM jobs
WHERE progress_percent NOT BETWEEN 0 AND 100 OR (progress_percent = 100) <> (status = 'completed')

-- name: cancel_fields
-- While a worker is asked to stop, the job already says by whom and why; what ends otherwise forgets it.
SELECT org_id, job_id, 'status ' || status || ', cancel_requested_at ' || coalesce(CAST(cancel_requested_at AS text), 'null')
    || ', canceled_at ' || coalesce(CAST(canceled_at AS text), 'null') || ', canceled_by ' || coalesce(canceled_by, 'null')
    || ', cancel_reason ' || CASE WHEN cancel_reason IS NULL THEN 'null' ELSE 'set' END
FROM jobs
WHERE CASE
    WHEN status = 'canceled' THEN canceled_at IS NULL OR canceled_by IS NULL OR cancel_reason IS NULL
    WHEN status IN ('running', 'partial') THEN canceled_at IS NOT NULL OR (cancel_requested_at IS NULL) <> (canceled_by IS NULL)
        OR (cancel_requested_at IS NOT NULL AND next_attempt_at IS NOT NULL)
    ELSE canceled_at IS NOT NULL OR canceled_by IS NOT NULL OR cancel_reason IS NOT NULL
        OR (status = 'queued' AND cancel_requested_at IS NOT NULL)
END

-- name: error_fields
SELECT org_id, job_id, 'status ' || status || ', error_code ' || coalesce(error_code, 'null')
    || ', failed_at ' || coalesce(CAST(failed_at AS text), 'null') || ', retryable ' || coalesce(CAST(retryable AS text), 'null')
    || ', error_message ' || CASE WHEN error_message IS NULL THEN 'null' ELSE 'set' END
FROM jobs
WHERE CASE status
    WHEN 'failed' THEN error_code IS NULL OR error_message IS NULL OR failed_at IS NULL OR retryable IS NULL
    ELSE error_code IS NOT NULL OR error_message IS NOT NULL OR failed_at IS NOT NULL OR retryable IS NOT NULL
        OR retry_hint IS NOT NULL OR error_meta IS NOT NULL
END

-- name: retry_limit
SELECT org_id, job_id, 'retry_count ' || retry_count || ', max_retries ' || max_retries FROM jobs
WHERE retry_count > max_retries AND imported_at IS NULL

-- name: input_kept
SELECT org_id, job_id, 'there is no input' FROM jobs AS job
WHERE NOT EXISTS (
    SELECT 1 FROM job_inputs AS input
    WHERE input.org_id = job.org_id AND input.job_id = job.job_id AND input.payload IS NOT NULL)

-- name: error_codes
SELECT org_id, job_id, 'error_code ' || error_code FROM jobs
WHERE imported_at IS NULL AND (error_code = '' OR trim(error_code, 'abcdefghijklmnopqrstuvwxyz0123456789_') <> '')

-- name: json_values
SELECT org_id, job_id, 'error_meta' FROM jobs WHERE error_meta IS NOT NULL AND NOT {is_json:error_meta}
UNION ALL
SELECT org_id, job_id, 'the input' FROM job_inputs WHERE NOT {is_json:payload}
UNION ALL
SELECT org_id, job_id, 'result ' || result_id FROM job_results
WHERE (payload IS NOT NULL AND NOT {is_json:payload}) OR (summary_json IS NOT NULL AND NOT {is_json:summary_json})
   OR (views IS NOT NULL AND NOT {is_json:views})
UNION ALL
SELECT org_id, job_id, 'notification ' || notification_id FROM outbox WHERE NOT {is_json:payload_json}
UNION ALL
SELECT org_id, job_id, 'chunk ' || chunk_key FROM job_chunks WHERE NOT {is_json:payload}
UNION ALL
SELECT org_id, CAST(NULL AS text), 'schedule ' || name FROM schedules
WHERE NOT {is_json:input} OR (notify IS NOT NULL AND NOT {is_json:notify})

-- name: results_named
SELECT event.org_id, event.job_id, 'event ' || event.event_seq
FROM job_events AS event JOIN jobs AS job ON job.org_id = event.org_id AND job.job_id = event.job_id
WHERE event.event_type IN ('job.partial', 'job.completed') AND job.imported_at IS NULL
  AND CASE WHEN {is_json:event.payload_json} THEN NOT EXISTS (
      SELECT 1 FROM job_results AS result
      WHERE result.org_id = event.org_id AND result.job_id = event.job_id
        AND result.result_id = {json:event.payload_json} ->> 'result_id'
        AND CAST(result.result_seq AS text) = CAST({json:event.payload_json} ->> 'result_seq' AS text)) END

-- name: hashed_inputs
-- Not a rule: what `payload_hash` is about.
SELECT job.org_id, job.job_id, job.analysis, job.request_payload_hash, input.payload
FROM jobs AS job JOIN job_inputs AS input ON input.org_id = job.org_id AND input.job_id = job.job_id
WHERE job.imported_at IS NULL AND input.payload IS NOT NULL

-- name: all_codes
-- Not a rule: what `code_hash` is about.
SELECT code, {code_names} FROM codes

-- name: code_known
SELECT org_id, job_id, 'code ' || code FROM jobs AS job
WHERE code IS NOT NULL AND NOT EXISTS (SELECT 1 FROM codes WHERE codes.code = job.code)

-- name: all_sources
-- Not a rule: what `source_key` is about.
SELECT org_id, job_id, chunk_key, payload FROM job_chunks
WHERE chunk_key >= 'langlauf:source:' AND chunk_key < 'langlauf:source;'

-- name: lease_or_next_attempt
SELECT org_id, job_id, CASE WHEN next_attempt_at IS NULL THEN 'neither' ELSE 'both' END FROM jobs AS job
WHERE status IN ('running', 'partial') AND (next_attempt_at IS NOT NULL) = EXISTS (
    SELECT 1 FROM leases AS lease WHERE lease.org_id = job.org_id AND lease.job_id = job.job_id)

-- name: no_lease_at_rest
SELECT org_id, job_id, 'status ' || status || ', next_attempt_at ' || coalesce(CAST(next_attempt_at AS text), 'null')
FROM jobs AS job
WHERE status NOT IN ('running', 'partial') AND (next_attempt_at IS NOT NULL OR EXISTS (
    SELECT 1 FROM leases AS lease WHERE lease.org_id = job.org_id AND lease.job_id = job.job_id))

-- name: lease_overdue
SELECT org_id, job_id, 'over since ' || ((:now - expires_at) / 1000000) || ' s' FROM leases
WHERE expires_at < :now - :patience

-- name: partial_count
SELECT org_id, job_id, 'partial_count ' || partial_count || ', partial snapshots ' || written FROM (
    SELECT org_id, job_id, partial_count, imported_at,
        (SELECT count(*) FROM job_results AS result
         WHERE result.org_id = job.org_id AND result.job_id = job.job_id AND result.result_kind = 'partial') AS written
    FROM jobs AS job) AS counted
WHERE CASE WHEN imported_at IS NULL THEN written <> partial_count ELSE written > partial_count END

-- name: result_sequence
SELECT result.org_id, result.job_id, 'number ' || result.result_seq || ' without the one before'
FROM job_results AS result JOIN jobs AS job ON job.org_id = result.org_id AND job.job_id = result.job_id
WHERE result.result_seq <> 1 AND job.imported_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM job_results AS former
    WHERE former.org_id = result.org_id AND former.job_id = result.job_id AND former.result_seq = result.result_seq - 1)

-- name: one_final_result
SELECT org_id, job_id, 'status ' || status || ', final snapshots ' || finals FROM (
    SELECT org_id, job_id, status, imported_at, CASE status WHEN 'completed' THEN 1 ELSE 0 END AS wanted,
        (SELECT count(*) FROM job_results AS result
         WHERE result.org_id = job.org_id AND result.job_id = job.job_id AND result.result_kind = 'final') AS finals
    FROM jobs AS job) AS counted
WHERE CASE WHEN imported_at IS NULL THEN finals <> wanted ELSE finals > wanted END

-- name: newest_result
SELECT org_id, job_id, 'result_id ' || coalesce(result_id, 'null') || ', newest ' || coalesce(newest, 'null') FROM (
    SELECT org_id, job_id, result_id, imported_at,
        (SELECT result.result_id FROM job_results AS result
         WHERE result.org_id = job.org_id AND result.job_id = job.job_id
         ORDER BY result.result_seq DESC LIMIT 1) AS newest
    FROM jobs AS job) AS counted
WHERE result_id IS DISTINCT FROM newest AND imported_at IS NULL

-- name: blobs
-- Not a rule: the blobs that rows reference.
SELECT org_id, job_id, result_id, result_payload_ref FROM job_results
WHERE result_payload_ref <> 'inline:' AND removed_at IS NULL

-- name: how_many_blobs
SELECT count(*) FROM job_results WHERE result_payload_ref <> 'inline:' AND removed_at IS NULL

-- name: still_kept
SELECT 1 FROM job_results WHERE org_id = :org_id AND result_id = :result_id AND removed_at IS NULL

-- name: retired_after_end
SELECT job.org_id, job.job_id, 'removed before the end' FROM jobs AS job
WHERE job.finished_at IS NULL AND (job.result_expired_at IS NOT NULL OR job.events_expired_at IS NOT NULL)
UNION ALL
SELECT job.org_id, job.job_id, 'events left after they expired' FROM jobs AS job
WHERE job.events_expired_at IS NOT NULL AND EXISTS (
    SELECT 1 FROM job_events AS event WHERE event.org_id = job.org_id AND event.job_id = job.job_id)
UNION ALL
SELECT job.org_id, job.job_id, 'snapshots left after they expired' FROM jobs AS job
WHERE job.result_expired_at IS NOT NULL AND EXISTS (
    SELECT 1 FROM job_results AS result
    WHERE result.org_id = job.org_id AND result.job_id = job.job_id AND result.removed_at IS NULL)
UNION ALL
SELECT job.org_id, job.job_id, 'all snapshots removed, and the job does not say so' FROM jobs AS job
WHERE job.result_expired_at IS NULL
  AND EXISTS (SELECT 1 FROM job_results AS result WHERE result.org_id = job.org_id AND result.job_id = job.job_id)
  AND NOT EXISTS (SELECT 1 FROM job_results AS result
                  WHERE result.org_id = job.org_id AND result.job_id = job.job_id AND result.removed_at IS NULL)

-- name: kept_marks
-- Retention finds what it may take by the mark: 1 stands for events, 2 for a result, 3 for both.
SELECT org_id, job_id, 'kept ' || kept FROM jobs AS job
WHERE finished_at IS NOT NULL AND (
    (events_expired_at IS NOT NULL AND kept IN (1, 3)) OR (result_expired_at IS NOT NULL AND kept IN (2, 3))
    OR (kept IN (0, 2) AND EXISTS (
        SELECT 1 FROM job_events AS event WHERE event.org_id = job.org_id AND event.job_id = job.job_id))
    OR (kept IN (0, 1) AND EXISTS (
        SELECT 1 FROM job_results AS result
        WHERE result.org_id = job.org_id AND result.job_id = job.job_id AND result.removed_at IS NULL)))

-- name: in_app_message
-- In-app messages about an end are derived from the job; only those of an earlier system are stored.
SELECT message.org_id, message.job_id, 'notification ' || message.notification_id || ' is kept'
FROM outbox AS message JOIN jobs AS job ON job.org_id = message.org_id AND job.job_id = message.job_id
WHERE message.channel = 'in_app' AND job.imported_at IS NULL
UNION ALL
SELECT org_id, job_id, 'status ' || status || ', read_at ' || read_at FROM jobs
WHERE read_at IS NOT NULL AND status NOT IN ('completed', 'failed')

-- name: message_keys
-- For webhooks the endpoint follows, and for events that are not final their number.
SELECT org_id, job_id, 'channel ' || channel || ', dedupe_key ' || dedupe_key FROM outbox
WHERE CASE
    WHEN lane IS NOT NULL AND channel = 'webhook' AND {is_json:payload_json} THEN
        dedupe_key <> job_id || ':webhook:' || template_key || ':' || coalesce(endpoint_id, 'job')
        || CASE WHEN template_key IN ('async.job.completed', 'async.job.failed', 'async.job.canceled') THEN ''
                ELSE ':' || ({json:payload_json} ->> 'event_seq') END
    WHEN channel = 'webhook' THEN dedupe_key NOT LIKE job_id || ':webhook:' || template_key || ':_%'
    ELSE dedupe_key <> job_id || ':' || channel || ':' || template_key
END

-- name: wishes_told
-- An address that is an endpoint's hears of it as that endpoint, which may be gone since. An imported job may have ended before.
SELECT job.org_id, job.job_id, 'no ' || wish.channel || ' at ' || job.finished_at
FROM job_wishes AS wish JOIN jobs AS job ON job.org_id = wish.org_id AND job.job_id = wish.job_id
WHERE job.finished_at IS NOT NULL AND (job.imported_at IS NULL OR job.imported_at < job.finished_at)
  AND (wish.channel = 'webhook' OR job.status <> 'canceled')
  AND NOT EXISTS (
      SELECT 1 FROM outbox AS message
      WHERE message.org_id = job.org_id AND message.job_id = job.job_id AND message.channel = wish.channel
        AND message.template_key = 'async.job.' || job.status AND message.created_at = job.finished_at
        AND (message.endpoint_id IS NOT NULL OR message.target = wish.target))

-- name: message_receivers
SELECT message.org_id, message.job_id, 'notification ' || message.notification_id || ' is to another org''s endpoint'
FROM outbox AS message
WHERE message.endpoint_id IS NOT NULL
  AND EXISTS (SELECT 1 FROM webhook_endpoints AS there WHERE there.endpoint_id = message.endpoint_id)
  AND NOT EXISTS (
      SELECT 1 FROM webhook_endpoints AS own
      WHERE own.endpoint_id = message.endpoint_id AND own.org_id = message.org_id)
UNION ALL
SELECT message.org_id, message.job_id, 'notification ' || message.notification_id || ' is in the lane ' || message.lane
FROM outbox AS message WHERE message.endpoint_id IS NOT NULL AND message.lane <> message.endpoint_id
UNION ALL
SELECT message.org_id, message.job_id, 'notification ' || message.notification_id || ' was not wished for'
FROM outbox AS message
WHERE message.lane IS NOT NULL AND message.endpoint_id IS NULL AND NOT EXISTS (
    SELECT 1 FROM job_wishes AS wish
    WHERE wish.org_id = message.org_id AND wish.job_id = message.job_id AND wish.channel = message.channel
      AND wish.target = message.target AND wish.lane = message.lane)

-- name: delivery_states
-- Unsent messages of the earlier system have no lane, and are never sent.
SELECT message.org_id, message.job_id, 'notification ' || message.notification_id || ' is ' || message.delivery_status
FROM outbox AS message
WHERE message.channel <> 'in_app' AND (
    (message.delivery_status = 'sent' AND message.sent_at IS NULL)
    OR (message.delivery_status = 'pending' AND (message.lane IS NULL OR (message.endpoint_id IS NULL AND message.target IS NULL)))
    OR (message.delivery_status <> 'pending' AND message.claimed_until IS NOT NULL)
    OR message.sent_at < message.created_at OR message.tries_from NOT BETWEEN 0 AND message.attempt_count)
  AND NOT EXISTS (
      SELECT 1 FROM jobs AS job
      WHERE job.org_id = message.org_id AND job.job_id = message.job_id AND job.imported_at >= message.created_at)
UNION ALL
SELECT org_id, job_id, 'notification ' || notification_id || ' stays here, and is to be sent' FROM outbox
WHERE channel = 'in_app' AND (lane IS NOT NULL OR endpoint_id IS NOT NULL OR claimed_until IS NOT NULL)

-- name: delivery_log
SELECT line.org_id, line.job_id, 'attempt ' || max(line.attempt) || ' of notification ' || line.notification_id || ' is in the log'
FROM delivery_attempts AS line LEFT JOIN outbox AS message
    ON message.org_id = line.org_id AND message.notification_id = line.notification_id AND message.job_id = line.job_id
WHERE line.attempt > coalesce(message.attempt_count, 0)
GROUP BY line.org_id, line.job_id, line.notification_id
UNION ALL
SELECT message.org_id, message.job_id, 'no attempt of notification ' || message.notification_id || ' arrived'
FROM outbox AS message
WHERE message.delivery_status = 'sent' AND message.lane IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM delivery_attempts AS line
    WHERE line.org_id = message.org_id AND line.notification_id = message.notification_id AND line.status = 'sent'
      AND (message.channel <> 'webhook' OR coalesce(line.status_code, 200) BETWEEN 200 AND 299))

-- name: deliveries_overdue
SELECT message.org_id, CAST(NULL AS text),
    'the lane ' || message.lane || ' is due since ' || ((:now - min(message.scheduled_at)) / 1000000) || ' s'
FROM outbox AS message
WHERE message.delivery_status = 'pending' AND message.channel <> 'in_app' AND message.lane IS NOT NULL
  AND NOT EXISTS (
      SELECT 1 FROM delivery_lanes AS trouble
      WHERE trouble.org_id = message.org_id AND trouble.lane = message.lane AND trouble.paused_until > :now - :patience)
GROUP BY message.org_id, message.lane
HAVING min(message.scheduled_at) < :now - :patience AND coalesce(max(message.claimed_until), 0) < :now - :patience

-- name: delivery_texts
-- Not a rule: what receivers said, and what is said of them.
SELECT org_id, job_id, 'attempt ' || attempt || ' of notification ' || notification_id, coalesce(error, '') || ' ' || coalesce(reply, '')
FROM delivery_attempts WHERE error IS NOT NULL OR reply IS NOT NULL
UNION ALL
SELECT org_id, job_id, 'notification ' || notification_id, last_error FROM outbox
WHERE last_error IS NOT NULL AND channel <> 'in_app'

-- name: lane_counts
-- A lane counts its jobs in line and those that wait for their time, and an analysis what its lanes count.
SELECT org_id, CAST(NULL AS text), CASE WHEN org_id IS NULL THEN '' ELSE 'lane ' END
    || analysis || ' counts ' || sum(counted) || ' ' || kind || ', there are ' || sum(there)
FROM (
    SELECT org_id, analysis, 'waiting' AS kind, waiting AS counted, 0 AS there FROM lanes
    UNION ALL SELECT org_id, analysis, 'scheduled', scheduled, 0 FROM lanes
    UNION ALL SELECT org_id, analysis, CASE WHEN ticket >= 0 THEN 'waiting' ELSE 'scheduled' END, 0, 1 FROM jobs
    WHERE started_at IS NULL AND finished_at IS NULL
    UNION ALL SELECT NULL, analysis, 'waiting', waiting, 0 FROM waiting_counts
    UNION ALL SELECT NULL, analysis, 'scheduled', scheduled, 0 FROM waiting_counts
    UNION ALL SELECT NULL, analysis, 'waiting', 0, waiting FROM lanes
    UNION ALL SELECT NULL, analysis, 'scheduled', 0, scheduled FROM lanes) AS counts
GROUP BY org_id, analysis, kind HAVING sum(counted) <> sum(there)

-- name: lane_due
-- A lane may be looked at too early. One that is looked at too late, or not at all, would leave a job lying for ever.
SELECT org_id, job_id, 'next_attempt_at ' || next_attempt_at || ', lane due ' || coalesce(CAST(due_at AS text), 'never') FROM (
    SELECT org_id, job_id, next_attempt_at,
        (SELECT lane.due_at FROM lanes AS lane WHERE lane.org_id = job.org_id AND lane.analysis = job.analysis) AS due_at
    FROM jobs AS job WHERE next_attempt_at IS NOT NULL) AS waiting
WHERE due_at IS NULL OR next_attempt_at < due_at
UNION ALL
SELECT org_id, job_id, 'run_at ' || -ticket || ', lane next ' || coalesce(CAST(next_run_at AS text), 'never') FROM (
    SELECT org_id, job_id, ticket,
        (SELECT lane.next_run_at FROM lanes AS lane WHERE lane.org_id = job.org_id AND lane.analysis = job.analysis) AS next_run_at
    FROM jobs AS job WHERE started_at IS NULL AND finished_at IS NULL AND ticket < 0) AS scheduled
WHERE next_run_at IS NULL OR -ticket < next_run_at

-- name: start_times
-- A worker may take a moment from the claim to the start.
SELECT org_id, job_id, 'run_at ' || coalesce(CAST(run_at AS text), 'null') || ', start_by ' || coalesce(CAST(start_by AS text), 'null')
    || ', ticket ' || ticket || ', started_at ' || coalesce(CAST(started_at AS text), 'null')
FROM jobs AS job
WHERE imported_at IS NULL AND (started_at < run_at OR started_at > start_by + 1000000
    OR (status = 'queued' AND ticket < 0 AND (run_at IS NULL OR ticket <> -run_at))
    OR (attempt > 0 AND ticket < 0))

-- name: paused_starts
SELECT job.org_id, job.job_id, 'attempt_started_at ' || job.attempt_started_at || ', paused_at ' || pause.paused_at
FROM pauses AS pause JOIN jobs AS job ON job.analysis = pause.analysis AND pause.org_id IN ('', job.org_id)
WHERE job.reused_from IS NULL AND job.attempt_started_at > pause.paused_at AND coalesce(job.attempt_started_at < pause.paused_until, true)

-- name: planned_once
SELECT org_id, CAST(NULL AS text), 'schedule ' || schedule || ': ' || count(*) || ' jobs for ' || planned_at
FROM jobs WHERE schedule IS NOT NULL AND planned_at IS NOT NULL
GROUP BY org_id, schedule, planned_at HAVING count(*) > 1
UNION ALL
SELECT org_id, job_id, 'schedule ' || coalesce(schedule, 'null') || ', planned_at ' || coalesce(CAST(planned_at AS text), 'null')
FROM jobs WHERE (schedule IS NULL) <> (planned_at IS NULL) OR queued_at < planned_at

-- name: schedule_times
SELECT org_id, CAST(NULL AS text), 'schedule ' || name || ', next_run_at ' || coalesce(CAST(next_run_at AS text), 'null')
FROM schedules AS one
WHERE (cron IS NULL) = (every_seconds IS NULL) OR (next_run_at IS NOT NULL AND CAST(paused AS integer) = 1)
   OR last_run_at >= next_run_at

-- name: schedules_overdue
SELECT org_id, CAST(NULL AS text), 'schedule ' || name || ' is due since ' || ((:now - next_run_at) / 1000000) || ' s'
FROM schedules WHERE next_run_at < :now - :patience

-- name: lane_tickets
SELECT org_id, CAST(NULL AS text),
    'lane ' || analysis || ', ' || priority_class || ': ticket ' || ticket || ' is given ' || count(*) || ' times'
FROM jobs WHERE started_at IS NULL AND finished_at IS NULL AND ticket >= 0
GROUP BY org_id, analysis, priority_class, ticket HAVING count(*) > 1

-- name: all_jobs
SELECT {job_columns} FROM jobs AS job ORDER BY job.job_id, job.org_id

-- name: how_many_jobs
SELECT count(*) FROM jobs
