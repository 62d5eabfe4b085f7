-- The outbox: the transaction that writes events also writes their messages. Copied and imported events have none: their store
-- has sent them.

-- Writes messages about events to endpoints and subscriptions.
CREATE OR REPLACE FUNCTION insert_messages(org_ids text[], keys uuid[], seqs integer[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- Most events have no receiver: return at once.
    IF NOT EXISTS (SELECT 1 FROM webhook_endpoints WHERE org_id = ANY (org_ids) AND disabled_at IS NULL)
        AND NOT EXISTS (SELECT 1 FROM job_wishes WHERE job_id = ANY (keys::text[]))
        AND NOT EXISTS (SELECT 1 FROM job_rows WHERE job = ANY (keys) AND job_name IS NOT NULL)
    THEN
        RETURN;
    END IF;
    INSERT INTO outbox (
        org_id, job_id, channel, template_key, delivery_status, dedupe_key, scheduled_at, created_at, payload_json,
        endpoint_id, target, lane)
    SELECT told.org_id, told.job_id, receiver.channel, 'async.job.' || told.subject, 'pending',
        told.job_id || ':' || receiver.channel || ':async.job.' || told.subject || receiver.mark
            || CASE WHEN told.last THEN '' ELSE ':' || told.event_seq END,
        told.occurred_at, told.occurred_at,
        '{"job_id":' || json_string(told.job_id) || ',"status":' || json_string(told.status) || ',"event_seq":' || told.event_seq
            || ',"event_id":' || json_string(told.event_id) || ',"trace_id":' || json_string(told.trace_id) || ',"result_id":'
            || json_string(coalesce(told.payload_json::json ->> 'result_id', CASE told.subject WHEN 'failed' THEN about.result_id END))
            || ',"language":' || json_string(receiver.language) || '}',
        receiver.endpoint_id, receiver.target, receiver.lane
    FROM (
        SELECT *, substr(event_type, 5) AS status, CASE event_type WHEN 'job.running' THEN 'started' ELSE substr(event_type, 5) END AS subject,
            event_type IN ('job.completed', 'job.failed', 'job.canceled') AS last
        FROM unnest(org_ids, keys, seqs) AS new (org_id, job, event_seq) JOIN job_events USING (org_id, job, event_seq)
        WHERE event_type IN ('job.queued', 'job.running', 'job.partial', 'job.completed', 'job.failed', 'job.canceled')) AS told
    CROSS JOIN LATERAL (
        SELECT 'webhook' AS channel, endpoint.endpoint_id, NULL AS target, endpoint.endpoint_id AS lane,
            ':' || endpoint.endpoint_id AS mark, NULL AS language
        FROM webhook_endpoints AS endpoint
        WHERE endpoint.org_id = told.org_id AND endpoint.disabled_at IS NULL
          AND strpos(endpoint.subjects, ',' || told.subject || ',') > 0
        UNION ALL
        -- Subscriptions only receive the end of a job.
        SELECT wish.channel, NULL, wish.target, wish.lane, CASE wish.channel WHEN 'webhook' THEN ':job' ELSE '' END, wish.language
        FROM job_wishes AS wish
        WHERE told.last AND wish.org_id = told.org_id AND wish.job_id = told.job_id
          AND (wish.channel = 'webhook' OR told.subject IN ('completed', 'failed'))
          -- An endpoint with the same URL receives it already.
          AND NOT EXISTS (
              SELECT 1 FROM webhook_endpoints AS known
              WHERE wish.channel = 'webhook' AND known.org_id = wish.org_id AND known.url = wish.target
                AND known.disabled_at IS NULL AND strpos(known.subjects, ',' || told.subject || ',') > 0)) AS receiver
    CROSS JOIN LATERAL (
        SELECT one.result_id, one.imported_at FROM jobs AS one
        WHERE one.org_id = told.org_id AND one.job = told.job OFFSET 0) AS about
    WHERE about.imported_at IS NULL OR about.imported_at < told.occurred_at;
END $$;
