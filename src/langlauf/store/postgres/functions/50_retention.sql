-- Retention: for each kind a finder of old jobs, page by page, and a remover. Finders return how many rows would go, their
-- bytes, whether none of the kind would be left, and whether a delivery is pending, which keeps everything. In-app messages are
-- records and stay pending.

-- Ended jobs that still have these parts, after a position and up to an instant, oldest first.
-- query: ended_page(keeps smallint[], cutoff bigint, after_time bigint, after_org text, after_job text, most integer)
--   RETURNS SETOF job_views
SELECT old.* FROM unnest(keeps) AS part (number) CROSS JOIN LATERAL (
    SELECT {job_names}, lease_expires_at, job, result FROM jobs
    WHERE kept = part.number AND finished_at IS NOT NULL AND finished_at >= after_time AND finished_at <= cutoff
      AND (finished_at, org_id, job) > (after_time, after_org, key_of(after_job))
    ORDER BY finished_at, org_id, job LIMIT most) AS old
ORDER BY old.finished_at, old.org_id, old.job LIMIT most;

-- The jobs that ended last between two instants.
-- query: newest_ended(since bigint, until bigint, most integer) RETURNS SETOF job_views
SELECT job.* FROM unnest('{0, 1, 2, 3}'::smallint[]) AS part (number) CROSS JOIN LATERAL (
    SELECT {job_names}, lease_expires_at, job, result FROM jobs
    WHERE kept = part.number AND finished_at IS NOT NULL AND finished_at >= since AND finished_at <= until
    ORDER BY finished_at DESC LIMIT most) AS job
ORDER BY job.finished_at DESC LIMIT most;

-- query: has_pending_delivery(org text, job text) RETURNS boolean
SELECT EXISTS (
    SELECT 1 FROM outbox
    WHERE org_id = org AND job_id = job AND channel <> 'in_app' AND delivery_status = 'pending');

-- A pending delivery keeps everything of a job; a hold keeps all but its events.
-- query: retirable_results(cutoff bigint, after_time bigint, after_org text, after_job text, most integer, finals bigint,
--   partials bigint, completed bigint)
--   RETURNS SETOF retirable
SELECT job.finished_at, job.org_id::text, job.job_id::text, parts.due, parts.bytes, parts.left_over = 0,
    job.held_at IS NOT NULL OR has_pending_delivery(job.org_id, job.job_id)
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
    0::bigint, true, has_pending_delivery(job.org_id, job.job_id)
FROM ended_page('{1, 3}', cutoff, after_time, after_org, after_job, most) AS job
ORDER BY job.finished_at, job.org_id, job.job;

-- query: retirable_jobs(cutoff bigint, after_time bigint, after_org text, after_job text, most integer)
--   RETURNS SETOF retirable
SELECT job.finished_at, job.org_id::text, job.job_id::text, 1::bigint,
    (SELECT coalesce(sum(octet_length(chunk.payload)), 0)::bigint FROM job_chunks AS chunk
     WHERE chunk.job_id = job.job_id AND chunk.org_id = job.org_id),
    true, job.held_at IS NOT NULL OR has_pending_delivery(job.org_id, job.job_id)
FROM ended_page('{0, 1, 2, 3}', cutoff, after_time, after_org, after_job, most) AS job
ORDER BY job.finished_at, job.org_id, job.job;

CREATE OR REPLACE FUNCTION may_retire(org_ids text[], job_ids text[], cutoff bigint, with_held boolean) RETURNS uuid[]
LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT due.job FROM job_rows AS due
        JOIN unnest(org_ids, job_ids) AS named (org_id, job_id) ON due.job = key_of(named.job_id) AND due.org_id = named.org_id
        WHERE due.finished_at <= cutoff AND (with_held OR due.held_at IS NULL) AND NOT has_pending_delivery(due.org_id, named.job_id)
        ORDER BY due.job FOR UPDATE OF due SKIP LOCKED);
END $$;

-- A tombstone remains: the result's id, its org and when it was removed.
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

-- The input is kept as long as the job.
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

CREATE OR REPLACE FUNCTION retire_jobs(at bigint, org_ids text[], job_ids text[], cutoff bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RETURN remove_jobs(may_retire(org_ids, job_ids, cutoff, false));
END $$;

-- Removes code that no worker has run for long and that no job names. What a job still names is not looked at again for as long.
CREATE OR REPLACE FUNCTION prune_codes(at bigint, before bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    old CONSTANT bigint[] := ARRAY(SELECT code FROM codes WHERE seen_at < before ORDER BY code FOR UPDATE SKIP LOCKED);
    named bigint[];
    removed bigint;
BEGIN
    IF cardinality(old) = 0 THEN
        RETURN 0;
    END IF;
    named := ARRAY(SELECT DISTINCT code FROM job_rows WHERE code = ANY (old));
    UPDATE codes SET seen_at = moment(at) WHERE code = ANY (named);
    DELETE FROM codes WHERE code = ANY (old) AND code <> ALL (named);
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

-- Removes jobs from every table that refers to a job. The caller has checked and locked them.
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

-- The youngest jobs older than a retention period: how many there are, and how many still have the part. Retention starts with
-- the oldest.
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
