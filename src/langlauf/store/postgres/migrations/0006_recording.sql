-- What attempts write while they run and when they end, a batch at a time: no two writes of a batch are for the same job, and
-- they come in the order of the jobs' keys, in which rows are locked.
--
-- Each write carries the fence: the job's row is of this attempt and no other is due, and its lease is not over. That is
-- asked of the row itself, so that a write which had to wait for another one looks again.

CREATE FUNCTION record(
    at bigint, batch uuid, org_ids text[], job_ids text[], attempts integer[], kinds text[], percents integer[], steps text[],
    replays boolean[], keys text[], result_ids text[], payloads text[], refs text[], summaries text[], codes text[],
    messages text[], metas text[], can_retry boolean[], hints text[], delays bigint[], timeouts boolean[], thresholds text[],
    owns boolean[], deaths integer[], actors text[], bys text[], most_lost integer, most_crashes integer
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
        written := written || record_completions(now, org_ids, job_ids, attempts, kinds, result_ids, payloads, refs, summaries);
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
            now, org_ids, job_ids, attempts, kinds, percents, steps, replays, result_ids, payloads, refs, summaries);
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
    summaries text[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    places bigint[];
    names text[];
    seconds float8[];
BEGIN
    WITH given_up AS (
        DELETE FROM leases
        USING unnest(org_ids, job_ids, attempts, kinds, result_ids, payloads, refs, summaries) WITH ORDINALITY
            AS one (org_id, job_id, attempt, kind, result_id, payload, ref, summary, place)
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
    shown AS (
        INSERT INTO job_results (org_id, result_id, job_id, result_kind, result_seq, schema_version, result_payload_ref, created_at, summary_json, payload)
        SELECT org_id, result_id, job_id, 'final', partial_count + 1, 1, coalesce(ref, 'inline:'), now, summary, payload FROM ended),
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

-- Takes the leases of attempts that end themselves and still hold them; the ends that they wish to write.
CREATE FUNCTION give_up_leases(
    now bigint, org_ids text[], job_ids text[], attempts integer[], kinds text[], codes text[], messages text[], metas text[],
    can_retry boolean[], hints text[], delays bigint[], timeouts boolean[], thresholds text[], owns boolean[], deaths integer[],
    actors text[], bys text[]
) RETURNS ending[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ends ending[];
BEGIN
    IF NOT kinds && '{failed, retry, released, crashed, canceled}' THEN
        RETURN NULL;
    END IF;
    WITH given_up AS (
        DELETE FROM leases
        USING unnest(
            org_ids, job_ids, attempts, kinds, actors, codes, messages, metas, can_retry, hints, delays, timeouts, thresholds,
            owns, deaths, bys
        ) WITH ORDINALITY AS one (
            org_id, job_id, attempt, kind, actor, code, message, meta, retryable, hint, delay, timed_out, threshold, own, deaths, by_whom,
            place)
        WHERE leases.org_id = one.org_id AND leases.job_id = one.job_id AND leases.attempt = one.attempt
          AND leases.expires_at > now AND one.kind IN ('failed', 'retry', 'released', 'crashed', 'canceled')
        RETURNING ROW(
            one.place, one.org_id, one.job_id, one.attempt, one.kind, coalesce(one.actor, 'worker'), one.code, one.message, one.meta,
            one.retryable, one.hint, one.delay, coalesce(one.timed_out, false), one.threshold,
            (one.kind = 'failed' AND one.code = 'worker_lost')::integer, one.deaths,
            CASE one.kind WHEN 'crashed' THEN one.message END, one.own, one.by_whom, one.message)::ending AS made)
    SELECT array_agg(made) INTO ends FROM given_up;
    RETURN ends;
END $$;

-- The writes of a kind that were made, and those that found nothing to change for an attempt that still holds its lease.
CREATE FUNCTION written_or_held(
    now bigint, org_ids text[], job_ids text[], attempts integer[], kinds text[], wanted text, written bigint[]
) RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    IF cardinality(written) = (SELECT count(*) FROM unnest(kinds) AS kind WHERE kind = wanted) THEN
        RETURN written;
    END IF;
    RETURN coalesce(written, '{}') || ARRAY(
        SELECT place FROM unnest(org_ids, job_ids, attempts, kinds) WITH ORDINALITY AS one (org_id, job_id, attempt, kind, place)
        JOIN leases AS lease ON lease.org_id = one.org_id AND lease.job_id = one.job_id
        WHERE one.kind = wanted AND lease.attempt = one.attempt AND lease.expires_at > now);
END $$;

-- What changes neither the percent nor the step is no news and touches nothing. The pace of an attempt is measured from
-- where it began to compute: not from what stored chunks brought, nor from what an attempt before it had done.
CREATE FUNCTION record_progress(
    now bigint, org_ids text[], job_ids text[], attempts integer[], kinds text[], percents integer[], steps text[], replays boolean[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    places bigint[];
BEGIN
    WITH changed AS (
        UPDATE jobs SET
            progress_percent = greatest(progress_percent, new.percent),
            step = coalesce(new.step, jobs.step),
            progress_at = CASE WHEN new.percent > progress_percent OR coalesce(new.replayed, false) THEN now ELSE progress_at END,
            paced_at = CASE WHEN (new.percent > progress_percent AND paced_at IS NULL) OR coalesce(new.replayed, false) THEN now ELSE paced_at END,
            paced_percent = CASE WHEN (new.percent > progress_percent AND paced_at IS NULL) OR coalesce(new.replayed, false)
                THEN greatest(new.percent, progress_percent) ELSE paced_percent END,
            event_seq = event_seq + 1,
            updated_at = now
        FROM unnest(org_ids, job_ids, attempts, kinds, percents, steps, replays) WITH ORDINALITY
            AS new (org_id, job_id, attempt, kind, percent, step, replayed, place)
        WHERE new.kind = 'progress' AND jobs.org_id = new.org_id AND jobs.job_id = new.job_id
          AND (new.percent > progress_percent OR new.step <> coalesce(jobs.step, ''))
          AND jobs.attempt = new.attempt AND jobs.status IN ('running', 'partial') AND jobs.next_attempt_at IS NULL
          AND EXISTS (SELECT 1 FROM leases AS lease WHERE lease.org_id = new.org_id AND lease.job_id = new.job_id
                        AND lease.attempt = new.attempt AND lease.expires_at > now)
        RETURNING jobs.org_id, jobs.job_id, jobs.event_seq, jobs.progress_percent, jobs.step, jobs.trace_id, jobs.request_id, new.place),
    told AS (
        INSERT INTO job_events (org_id, job_id, event_seq, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
        SELECT org_id, job_id, event_seq, 'job.progress', now, 'worker',
            '{"progress_percent":' || progress_percent || ',"step":' || said(step) || '}', trace_id, request_id
        FROM changed)
    SELECT array_agg(place) INTO places FROM changed;
    RETURN written_or_held(now, org_ids, job_ids, attempts, kinds, 'progress', places);
END $$;

-- A worker that was told of a failed commit writes again: a snapshot that is there already changes nothing.
CREATE FUNCTION record_partials(
    now bigint, org_ids text[], job_ids text[], attempts integer[], kinds text[], percents integer[], steps text[],
    replays boolean[], result_ids text[], payloads text[], refs text[], summaries text[]
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
        FROM unnest(org_ids, job_ids, attempts, kinds, percents, steps, replays, result_ids, payloads, refs, summaries)
            WITH ORDINALITY AS new (org_id, job_id, attempt, kind, percent, step, replayed, result_id, payload, ref, summary, place)
        WHERE new.kind = 'partial' AND jobs.org_id = new.org_id AND jobs.job_id = new.job_id
          AND jobs.attempt = new.attempt AND jobs.status IN ('running', 'partial') AND jobs.next_attempt_at IS NULL
          AND EXISTS (SELECT 1 FROM leases AS lease WHERE lease.org_id = new.org_id AND lease.job_id = new.job_id
                        AND lease.attempt = new.attempt AND lease.expires_at > now)
          AND (jobs.partial_count = 0 OR NOT EXISTS (
              SELECT 1 FROM job_results AS shown
              WHERE shown.org_id = new.org_id AND shown.job_id = new.job_id AND shown.result_id = new.result_id))
        RETURNING jobs.org_id, jobs.job_id, jobs.event_seq, jobs.progress_percent, jobs.partial_count, jobs.trace_id,
            jobs.request_id, new.result_id, new.payload, new.ref, new.summary, new.place),
    shown AS (
        INSERT INTO job_results (org_id, result_id, job_id, result_kind, result_seq, schema_version, result_payload_ref, created_at, summary_json, payload)
        SELECT org_id, result_id, job_id, 'partial', partial_count, 1, coalesce(ref, 'inline:'), now, summary, payload FROM changed),
    told AS (
        INSERT INTO job_events (org_id, job_id, event_seq, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
        SELECT org_id, job_id, event_seq, 'job.partial', now, 'worker',
            '{"result_id":' || said(result_id) || ',"result_seq":' || partial_count || ',"progress_percent":' || progress_percent || '}',
            trace_id, request_id
        FROM changed)
    SELECT array_agg(place) INTO places FROM changed;
    RETURN written_or_held(now, org_ids, job_ids, attempts, kinds, 'partial', places);
END $$;

-- The first value of a chunk counts; a checkpoint has no event, it is not news for people.
CREATE FUNCTION record_checkpoints(
    now bigint, org_ids text[], job_ids text[], attempts integer[], kinds text[], keys text[], payloads text[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    places bigint[];
BEGIN
    -- The leases are locked: a checkpoint changes no row of the job that another writer would have to look at.
    SELECT array_agg(place) INTO places FROM (
        SELECT one.place FROM unnest(org_ids, job_ids, attempts, kinds) WITH ORDINALITY AS one (org_id, job_id, attempt, kind, place)
        JOIN leases AS lease USING (org_id, job_id)
        WHERE one.kind = 'checkpoint' AND lease.attempt = one.attempt AND lease.expires_at > now
        ORDER BY lease.job_id, lease.org_id FOR SHARE OF lease) AS held_ones;
    INSERT INTO job_chunks (org_id, job_id, chunk_key, payload, created_at)
    SELECT org_id, job_id, key, payload, now
    FROM unnest(org_ids, job_ids, keys, payloads) WITH ORDINALITY AS one (org_id, job_id, key, payload, place)
    WHERE place = ANY (places)
    ON CONFLICT DO NOTHING;
    RETURN coalesce(places, '{}');
END $$;
