-- Deliveries: webhook endpoints, the outbox, which is filled in the transaction of its events, and receivers of mail.

-- name: any_endpoints
-- The orgs with active endpoints. Most stores have none, and then no further query runs.
SELECT DISTINCT org_id FROM webhook_endpoints WHERE disabled_at IS NULL

-- name: subscriptions_exist
SELECT EXISTS (SELECT 1 FROM job_wishes)

-- name: any_subscriptions
-- Of some jobs, by their keys, those with subscriptions.
SELECT job.job FROM json_each(:jobs) AS ended CROSS JOIN job_rows AS job ON job.job = ended.value
WHERE EXISTS (SELECT 1 FROM job_wishes AS wish WHERE wish.job_id = job.job_id)

-- name: fill_outbox
-- The messages about one event: to each endpoint that hears of such, and at the end of a job to whom its submission named.
-- Events of an earlier system send nothing.
INSERT INTO outbox (
    org_id, notification_id, job_id, channel, template_key, delivery_status, attempt_count, dedupe_key, scheduled_at,
    created_at, payload_json, endpoint_id, target, lane)
SELECT :org_id,
    lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-'
        || substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))),
    :job_id, receiver.channel, 'async.job.' || told.subject, 'pending', 0,
    :job_id || ':' || receiver.channel || ':async.job.' || told.subject || receiver.mark
        || CASE WHEN told.subject IN ('completed', 'failed', 'canceled') THEN '' ELSE ':' || :event_seq END,
    :occurred_at, :occurred_at,
    json_object('job_id', :job_id, 'status', told.status, 'event_seq', :event_seq, 'event_id', :event_id,
        'trace_id', :trace_id, 'result_id', :result_id, 'language', receiver.language),
    receiver.endpoint_id, receiver.target, receiver.lane
FROM (SELECT CASE :event_type WHEN 'job.running' THEN 'started' ELSE substr(:event_type, 5) END AS subject,
             substr(:event_type, 5) AS status) AS told
CROSS JOIN (
    SELECT 'webhook' AS channel, endpoint_id, NULL AS target, endpoint_id AS lane, ':' || endpoint_id AS mark,
        NULL AS language, subjects
    FROM webhook_endpoints WHERE org_id = :org_id AND disabled_at IS NULL
    UNION ALL
    SELECT wish.channel, NULL, wish.target, wish.lane, CASE wish.channel WHEN 'webhook' THEN ':job' ELSE '' END,
        wish.language, CASE wish.channel WHEN 'webhook' THEN ',completed,failed,canceled,' ELSE ',completed,failed,' END
    FROM job_wishes AS wish
    WHERE wish.org_id = :org_id AND wish.job_id = :job_id
      -- An endpoint with the same URL gets the message once.
      AND NOT EXISTS (SELECT 1 FROM webhook_endpoints AS known
                      WHERE wish.channel = 'webhook' AND known.org_id = wish.org_id AND known.url = wish.target
                        AND known.disabled_at IS NULL
                        AND instr(known.subjects, ',' || substr(:event_type, 5) || ',') > 0)) AS receiver
WHERE told.status IN ('queued', 'running', 'partial', 'completed', 'failed', 'canceled')
  AND instr(receiver.subjects, ',' || told.subject || ',') > 0
  AND NOT EXISTS (SELECT 1 FROM job_rows AS job WHERE job.job_id = :job_id AND job.imported_at >= :occurred_at)

-- name: forget_lane
DELETE FROM delivery_lanes WHERE org_id = :org_id AND lane = :lane

-- name: due_lanes_out
{lanes_out}

-- name: lane_due_out
-- The first messages of a lane that are due and unclaimed.
SELECT notification_id FROM outbox INDEXED BY idx_notifications_due
WHERE org_id = :org_id AND lane = :lane AND delivery_status = 'pending' AND channel <> 'in_app'
  AND scheduled_at <= :now AND (claimed_until IS NULL OR claimed_until <= :now)
ORDER BY scheduled_at LIMIT :most

-- name: claim_delivery
-- The number of the attempt is the fence: it grows here and nowhere else.
UPDATE outbox SET attempt_count = attempt_count + 1, claimed_until = :until, scheduled_at = :until
WHERE org_id = :org_id AND notification_id = :notification_id AND delivery_status = 'pending' AND channel <> 'in_app'
  AND (claimed_until IS NULL OR claimed_until <= :now)

