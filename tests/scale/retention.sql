-- Fills a store with what retention finds: jobs that ended long ago, in every way a job can end, and others among them that it
-- must leave alone. It is the same SQL for both databases but for where numbers come from: {numbers} gives n from 1 to {jobs}.
--
-- {now} is now in microseconds. {name} begins the ids, {age} is how long ago the jobs ended; ends are {apart} apart. One in five
-- failed and one in ten was canceled: those have a partial result, the others a final one.

-- name: fill_ended
INSERT INTO jobs (job_id, org_id, analysis, status, priority_class, request_payload_hash, request_payload_ref, queued_at,
    updated_at, timeout_seconds, max_retries, trace_id, request_id, progress_percent, partial_count, result_id, started_at,
    attempt_started_at, finished_at, failed_at, canceled_at, canceled_by, cancel_reason, error_code, error_message,
    retryable, attempt, event_seq, imported_at)
SELECT '{name}-' || n, 'org-' || (n % 10), 'analysis-' || (n % 5),
    CASE WHEN n % 5 = 0 THEN 'failed' WHEN n % 10 = 1 THEN 'canceled' ELSE 'completed' END, 'default', CAST(10000000 + n AS text),
    'inline:', {now} - {age} - {apart} * n - 9000000, {now} - {age} - {apart} * n, 1800, 3, 'trace', 'request',
    CASE WHEN n % 5 = 0 OR n % 10 = 1 THEN 40 ELSE 100 END, CASE WHEN n % 5 = 0 OR n % 10 = 1 THEN 1 ELSE 0 END,
    'result-{name}-' || n, {now} - {age} - {apart} * n - 5000000, {now} - {age} - {apart} * n - 5000000, {now} - {age} - {apart} * n,
    CASE WHEN n % 5 = 0 THEN {now} - {age} - {apart} * n END,
    CASE WHEN n % 5 <> 0 AND n % 10 = 1 THEN {now} - {age} - {apart} * n END,
    CASE WHEN n % 5 <> 0 AND n % 10 = 1 THEN 'user' END,
    CASE WHEN n % 5 <> 0 AND n % 10 = 1 THEN 'not needed' END,
    CASE WHEN n % 5 = 0 THEN 'internal' END, CASE WHEN n % 5 = 0 THEN 'It did not work.' END,
    CASE WHEN n % 5 = 0 THEN {false} END, 1, 3, {now}
FROM {numbers}

-- name: fill_inputs
INSERT INTO job_inputs (org_id, job_id{input_more}, payload)
SELECT org_id, job_id{input_values}, '{"intelligence_mode":"basic","query":"A place to look at, number ' || job_id || '"}'
FROM jobs

-- name: fill_results
INSERT INTO job_results (org_id, result_id, job_id, result_kind, result_seq, schema_version, result_payload_ref, created_at,
    summary_json, payload)
SELECT org_id, result_id, job_id, CASE status WHEN 'completed' THEN 'final' ELSE 'partial' END, 1, 1, 'inline:', finished_at,
    '{"found":1}', '{"words":"' || {filler} || '"}'
FROM jobs WHERE result_id IS NOT NULL

-- name: fill_events
INSERT INTO job_events (org_id, job_id, event_seq, event_id, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
SELECT job.org_id, job.job_id, step.n, job.job_id || ':' || step.n,
    CASE step.n WHEN 1 THEN 'job.queued' WHEN 2 THEN 'job.running' ELSE 'job.' || job.status END, job.queued_at + step.n * 1000000,
    'worker', '{"progress_percent":40}', 'trace', 'request'
FROM jobs AS job CROSS JOIN (SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT 3) AS step

-- name: fill_messages
INSERT INTO notifications (org_id, notification_id, job_id, channel, template_key, delivery_status, dedupe_key, scheduled_at,
    created_at, payload_json)
SELECT org_id, 'message-' || job_id, job_id, CASE WHEN job_id LIKE 'sending-%' THEN 'webhook' ELSE 'in_app' END,
    'async.job.' || status, 'pending', job_id, finished_at, finished_at, '{}' FROM jobs
