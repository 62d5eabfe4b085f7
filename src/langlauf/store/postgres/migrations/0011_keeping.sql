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

-- The same as it was when the last migration was done, for `verify`: what nobody meant to change is told.
CREATE TABLE schema_made (
    kind   text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    digest text    NOT NULL,
    server integer NOT NULL,
    PRIMARY KEY (kind, name)
);

CREATE FUNCTION digest_of(words text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT encode(sha256(convert_to(words, 'UTF8')), 'hex')
$$;

CREATE FUNCTION note_schema() RETURNS void LANGUAGE sql AS $$
    DELETE FROM schema_made;
    INSERT INTO schema_made (kind, name, digest, server)
    SELECT kind, name, digest_of(definition), current_setting('server_version_num')::integer / 10000 FROM schema_objects;
$$;

-- Whether a text is JSON. The text alone decides, not what it could be stored as.
CREATE FUNCTION is_json(words text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM words::json;
    RETURN true;
EXCEPTION WHEN invalid_text_representation THEN
    RETURN false;
END $$;

-- Retention. Each kind has a function that finds old jobs page by page, and one that takes from some of them. The finders tell:
-- how many rows would go, how many bytes they hold, whether nothing of the kind would be left, and whether a delivery is
-- pending, which keeps everything of the job. An in_app message is a record and not a delivery: it stays pending for ever.
--
-- A job leaves these indexes with its parts, so that what was taken is not walked over again.
CREATE INDEX idx_jobs_results_kept ON jobs (finished_at, org_id, job_id)
    WHERE finished_at IS NOT NULL AND result_id IS NOT NULL AND result_expired_at IS NULL;
CREATE INDEX idx_jobs_events_kept ON jobs (finished_at, org_id, job_id) WHERE finished_at IS NOT NULL AND events_expired_at IS NULL;

CREATE TYPE retirable AS (
    finished_at bigint, org_id text, job_id text, rows bigint, bytes bigint, leaves_none boolean, delivery_pending boolean);

CREATE FUNCTION delivers(org text, job text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT 1 FROM notifications
        WHERE org_id = org AND job_id = job AND channel <> 'in_app' AND delivery_status = 'pending');
END $$;

-- Until when a snapshot is kept. A partial is not kept longer than the final that followed it: the job would show a result
-- that it no longer has.
CREATE FUNCTION cutoff_of(kind text, status text, finals bigint, partials bigint, completed bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN kind = 'final' THEN finals WHEN status = 'completed' THEN completed ELSE partials END
$$;

CREATE FUNCTION retirable_results(
    cutoff bigint, after_time bigint, after_org text, after_job text, most integer, finals bigint, partials bigint, completed bigint
) RETURNS SETOF retirable LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT job.finished_at, job.org_id::text, job.job_id::text, parts.due, parts.bytes, parts.left_over = 0, delivers(job.org_id, job.job_id)
    FROM (
        SELECT * FROM jobs
        WHERE finished_at IS NOT NULL AND result_id IS NOT NULL AND result_expired_at IS NULL
          AND finished_at <= cutoff AND (finished_at, org_id, job_id) > (after_time, after_org, after_job)
        ORDER BY finished_at, org_id, job_id LIMIT most) AS job
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE goes) AS due, count(*) FILTER (WHERE NOT goes) AS left_over,
            coalesce(sum(octet_length(payload)), 0)::bigint AS bytes
        FROM (
            SELECT payload, job.finished_at <= cutoff_of(result_kind, job.status, finals, partials, completed) AS goes
            FROM job_results
            WHERE job_results.job_id = job.job_id AND job_results.org_id = job.org_id AND removed_at IS NULL) AS result) AS parts
    ORDER BY job.finished_at, job.org_id, job.job_id;
END $$;

CREATE FUNCTION retirable_events(cutoff bigint, after_time bigint, after_org text, after_job text, most integer)
RETURNS SETOF retirable LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT job.finished_at, job.org_id::text, job.job_id::text,
        (SELECT count(*) FROM job_events AS event WHERE event.job_id = job.job_id AND event.org_id = job.org_id),
        0::bigint, true, delivers(job.org_id, job.job_id)
    FROM (
        SELECT * FROM jobs
        WHERE finished_at IS NOT NULL AND events_expired_at IS NULL
          AND finished_at <= cutoff AND (finished_at, org_id, job_id) > (after_time, after_org, after_job)
        ORDER BY finished_at, org_id, job_id LIMIT most) AS job
    ORDER BY job.finished_at, job.org_id, job.job_id;
END $$;

-- The rows that go are the records themselves; their weight is in what they take along.
CREATE FUNCTION retirable_jobs(cutoff bigint, after_time bigint, after_org text, after_job text, most integer)
RETURNS SETOF retirable LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT job.finished_at, job.org_id::text, job.job_id::text, 1::bigint,
        (SELECT coalesce(sum(octet_length(chunk.payload)), 0)::bigint FROM job_chunks AS chunk
         WHERE chunk.job_id = job.job_id AND chunk.org_id = job.org_id),
        true, delivers(job.org_id, job.job_id)
    FROM (
        SELECT * FROM jobs
        WHERE finished_at IS NOT NULL AND finished_at <= cutoff AND (finished_at, org_id, job_id) > (after_time, after_org, after_job)
        ORDER BY finished_at, org_id, job_id LIMIT most) AS job
    ORDER BY job.finished_at, job.org_id, job.job_id;
END $$;

-- Locks those of some jobs from which something may go, and gives them: asked again by whoever takes, because a page may be
-- older than a change. What another host has in hand is left to it.
CREATE FUNCTION may_retire(org_ids text[], job_ids text[], cutoff bigint, OUT orgs text[], OUT ids text[]) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    SELECT coalesce(array_agg(due.org_id), '{}'), coalesce(array_agg(due.job_id), '{}') INTO orgs, ids FROM (
        SELECT job.org_id, job.job_id FROM jobs AS job
        JOIN unnest(org_ids, job_ids) AS named (org_id, job_id) ON job.job_id = named.job_id AND job.org_id = named.org_id
        WHERE job.finished_at <= cutoff AND NOT delivers(job.org_id, job.job_id)
        ORDER BY job.job_id, job.org_id FOR UPDATE OF job SKIP LOCKED) AS due;
END $$;

-- What is left says that there was a result: its id, its org and when it went.
CREATE FUNCTION retire_results(
    at bigint, org_ids text[], job_ids text[], cutoff bigint, finals bigint, partials bigint, completed bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now bigint := moment(at);
    orgs text[];
    ids text[];
    removed bigint;
BEGIN
    SELECT may.orgs, may.ids INTO orgs, ids FROM may_retire(org_ids, job_ids, cutoff) AS may;
    UPDATE job_results AS result SET removed_at = now, payload = NULL, summary_json = NULL
    FROM unnest(orgs, ids) AS old (org_id, job_id) JOIN jobs AS job ON job.job_id = old.job_id AND job.org_id = old.org_id
    WHERE result.job_id = old.job_id AND result.org_id = old.org_id AND result.removed_at IS NULL
      AND job.finished_at <= cutoff_of(result.result_kind, job.status, finals, partials, completed);
    GET DIAGNOSTICS removed = ROW_COUNT;
    UPDATE jobs SET result_expired_at = now FROM unnest(orgs, ids) AS old (org_id, job_id)
    WHERE jobs.job_id = old.job_id AND jobs.org_id = old.org_id AND result_expired_at IS NULL AND finished_at IS NOT NULL
      AND NOT EXISTS (
          SELECT 1 FROM job_results AS result
          WHERE result.job_id = old.job_id AND result.org_id = old.org_id AND result.removed_at IS NULL);
    RETURN removed;
END $$;

CREATE FUNCTION retire_events(at bigint, org_ids text[], job_ids text[], cutoff bigint) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    orgs text[];
    ids text[];
    removed bigint;
BEGIN
    SELECT may.orgs, may.ids INTO orgs, ids FROM may_retire(org_ids, job_ids, cutoff) AS may;
    DELETE FROM job_events AS event USING unnest(orgs, ids) AS old (org_id, job_id)
    WHERE event.job_id = old.job_id AND event.org_id = old.org_id;
    GET DIAGNOSTICS removed = ROW_COUNT;
    UPDATE jobs SET events_expired_at = moment(at) FROM unnest(orgs, ids) AS old (org_id, job_id)
    WHERE jobs.job_id = old.job_id AND jobs.org_id = old.org_id AND events_expired_at IS NULL AND finished_at IS NOT NULL;
    RETURN removed;
END $$;

-- A job goes with its input, log, snapshots, tombstones, messages, chunks and key.
CREATE FUNCTION retire_jobs(at bigint, org_ids text[], job_ids text[], cutoff bigint) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    orgs text[];
    ids text[];
    removed bigint;
BEGIN
    SELECT may.orgs, may.ids INTO orgs, ids FROM may_retire(org_ids, job_ids, cutoff) AS may;
    DELETE FROM job_inputs AS part USING unnest(orgs, ids) AS old (org_id, job_id) WHERE part.job_id = old.job_id AND part.org_id = old.org_id;
    DELETE FROM job_events AS part USING unnest(orgs, ids) AS old (org_id, job_id) WHERE part.job_id = old.job_id AND part.org_id = old.org_id;
    DELETE FROM job_results AS part USING unnest(orgs, ids) AS old (org_id, job_id) WHERE part.job_id = old.job_id AND part.org_id = old.org_id;
    DELETE FROM notifications AS part USING unnest(orgs, ids) AS old (org_id, job_id) WHERE part.job_id = old.job_id AND part.org_id = old.org_id;
    DELETE FROM job_chunks AS part USING unnest(orgs, ids) AS old (org_id, job_id) WHERE part.job_id = old.job_id AND part.org_id = old.org_id;
    DELETE FROM idempotency_keys AS part USING unnest(orgs, ids) AS old (org_id, job_id) WHERE part.job_id = old.job_id AND part.org_id = old.org_id;
    DELETE FROM jobs USING unnest(orgs, ids) AS old (org_id, job_id)
    WHERE jobs.job_id = old.job_id AND jobs.org_id = old.org_id AND finished_at <= cutoff;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

-- Counts over whole tables, for the report.
CREATE FUNCTION count_ended(OUT ended bigint, OUT with_end bigint) LANGUAGE sql STABLE AS $$
    SELECT count(*) FILTER (WHERE status IN ('completed', 'failed', 'canceled')), count(finished_at) FROM jobs
$$;

CREATE FUNCTION count_kept(OUT results bigint, OUT events bigint) LANGUAGE sql STABLE AS $$
    SELECT (SELECT count(*) FROM job_results WHERE removed_at IS NULL), (SELECT count(*) FROM job_events)
$$;

SELECT plan_with(
    '{may_retire, retire_results, retire_events, retire_jobs}',
    'SET enable_bitmapscan = on SET enable_indexscan = off SET enable_indexonlyscan = off');
SELECT plan_with(
    '{delivers, retirable_results, retirable_events, retirable_jobs}',
    'SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');

-- Rebuilds lanes from their jobs: how many wait, with which tickets, and when the first that had started is due. For whoever
-- brings jobs past `submit`. A lane that had nothing waiting joins where the virtual clock stands.
CREATE FUNCTION recount_lanes(org_ids text[], names text[]) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    clock bigint := (SELECT virtual_now FROM lane_clock);
    analyses text[];
    changes bigint[];
BEGIN
    PERFORM lock_lanes(org_ids, names);
    WITH named AS (SELECT DISTINCT * FROM unnest(org_ids, names) AS lane (org_id, analysis)),
    turns AS (
        SELECT org_id, coalesce(max(virtual_start) FILTER (WHERE waiting > 0), greatest(clock, max(virtual_start))) AS turn,
            max(served) AS served
        FROM lanes WHERE org_id = ANY (org_ids) GROUP BY org_id),
    counted AS (
        SELECT org_id, analysis, count(*) FILTER (WHERE waits) AS waiting, min(next_attempt_at) AS due_at,
            min(ticket) FILTER (WHERE waits AND urgent) AS urgent_first, max(ticket) FILTER (WHERE waits AND urgent) AS urgent_last,
            min(ticket) FILTER (WHERE waits AND NOT urgent) AS first, max(ticket) FILTER (WHERE waits AND NOT urgent) AS last
        FROM (SELECT *, started_at IS NULL AS waits, priority_class = 'expedite' AS urgent FROM jobs WHERE finished_at IS NULL) AS job
        WHERE (org_id, analysis) IN (SELECT org_id, analysis FROM named) GROUP BY org_id, analysis),
    before AS (SELECT lanes.* FROM lanes JOIN named USING (org_id, analysis)),
    recounted AS (
        UPDATE lanes SET
            waiting = coalesce(counted.waiting, 0),
            due_at = counted.due_at,
            expedite_last = greatest(lanes.expedite_last, counted.urgent_last),
            expedite_head = coalesce(counted.urgent_first - 1, greatest(lanes.expedite_last, counted.urgent_last)),
            default_last = greatest(lanes.default_last, counted.last),
            default_head = coalesce(counted.first - 1, greatest(lanes.default_last, counted.last)),
            virtual_start = turns.turn, served = turns.served
        FROM named JOIN turns USING (org_id) LEFT JOIN counted USING (org_id, analysis)
        WHERE lanes.org_id = named.org_id AND lanes.analysis = named.analysis
        RETURNING lanes.org_id, lanes.analysis, lanes.waiting)
    SELECT array_agg(recounted.analysis), array_agg((recounted.waiting - before.waiting)::bigint) INTO analyses, changes
    FROM recounted JOIN before USING (org_id, analysis);
    PERFORM count_waiting(analyses, changes);
END $$;

-- While all of another store is being copied into this one, a row says from where and how far; nobody serves it then.
CREATE TABLE copying (
    only_row   integer PRIMARY KEY CHECK (only_row = 1),
    source     text NOT NULL,
    table_name text NOT NULL,
    position   text
);

-- From where a copy is under way, if one is.
CREATE FUNCTION copied_from() RETURNS text LANGUAGE sql STABLE AS $$ SELECT source FROM copying $$;
