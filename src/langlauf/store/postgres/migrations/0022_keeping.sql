-- A job is held while somebody wants its results kept: retention then leaves them, the record and its tombstones alone.

ALTER TABLE jobs ADD COLUMN held_at bigint, ADD COLUMN held_by text, ADD COLUMN hold_reason text;
CREATE INDEX idx_jobs_held ON jobs (org_id, held_at, job_id) WHERE held_at IS NOT NULL;

-- What came later stands behind the end of the lease: a view can only grow at its end.
CREATE OR REPLACE VIEW job_views WITH (security_invoker = true) AS
SELECT job_id, org_id, analysis, status, priority_class, request_payload_hash, request_payload_ref, queued_at, updated_at,
    timeout_seconds, max_retries, trace_id, request_id, requested_by_user_id, api_key_id, progress_percent, step,
    estimated_seconds, partial_count, error_count, result_id, started_at, attempt_started_at, finished_at, cancel_requested_at,
    canceled_at, canceled_by, cancel_reason, failed_at, error_code, error_message, error_meta, retryable, retry_hint,
    retry_count, last_retry_at, retry_reason, next_attempt_at, retry_of, job.attempt, event_seq, lost_count, crash_count,
    result_expired_at, events_expired_at, imported_at, ticket, paced_percent, paced_at, progress_at, traceparent, tracestate,
    lease.expires_at AS lease_expires_at, held_at, held_by, hold_reason
FROM jobs AS job LEFT JOIN leases AS lease USING (org_id, job_id);

-- Holds the job of a result, or releases it: whose it is, and since when it is gone where it is. The job is locked first and
-- looked at behind that: what retention takes at the same time is gone or is held, never both.
CREATE FUNCTION hold_result(at bigint, org text, result text, wished boolean, who text, why text)
RETURNS TABLE (job_id text, removed_at bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    owner text := (SELECT one.job_id FROM job_results AS one WHERE one.org_id = org AND one.result_id = result);
BEGIN
    PERFORM 1 FROM jobs WHERE jobs.org_id = org AND jobs.job_id = owner FOR UPDATE;
    IF wished THEN
        UPDATE jobs SET held_at = moment(at), held_by = who, hold_reason = why
        WHERE jobs.org_id = org AND jobs.job_id = owner AND held_at IS NULL AND EXISTS (
            SELECT 1 FROM job_results AS one WHERE one.org_id = org AND one.result_id = result AND one.removed_at IS NULL);
    ELSE
        UPDATE jobs SET held_at = NULL, held_by = NULL, hold_reason = NULL
        WHERE jobs.org_id = org AND jobs.job_id = owner AND held_at IS NOT NULL;
    END IF;
    RETURN QUERY SELECT one.job_id, one.removed_at FROM job_results AS one WHERE one.org_id = org AND one.result_id = result;
END $$;

-- The jobs of an org that are held, before a position, the last that was held first.
CREATE FUNCTION read_held(org text, before_at bigint, before_id text, most integer) RETURNS SETOF job_views
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT view.* FROM (
            SELECT one.held_at, one.job_id FROM jobs AS one
            WHERE one.org_id = org AND one.held_at IS NOT NULL AND (one.held_at, one.job_id) < (before_at, before_id)
            ORDER BY one.held_at DESC, one.job_id DESC LIMIT most) AS held
        CROSS JOIN LATERAL (
            SELECT * FROM job_views AS found WHERE found.org_id = org AND found.job_id = held.job_id OFFSET 0) AS view
        ORDER BY held.held_at DESC, held.job_id DESC;
END $$;

-- Retention. The finders tell, last, whether a job is kept back: while a delivery is pending everything of it is, and while
-- it is held all but its events.
CREATE OR REPLACE FUNCTION retirable_results(
    cutoff bigint, after_time bigint, after_org text, after_job text, most integer, finals bigint, partials bigint, completed bigint
) RETURNS SETOF retirable LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT job.finished_at, job.org_id::text, job.job_id::text, parts.due, parts.bytes, parts.left_over = 0,
        job.held_at IS NOT NULL OR delivers(job.org_id, job.job_id)
    FROM (
        SELECT * FROM jobs
        WHERE finished_at IS NOT NULL AND result_id IS NOT NULL AND result_expired_at IS NULL
          AND finished_at <= cutoff AND (finished_at, org_id, job_id) > (after_time, after_org, after_job)
        ORDER BY finished_at, org_id, job_id LIMIT most) AS job
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE goes) AS due, count(*) FILTER (WHERE NOT goes) AS left_over,
            coalesce(sum(coalesce(octet_length(payload), 0) + coalesce(octet_length(views), 0)), 0)::bigint AS bytes
        FROM (
            SELECT payload, views, job.finished_at <= cutoff_of(result_kind, job.status, finals, partials, completed) AS goes
            FROM job_results
            WHERE job_results.job_id = job.job_id AND job_results.org_id = job.org_id AND removed_at IS NULL) AS result) AS parts
    ORDER BY job.finished_at, job.org_id, job.job_id;
END $$;

