-- The records as people and tools know them, where a table is not shaped like them, and the types that functions speak in.
-- Whoever reads a view sees what it may see of the tables.

CREATE VIEW job_inputs WITH (security_invoker = true) AS
SELECT org_id, job_id, queued_at, payload FROM jobs WHERE payload IS NOT NULL;

CREATE VIEW leases WITH (security_invoker = true) AS
SELECT org_id, job_id, attempt, worker_id, lease_expires_at AS expires_at, deadline_at, claim_id FROM jobs WHERE deadline_at > 0;

-- An event without its job has no trace of its own: `verify` tells of it.
CREATE VIEW job_events WITH (security_invoker = true) AS
SELECT event.org_id, event.job_id, event.event_seq, coalesce(event.event_id, event_id_of(event.job_id, event.event_seq)) AS event_id,
    event.event_type, event.occurred_at, event.actor_type, event.payload_json,
    coalesce(event.trace_id, job.trace_id, '') AS trace_id, coalesce(event.request_id, job.request_id, '') AS request_id,
    event.feed_mark
FROM event_rows AS event LEFT JOIN jobs AS job ON job.job_id = event.job_id AND job.org_id = event.org_id;

-- What people are told of the end of a job: its id is the job's, with 4 where the version of the UUID stands. Jobs that had ended
-- when they were brought here have what their store said of them.
CREATE VIEW messages WITH (security_invoker = true) AS
SELECT org_id, message_id_of(job_id) AS notification_id, job_id, 'in_app'::text AS channel, 'async.job.' || status AS template_key,
    'pending'::text AS delivery_status, 0 AS attempt_count, NULL::text AS last_error,
    (job_id || ':in_app:async.job.' || status) COLLATE "C" AS dedupe_key, finished_at AS scheduled_at, NULL::bigint AS sent_at,
    finished_at AS created_at,
    '{"job_id":' || said(job_id) || ',"status":' || said(status) || ',"result_id":' || said(result_id) || ',"progress_percent":'
        || progress_percent || ',"error_code":' || said(error_code) || ',"retry_hint":' || said(retry_hint) || ',"finished_at":"'
        || time_text(finished_at) || '"}' AS payload_json,
    read_at, NULL::text COLLATE "C" AS endpoint_id, NULL::text AS target, NULL::text COLLATE "C" AS lane,
    NULL::bigint AS claimed_until, 0 AS tries_from
FROM jobs
WHERE status IN ('completed', 'failed') AND (imported_at IS NULL OR imported_at < finished_at);

CREATE VIEW notifications WITH (security_invoker = true) AS
SELECT org_id, notification_id, job_id, channel, template_key, delivery_status, attempt_count, last_error, dedupe_key, scheduled_at,
    sent_at, created_at, payload_json, read_at, endpoint_id, target, lane, claimed_until, tries_from
FROM outbox
UNION ALL
SELECT * FROM messages;

