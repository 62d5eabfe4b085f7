-- Retention. Each kind has a function that finds old jobs page by page, and one that takes from some of them. The finders tell:
-- how many rows would go, how many bytes they hold, whether nothing of the kind would be left, and whether a delivery is
-- pending, which keeps everything of the job. A message for people is a record and not a delivery: it stays pending for ever.

-- Jobs that have ended and of which these parts are still kept, behind a position and up to an instant, the oldest first. Jobs
-- of which a part was taken are not walked over again.
-- query: ended_page(keeps smallint[], cutoff bigint, after_time bigint, after_org text, after_job text, most integer)
--   RETURNS SETOF job_views
SELECT old.* FROM unnest(keeps) AS part (number) CROSS JOIN LATERAL (
    SELECT {job_names}, lease_expires_at, job, result FROM jobs
    WHERE kept = part.number AND finished_at IS NOT NULL AND finished_at >= after_time AND finished_at <= cutoff
      AND (finished_at, org_id, job) > (after_time, after_org, key_of(after_job))
    ORDER BY finished_at, org_id, job LIMIT most) AS old
ORDER BY old.finished_at, old.org_id, old.job LIMIT most;

-- The jobs that ended last, from an instant on and up to another.
-- query: newest_ended(since bigint, until bigint, most integer) RETURNS SETOF job_views
SELECT job.* FROM unnest('{0, 1, 2, 3}'::smallint[]) AS part (number) CROSS JOIN LATERAL (
    SELECT {job_names}, lease_expires_at, job, result FROM jobs
    WHERE kept = part.number AND finished_at IS NOT NULL AND finished_at >= since AND finished_at <= until
    ORDER BY finished_at DESC LIMIT most) AS job
ORDER BY job.finished_at DESC LIMIT most;

-- query: delivers(org text, job text) RETURNS boolean
SELECT EXISTS (
    SELECT 1 FROM outbox
    WHERE org_id = org AND job_id = job AND channel <> 'in_app' AND delivery_status = 'pending');

-- While a delivery is pending everything of a job is kept back, and while it is held all but its events.
-- query: retirable_results(cutoff bigint, after_time bigint, after_org text, after_job text, most integer, finals bigint,
--   partials bigint, completed bigint)
--   RETURNS SETOF retirable
SELECT job.finished_at, job.org_id::text, job.job_id::text, parts.due, parts.bytes, parts.left_over = 0,
    job.held_at IS NOT NULL OR delivers(job.org_id, job.job_id)
FROM ended_page('{2, 3}', cutoff, after_time, after_org, after_job, most) AS job
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE goes) AS due, count(*) FILTER (WHERE NOT goes) AS left_over,
        coalesce(sum(coalesce(octet_length(payload), 0) + coalesce(octet_length(views), 0)), 0)::bigint AS bytes
    FROM (
        SELECT payload, views, job.finished_at <= cutoff_of(result_kind, job.status, finals, partials, completed) AS goes
        FROM result_rows AS kept
        WHERE kept.job = job.job AND kept.org_id = job.org_id AND removed_at IS NULL) AS result) AS parts
ORDER BY job.finished_at, job.org_id, job.job;

-- query: retirable_events(cutoff bigint, after_time bigint, after_org text, after_job text, most integer)
--   RETURNS SETOF retirable
SELECT job.finished_at, job.org_id::text, job.job_id::text,
    (SELECT count(*) FROM event_rows AS event WHERE event.job = job.job AND event.org_id = job.org_id AND event.event_type IS NOT NULL),
    0::bigint, true, delivers(job.org_id, job.job_id)
FROM ended_page('{1, 3}', cutoff, after_time, after_org, after_job, most) AS job
ORDER BY job.finished_at, job.org_id, job.job;

-- query: retirable_jobs(cutoff bigint, after_time bigint, after_org text, after_job text, most integer)
--   RETURNS SETOF retirable
SELECT job.finished_at, job.org_id::text, job.job_id::text, 1::bigint,
    (SELECT coalesce(sum(octet_length(chunk.payload)), 0)::bigint FROM job_chunks AS chunk
     WHERE chunk.job_id = job.job_id AND chunk.org_id = job.org_id),
    true, job.held_at IS NOT NULL OR delivers(job.org_id, job.job_id)
FROM ended_page('{0, 1, 2, 3}', cutoff, after_time, after_org, after_job, most) AS job
ORDER BY job.finished_at, job.org_id, job.job;

CREATE OR REPLACE FUNCTION may_retire(org_ids text[], job_ids text[], cutoff bigint, with_held boolean) RETURNS uuid[]
LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT due.job FROM job_rows AS due
        JOIN unnest(org_ids, job_ids) AS named (org_id, job_id) ON due.job = key_of(named.job_id) AND due.org_id = named.org_id
        WHERE due.finished_at <= cutoff AND (with_held OR due.held_at IS NULL) AND NOT delivers(due.org_id, named.job_id)
        ORDER BY due.job FOR UPDATE OF due SKIP LOCKED);
END $$;

