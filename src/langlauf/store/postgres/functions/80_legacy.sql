-- Functions and a view for callers of the legacy schema. They are in `public`, where such callers look, and use its terms: its
-- words for states, codes in capitals, timestamps. They do what the engine does.

-- Whether the caller of a SECURITY DEFINER function may see all orgs: `service_role`, the owner, a superuser. Others get a
-- count, never ids. Inside such a function only the session shows the caller: the role that was set, or the login.
CREATE OR REPLACE FUNCTION caller_sees_all_orgs() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(bool_or(pg_has_role(caller.name, trusted.oid, 'USAGE')), false)
    FROM coalesce(nullif(current_setting('role'), 'none'), session_user) AS caller (name),
        pg_roles AS trusted
    WHERE trusted.rolname IN ('service_role', current_user)
$$;

-- A dropped schema leaves its functions in `public`: these are replaced, and those of others are not.
DO $$
DECLARE
    there CONSTANT regprocedure := to_regprocedure('public.check_job_timeouts()');
BEGIN
    IF there IS NOT NULL AND coalesce(obj_description(there, 'pg_proc'), '') NOT LIKE 'Langlauf:%' THEN
        RAISE EXCEPTION 'there is a function public.check_job_timeouts() that is not Langlauf''s: rename it or drop it';
    END IF;
END $$;

-- Ends all overdue attempts, by the rules and with the defaults of the program, whose sweep calls the same function with its
-- settings. Jobs whose ids are no UUIDs are counted, but not named.
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
    IF caller_sees_all_orgs() THEN
        updated_jobs := ARRAY(SELECT uuid_of(id) FROM unnest(taken) AS id WHERE uuid_of(id) IS NOT NULL);
    END IF;
    RETURN NEXT;
END $$;

COMMENT ON FUNCTION public.check_job_timeouts() IS
    'Langlauf: takes jobs back that ran out of time or whose worker vanished. Calling it again does nothing.';

-- The same under the legacy name. A dependency shows that it is ours and not of a legacy system.
--
-- And jobs as rows of the legacy table. `timeout` is a job that waits for a retry after a timeout; its row has no error, as the
-- job continues, so the error is derived from when the attempt began and ended. After another retry or a lost worker, an
-- attempt began later than the last timeout.
--
-- Objects of a legacy system under these names stay as they are.
DO $$
BEGIN
    IF to_regprocedure('public.check_reading_timeouts()') IS NULL OR EXISTS (
        SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = to_regprocedure('public.check_reading_timeouts()')
            AND refobjid = 'public.check_job_timeouts()'::regprocedure)
    THEN
        CREATE OR REPLACE FUNCTION public.check_reading_timeouts() RETURNS TABLE (updated_count integer, updated_jobs uuid[])
        LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = langlauf, pg_temp
        BEGIN ATOMIC
            SELECT checked.updated_count, checked.updated_jobs FROM public.check_job_timeouts() AS checked;
        END;
        COMMENT ON FUNCTION public.check_reading_timeouts() IS 'Langlauf: check_job_timeouts(), for callers of the earlier schema.';
    END IF;
    IF to_regtype('public.reading_jobs') IS NOT NULL AND NOT EXISTS (
        SELECT FROM pg_rewrite JOIN pg_depend ON pg_depend.objid = pg_rewrite.oid
        WHERE ev_class = to_regclass('public.reading_jobs') AND refobjid = 'langlauf.job_rows'::regclass)
    THEN
        RETURN;
    END IF;
    CREATE OR REPLACE VIEW public.reading_jobs AS
    SELECT
        job.job AS id,
        (CASE
            WHEN job.status = 'queued' THEN 'pending'
            WHEN job.status = 'completed' THEN 'done'
            WHEN job.status = 'failed' THEN 'failed'
            WHEN job.status = 'canceled' THEN 'cancelled'
            WHEN waits.after_timeout THEN 'timeout'
            ELSE 'generating'
        END)::text AS status,
        timestamp_of(job.queued_at) AS created_at,
        timestamp_of(coalesce(job.updated_at, job.finished_at)) AS updated_at,
        timestamp_of(coalesce(job.attempt_started_at, job.started_at)) AS started_at,
        job.retry_count,
        job.max_retries,
        timestamp_of(job.last_retry_at) AS last_retry_at,
        job.retry_reason,
        upper(CASE WHEN waits.after_timeout THEN 'timeout' ELSE job.error_code END)::varchar(50) AS error_code,
        CASE WHEN waits.after_timeout OR job.error_code IS NOT NULL THEN
            CASE
                WHEN waits.after_timeout AND job.last_retry_at >= job.attempt_started_at + job.timeout_seconds * 1000000
                THEN jsonb_build_object(
                    'threshold_seconds', job.timeout_seconds,
                    'started_at', time_text(job.attempt_started_at),
                    'detected_at', time_text(job.last_retry_at))
                ELSE coalesce(details_of(job.error_meta), '{}')
            END || jsonb_build_object('retry_count', job.retry_count, 'max_retries', job.max_retries)
        END AS error_meta,
        -- A retry reason begins with the error code.
        CASE WHEN waits.after_timeout THEN substr(job.retry_reason, length('timeout: ') + 1) ELSE job.error_message END AS error
    FROM langlauf.job_rows AS job
    CROSS JOIN LATERAL (
        SELECT job.next_attempt_at IS NOT NULL AND job.last_retry_at > job.attempt_started_at
            AND job.retry_reason LIKE 'timeout: %' AS after_timeout) AS waits
    WHERE job.job_name IS NULL;
    COMMENT ON COLUMN public.reading_jobs.id IS 'The id of the job.';
    COMMENT ON COLUMN public.reading_jobs.status IS
        'pending, generating, done, failed, timeout (waits for a retry after a timeout) or cancelled.';
    COMMENT ON COLUMN public.reading_jobs.created_at IS 'When the job was accepted.';
    COMMENT ON COLUMN public.reading_jobs.updated_at IS 'When the job last changed.';
    COMMENT ON COLUMN public.reading_jobs.started_at IS 'When its latest attempt began; time limits count from here.';
    COMMENT ON COLUMN public.reading_jobs.retry_count IS 'How many failed attempts were tried again.';
    COMMENT ON COLUMN public.reading_jobs.max_retries IS 'How many failed attempts may be tried again.';
    COMMENT ON COLUMN public.reading_jobs.last_retry_at IS 'When the last retry was decided.';
    COMMENT ON COLUMN public.reading_jobs.retry_reason IS 'Why it was: the code of the error and its message.';
    COMMENT ON COLUMN public.reading_jobs.error_code IS 'What kind of error it was, in capitals, such as TIMEOUT.';
    COMMENT ON COLUMN public.reading_jobs.error_meta IS
        'Details of the error, with retry_count and max_retries; of a timeout threshold_seconds, started_at and detected_at.';
    COMMENT ON COLUMN public.reading_jobs.error IS 'The message of the error, for people.';
    COMMENT ON VIEW public.reading_jobs IS 'Langlauf: the jobs of all orgs, in the words of the earlier schema.';