-- name: give_up_gone
-- A message to an endpoint that is gone or disabled: it was on its way into the outbox, or claimed, when that was said.
UPDATE outbox SET delivery_status = 'failed', last_error = 'the endpoint is not called any more', claimed_until = NULL
WHERE org_id = :org_id AND notification_id = :notification_id AND delivery_status = 'pending'
  AND endpoint_id IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM webhook_endpoints AS there
      WHERE there.org_id = :org_id AND there.endpoint_id = outbox.endpoint_id AND there.disabled_at IS NULL)

-- name: claimed_delivery
SELECT message.org_id, message.notification_id, message.job_id, message.channel, message.template_key, message.created_at,
    message.payload_json, message.attempt_count,
    -- A claim that came to nothing is no try.
    1 + (SELECT count(*) FROM delivery_attempts AS tried
         WHERE tried.org_id = message.org_id AND tried.notification_id = message.notification_id
           AND tried.attempt > message.tries_from),
    coalesce(endpoint.url, message.target), message.lane, coalesce(endpoint.endpoint_id, same.endpoint_id),
    coalesce(endpoint.version, same.version), coalesce(endpoint.former_until, same.former_until),
    (SELECT job.traceparent FROM job_rows AS job WHERE job.job_id = message.job_id)
FROM outbox AS message
LEFT JOIN webhook_endpoints AS endpoint
    ON endpoint.org_id = message.org_id AND endpoint.endpoint_id = message.endpoint_id
-- The job's own address may be one that the org has an endpoint for: then that one's secret signs.
LEFT JOIN webhook_endpoints AS same
    ON message.channel = 'webhook' AND same.org_id = message.org_id AND same.url = message.target
WHERE message.org_id = :org_id AND message.notification_id = :notification_id

-- name: finish_delivery
-- Once: a repeated call finds the message unclaimed.
UPDATE outbox SET
    delivery_status = :status,
    claimed_until = NULL,
    last_error = coalesce(:error, CASE :status WHEN 'sent' THEN NULL ELSE last_error END),
    sent_at = CASE :status WHEN 'sent' THEN :now ELSE sent_at END,
    scheduled_at = CASE :status WHEN 'pending' THEN :retry_at ELSE scheduled_at END
WHERE org_id = :org_id AND notification_id = :notification_id AND attempt_count = :attempt AND delivery_status = 'pending'
  AND claimed_until IS NOT NULL
RETURNING job_id, lane, endpoint_id

-- name: finished_so
-- Whether an attempt was noted to have gone like this.
SELECT 1 FROM delivery_attempts
WHERE org_id = :org_id AND notification_id = :notification_id AND attempt = :attempt AND status = :status

-- name: insert_delivery_attempt
INSERT INTO delivery_attempts (org_id, notification_id, attempt, job_id, at, seconds, status, status_code, error, reply)
VALUES (:org_id, :notification_id, :attempt, :job_id, :now, :seconds, :status, :status_code, :error, :reply)

-- name: lane_failed
INSERT INTO delivery_lanes (org_id, lane, failures, failing_since, paused_until)
VALUES (:org_id, :lane, 1, :now, :paused_until)
ON CONFLICT (org_id, lane) DO UPDATE SET
    failures = failures + 1,
    paused_until = nullif(max(coalesce(paused_until, 0), coalesce(excluded.paused_until, 0)), 0)

-- name: hasten_lane
-- A lane that works again need not wait for the times that were set while it did not.
UPDATE outbox SET scheduled_at = :now
WHERE rowid IN (
    SELECT late.rowid FROM outbox AS late INDEXED BY idx_notifications_due
    WHERE late.org_id = :org_id AND late.lane = :lane AND late.delivery_status = 'pending' AND late.channel <> 'in_app'
      AND late.scheduled_at > :now AND late.claimed_until IS NULL
    LIMIT 10000)

