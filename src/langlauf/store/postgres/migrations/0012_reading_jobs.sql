-- The functions and the view that callers of the earlier schema know. They lie in `public`, where such callers look, and
-- speak its language: its words for states, codes in capitals, real times. What they do is what the engine does.

-- An id as the earlier schema has them, written as PostgreSQL writes it; nothing for others, which only imports bring.
CREATE FUNCTION uuid_of(id text) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN id::uuid END
$$;

-- Details of an error. What jsonb cannot hold, as JSON of an import may have it, must not keep the other rows from a reader.
CREATE FUNCTION details_of(words text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN words::jsonb - 'trace';
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;

-- A time as the earlier schema has them.
CREATE FUNCTION timestamp_of(at bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT timestamptz 'epoch' + at * interval '1 microsecond'
$$;

-- Whether the caller of a function that runs with its owner's rights may hear of all orgs: `service_role`, the owner
-- himself, a superuser. Everybody else learns how many, never which. Inside such a function only the session still tells
-- who called: the role that was set, or who logged in.
CREATE FUNCTION hears_of_all() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(bool_or(pg_has_role(caller.name, trusted.oid, 'USAGE')), false)
    FROM coalesce(nullif(current_setting('role'), 'none'), session_user) AS caller (name),
        pg_roles AS trusted
    WHERE trusted.rolname IN ('service_role', current_user)
$$;

-- A schema that was dropped leaves behind what it had in `public`, where nothing depends on it: that is taken over, and what
-- others have under this name is not.
DO $$
DECLARE
    there CONSTANT regprocedure := to_regprocedure('public.check_job_timeouts()');
BEGIN
    IF there IS NOT NULL AND coalesce(obj_description(there, 'pg_proc'), '') NOT LIKE 'Langlauf:%' THEN
        RAISE EXCEPTION 'there is a function public.check_job_timeouts() that is not Langlauf''s: rename it or drop it';
    END IF;
END $$;

-- Takes back everything that is overdue, by the rules and with the defaults of the program; the program's own sweep runs the
-- same function with its settings. Jobs whose ids are no UUIDs are counted, but cannot be named.
CREATE OR REPLACE FUNCTION public.check_job_timeouts() RETURNS TABLE (updated_count integer, updated_jobs uuid[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = langlauf, pg_temp AS $$
DECLARE
    taken text[] := '{}';
    page text[];
BEGIN
    LOOP
        page := ARRAY(SELECT swept.job_id FROM sweep(
            at => NULL, grace => 5000000, cancel_grace => 6000000, retry_base => 1, retry_cap => 60, most_lost => 10,
            most => 100) AS swept);
        EXIT WHEN page = '{}';
        taken := taken || page;
    END LOOP;
    updated_count := cardinality(taken);
    updated_jobs := '{}';
    IF hears_of_all() THEN
        updated_jobs := ARRAY(SELECT uuid_of(id) FROM unnest(taken) AS id WHERE uuid_of(id) IS NOT NULL);
    END IF;
    RETURN NEXT;
END $$;

COMMENT ON FUNCTION public.check_job_timeouts() IS
    'Langlauf: takes jobs back that ran out of time or whose worker vanished. Calling it again does nothing.';

-- The same under the earlier name. That it is this one, and not one of the earlier system, shows in what it depends on.
CREATE FUNCTION check_reading_timeouts() RETURNS TABLE (updated_count integer, updated_jobs uuid[])
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = langlauf, pg_temp
BEGIN ATOMIC
    SELECT checked.updated_count, checked.updated_jobs FROM public.check_job_timeouts() AS checked;
END;

COMMENT ON FUNCTION check_reading_timeouts() IS 'Langlauf: check_job_timeouts(), for callers of the earlier schema.';

-- Jobs as rows of the earlier table. `timeout` is a job that waits for its next attempt after one that took too long; its
-- row keeps no error, since the job goes on, so what the earlier table would show is told from when the attempt began and
-- ended. Another retry, or a worker lost since, is an attempt that began later than the last one was ended for.
CREATE VIEW reading_jobs AS
SELECT
    uuid_of(job.job_id) AS id,
    (CASE
        WHEN job.status = 'queued' THEN 'pending'
        WHEN job.status = 'completed' THEN 'done'
        WHEN job.status = 'failed' THEN 'failed'
        WHEN job.status = 'canceled' THEN 'cancelled'
        WHEN waits.after_timeout THEN 'timeout'
        ELSE 'generating'
    END)::text AS status,
    timestamp_of(job.queued_at) AS created_at,
    timestamp_of(job.updated_at) AS updated_at,
    timestamp_of(coalesce(job.attempt_started_at, job.started_at)) AS started_at,
    job.retry_count,
    job.max_retries,
    timestamp_of(job.last_retry_at) AS last_retry_at,
    job.retry_reason,
    upper(CASE WHEN waits.after_timeout THEN 'timeout' ELSE job.error_code END)::varchar(50) AS error_code,
    CASE
        WHEN waits.after_timeout AND job.last_retry_at >= job.attempt_started_at + job.timeout_seconds * 1000000
        THEN jsonb_build_object(
            'threshold_seconds', job.timeout_seconds,
            'started_at', time_text(job.attempt_started_at),
            'detected_at', time_text(job.last_retry_at))
        ELSE details_of(job.error_meta)
    END AS error_meta
FROM langlauf.jobs AS job
CROSS JOIN LATERAL (
    SELECT job.next_attempt_at IS NOT NULL AND job.last_retry_at > job.attempt_started_at
        AND job.retry_reason LIKE 'timeout: %' AS after_timeout) AS waits
WHERE uuid_of(job.job_id) IS NOT NULL;

COMMENT ON VIEW reading_jobs IS 'Langlauf: the jobs of all orgs, in the words of the earlier schema.';

-- What an earlier system has under these names stays as it is.
DO $$
BEGIN
    IF to_regclass('public.reading_jobs') IS NULL AND to_regtype('public.reading_jobs') IS NULL THEN
        ALTER VIEW langlauf.reading_jobs SET SCHEMA public;
    ELSE
        DROP VIEW langlauf.reading_jobs;
    END IF;
    IF to_regprocedure('public.check_reading_timeouts()') IS NULL THEN
        ALTER FUNCTION langlauf.check_reading_timeouts() SET SCHEMA public;
    ELSE
        DROP FUNCTION langlauf.check_reading_timeouts();
    END IF;
END $$;

-- What is there for callers of others, for which roles, and who has it now: of what lies in `public` only what is ours. A
-- view runs the functions it is made of with its reader's rights, so readers need these as well.
CREATE FUNCTION offered() RETURNS TABLE (kind text, name text, callers text[], owner oid, acl aclitem[])
LANGUAGE sql STABLE SET search_path = langlauf, pg_temp AS $$
    WITH functions (place, callers) AS (
        SELECT 'public.check_job_timeouts()'::regprocedure, '{service_role,authenticated}'::text[]
        UNION ALL
        SELECT objid::regprocedure, '{service_role,authenticated}' FROM pg_depend
        WHERE classid = 'pg_proc'::regclass AND objid = to_regprocedure('public.check_reading_timeouts()')
            AND refobjid = 'public.check_job_timeouts()'::regprocedure
        UNION ALL
        SELECT unnest('{uuid_of(text),details_of(text),timestamp_of(bigint),time_text(bigint)}'::regprocedure[]), '{service_role}')
    SELECT 'FUNCTION', place::text, callers, proowner, coalesce(proacl, acldefault('f', proowner))
    FROM functions JOIN pg_proc ON oid = place
    UNION ALL
    SELECT 'TABLE', 'public.reading_jobs', '{service_role}', relowner, coalesce(relacl, acldefault('r', relowner))
    FROM pg_class WHERE oid = to_regclass('public.reading_jobs') AND EXISTS (
        SELECT FROM pg_depend JOIN pg_rewrite ON pg_rewrite.oid = objid
        WHERE ev_class = pg_class.oid AND refobjid = 'jobs'::regclass)
$$;

-- What roles that exist by now still lack: they may be made after the schema is. The program asks at every start.
CREATE FUNCTION grants_due() RETURNS SETOF text LANGUAGE sql STABLE SET search_path = langlauf, pg_temp AS $$
    SELECT format('GRANT %s ON %s %s TO %I', CASE kind WHEN 'TABLE' THEN 'SELECT' ELSE 'EXECUTE' END, kind, name, rolname)
    FROM offered() JOIN pg_roles ON rolname = ANY (callers)
    WHERE NOT EXISTS (SELECT FROM aclexplode(acl) WHERE grantee = pg_roles.oid)
$$;

CREATE FUNCTION let_callers_in() RETURNS void LANGUAGE plpgsql SET search_path = langlauf, pg_temp AS $$
DECLARE
    statement text;
BEGIN
    FOR statement IN SELECT * FROM grants_due() LOOP
        EXECUTE statement;
    END LOOP;
END $$;

-- They run as the engine and can do no more, also where a superuser migrates. An owner must have the right to make things where
-- its things are, for this moment. Who may not give that in `public` keeps them, and has the engine's rights anyway.
DO $$
DECLARE
    one record;
BEGIN
    GRANT CREATE ON SCHEMA public TO langlauf_engine;
    FOR one IN SELECT kind, name FROM offered() WHERE name LIKE 'public.%' LOOP
        EXECUTE format('ALTER %s %s OWNER TO langlauf_engine', one.kind, one.name);
    END LOOP;
    REVOKE CREATE ON SCHEMA public FROM langlauf_engine;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'what is in public for other callers stays with %', current_user;
END $$;

-- A database may be set up to give whatever is made in it to others. Here nobody has what he was not given by name.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT DISTINCT kind, name, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS other
        FROM offered(), aclexplode(acl) WHERE grantee <> owner AND name LIKE 'public.%'
    LOOP
        EXECUTE format('REVOKE ALL ON %s %s FROM %s', one.kind, one.name, one.other);
    END LOOP;
    PERFORM let_callers_in();
END $$;