END $$;

-- Our objects for legacy callers, the roles they are meant for, and their current rights. A view calls its functions with its
-- reader's rights, so readers need these as well.
CREATE OR REPLACE FUNCTION legacy_objects() RETURNS TABLE (kind text, name text, callers text[], owner oid, acl aclitem[])
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
        WHERE ev_class = pg_class.oid AND refobjid = 'job_rows'::regclass)
$$;

-- Rights that existing roles lack, as roles may be created after the schema. The program checks at every start.
CREATE OR REPLACE FUNCTION grants_due() RETURNS SETOF text LANGUAGE sql STABLE SET search_path = langlauf, pg_temp AS $$
    SELECT format('GRANT %s ON %s %s TO %I', CASE kind WHEN 'TABLE' THEN 'SELECT' ELSE 'EXECUTE' END, kind, name, rolname)
    FROM legacy_objects() JOIN pg_roles ON rolname = ANY (callers)
    WHERE NOT EXISTS (SELECT FROM aclexplode(acl) WHERE grantee = pg_roles.oid)
$$;

CREATE OR REPLACE FUNCTION grant_to_callers() RETURNS void LANGUAGE plpgsql SET search_path = langlauf, pg_temp AS $$
DECLARE
    statement text;
BEGIN
    FOR statement IN SELECT * FROM grants_due() LOOP
        EXECUTE statement;
    END LOOP;
END $$;

-- They run as the engine, also if a superuser migrates. An owner needs CREATE on the schema at this moment; a login that may
-- not grant that in `public` stays the owner, and has the engine's rights anyway.
DO $$
DECLARE
    one record;
BEGIN
    GRANT CREATE ON SCHEMA public TO langlauf_engine;
    FOR one IN SELECT kind, name FROM legacy_objects() WHERE name LIKE 'public.%' LOOP
        EXECUTE format('ALTER %s %s OWNER TO langlauf_engine', one.kind, one.name);
    END LOOP;
    REVOKE CREATE ON SCHEMA public FROM langlauf_engine;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'what is in public for other callers stays with %', current_user;
END $$;

-- Default privileges of a database may grant new objects to others: only named roles keep rights.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT DISTINCT kind, name, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS other
        FROM legacy_objects(), aclexplode(acl) WHERE grantee <> owner AND name LIKE 'public.%'
    LOOP
        EXECUTE format('REVOKE ALL ON %s %s FROM %s', one.kind, one.name, one.other);
    END LOOP;
    PERFORM grant_to_callers();
END $$;