-- What is left says that there was a result: its id, its org and when it went.
CREATE OR REPLACE FUNCTION retire_results(
    at bigint, org_ids text[], job_ids text[], cutoff bigint, finals bigint, partials bigint, completed bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    now bigint := moment(at);
    ids CONSTANT uuid[] := may_retire(org_ids, job_ids, cutoff, false);
    removed bigint;
BEGIN
    UPDATE result_rows AS result SET removed_at = now, payload = NULL, summary_json = NULL, views = NULL
    FROM unnest(ids) AS old (job) JOIN job_rows AS owner ON owner.job = old.job
    WHERE result.job = old.job AND result.removed_at IS NULL AND owner.held_at IS NULL
      AND owner.finished_at <= cutoff_of(result.result_kind, owner.status, finals, partials, completed);
    GET DIAGNOSTICS removed = ROW_COUNT;
    UPDATE job_rows AS owner SET result_expired_at = now, kept = kept & 1 FROM unnest(ids) AS old (job)
    WHERE owner.job = old.job AND result_expired_at IS NULL AND finished_at IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM result_rows AS result WHERE result.job = old.job AND result.removed_at IS NULL);
    RETURN removed;
END $$;

-- The input stays as long as the job.
CREATE OR REPLACE FUNCTION retire_events(at bigint, org_ids text[], job_ids text[], cutoff bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    ids CONSTANT uuid[] := may_retire(org_ids, job_ids, cutoff, true);
    removed bigint;
    more bigint;
BEGIN
    DELETE FROM event_rows AS event USING unnest(ids) AS old (job) WHERE event.job = old.job AND event.input IS NULL;
    GET DIAGNOSTICS removed = ROW_COUNT;
    UPDATE event_rows AS event SET event_type = NULL, payload_json = NULL, feed_mark = NULL FROM unnest(ids) AS old (job)
    WHERE event.job = old.job AND event.event_type IS NOT NULL;
    GET DIAGNOSTICS more = ROW_COUNT;
    UPDATE job_rows AS owner SET events_expired_at = moment(at), kept = kept & 2 FROM unnest(ids) AS old (job)
    WHERE owner.job = old.job AND events_expired_at IS NULL AND finished_at IS NOT NULL;
    RETURN removed + more;
END $$;

-- A job goes with its input, log, snapshots, tombstones, messages, chunks and key.
CREATE OR REPLACE FUNCTION retire_jobs(at bigint, org_ids text[], job_ids text[], cutoff bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RETURN remove_jobs(may_retire(org_ids, job_ids, cutoff, false));
END $$;

-- Removes jobs with all that belongs to them: every table that names a job, by its id or by its key, may have a part of it. For
-- a caller that has made sure, and locked, that they may go.
CREATE OR REPLACE FUNCTION remove_jobs(keys uuid[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    orgs text[];
    ids text[];
    part text;
    removed bigint;
BEGIN
    SELECT array_agg(org_id), array_agg(job_id) INTO orgs, ids FROM unnest(keys) AS old (key) JOIN jobs ON job = key;
    FOREACH part IN ARRAY tables_of_orgs('job_id') LOOP
        EXECUTE format('DELETE FROM %I AS part USING unnest($1, $2) AS old (org_id, job_id)
            WHERE part.job_id = old.job_id AND part.org_id = old.org_id', part) USING orgs, ids;
    END LOOP;
    FOREACH part IN ARRAY array_append(array_remove(tables_of_orgs('job'), 'job_rows'), 'job_rows') LOOP
        EXECUTE format('DELETE FROM %I AS part USING unnest($1) AS old (key) WHERE part.job = old.key', part) USING keys;
    END LOOP;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

-- Counts over whole tables, for the report.
CREATE OR REPLACE FUNCTION count_ended(OUT ended bigint, OUT with_end bigint) LANGUAGE sql STABLE AS $$
    SELECT count(*) FILTER (WHERE status IN ('completed', 'failed', 'canceled')), count(finished_at) FROM jobs
$$;

CREATE OR REPLACE FUNCTION count_kept(OUT results bigint, OUT events bigint) LANGUAGE sql STABLE AS $$
    SELECT (SELECT count(*) FROM job_results WHERE removed_at IS NULL), (SELECT count(*) FROM event_rows WHERE event_type IS NOT NULL)
$$;

-- The youngest jobs beyond each age at which retention takes something: how many were looked at, and how many still have it.
-- Retention begins with the oldest, so that these are the last it comes to.
-- query: kept_beyond(kind text, before bigint, most integer) RETURNS TABLE (looked bigint, kept bigint)
SELECT count(*), count(*) FILTER (WHERE one.held_at IS NULL AND CASE kind
    WHEN 'events' THEN one.events_expired_at IS NULL
    WHEN 'results' THEN one.result_id IS NOT NULL AND one.result_expired_at IS NULL
    ELSE true END)
FROM newest_ended(0, before, most) AS one;

-- The blobs of the jobs that ended last.
-- query: newest_blobs(most integer) RETURNS TABLE (org_id text, job_id text, result_id text, ref text)
SELECT result.org_id, result.job_id, result.result_id, result.result_payload_ref
FROM newest_ended(0, 9223372036854775807, most) AS ended
CROSS JOIN LATERAL (
    SELECT * FROM job_results AS one WHERE one.org_id = ended.org_id AND one.job = ended.job OFFSET 0) AS result
WHERE result.result_payload_ref <> 'inline:' AND result.removed_at IS NULL;
