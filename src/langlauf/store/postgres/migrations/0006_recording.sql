-- What attempts write while they run and when they end, a batch at a time: no two writes of a batch are for the same job.
--
-- Each write carries the fence: the job's row is of this attempt and no other is due, and its lease is not over. That is
-- asked of the row itself, so that a write which had to wait for another one looks again.

CREATE FUNCTION record(
    at bigint, batch uuid, org_ids text[], job_ids text[], attempts integer[], kinds text[], percents integer[], steps text[],
    replays boolean[], keys text[], result_ids text[], payloads text[], refs text[], summaries text[], codes text[],
    messages text[], metas text[], can_retry boolean[], hints text[], delays bigint[], timeouts boolean[], thresholds text[],
    owns boolean[], actors text[], bys text[], most_lost integer, most_crashes integer
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
    -- Each kind is written in the order of locks; together they are not, unless the leases come first.
    IF kinds[1] <> ANY (kinds) THEN
        PERFORM lock_leases(org_ids, job_ids);
    END IF;
    now := moment(at);
    IF 'progress' = ANY (kinds) THEN
        written := written || record_progress(now, org_ids, job_ids, attempts, kinds, percents, steps, replays);
    END IF;
    IF 'partial' = ANY (kinds) THEN
        written := written || record_partials(
            now, org_ids, job_ids, attempts, kinds, percents, steps, replays, result_ids, payloads, refs, summaries);
    END IF;
    IF 'checkpoint' = ANY (kinds) THEN
        written := written || record_checkpoints(now, org_ids, job_ids, attempts, kinds, keys, payloads);
    END IF;
    ends := give_up_leases(
        now, org_ids, job_ids, attempts, kinds, result_ids, payloads, refs, summaries, codes, messages, metas, can_retry, hints,
        delays, timeouts, thresholds, owns, actors, bys);
    IF ends IS NOT NULL THEN
        IF EXISTS (SELECT 1 FROM unnest(kinds) AS kind WHERE kind IN ('retry', 'released', 'crashed')) THEN
            ends := decided(ends, most_lost, most_crashes);
        END IF;
        written := written || write_ends(now, ends);
    END IF;
    outcomes := array_fill('false'::text, ARRAY[cardinality(org_ids)]);
    FOREACH place IN ARRAY written LOOP
        outcomes[place] := 'true';
    END LOOP;
    UPDATE batches SET answers = outcomes WHERE batch_id = batch;
    RETURN outcomes;
END $$;

-- Takes the leases of attempts that end themselves and still hold them; the ends that they wish to write.
CREATE FUNCTION give_up_leases(
    now bigint, org_ids text[], job_ids text[], attempts integer[], kinds text[], result_ids text[], payloads text[], refs text[],
    summaries text[], codes text[], messages text[], metas text[], can_retry boolean[], hints text[], delays bigint[],
    timeouts boolean[], thresholds text[], owns boolean[], actors text[], bys text[]
) RETURNS ending[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ends ending[];
BEGIN
    WITH given_up AS (
        DELETE FROM leases
        USING unnest(
            org_ids, job_ids, attempts, kinds, actors, codes, messages, metas, can_retry, hints, delays, timeouts, thresholds,
            owns, bys, result_ids, payloads, refs, summaries
        ) WITH ORDINALITY AS one (
            org_id, job_id, attempt, kind, actor, code, message, meta, retryable, hint, delay, timed_out, threshold,
            own, by_whom, result_id, payload, ref, summary, place)
        WHERE leases.org_id = one.org_id AND leases.job_id = one.job_id AND leases.attempt = one.attempt
          AND leases.expires_at > now AND one.kind NOT IN ('progress', 'partial', 'checkpoint')
        RETURNING ROW(
            one.place, one.org_id, one.job_id, one.attempt, one.kind, one.actor, one.code, one.message, one.meta, one.retryable,
            one.hint, one.delay, one.timed_out, one.threshold, (one.kind = 'failed' AND one.code = 'worker_lost')::integer, 0,
            CASE one.kind WHEN 'crashed' THEN one.message END, one.own, one.by_whom, one.message, one.result_id, one.payload,
            one.ref, one.summary)::ending AS made)
    SELECT array_agg(made) INTO ends FROM given_up;
    RETURN ends;
END $$;

-- Which of the writes are of attempts that still hold their lease.
CREATE FUNCTION held(now bigint, org_ids text[], job_ids text[], attempts integer[], kinds text[], wanted text)
RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN (SELECT coalesce(array_agg(place), '{}')
    FROM unnest(org_ids, job_ids, attempts, kinds) WITH ORDINALITY AS one (org_id, job_id, attempt, kind, place)
    JOIN leases AS lease USING (org_id, job_id)
    WHERE one.kind = wanted AND lease.attempt = one.attempt AND lease.expires_at > now);
END $$;

-- What changes neither the percent nor the step is no news and touches nothing. The pace of an attempt is measured from
-- where it began to compute: not from what stored chunks brought, nor from what an attempt before it had done.
CREATE FUNCTION record_progress(
    now bigint, org_ids text[], job_ids text[], attempts integer[], kinds text[], percents integer[], steps text[], replays boolean[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    WITH changed AS (
        UPDATE jobs SET
            progress_percent = greatest(progress_percent, new.percent),
            step = coalesce(new.step, jobs.step),
            progress_at = CASE WHEN new.percent > progress_percent OR new.replayed THEN now ELSE progress_at END,
            paced_at = CASE WHEN (new.percent > progress_percent AND paced_at IS NULL) OR new.replayed THEN now ELSE paced_at END,
            paced_percent = CASE WHEN (new.percent > progress_percent AND paced_at IS NULL) OR new.replayed
                THEN greatest(new.percent, progress_percent) ELSE paced_percent END,
            event_seq = event_seq + 1,
            updated_at = now
        FROM unnest(org_ids, job_ids, attempts, kinds, percents, steps, replays) AS new (org_id, job_id, attempt, kind, percent, step, replayed)
        WHERE new.kind = 'progress' AND jobs.org_id = new.org_id AND jobs.job_id = new.job_id
          AND (new.percent > progress_percent OR new.step <> coalesce(jobs.step, ''))
          AND jobs.attempt = new.attempt AND jobs.status IN ('running', 'partial') AND jobs.next_attempt_at IS NULL
          AND EXISTS (SELECT 1 FROM leases AS lease WHERE lease.org_id = new.org_id AND lease.job_id = new.job_id
                        AND lease.attempt = new.attempt AND lease.expires_at > now)
        RETURNING jobs.org_id, jobs.job_id, jobs.event_seq, jobs.progress_percent, jobs.step, jobs.trace_id, jobs.request_id)
    INSERT INTO job_events (org_id, job_id, event_seq, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
    SELECT org_id, job_id, event_seq, 'job.progress', now, 'worker',
        '{"progress_percent":' || progress_percent || ',"step":' || said(step) || '}', trace_id, request_id
    FROM changed;
    -- What was no news was fine as well; what lost its lease meanwhile was refused.
    RETURN held(now, org_ids, job_ids, attempts, kinds, 'progress');
END $$;

-- A worker that was told of a failed commit writes again: a snapshot that is there already changes nothing.
CREATE FUNCTION record_partials(
    now bigint, org_ids text[], job_ids text[], attempts integer[], kinds text[], percents integer[], steps text[],
    replays boolean[], result_ids text[], payloads text[], refs text[], summaries text[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    WITH changed AS (
        UPDATE jobs SET
            status = 'partial',
            progress_percent = greatest(progress_percent, new.percent),
            step = coalesce(new.step, jobs.step),
            partial_count = partial_count + 1,
            result_id = new.result_id,
            progress_at = CASE WHEN new.percent > progress_percent OR new.replayed THEN now ELSE progress_at END,
            paced_at = CASE WHEN (new.percent > progress_percent AND paced_at IS NULL) OR new.replayed THEN now ELSE paced_at END,
            paced_percent = CASE WHEN (new.percent > progress_percent AND paced_at IS NULL) OR new.replayed
                THEN greatest(new.percent, progress_percent) ELSE paced_percent END,
            event_seq = event_seq + 1,
            updated_at = now
        FROM unnest(org_ids, job_ids, attempts, kinds, percents, steps, replays, result_ids, payloads, refs, summaries)
            AS new (org_id, job_id, attempt, kind, percent, step, replayed, result_id, payload, ref, summary)
        WHERE new.kind = 'partial' AND jobs.org_id = new.org_id AND jobs.job_id = new.job_id
          AND jobs.attempt = new.attempt AND jobs.status IN ('running', 'partial') AND jobs.next_attempt_at IS NULL
          AND EXISTS (SELECT 1 FROM leases AS lease WHERE lease.org_id = new.org_id AND lease.job_id = new.job_id
                        AND lease.attempt = new.attempt AND lease.expires_at > now)
          AND NOT EXISTS (SELECT 1 FROM job_results AS shown WHERE shown.org_id = new.org_id AND shown.job_id = new.job_id AND shown.result_id = new.result_id)
        RETURNING jobs.org_id, jobs.job_id, jobs.event_seq, jobs.progress_percent, jobs.partial_count, jobs.trace_id,
            jobs.request_id, new.result_id, new.payload, new.ref, new.summary),
    shown AS (
        INSERT INTO job_results (org_id, result_id, job_id, result_kind, result_seq, schema_version, result_payload_ref, created_at, summary_json, payload)
        SELECT org_id, result_id, job_id, 'partial', partial_count, 1, ref, now, summary, payload FROM changed)
    INSERT INTO job_events (org_id, job_id, event_seq, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
    SELECT org_id, job_id, event_seq, 'job.partial', now, 'worker',
        '{"result_id":' || said(result_id) || ',"result_seq":' || partial_count || ',"progress_percent":' || progress_percent || '}',
        trace_id, request_id
    FROM changed;
    RETURN held(now, org_ids, job_ids, attempts, kinds, 'partial');
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
