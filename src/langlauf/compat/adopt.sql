-- What is asked of the table of an earlier system, and what is made for it. {table} and {schema} are its names, quoted.

-- name: relation
SELECT class.oid, class.relkind, class.relowner, pg_get_userbyid(class.relowner) AS owner,
    class.relforcerowsecurity AND NOT (holder.rolsuper OR holder.rolbypassrls) AS blind,
    quote_ident(space.nspname) AS schema, format('%I.%I', space.nspname, class.relname) AS table,
    EXISTS (
        SELECT FROM pg_depend AS uses JOIN pg_rewrite AS rule ON rule.oid = uses.objid
        WHERE rule.ev_class = class.oid AND uses.refobjid = to_regclass('langlauf.jobs')) AS ours,
    me.rolsuper OR has_schema_privilege(class.relowner, space.oid, 'CREATE') AS may_own
FROM pg_class AS class
JOIN pg_namespace AS space ON space.oid = class.relnamespace
JOIN pg_roles AS holder ON holder.oid = class.relowner
JOIN pg_roles AS me ON me.rolname = current_user
WHERE space.nspname = $1 AND class.relname = $2

-- name: columns
SELECT attname AS name, format_type(atttypid, atttypmod) AS type, attnotnull AS filled,
    atthasdef AS has_default, attgenerated <> '' OR attidentity <> '' AS made,
    col_description(attrelid, attnum) IS NOT NULL AS described
FROM pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped

-- name: checks
SELECT conname AS name, pg_get_expr(conbin, conrelid) AS expression,
    conkey = ARRAY(SELECT attnum FROM pg_attribute WHERE attrelid = conrelid AND attname = 'status') AS of_status
FROM pg_constraint WHERE conrelid = $1 AND contype = 'c' ORDER BY conname

-- name: strange_words
SELECT DISTINCT status::text AS word FROM {table} WHERE status::text <> ALL ($1::text[]) ORDER BY word LIMIT 10

-- name: indexes
SELECT class.relname AS name, coalesce(made.indrelid = $1 AND made.indisvalid AND NOT made.indisunique, false) AS usable,
    ARRAY(
        SELECT attname::text FROM unnest(made.indkey::smallint[]) WITH ORDINALITY AS key (number, place)
        JOIN pg_attribute ON attrelid = made.indrelid AND attnum = key.number ORDER BY key.place) AS columns,
    coalesce(pg_get_expr(made.indpred, made.indrelid), '') AS predicate
FROM pg_class AS class LEFT JOIN pg_index AS made ON made.indexrelid = class.oid
WHERE class.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = $1) AND class.relname = ANY ($2::text[])

-- name: function
SELECT pg_get_function_result(proc.oid) AS result, proc.prosrc AS body, proc.proowner AS owner,
    proc.prosecdef AND proc.provolatile = 'v' AND coalesce(proc.proconfig, '{}') @> $2::text[] AS kept,
    obj_description(proc.oid, 'pg_proc') IS NOT NULL AS described,
    ARRAY(
        SELECT CASE grantee WHEN 0 THEN 'public' ELSE pg_get_userbyid(grantee)::text END
        FROM aclexplode(coalesce(proc.proacl, acldefault('f', proc.proowner)))) AS grantees
FROM pg_proc AS proc
WHERE proc.pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = $1)
    AND proc.proname = 'check_reading_timeouts' AND proc.pronargs = 0

-- name: views_without
-- Views that read all columns that the table had before, as `SELECT *` does, and not all of those that it has been given: they
-- were made earlier, and go on without them.
SELECT format('%I.%I', space.nspname, reader.relname) AS view
FROM pg_class AS reader
JOIN pg_namespace AS space ON space.oid = reader.relnamespace
JOIN pg_rewrite AS rule ON rule.ev_class = reader.oid
CROSS JOIN LATERAL (
    SELECT array_agg(part.attname::text) AS columns FROM pg_depend AS uses
    JOIN pg_attribute AS part ON part.attrelid = uses.refobjid AND part.attnum = uses.refobjsubid
    WHERE uses.classid = 'pg_rewrite'::regclass AND uses.objid = rule.oid AND uses.refclassid = 'pg_class'::regclass
        AND uses.refobjid = $1 AND uses.refobjsubid > 0) AS used
WHERE reader.relkind IN ('v', 'm') AND NOT used.columns @> $2::text[] AND used.columns @> ARRAY(
    SELECT attname::text FROM pg_attribute
    WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped AND attname <> ALL ($2::text[]))
ORDER BY 1

-- name: roles
SELECT rolname::text FROM pg_roles WHERE rolname IN ('service_role', 'authenticated', 'anon') ORDER BY rolname DESC

-- name: check_reading_timeouts
CREATE OR REPLACE FUNCTION {schema}.check_reading_timeouts() RETURNS TABLE (updated_count integer, updated_jobs uuid[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET TimeZone = 'UTC' AS $langlauf$
#variable_conflict use_column
DECLARE
    threshold_seconds CONSTANT integer := 120;
    -- The owner's rights hide who called; the role that was set, or who logged in, still tells.
    caller CONSTANT name := coalesce(nullif(current_setting('role'), 'none'), session_user);
    taken uuid[];
BEGIN
    WITH overdue AS (
        SELECT job.id FROM {table} AS job
        WHERE job.status = 'generating' AND job.started_at IS NOT NULL
            AND job.started_at < now() - make_interval(secs => threshold_seconds)
        ORDER BY job.started_at FOR UPDATE SKIP LOCKED),
    ended AS (
        UPDATE {table} AS job SET
            status = CASE WHEN job.retry_count < job.max_retries THEN 'timeout' ELSE 'failed' END,
            error_code = CASE WHEN job.retry_count < job.max_retries THEN 'TIMEOUT' ELSE 'TIMEOUT_MAX_RETRIES' END,
            error_meta = jsonb_build_object(
                'threshold_seconds', threshold_seconds, 'started_at', job.started_at, 'detected_at', now(),
                'retry_count', job.retry_count, 'max_retries', job.max_retries){error}{touch}
        FROM overdue WHERE job.id = overdue.id AND job.status = 'generating'
        RETURNING job.id)
    SELECT coalesce(array_agg(ended.id), '{}') INTO taken FROM ended;
    updated_count := cardinality(taken);
    -- Which jobs these are is for service_role, the owner and superusers; everybody else learns how many.
    updated_jobs := CASE WHEN EXISTS (
        SELECT FROM pg_roles AS trusted WHERE trusted.rolname IN ('service_role', current_user)
            AND pg_has_role(caller, trusted.oid, 'USAGE')) THEN taken ELSE '{}' END;
    RETURN NEXT;
END $langlauf$
