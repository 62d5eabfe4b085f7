-- Fills a store with jobs of one org and what lists look at beside them: inputs, results, messages. It is the same SQL for
-- both databases but for where numbers come from: {numbers} gives n from 1 to {jobs}, and the last one is the newest.
--
-- {now} is now in microseconds; jobs are {apart} apart. {failed} says of n whether that job failed, else it completed. Every
-- message of a failure has words of its own, so that none is like another until they are folded.

-- name: fill_jobs
INSERT INTO jobs (job_id, org_id, analysis, status, priority_class, request_payload_hash, request_payload_ref, queued_at,
    updated_at, timeout_seconds, max_retries, trace_id, request_id, progress_percent, result_id, started_at,
    attempt_started_at, finished_at, failed_at, error_code, error_message, retryable, attempt, event_seq, imported_at)
SELECT 'job-' || ({jobs} + n), 'org-a', 'analysis-' || (n % 5), CASE WHEN {failed} THEN 'failed' ELSE 'completed' END, 'default',
    CAST(10000000 + n AS text), 'inline:', {now} - {apart} * ({jobs} - n) - 9000000, {now} - {apart} * ({jobs} - n), 1800, 3, 'trace', 'request',
    CASE WHEN {failed} THEN 40 ELSE 100 END, CASE WHEN {failed} THEN NULL ELSE 'result-' || n END,
    {now} - {apart} * ({jobs} - n) - 5000000, {now} - {apart} * ({jobs} - n) - 5000000, {now} - {apart} * ({jobs} - n),
    CASE WHEN {failed} THEN {now} - {apart} * ({jobs} - n) END, CASE WHEN {failed} THEN 'code_' || (n % 4) END,
    CASE WHEN {failed} THEN 'Place ' || n || ' in "street ' || n || '" was not found by http://upstream.test/' || n || ' in time.' END,
    CASE WHEN {failed} THEN {false} END, 1, 3, 1
FROM {numbers}

-- name: fill_inputs
INSERT INTO job_inputs (org_id, job_id{input_more}, payload)
SELECT org_id, job_id{input_values}, '{"intelligence_mode":"basic","query":"A place to look at, number ' || job_id || '"}'
FROM jobs

-- name: fill_results
INSERT INTO job_results (org_id, result_id, job_id, result_kind, result_seq, schema_version, result_payload_ref, created_at, payload)
SELECT org_id, result_id, job_id, 'final', 1, 1, 'inline:', finished_at, '{}' FROM jobs WHERE result_id IS NOT NULL

-- name: fill_messages
INSERT INTO notifications (org_id, notification_id, job_id, channel, template_key, delivery_status, dedupe_key, scheduled_at,
    created_at, payload_json)
SELECT org_id, 'message-' || job_id, job_id, 'in_app',
    CASE status WHEN 'failed' THEN 'async.job.failed' ELSE 'async.job.completed' END, 'pending', job_id, finished_at,
    finished_at, '{}' FROM jobs