CREATE OR REPLACE FUNCTION retirable_jobs(cutoff bigint, after_time bigint, after_org text, after_job text, most integer)
RETURNS SETOF retirable LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT job.finished_at, job.org_id::text, job.job_id::text, 1::bigint,
        (SELECT coalesce(sum(octet_length(chunk.payload)), 0)::bigint FROM job_chunks AS chunk
         WHERE chunk.job_id = job.job_id AND chunk.org_id = job.org_id),
        true, job.held_at IS NOT NULL OR delivers(job.org_id, job.job_id)
    FROM (
        SELECT * FROM jobs
        WHERE finished_at IS NOT NULL AND finished_at <= cutoff AND (finished_at, org_id, job_id) > (after_time, after_org, after_job)
        ORDER BY finished_at, org_id, job_id LIMIT most) AS job
    ORDER BY job.finished_at, job.org_id, job.job_id;
END $$;

-- Locks those of some jobs from which something may go, and gives them: asked again by whoever takes, because a page may be
-- older than a change. What another host has in hand is left to it, and so is what somebody holds at this moment: whether a
-- job is held is looked at once more when its lock is there.
DROP FUNCTION may_retire;
CREATE FUNCTION may_retire(
    org_ids text[], job_ids text[], cutoff bigint, with_held boolean, OUT orgs text[], OUT ids text[]
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    SELECT coalesce(array_agg(due.org_id), '{}'), coalesce(array_agg(due.job_id), '{}') INTO orgs, ids FROM (
        SELECT job.org_id, job.job_id FROM jobs AS job
        JOIN unnest(org_ids, job_ids) AS named (org_id, job_id) ON job.job_id = named.job_id AND job.org_id = named.org_id
        WHERE job.finished_at <= cutoff AND (with_held OR job.held_at IS NULL) AND NOT delivers(job.org_id, job.job_id)
        ORDER BY job.job_id, job.org_id FOR UPDATE OF job SKIP LOCKED) AS due;
END $$;

-- What is left says that there was a result: its id, its org and when it went.
CREATE OR REPLACE FUNCTION retire_results(
    at bigint, org_ids text[], job_ids text[], cutoff bigint, finals bigint, partials bigint, completed bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now bigint := moment(at);
    orgs text[];
    ids text[];
    removed bigint;
BEGIN
    SELECT may.orgs, may.ids INTO orgs, ids FROM may_retire(org_ids, job_ids, cutoff, false) AS may;
    UPDATE job_results AS result SET removed_at = now, payload = NULL, summary_json = NULL, views = NULL
    FROM unnest(orgs, ids) AS old (org_id, job_id) JOIN jobs AS job ON job.job_id = old.job_id AND job.org_id = old.org_id
    WHERE result.job_id = old.job_id AND result.org_id = old.org_id AND result.removed_at IS NULL AND job.held_at IS NULL
      AND job.finished_at <= cutoff_of(result.result_kind, job.status, finals, partials, completed);
    GET DIAGNOSTICS removed = ROW_COUNT;
    UPDATE jobs SET result_expired_at = now FROM unnest(orgs, ids) AS old (org_id, job_id)
    WHERE jobs.job_id = old.job_id AND jobs.org_id = old.org_id AND result_expired_at IS NULL AND finished_at IS NOT NULL
      AND NOT EXISTS (
          SELECT 1 FROM job_results AS result
          WHERE result.job_id = old.job_id AND result.org_id = old.org_id AND result.removed_at IS NULL);
    RETURN removed;
END $$;

CREATE OR REPLACE FUNCTION retire_events(at bigint, org_ids text[], job_ids text[], cutoff bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    orgs text[];
    ids text[];
    removed bigint;
BEGIN
    SELECT may.orgs, may.ids INTO orgs, ids FROM may_retire(org_ids, job_ids, cutoff, true) AS may;
    DELETE FROM job_events AS event USING unnest(orgs, ids) AS old (org_id, job_id)
    WHERE event.job_id = old.job_id AND event.org_id = old.org_id;
    GET DIAGNOSTICS removed = ROW_COUNT;
    UPDATE jobs SET events_expired_at = moment(at) FROM unnest(orgs, ids) AS old (org_id, job_id)
    WHERE jobs.job_id = old.job_id AND jobs.org_id = old.org_id AND events_expired_at IS NULL AND finished_at IS NOT NULL;
    RETURN removed;
END $$;

-- A job goes with its input, log, snapshots, tombstones, messages, chunks and key.
CREATE OR REPLACE FUNCTION retire_jobs(at bigint, org_ids text[], job_ids text[], cutoff bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    orgs text[];
    ids text[];
BEGIN
    SELECT may.orgs, may.ids INTO orgs, ids FROM may_retire(org_ids, job_ids, cutoff, false) AS may;
    RETURN remove_jobs(orgs, ids);
END $$;

-- Which tables have rows of orgs, and which of them have rows of a job: what the catalog says, so that none is forgotten.
CREATE FUNCTION tables_of_orgs(column_too text) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT array_agg(relname::text ORDER BY relname) FROM pg_class AS class
    WHERE relnamespace = 'langlauf'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
      AND 2 = (SELECT count(*) FROM (VALUES ('org_id'), (column_too)) AS wanted (name)
               WHERE EXISTS (SELECT 1 FROM pg_attribute
                             WHERE attrelid = class.oid AND attname = wanted.name AND NOT attisdropped))
$$;

-- Removes jobs with all that belongs to them: every table that names a job may have a part of it. For whoever has made sure,
-- and locked, that they may go.
CREATE FUNCTION remove_jobs(orgs text[], ids text[]) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    part text;
    removed bigint;
BEGIN
    FOREACH part IN ARRAY array_remove(tables_of_orgs('job_id'), 'jobs') LOOP
        EXECUTE format('DELETE FROM %I AS part USING unnest($1, $2) AS old (org_id, job_id)
            WHERE part.job_id = old.job_id AND part.org_id = old.org_id', part) USING orgs, ids;
    END LOOP;
    DELETE FROM jobs USING unnest(orgs, ids) AS old (org_id, job_id)
    WHERE jobs.job_id = old.job_id AND jobs.org_id = old.org_id;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

-- Erasing an org. How many rows of each table name it.
CREATE FUNCTION org_rows(org text) RETURNS TABLE (name text, rows bigint) LANGUAGE plpgsql STABLE AS $$
BEGIN
    FOREACH name IN ARRAY tables_of_orgs('org_id') LOOP
        EXECUTE format('SELECT count(*) FROM %I WHERE org_id = $1', name) INTO rows USING org;
        RETURN NEXT;
    END LOOP;
END $$;

CREATE FUNCTION org_held(org text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT count(*) FROM jobs WHERE org_id = org AND held_at IS NOT NULL
$$;

-- Its jobs that have not ended, so many: those that wait, those that wait for their next attempt, those that a worker has.
CREATE FUNCTION org_unended(org text, most integer) RETURNS TABLE (job_id text) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        (SELECT job.job_id FROM jobs AS job WHERE job.org_id = org AND started_at IS NULL AND finished_at IS NULL LIMIT most)
        UNION (SELECT job.job_id FROM jobs AS job WHERE job.org_id = org AND next_attempt_at IS NOT NULL LIMIT most)
        UNION (SELECT lease.job_id FROM leases AS lease WHERE lease.org_id = org)
        LIMIT most;
END $$;

-- Takes some of its jobs away: those that have ended, or, by force, those that a worker has. Leases are locked before jobs, as
-- everywhere; with its lease gone, nothing that the worker writes later is taken.
CREATE FUNCTION erase_jobs(org text, most integer, with_held boolean, forced boolean) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ids text[];
BEGIN
    IF forced THEN
        ids := ARRAY(SELECT job_id FROM leases WHERE org_id = org LIMIT most);
        PERFORM lock_leases(array_fill(org, ARRAY[cardinality(ids)]), ids);
        ids := ARRAY(SELECT job.job_id FROM jobs AS job
                     WHERE job.job_id = ANY (ids) AND job.org_id = org AND (with_held OR held_at IS NULL)
                     ORDER BY job.job_id FOR UPDATE);
    ELSE
        ids := ARRAY(SELECT job.job_id FROM jobs AS job
                     WHERE job.org_id = org AND finished_at IS NOT NULL AND (with_held OR held_at IS NULL)
                     LIMIT most FOR UPDATE SKIP LOCKED);
    END IF;
    RETURN remove_jobs(array_fill(org, ARRAY[cardinality(ids)]), ids);
END $$;

-- Takes some of its rows out of one table. Keys are not removed; a lane that somebody waits in is not either.
CREATE FUNCTION erase_rows(org text, name text, most integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    removed bigint;
BEGIN
    IF name = 'api_keys' OR NOT name = ANY (tables_of_orgs('org_id')) THEN
        RETURN 0;
    END IF;
    EXECUTE format('DELETE FROM %1$I WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM %1$I WHERE org_id = $1 %2$s LIMIT $2 FOR UPDATE SKIP LOCKED)) AND org_id = $1',
        name, CASE WHEN name = 'lanes' THEN 'AND waiting = 0' END) USING org, most;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

-- Ends all of its keys, and forgets what people called them. They stay: that there ever was a key is what closes a store to
-- callers without one.
CREATE FUNCTION forget_keys(at bigint, org text) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    one text;
BEGIN
    FOR one IN SELECT key_id FROM api_keys WHERE org_id = org AND revoked_at IS NULL LOOP
        PERFORM revoke_key(at, one, org);
    END LOOP;
    UPDATE api_keys SET name = '', last_used_at = NULL WHERE org_id = org AND (name <> '' OR last_used_at IS NOT NULL);
    RETURN (SELECT count(*) FROM api_keys WHERE org_id = org);
END $$;

SELECT plan_with('{may_retire, retire_results, retire_events, retire_jobs, remove_jobs}',
    'SET enable_bitmapscan = on SET enable_indexscan = off SET enable_indexonlyscan = off');
SELECT plan_with('{hold_result, read_held, retirable_results, retirable_jobs, org_unended}',
    'SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');
