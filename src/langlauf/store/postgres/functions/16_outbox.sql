-- The outbox: whoever writes events leaves the messages about them in the same transaction. What is copied was told where it
-- comes from, and events of a store of the earlier system are old news.

-- Leaves messages about events, named by their jobs and numbers, where somebody is to hear of them.
CREATE OR REPLACE FUNCTION tell_outside(org_ids text[], keys uuid[], seqs integer[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- Most events interest nobody: that is seen at a glance.
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
        '{"job_id":' || said(told.job_id) || ',"status":' || said(told.status) || ',"event_seq":' || told.event_seq
            || ',"event_id":' || said(told.event_id) || ',"trace_id":' || said(told.trace_id) || ',"result_id":'
            || said(coalesce(told.payload_json::json ->> 'result_id', CASE told.subject WHEN 'failed' THEN about.result_id END))
            || ',"language":' || said(receiver.language) || '}',
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
        -- Most jobs wish nothing: only their ends are worth a look.
        SELECT wish.channel, NULL, wish.target, wish.lane, CASE wish.channel WHEN 'webhook' THEN ':job' ELSE '' END, wish.language
        FROM job_wishes AS wish
        WHERE told.last AND wish.org_id = told.org_id AND wish.job_id = told.job_id
          AND (wish.channel = 'webhook' OR told.subject IN ('completed', 'failed'))
          -- An endpoint that hears of it anyway is not told twice.
          AND NOT EXISTS (
              SELECT 1 FROM webhook_endpoints AS known
              WHERE wish.channel = 'webhook' AND known.org_id = wish.org_id AND known.url = wish.target
                AND known.disabled_at IS NULL AND strpos(known.subjects, ',' || told.subject || ',') > 0)) AS receiver
    CROSS JOIN LATERAL (
        SELECT one.result_id, one.imported_at FROM jobs AS one
        WHERE one.org_id = told.org_id AND one.job = told.job OFFSET 0) AS about
    WHERE about.imported_at IS NULL OR about.imported_at < told.occurred_at;
END $$;
