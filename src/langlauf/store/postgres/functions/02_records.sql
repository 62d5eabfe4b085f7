-- Views of the records where a table has another shape, and the composite types of the functions. All views are security
-- invoker: row-level security of the reader applies.

-- All columns of a job, without naming them; ids and values that are stored in a shorter form are expanded.
DO $$
BEGIN
    EXECUTE (
        SELECT 'CREATE VIEW jobs WITH (security_invoker = true) AS SELECT coalesce(job_name, job::text) AS job_id,
            coalesce(result_name, result::text) AS result_id, encode(payload_hash, ''hex'') AS request_payload_hash,
            coalesce(payload_ref, ''inline:'') AS request_payload_ref, coalesce(partial_bytes, 0) AS partial_bytes,
            coalesce(trace_name, replace(trace::text, ''-'', '''')) AS trace_id, coalesce(request_name, request::text) AS request_id,
            coalesce(updated_at, finished_at) AS updated_at, coalesce(attempt_started_at, started_at) AS attempt_started_at,
            CASE WHEN status <> ''completed'' THEN paced_at END AS paced_at,
            CASE WHEN status = ''completed'' AND imported_at IS NULL THEN 0 ELSE estimated_seconds END AS estimated_seconds,
            (SELECT first.input FROM event_rows AS first WHERE first.job = job_rows.job AND first.event_seq = 1) AS payload, '
            || string_agg(attname, ', ' ORDER BY attnum) || ' FROM job_rows'
        FROM pg_attribute WHERE attrelid = 'job_rows'::regclass AND attnum > 0 AND NOT attisdropped
            AND attname NOT IN ('job_name', 'result_name', 'payload_hash', 'payload_ref', 'partial_bytes', 'trace', 'trace_name',
                'request', 'request_name', 'updated_at', 'attempt_started_at', 'paced_at', 'estimated_seconds'));
    EXECUTE (
        SELECT string_agg(format('ALTER VIEW jobs ALTER %I SET DEFAULT %s', attname, pg_get_expr(adbin, adrelid)), ';')
        FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum WHERE adrelid = 'job_rows'::regclass);
END $$;

CREATE VIEW job_inputs WITH (security_invoker = true) AS
SELECT job.org_id, job.job_id, job.queued_at, first.input AS payload, job.job
FROM jobs AS job JOIN event_rows AS first ON first.job = job.job AND first.org_id = job.org_id
WHERE first.event_seq = 1 AND first.input IS NOT NULL;

CREATE VIEW leases WITH (security_invoker = true) AS
SELECT org_id, job_id, attempt, worker_id, lease_expires_at AS expires_at, deadline_at, claim_id, job FROM jobs WHERE deadline_at > 0;

-- `verify` reports an event without its job. A payload that is not stored is derived from the job.
CREATE VIEW job_events WITH (security_invoker = true) AS
SELECT event.org_id, coalesce(job.job_name, event.job::text) AS job_id, event.event_seq,
    coalesce(event.event_id, event_id_of(coalesce(job.job_name, event.job::text), event.event_seq)) AS event_id,
    event.event_type, event.occurred_at, coalesce(event.actor_type, 'worker') AS actor_type,
    coalesce(event.payload_json, CASE event.event_type
        WHEN 'job.queued' THEN '{"analysis":' || json_string(job.analysis) || '}'
        WHEN 'job.running' THEN '{"attempt":1}'
        WHEN 'job.completed' THEN '{"result_id":' || json_string(coalesce(job.result_name, job.result::text)) || ',"result_seq":'
            || job.partial_count + 1 || ',"progress_percent":100}' END, '{}') AS payload_json,
    coalesce(event.trace_id, job.trace_name, replace(job.trace::text, '-', ''), '') AS trace_id,
    coalesce(event.request_id, job.request_name, job.request::text, '') AS request_id,
    event.feed_mark, event.job
FROM event_rows AS event LEFT JOIN job_rows AS job ON job.job = event.job AND job.org_id = event.org_id
WHERE event.event_type IS NOT NULL;

CREATE VIEW job_results WITH (security_invoker = true) AS
SELECT org_id, coalesce(result_name, result::text) AS result_id,
    coalesce((SELECT job.job_name FROM job_rows AS job WHERE job.job = result_rows.job), job::text) AS job_id, result_kind, result_seq,
    schema_version, coalesce(payload_ref, 'inline:') AS result_payload_ref, created_at, summary_json, removed_at, payload, views,
    schema_text, job, result
FROM result_rows;

-- The in-app message about a job's end. Its id is the job's with 4 as the UUID version. Jobs that had ended when they were
-- imported have the messages of their store.
CREATE VIEW messages WITH (security_invoker = true) AS
SELECT org_id, message_id_of(job_id) AS notification_id, job_id, 'in_app'::text AS channel, 'async.job.' || status AS template_key,
    'pending'::text AS delivery_status, 0 AS attempt_count, NULL::text AS last_error,
    (job_id || ':in_app:async.job.' || status) COLLATE "C" AS dedupe_key, finished_at AS scheduled_at, NULL::bigint AS sent_at,
    finished_at AS created_at,
    '{"job_id":' || json_string(job_id) || ',"status":' || json_string(status) || ',"result_id":' || json_string(result_id) || ',"progress_percent":'
        || progress_percent || ',"error_code":' || json_string(error_code) || ',"retry_hint":' || json_string(retry_hint) || ',"finished_at":"'
        || time_text(finished_at) || '"}' AS payload_json,
    read_at, NULL::text COLLATE "C" AS endpoint_id, NULL::text AS target, NULL::text COLLATE "C" AS lane,
    NULL::bigint AS claimed_until, 0 AS tries_from, job
FROM jobs
WHERE status IN ('completed', 'failed') AND (imported_at IS NULL OR imported_at < finished_at);

CREATE VIEW notifications WITH (security_invoker = true) AS
SELECT {notification_names} FROM outbox
UNION ALL
SELECT {notification_names} FROM messages;

-- Inserts into these views, for copies and imports: what belongs to the job is written to its row, what is derived from it is
-- dropped, and a row without its job is refused.
CREATE OR REPLACE FUNCTION insert_record() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    key CONSTANT uuid := key_of(NEW.job_id);
    name CONSTANT text := CASE WHEN key::text <> NEW.job_id THEN NEW.job_id END;
BEGIN
    IF TG_TABLE_NAME = 'jobs' THEN
        INSERT INTO job_rows SELECT row.* FROM jsonb_populate_record(NULL::job_rows, to_jsonb(NEW) || jsonb_build_object(
            'job', key, 'job_name', name, 'result', key_of(NEW.result_id),
            'result_name', CASE WHEN key_of(NEW.result_id)::text <> NEW.result_id THEN NEW.result_id END,
            'payload_hash', '\x' || NEW.request_payload_hash, 'payload_ref', nullif(NEW.request_payload_ref, 'inline:'),
            'partial_bytes', nullif(NEW.partial_bytes, 0), 'trace', hex_key(NEW.trace_id),
            'trace_name', CASE WHEN hex_key(NEW.trace_id) IS NULL THEN NEW.trace_id END, 'request', uuid_of(NEW.request_id),
            'request_name', CASE WHEN uuid_of(NEW.request_id) IS NULL THEN NEW.request_id END)) AS row;
    ELSIF TG_TABLE_NAME = 'job_inputs' THEN
        INSERT INTO event_rows AS first (org_id, job, event_seq, occurred_at, actor_type, input)
        SELECT org_id, job, 1, queued_at, 'user', NEW.payload FROM job_rows WHERE job = key AND org_id = NEW.org_id
        ON CONFLICT (job, event_seq) DO UPDATE SET input = excluded.input WHERE first.input IS NULL;
    ELSIF TG_TABLE_NAME = 'leases' THEN
        UPDATE job_rows SET worker_id = NEW.worker_id, lease_expires_at = NEW.expires_at, deadline_at = NEW.deadline_at
        WHERE job = key AND org_id = NEW.org_id AND attempt = NEW.attempt;
    ELSIF TG_TABLE_NAME = 'job_events' THEN
        INSERT INTO event_rows AS first (org_id, job, event_seq, event_id, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
        SELECT NEW.org_id, key, NEW.event_seq, nullif(NEW.event_id, event_id_of(NEW.job_id, NEW.event_seq)), NEW.event_type,
            NEW.occurred_at, NEW.actor_type, NEW.payload_json, nullif(NEW.trace_id, job.trace_id), nullif(NEW.request_id, job.request_id)
        FROM (SELECT 1) AS one LEFT JOIN jobs AS job ON job.job = key AND job.org_id = NEW.org_id
        -- The input may have been inserted before.
        ON CONFLICT (job, event_seq) DO UPDATE SET event_id = excluded.event_id, event_type = excluded.event_type,
            occurred_at = excluded.occurred_at, actor_type = excluded.actor_type, payload_json = excluded.payload_json,
            trace_id = excluded.trace_id, request_id = excluded.request_id
        WHERE first.event_type IS NULL;
    ELSIF TG_TABLE_NAME = 'job_results' THEN
        INSERT INTO result_rows (org_id, job, result, result_name, result_kind, result_seq, schema_version, payload_ref, created_at,
            summary_json, removed_at, payload, views, schema_text)
        SELECT NEW.org_id, key, key_of(NEW.result_id), CASE WHEN key_of(NEW.result_id)::text <> NEW.result_id THEN NEW.result_id END,
            NEW.result_kind, NEW.result_seq, NEW.schema_version, nullif(NEW.result_payload_ref, 'inline:'), NEW.created_at,
            NEW.summary_json, NEW.removed_at, NEW.payload, NEW.views, NEW.schema_text;
    ELSIF EXISTS (SELECT 1 FROM messages WHERE job = key AND org_id = NEW.org_id AND notification_id = NEW.notification_id) THEN
        UPDATE job_rows SET read_at = NEW.read_at WHERE job = key AND org_id = NEW.org_id;
    ELSE
        NEW.attempt_count := coalesce(NEW.attempt_count, 0);
        NEW.tries_from := coalesce(NEW.tries_from, 0);
        INSERT INTO outbox SELECT NEW.*;
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a row of % without its job %', TG_TABLE_NAME, NEW.job_id USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER insert_into_jobs INSTEAD OF INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION insert_record();
CREATE TRIGGER insert_into_job_results INSTEAD OF INSERT ON job_results FOR EACH ROW EXECUTE FUNCTION insert_record();
CREATE TRIGGER insert_into_job_inputs INSTEAD OF INSERT ON job_inputs FOR EACH ROW EXECUTE FUNCTION insert_record();
CREATE TRIGGER insert_into_leases INSTEAD OF INSERT ON leases FOR EACH ROW EXECUTE FUNCTION insert_record();
CREATE TRIGGER insert_into_job_events INSTEAD OF INSERT ON job_events FOR EACH ROW EXECUTE FUNCTION insert_record();
CREATE TRIGGER insert_into_notifications INSTEAD OF INSERT ON notifications FOR EACH ROW EXECUTE FUNCTION insert_record();

CREATE VIEW job_views WITH (security_invoker = true) AS
SELECT {job_names}, lease_expires_at, job, result FROM jobs;

-- A claimed job with all that a worker needs.
CREATE TYPE claimed AS (
    org_id text, job_id text, attempt integer, analysis text, payload text, started_at bigint, expires_at bigint,
    timeout_seconds float8, progress_percent integer, retry_count integer, max_retries integer, trace_id text,
    request_id text, traceparent text, tracestate text, planned_at bigint
);

-- The state of one claim: free slots in all, by analysis and by org. A NULL room has no limit.
CREATE TYPE claim_state AS (
    slots      integer,
    names      text[],
    rooms      integer[],
    org_limit  integer,
    orgs       text[],
    org_counts integer[],
    -- expired leases that are not swept yet, whose jobs will need a slot
    lost_orgs  text[],
    lost_names text[],
    -- the virtual clock, and from when on leases are counted one by one
    clock      bigint,
    look_at    bigint,
    -- orgs whose lanes are locked; whether any has released or lost jobs, and due retries
    held       text[],
    backs      boolean,
    dues       boolean,
    -- orgs with jobs whose time has come, or that should have started by now
    timed      text[],
    -- lanes of single orgs that are paused, as org and analysis; NULL where there are none
    paused     text[],
    -- the code that the worker runs, by analysis
    coded      text[],
    codes      bigint[],
    -- whether another pass may find more
    again      boolean,
    -- claimed so far
    claims     claimed[]
);

-- A snapshot without its payload.
CREATE VIEW snapshots WITH (security_invoker = true) AS
SELECT org_id, result_id, job_id, result_kind, result_seq, schema_version, result_payload_ref, created_at, summary_json, removed_at
FROM job_results;

-- One entry of an org's history.
CREATE TYPE history_entry AS (result_id text, job_id text, created_at bigint, status text, payload text);

-- A key without its hash.
CREATE VIEW key_views WITH (security_invoker = true) AS
SELECT key_id, org_id, name, scopes, created_at, expires_at, revoked_at, last_used_at FROM api_keys;

-- What estimates need of lanes and running jobs.
CREATE TYPE lane_load AS (org_id text, analysis text, waiting integer, virtual_start bigint);

CREATE TYPE run_load AS (
    org_id text, analysis text, started_at bigint, percent integer, paced_percent integer, paced_at bigint, progress_at bigint
);

-- Every object of the schema with its definition as the database words it.
CREATE VIEW schema_objects WITH (security_invoker = true) AS
WITH mine AS (SELECT 'langlauf'::regnamespace AS schema)
SELECT CASE relkind WHEN 'v' THEN 'view' WHEN 'c' THEN 'type' ELSE 'table' END AS kind, relname::text AS name,
    concat_ws(' ', relkind, relpersistence, relrowsecurity, relforcerowsecurity, reloptions,
        CASE relkind WHEN 'v' THEN pg_get_viewdef(oid) END) AS definition
FROM pg_class, mine WHERE relnamespace = schema AND relkind IN ('r', 'p', 'v', 'c')
UNION ALL
SELECT 'column', relname || '.' || attname, concat_ws(' ', format_type(atttypid, atttypmod), attnotnull,
    (SELECT collname FROM pg_collation WHERE pg_collation.oid = attcollation), pg_get_expr(adbin, adrelid))
FROM mine JOIN pg_class ON relnamespace = schema JOIN pg_attribute ON attrelid = pg_class.oid
LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE relkind IN ('r', 'p', 'c') AND attnum > 0 AND NOT attisdropped
UNION ALL
SELECT 'constraint', relname || '.' || conname, pg_get_constraintdef(pg_constraint.oid)
FROM mine JOIN pg_constraint ON connamespace = schema JOIN pg_class ON pg_class.oid = conrelid
UNION ALL
SELECT 'index', relname::text, pg_get_indexdef(pg_class.oid)
FROM pg_class, mine WHERE relnamespace = schema AND relkind IN ('i', 'I')
UNION ALL
SELECT 'trigger', relname || '.' || tgname, tgenabled::text || ' ' || pg_get_triggerdef(pg_trigger.oid)
FROM mine JOIN pg_class ON relnamespace = schema JOIN pg_trigger ON tgrelid = pg_class.oid WHERE NOT tgisinternal
UNION ALL
SELECT 'function', pg_proc.oid::regprocedure::text, concat_ws(' ', lanname, prosecdef, provolatile, proisstrict, proconfig,
    pg_get_function_arguments(pg_proc.oid), pg_get_function_result(pg_proc.oid), prosrc)
FROM mine JOIN pg_proc ON pronamespace = schema JOIN pg_language ON pg_language.oid = prolang
UNION ALL
SELECT 'policy', relname || '.' || polname, concat_ws(' ', polcmd, polpermissive, polroles::regrole[],
    pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))
FROM mine JOIN pg_class ON relnamespace = schema JOIN pg_policy ON polrelid = pg_class.oid;

CREATE TYPE retirable AS (
    finished_at bigint, org_id text, job_id text, rows bigint, bytes bigint, leaves_none boolean, delivery_pending boolean);

-- Rows of the overview.
CREATE TYPE ended_job AS (
    org_id text, analysis text, status text, queued_at bigint, started_at bigint, finished_at bigint, error_code text, job_id text
);

-- Lanes with waiting jobs, and since when the first of them waits.
CREATE VIEW queues WITH (security_invoker = true) AS
SELECT lane.org_id, lane.analysis, lane.waiting, (
    SELECT min(first.queued_at)
    FROM (VALUES ('expedite', lane.expedite_head), ('default', lane.default_head)) AS class (name, head)
    CROSS JOIN LATERAL (
        SELECT job.queued_at FROM job_rows AS job
        WHERE job.org_id = lane.org_id AND job.analysis = lane.analysis AND job.priority_class = class.name
          AND job.ticket > class.head AND job.started_at IS NULL AND job.finished_at IS NULL
        ORDER BY job.ticket LIMIT 1) AS first) AS oldest_at
FROM lanes AS lane WHERE lane.waiting > 0;

-- Jobs that have started and not ended: leased, or waiting for another attempt.
CREATE VIEW jobs_underway WITH (security_invoker = true) AS
SELECT org_id, job_id, analysis, queued_at, started_at, cancel_requested_at, next_attempt_at, lease_expires_at AS lease_until
FROM jobs WHERE deadline_at > 0
UNION ALL
SELECT org_id, job_id, analysis, queued_at, started_at, cancel_requested_at, next_attempt_at, NULL
FROM jobs WHERE next_attempt_at IS NOT NULL;

-- An endpoint with the failures of its lane.
CREATE VIEW endpoint_views WITH (security_invoker = true) AS
SELECT endpoint.org_id, endpoint.endpoint_id, endpoint.url, endpoint.name, endpoint.subjects, endpoint.created_at, endpoint.version,
    endpoint.former_until, endpoint.disabled_at, endpoint.disabled_reason, coalesce(trouble.failures, 0) AS failures,
    trouble.failing_since, trouble.paused_until
FROM webhook_endpoints AS endpoint
LEFT JOIN delivery_lanes AS trouble ON trouble.org_id = endpoint.org_id AND trouble.lane = endpoint.endpoint_id;

