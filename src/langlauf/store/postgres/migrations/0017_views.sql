-- What an analysis wants people to see of a snapshot, as JSON: written with the payload, read and removed with it.
--
-- The functions that write snapshots take one array more, and the one that reads them gives one column more.

-- No row that is there has views, so none need be looked at.
ALTER TABLE job_results ADD COLUMN views text,
    ADD CONSTRAINT job_results_views_check CHECK (views IS NULL OR removed_at IS NULL) NOT VALID;

-- The results that a later job of the same analysis can look back at. A job enters it once, at its end.
CREATE INDEX idx_jobs_completed ON jobs (org_id, analysis, finished_at, job_id)
    WHERE status = 'completed' AND result_expired_at IS NULL;

DROP FUNCTION record, record_completions, record_partials, read_result;

CREATE FUNCTION record(
    at bigint, batch uuid, org_ids text[], job_ids text[], attempts integer[], kinds text[], percents integer[], steps text[],
    replays boolean[], keys text[], result_ids text[], payloads text[], refs text[], summaries text[], shown text[],
    codes text[], messages text[], metas text[], can_retry boolean[], hints text[], delays bigint[], timeouts boolean[],
    thresholds text[], owns boolean[], deaths integer[], actors text[], bys text[], most_lost integer, most_crashes integer
) RETURNS text[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now bigint;
    written bigint[] := '{}';
    ends ending[];
    outcomes text[];
    place bigint;
BEGIN
    INSERT INTO batches (batch_id, made_at, answers) VALUES (batch, moment(at), '{}') ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN (SELECT known.answers FROM batches AS known WHERE batch_id = batch);
    END IF;
    -- What takes leases comes before what takes jobs alone, as everywhere; leases that are taken in several steps are locked
    -- first, in order.
    IF ('completed' = ANY (kinds))::integer + ('checkpoint' = ANY (kinds))::integer
        + (kinds && '{failed, retry, released, crashed, canceled}')::integer > 1 THEN
        PERFORM lock_leases(org_ids, job_ids);
    END IF;
    now := moment(at);
    IF 'checkpoint' = ANY (kinds) THEN
        written := written || record_checkpoints(now, org_ids, job_ids, attempts, kinds, keys, payloads);
    END IF;
    IF 'completed' = ANY (kinds) THEN
        written := written || record_completions(
            now, org_ids, job_ids, attempts, kinds, result_ids, payloads, refs, summaries, shown);
    END IF;
    ends := give_up_leases(
        now, org_ids, job_ids, attempts, kinds, codes, messages, metas, can_retry, hints, delays, timeouts, thresholds, owns,
        deaths, actors, bys);
    IF ends IS NOT NULL THEN
        IF kinds && '{retry, released, crashed}' THEN
            ends := decided(ends, most_lost, most_crashes);
        END IF;
        written := written || write_ends(now, ends);
    END IF;
    IF 'progress' = ANY (kinds) THEN
        written := written || record_progress(now, org_ids, job_ids, attempts, kinds, percents, steps, replays);
    END IF;
    IF 'partial' = ANY (kinds) THEN
        written := written || record_partials(
            now, org_ids, job_ids, attempts, kinds, percents, steps, replays, result_ids, payloads, refs, summaries, shown);
    END IF;
    outcomes := array_fill('false'::text, ARRAY[cardinality(org_ids)]);
    FOREACH place IN ARRAY written LOOP
        outcomes[place] := 'true';
    END LOOP;
    UPDATE batches SET answers = outcomes WHERE batch_id = batch;
    RETURN outcomes;
END $$;

-- Ends attempts that completed and still hold their leases: snapshot, event and message in one statement.
CREATE FUNCTION record_completions(
    now bigint, org_ids text[], job_ids text[], attempts integer[], kinds text[], result_ids text[], payloads text[], refs text[],
    summaries text[], shown text[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    places bigint[];
    names text[];
    seconds float8[];
BEGIN
    WITH given_up AS (
        DELETE FROM leases
        USING unnest(org_ids, job_ids, attempts, kinds, result_ids, payloads, refs, summaries, shown) WITH ORDINALITY
            AS one (org_id, job_id, attempt, kind, result_id, payload, ref, summary, views, place)
        WHERE leases.org_id = one.org_id AND leases.job_id = one.job_id AND leases.attempt = one.attempt
          AND leases.expires_at > now AND one.kind = 'completed'
        RETURNING one.*),
    ended AS (
        UPDATE jobs SET
            status = 'completed', progress_percent = 100, result_id = new.result_id, finished_at = now, updated_at = now,
            event_seq = event_seq + 1, canceled_by = NULL, cancel_reason = NULL, estimated_seconds = 0
        FROM given_up AS new
        WHERE jobs.org_id = new.org_id AND jobs.job_id = new.job_id AND jobs.attempt = new.attempt
          AND jobs.status IN ('running', 'partial')
        RETURNING new.*, jobs.event_seq, jobs.partial_count, jobs.analysis, jobs.paced_percent, jobs.paced_at, jobs.trace_id,
            jobs.request_id),
    kept AS (
        INSERT INTO job_results (org_id, result_id, job_id, result_kind, result_seq, schema_version, result_payload_ref, created_at, summary_json, payload, views)
        SELECT org_id, result_id, job_id, 'final', partial_count + 1, 1, coalesce(ref, 'inline:'), now, summary, payload, views FROM ended),
    told AS (
        INSERT INTO job_events (org_id, job_id, event_seq, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
        SELECT org_id, job_id, event_seq, 'job.completed', now, 'worker',
            '{"result_id":' || said(result_id) || ',"result_seq":' || partial_count + 1 || ',"progress_percent":100}', trace_id, request_id
        FROM ended),
    noted AS (
        INSERT INTO notifications (org_id, job_id, channel, template_key, delivery_status, dedupe_key, scheduled_at, created_at, payload_json)
        SELECT org_id, job_id, 'in_app', 'async.job.completed', 'pending', job_id || ':in_app:async.job.completed', now, now,
            '{"job_id":' || said(job_id) || ',"status":"completed","result_id":' || said(result_id)
            || ',"progress_percent":100,"error_code":null,"retry_hint":null,"finished_at":"' || time_text(now) || '"}'
        FROM ended)
    -- What a whole run would have taken; one that computed less than half of it itself does not tell.
    SELECT array_agg(place), array_agg(analysis) FILTER (WHERE paced_at IS NOT NULL AND paced_percent <= 50),
        array_agg((now - paced_at) / 10000.0 / (100 - paced_percent)) FILTER (WHERE paced_at IS NOT NULL AND paced_percent <= 50)
    INTO places, names, seconds FROM ended;
    IF names IS NOT NULL THEN
        PERFORM note_paces(names, seconds);
    END IF;
    RETURN coalesce(places, '{}');
END $$;

-- A worker that was told of a failed commit writes again: a snapshot that is there already changes nothing.
CREATE FUNCTION record_partials(
    now bigint, org_ids text[], job_ids text[], attempts integer[], kinds text[], percents integer[], steps text[],
    replays boolean[], result_ids text[], payloads text[], refs text[], summaries text[], shown text[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    places bigint[];
BEGIN
    WITH changed AS (
        UPDATE jobs SET
            status = 'partial',
            progress_percent = greatest(progress_percent, new.percent),
            step = coalesce(new.step, jobs.step),
            partial_count = partial_count + 1,
            result_id = new.result_id,
            progress_at = CASE WHEN new.percent > progress_percent OR coalesce(new.replayed, false) THEN now ELSE progress_at END,
            paced_at = CASE WHEN (new.percent > progress_percent AND paced_at IS NULL) OR coalesce(new.replayed, false) THEN now ELSE paced_at END,
            paced_percent = CASE WHEN (new.percent > progress_percent AND paced_at IS NULL) OR coalesce(new.replayed, false)
                THEN greatest(new.percent, progress_percent) ELSE paced_percent END,
            event_seq = event_seq + 1,
            updated_at = now
        FROM unnest(org_ids, job_ids, attempts, kinds, percents, steps, replays, result_ids, payloads, refs, summaries, shown)
            WITH ORDINALITY
            AS new (org_id, job_id, attempt, kind, percent, step, replayed, result_id, payload, ref, summary, views, place)
        WHERE new.kind = 'partial' AND jobs.org_id = new.org_id AND jobs.job_id = new.job_id
          AND jobs.attempt = new.attempt AND jobs.status IN ('running', 'partial') AND jobs.next_attempt_at IS NULL
          AND EXISTS (SELECT 1 FROM leases AS lease WHERE lease.org_id = new.org_id AND lease.job_id = new.job_id
                        AND lease.attempt = new.attempt AND lease.expires_at > now)
          AND (jobs.partial_count = 0 OR NOT EXISTS (
              SELECT 1 FROM job_results AS shown
              WHERE shown.org_id = new.org_id AND shown.job_id = new.job_id AND shown.result_id = new.result_id))
        RETURNING jobs.org_id, jobs.job_id, jobs.event_seq, jobs.progress_percent, jobs.partial_count, jobs.trace_id,
            jobs.request_id, new.result_id, new.payload, new.ref, new.summary, new.views, new.place),
    kept AS (
        INSERT INTO job_results (org_id, result_id, job_id, result_kind, result_seq, schema_version, result_payload_ref, created_at, summary_json, payload, views)
        SELECT org_id, result_id, job_id, 'partial', partial_count, 1, coalesce(ref, 'inline:'), now, summary, payload, views FROM changed),
    told AS (
        INSERT INTO job_events (org_id, job_id, event_seq, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
        SELECT org_id, job_id, event_seq, 'job.partial', now, 'worker',
            '{"result_id":' || said(result_id) || ',"result_seq":' || partial_count || ',"progress_percent":' || progress_percent || '}',
            trace_id, request_id
        FROM changed)
    SELECT array_agg(place) INTO places FROM changed;
    RETURN written_or_held(now, org_ids, job_ids, attempts, kinds, 'partial', places);
END $$;

CREATE OR REPLACE FUNCTION retirable_results(
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
            coalesce(sum(coalesce(octet_length(payload), 0) + coalesce(octet_length(views), 0)), 0)::bigint AS bytes
        FROM (
            SELECT payload, views, job.finished_at <= cutoff_of(result_kind, job.status, finals, partials, completed) AS goes
            FROM job_results
            WHERE job_results.job_id = job.job_id AND job_results.org_id = job.org_id AND removed_at IS NULL) AS result) AS parts
    ORDER BY job.finished_at, job.org_id, job.job_id;
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
    SELECT may.orgs, may.ids INTO orgs, ids FROM may_retire(org_ids, job_ids, cutoff) AS may;
    UPDATE job_results AS result SET removed_at = now, payload = NULL, summary_json = NULL, views = NULL
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

-- The snapshot that was asked for, and the one that is given for it: that one, or the newest of its job. The final one has
-- the highest number, so the newest is the last.
CREATE FUNCTION read_result(org text, result text, newest boolean, whole boolean)
RETURNS TABLE (view job_views, requested snapshots, delivered snapshots, payload text, views text) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT found.view, asked, given.snapshot, parts.payload, parts.views
        FROM snapshots AS asked
        CROSS JOIN LATERAL (
            SELECT one AS view FROM job_views AS one WHERE one.org_id = org AND one.job_id = asked.job_id OFFSET 0) AS found
        CROSS JOIN LATERAL (
            SELECT last AS snapshot, last.result_seq FROM snapshots AS last
            WHERE last.org_id = org AND last.job_id = asked.job_id
              AND last.result_seq >= asked.result_seq AND (newest OR last.result_seq <= asked.result_seq)
            ORDER BY last.result_seq DESC LIMIT 1) AS given
        LEFT JOIN LATERAL (
            SELECT kept.payload, kept.views FROM job_results AS kept
            WHERE whole AND kept.org_id = org AND kept.job_id = asked.job_id AND kept.result_seq = given.result_seq
            OFFSET 0) AS parts ON true
        WHERE asked.org_id = org AND asked.result_id = result;
END $$;

CREATE FUNCTION read_views(org text, result text) RETURNS text LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN (SELECT one.views FROM job_results AS one WHERE one.org_id = org AND one.result_id = result);
END $$;

-- Completed jobs of an analysis before a position, the last to end first, with their inputs: so many and no more.
CREATE FUNCTION read_completed(org text, wanted text, before_at bigint, before_id text, most integer)
RETURNS TABLE (job_id text, result_id text, finished_at bigint, payload text) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT done.job_id, done.result_id, done.finished_at, input.payload
        FROM (
            SELECT one.job_id, one.result_id, one.finished_at FROM jobs AS one
            WHERE one.org_id = org AND one.analysis = wanted AND one.status = 'completed' AND one.result_expired_at IS NULL
              AND (one.finished_at, one.job_id) < (before_at, before_id)
            ORDER BY one.finished_at DESC, one.job_id DESC LIMIT most) AS done
        CROSS JOIN LATERAL (
            SELECT kept.payload FROM job_inputs AS kept WHERE kept.org_id = org AND kept.job_id = done.job_id OFFSET 0) AS input
        ORDER BY done.finished_at DESC, done.job_id DESC;
END $$;

SELECT plan_with('{record_partials, record_completions, retire_results}',
    'SET enable_bitmapscan = on SET enable_indexscan = off SET enable_indexonlyscan = off');
SELECT plan_with('{record, retirable_results, read_result, read_views, read_completed}',
    'SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');