-- Rows of these views that come from elsewhere: what is a part of its job goes there, and what follows from it goes nowhere. One
-- whose job is not there is refused, as nobody would see it.
CREATE OR REPLACE FUNCTION take_record() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'job_inputs' THEN
        UPDATE jobs SET payload = NEW.payload WHERE job_id = NEW.job_id AND org_id = NEW.org_id AND payload IS NULL;
    ELSIF TG_TABLE_NAME = 'leases' THEN
        UPDATE jobs SET worker_id = NEW.worker_id, lease_expires_at = NEW.expires_at, deadline_at = NEW.deadline_at
        WHERE job_id = NEW.job_id AND org_id = NEW.org_id AND attempt = NEW.attempt;
    ELSIF TG_TABLE_NAME = 'job_events' THEN
        INSERT INTO event_rows (org_id, job_id, event_seq, event_id, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
        SELECT NEW.org_id, NEW.job_id, NEW.event_seq, nullif(NEW.event_id, event_id_of(NEW.job_id, NEW.event_seq)), NEW.event_type,
            NEW.occurred_at, NEW.actor_type, NEW.payload_json, nullif(NEW.trace_id, job.trace_id), nullif(NEW.request_id, job.request_id)
        FROM (SELECT 1) AS one LEFT JOIN jobs AS job ON job.job_id = NEW.job_id AND job.org_id = NEW.org_id;
    ELSIF EXISTS (SELECT 1 FROM messages WHERE job_id = NEW.job_id AND org_id = NEW.org_id AND notification_id = NEW.notification_id) THEN
        UPDATE jobs SET read_at = NEW.read_at WHERE job_id = NEW.job_id AND org_id = NEW.org_id;
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

CREATE TRIGGER job_inputs_are_taken INSTEAD OF INSERT ON job_inputs FOR EACH ROW EXECUTE FUNCTION take_record();
CREATE TRIGGER leases_are_taken INSTEAD OF INSERT ON leases FOR EACH ROW EXECUTE FUNCTION take_record();
CREATE TRIGGER job_events_are_taken INSTEAD OF INSERT ON job_events FOR EACH ROW EXECUTE FUNCTION take_record();
CREATE TRIGGER notifications_are_taken INSTEAD OF INSERT ON notifications FOR EACH ROW EXECUTE FUNCTION take_record();

-- And what it is to remove one: a part of a job goes, never the job.
CREATE OR REPLACE FUNCTION drop_record() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'job_inputs' THEN
        UPDATE jobs SET payload = NULL WHERE job_id = OLD.job_id AND org_id = OLD.org_id;
    ELSIF TG_TABLE_NAME = 'leases' THEN
        UPDATE jobs SET worker_id = NULL, lease_expires_at = NULL, deadline_at = NULL, claim_id = NULL
        WHERE job_id = OLD.job_id AND org_id = OLD.org_id;
    ELSIF TG_TABLE_NAME = 'job_events' THEN
        DELETE FROM event_rows WHERE job_id = OLD.job_id AND event_seq = OLD.event_seq;
    ELSE
        DELETE FROM outbox WHERE notification_id = OLD.notification_id AND org_id = OLD.org_id;
    END IF;
    RETURN OLD;
END $$;

CREATE TRIGGER job_inputs_are_dropped INSTEAD OF DELETE ON job_inputs FOR EACH ROW EXECUTE FUNCTION drop_record();
CREATE TRIGGER leases_are_dropped INSTEAD OF DELETE ON leases FOR EACH ROW EXECUTE FUNCTION drop_record();
CREATE TRIGGER job_events_are_dropped INSTEAD OF DELETE ON job_events FOR EACH ROW EXECUTE FUNCTION drop_record();
CREATE TRIGGER notifications_are_dropped INSTEAD OF DELETE ON notifications FOR EACH ROW EXECUTE FUNCTION drop_record();

-- A job as it is read.
CREATE VIEW job_views WITH (security_invoker = true) AS
SELECT {job_names}, lease_expires_at FROM jobs;

-- Handing out jobs under a lease, and keeping the leases alive.
--
-- Claims take turns: they lock the virtual clock first, then lanes in the order of their names, so that limits hold over
-- all hosts and nobody waits in a circle. Lanes are waited for once, all at the same time; of others that turn out to be of
-- use, those that are busy are left: whoever has them wakes workers. Job rows are never waited for: one that is being canceled
-- is skipped.
-- What a claim gave out, with all that a worker needs.
CREATE TYPE claimed AS (
    org_id text, job_id text, attempt integer, analysis text, payload text, started_at bigint, expires_at bigint,
    timeout_seconds float8, progress_percent integer, retry_count integer, max_retries integer, trace_id text,
    request_id text, traceparent text, tracestate text
);

-- The free slots of one claim: over all, of the analyses it may start, of orgs. A room that is NULL has no limit.
CREATE TYPE room AS (
    slots      integer,
    names      text[],
    rooms      integer[],
    org_limit  integer,
    orgs       text[],
    org_counts integer[],
    -- of leases that are over and not swept yet, whose jobs will want a slot
    lost_orgs  text[],
    lost_names text[],
    -- where the virtual clock stands, and from when on leases are looked at one by one
    clock      bigint,
    look_at    bigint,
    -- whose lanes this claim has locked; whether in any of them something was given back, and whether retries are due
    held       text[],
    backs      boolean,
    dues       boolean,
    -- something could not be taken, or was not as it seemed: it is worth looking further
    again      boolean,
    -- what was taken so far
    claims     claimed[]
);

-- How attempts and jobs end: one implementation, whoever ends them. Whoever takes the lease away, and nobody else, writes the
-- end. Locks are taken in one order everywhere: leases, then jobs, then lanes, and of each in the order of their keys, so that
-- nobody waits in a circle.
-- One end to write. Which of the fields are set depends on the outcome.
CREATE TYPE ending AS (
    place      bigint,
    org_id     text,
    job_id     text,
    attempt    integer,
    -- completed, failed, retry, lost, released or canceled; crashed is decided upon before it is written
    outcome    text,
    actor      text,
    code       text,
    message    text,
    meta       text,
    retryable  boolean,
    hint       text,
    delay      bigint,
    timed_out  boolean,
    -- what the event of a timeout says
    threshold  text,
    lost       integer,
    crashed    integer,
    crash      text,
    own        boolean,
    canceled_by text,
    reason     text,
    -- whether the attempt ends itself, and must hold its lease to do so; whether there is a lease to give up
    fenced     boolean,
    leased     boolean,
    -- of one that completed
    result_id  text,
    payload    text,
    ref        text,
    summary    text,
    views      text
);

-- Every read of tenant data: one function each, so that one round trip is one statement on one snapshot. Each says first
-- whose rows it is after, for the security of rows, and names the org in its queries all the same.
--
-- A list walks along the inputs, which have the order of time and one version each, so many at a time: however few jobs fit
-- a filter, a call looks at no more of them than it was told to. `OFFSET 0` keeps a look-up by key what it is: on a table that
-- is still empty the planner would as soon read all rows of an org for each of them, and keep to it while the table grows.
-- A snapshot without its payload, which is not read where nobody asked for it.
CREATE VIEW snapshots WITH (security_invoker = true) AS
SELECT org_id, result_id, job_id, result_kind, result_seq, schema_version, result_payload_ref, created_at, summary_json, removed_at
FROM job_results;

-- One line of an org's history.
CREATE TYPE history_entry AS (result_id text, job_id text, created_at bigint, status text, payload text);

-- Keys of orgs, what signatures are made with, and what is looked at over all orgs.
-- A key as its org's admins see it: without its hash.
CREATE VIEW key_views WITH (security_invoker = true) AS
SELECT key_id, org_id, name, scopes, created_at, expires_at, revoked_at, last_used_at FROM api_keys;

-- What waits in a lane, and what runs, as far as estimates need it.
CREATE TYPE lane_load AS (org_id text, analysis text, waiting integer, virtual_start bigint);

CREATE TYPE run_load AS (
    org_id text, analysis text, started_at bigint, percent integer, paced_percent integer, paced_at bigint, progress_at bigint
);

-- Keeping a store: removing what is old, telling what its schema is, and rebuilding what is counted.
-- What the schema is: every object with its definition, in words that the database itself chooses.
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

-- What figures are made of.
CREATE TYPE ended_job AS (
    org_id text, analysis text, status text, queued_at bigint, started_at bigint, finished_at bigint, error_code text, job_id text
);

CREATE TYPE queue_seen AS (org_id text, analysis text, waiting integer, oldest_at bigint);

CREATE TYPE job_underway AS (
    org_id text, job_id text, analysis text, queued_at bigint, started_at bigint, cancel_requested_at bigint,
    next_attempt_at bigint, lease_until bigint
);

-- An endpoint as it is read, with how its lane is doing.
CREATE VIEW endpoint_views WITH (security_invoker = true) AS
SELECT endpoint.org_id, endpoint.endpoint_id, endpoint.url, endpoint.name, endpoint.subjects, endpoint.created_at, endpoint.version,
    endpoint.former_until, endpoint.disabled_at, endpoint.disabled_reason, coalesce(trouble.failures, 0) AS failures,
    trouble.failing_since, trouble.paused_until
FROM webhook_endpoints AS endpoint
LEFT JOIN delivery_lanes AS trouble ON trouble.org_id = endpoint.org_id AND trouble.lane = endpoint.endpoint_id;