-- name: replay_one
UPDATE outbox SET delivery_status = 'pending', tries_from = attempt_count, scheduled_at = :now
WHERE org_id = :org_id AND notification_id = :notification_id AND channel <> 'in_app' AND lane IS NOT NULL
  AND (delivery_status IN ('failed', 'suppressed') OR (:sent_too AND delivery_status = 'sent'))
  AND (endpoint_id IS NULL OR EXISTS (
      SELECT 1 FROM webhook_endpoints AS endpoint
      WHERE endpoint.org_id = outbox.org_id AND endpoint.endpoint_id = outbox.endpoint_id
        AND endpoint.disabled_at IS NULL))

-- name: replayable
-- What of an endpoint is settled, the oldest first.
SELECT notification_id FROM outbox INDEXED BY idx_notifications_endpoint
WHERE org_id = :org_id AND endpoint_id = :endpoint_id AND created_at >= :since
  AND (delivery_status IN ('failed', 'suppressed') OR (:sent_too AND delivery_status = 'sent'))
ORDER BY created_at, notification_id LIMIT :most

-- name: read_deliveries
-- The messages of an org that go out, newest first.
SELECT {notification_columns} FROM outbox AS notification INDEXED BY idx_notifications_sent_out
WHERE org_id = :org_id AND channel <> 'in_app' AND (created_at, notification_id) < (:before_at, :before_id)
  AND (:status IS NULL OR delivery_status = :status) AND (:job_id IS NULL OR job_id = :job_id)
ORDER BY created_at DESC, notification_id DESC LIMIT :limit

-- name: read_deliveries_of_endpoint
SELECT {notification_columns} FROM outbox AS notification INDEXED BY idx_notifications_endpoint
WHERE org_id = :org_id AND endpoint_id = :endpoint_id AND (created_at, notification_id) < (:before_at, :before_id)
  AND (:status IS NULL OR delivery_status = :status) AND (:job_id IS NULL OR job_id = :job_id)
ORDER BY created_at DESC, notification_id DESC LIMIT :limit

-- name: read_delivery
SELECT {notification_columns} FROM outbox AS notification
WHERE org_id = :org_id AND notification_id = :notification_id AND channel <> 'in_app'

-- name: read_wishes
SELECT channel, target, lane, language FROM job_wishes WHERE org_id = :org_id AND job_id = :job_id ORDER BY channel

-- name: delivery_state
-- How many messages wait, since when the longest overdue of a lane that is not paused is due, and who gets nothing at present.
SELECT (SELECT count(*) FROM outbox INDEXED BY idx_notifications_due
        WHERE delivery_status = 'pending' AND channel <> 'in_app' AND lane IS NOT NULL),
    (SELECT min(due_at) FROM ({lanes_out}) WHERE due_at <= :now AND coalesce(paused_until, :now) <= :now),
    (SELECT count(*) FROM delivery_lanes WHERE paused_until > :now),
    (SELECT count(*) FROM webhook_endpoints WHERE disabled_at IS NOT NULL)

-- name: mark_message
-- The id of a message begins as its job's does, and which one it is of follows from all of it.
UPDATE job_rows INDEXED BY idx_jobs_id SET read_at = :now
WHERE job_id BETWEEN substr(:notification_id, 1, min(14, length(:notification_id) - 1))
    AND substr(:notification_id, 1, 14) || char(1114111)
  AND substr(job_id, 1, 14) || '4' || substr(job_id, 16) = :notification_id
  AND org = {org}
  AND status IN ('completed', 'failed') AND (imported_at IS NULL OR imported_at < finished_at) AND read_at IS NULL

-- name: mark_stored_message
UPDATE outbox SET read_at = :now
WHERE org_id = :org_id AND notification_id = :notification_id AND channel = 'in_app' AND read_at IS NULL

-- name: mark_all
-- Only ever later, and only for an org that has messages.
INSERT INTO inbox_marks (org_id, read_until)
SELECT :org_id, :until
WHERE EXISTS (SELECT 1 FROM outbox AS one INDEXED BY idx_notifications_inbox
              WHERE one.org_id = :org_id AND one.channel = 'in_app')
   OR EXISTS (SELECT 1 FROM job_rows AS one INDEXED BY idx_jobs_org_status_updated
              WHERE one.org = {org} AND one.status IN ('completed', 'failed')
                AND one.finished_at IS NOT NULL AND (one.imported_at IS NULL OR one.imported_at < one.finished_at))
ON CONFLICT (org_id) DO UPDATE SET read_until = excluded.read_until WHERE excluded.read_until > read_until
