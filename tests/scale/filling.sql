-- Fills a store with ended and waiting jobs, as far as figures look at them. It is the same SQL for both databases but for
-- where numbers come from: {numbers} gives n from 1 to {jobs}.
--
-- {now} is now in microseconds, {apart} the time between two ends, {orgs} how many orgs there are, {waiting} how many of the
-- jobs wait. One in twenty failed, by one of four codes; one in fifty was canceled.

-- name: fill_ended
INSERT INTO jobs (job_id, org_id, analysis, status, priority_class, request_payload_hash, request_payload_ref, queued_at,
    updated_at, timeout_seconds, max_retries, trace_id, request_id, progress_percent, result_id, started_at,
    attempt_started_at, finished_at, failed_at, canceled_at, canceled_by, cancel_reason, error_code, error_message,
    retryable, attempt, event_seq, imported_at)
SELECT 'ended-' || n, 'org-' || (n % {orgs}), 'analysis-' || (n % 5),
    CASE WHEN n % 20 = 0 THEN 'failed' WHEN n % 50 = 1 THEN 'canceled' ELSE 'completed' END, 'default', CAST(10000000 + n AS text),
    'inline:', {now} - {apart} * n - 1000000 * (n % 90 + 65), {now} - {apart} * n, 1800, 3, 'trace', 'request',
    CASE WHEN n % 20 = 0 OR n % 50 = 1 THEN 40 ELSE 100 END,
    CASE WHEN n % 20 = 0 OR n % 50 = 1 THEN NULL ELSE 'result-' || n END,
    {now} - {apart} * n - 1000000 * (n % 60 + 1), {now} - {apart} * n - 1000000 * (n % 60 + 1), {now} - {apart} * n,
    CASE WHEN n % 20 = 0 THEN {now} - {apart} * n END,
    CASE WHEN n % 20 <> 0 AND n % 50 = 1 THEN {now} - {apart} * n END,
    CASE WHEN n % 20 <> 0 AND n % 50 = 1 THEN 'user' END,
    CASE WHEN n % 20 <> 0 AND n % 50 = 1 THEN 'not needed' END,
    CASE WHEN n % 20 = 0 THEN 'code_' || (n % 4) END, CASE WHEN n % 20 = 0 THEN 'It did not work.' END,
    CASE WHEN n % 20 = 0 THEN {false} END, 1, 3, {now}
FROM {numbers}

-- name: fill_waiting
INSERT INTO jobs (job_id, org_id, analysis, status, priority_class, request_payload_hash, request_payload_ref, queued_at,
    updated_at, timeout_seconds, max_retries, trace_id, request_id, ticket, imported_at)
SELECT 'waiting-' || n, 'org-' || (n % {orgs}), 'analysis-' || (n % 5), 'queued', 'default', CAST(20000000 + n AS text), 'inline:',
    {now} - 1000 * n, {now} - 1000 * n, 1800, 3, 'trace', 'request', {jobs} + 1 - n, {now}
FROM {numbers}

-- name: fill_lanes
INSERT INTO lanes (org_id, analysis, waiting, virtual_start, default_last)
SELECT org_id, analysis, count(*), 0, max(ticket) FROM jobs
WHERE started_at IS NULL AND finished_at IS NULL GROUP BY org_id, analysis

-- name: fill_lanes_of_file
INSERT INTO lane_rows (org, analysis, waiting)
SELECT org, analysis, count(*) FROM job_rows WHERE started_at IS NULL AND finished_at IS NULL GROUP BY org, analysis
