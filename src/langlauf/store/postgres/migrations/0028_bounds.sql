-- The bounds of one job: what its stored partials take, and the bound that it has reached. Past it, progress and partials are no
-- longer stored, one event says so, and whatever ends an attempt or the job is stored as before.
--
-- The functions that record progress and partials take the bounds with each write, and the answer to it names the one reached.

ALTER TABLE jobs
    ADD COLUMN partial_bytes bigint NOT NULL DEFAULT 0 CHECK (partial_bytes >= 0),
    ADD COLUMN limit_reached text CHECK (limit_reached IN ('events', 'partials'));

CREATE OR REPLACE VIEW job_views WITH (security_invoker = true) AS
SELECT job_id, org_id, analysis, status, priority_class, request_payload_hash, request_payload_ref, queued_at, updated_at,
    timeout_seconds, max_retries, trace_id, request_id, requested_by_user_id, api_key_id, progress_percent, step,
    estimated_seconds, partial_count, error_count, result_id, started_at, attempt_started_at, finished_at, cancel_requested_at,
    canceled_at, canceled_by, cancel_reason, failed_at, error_code, error_message, error_meta, retryable, retry_hint,
    retry_count, last_retry_at, retry_reason, next_attempt_at, retry_of, job.attempt, event_seq, lost_count, crash_count,
    result_expired_at, events_expired_at, imported_at, ticket, paced_percent, paced_at, progress_at, traceparent, tracestate,
    lease.expires_at AS lease_expires_at, held_at, held_by, hold_reason, partial_bytes, limit_reached
FROM jobs AS job LEFT JOIN leases AS lease USING (org_id, job_id);

DROP FUNCTION record, record_progress, record_partials;

CREATE FUNCTION record(
    at bigint, batch uuid, org_ids text[], job_ids text[], attempts integer[], kinds text[], percents integer[], steps text[],
    replays boolean[], news_ends integer[], sizes bigint[], most_partials bigint[], keys text[], result_ids text[], payloads text[], refs text[], summaries text[], shown text[],
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
    limit_reached text;
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
        written := written || record_progress(now, org_ids, job_ids, attempts, kinds, percents, steps, replays, news_ends);
    END IF;
    IF 'partial' = ANY (kinds) THEN
        written := written || record_partials(
            now, org_ids, job_ids, attempts, kinds, percents, steps, replays, news_ends, sizes, most_partials, result_ids,
            payloads, refs, summaries, shown);
    END IF;
    outcomes := array_fill('false'::text, ARRAY[cardinality(org_ids)]);
    FOREACH place IN ARRAY written LOOP
        outcomes[place] := 'true';
    END LOOP;
    IF kinds && '{progress, partial}' THEN
        FOR place, limit_reached IN SELECT * FROM limits_of(org_ids, job_ids, kinds) LOOP
            outcomes[place] := CASE outcomes[place] WHEN 'true' THEN limit_reached ELSE outcomes[place] END;
        END LOOP;
    END IF;
    UPDATE batches SET answers = outcomes WHERE batch_id = batch;
    RETURN outcomes;
END $$;

-- The bounds that jobs of a batch have reached, by the places of their progress and partials.
CREATE FUNCTION limits_of(org_ids text[], job_ids text[], kinds text[]) RETURNS TABLE (place bigint, limit_reached text)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT one.place, job.limit_reached
        FROM unnest(org_ids, job_ids, kinds) WITH ORDINALITY AS one (org_id, job_id, kind, place)
        JOIN jobs AS job ON job.org_id = one.org_id AND job.job_id = one.job_id
        WHERE one.kind IN ('progress', 'partial') AND job.limit_reached IS NOT NULL;
END $$;

-- What changes neither the percent nor the step is no news and touches nothing. The pace of an attempt is measured from
-- where it began to compute: not from what stored chunks brought, nor from what an attempt before it had done. The last news
-- that a log has room for says that it is the last.
CREATE FUNCTION record_progress(
    now bigint, org_ids text[], job_ids text[], attempts integer[], kinds text[], percents integer[], steps text[], replays boolean[],
    news_ends integer[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    places bigint[];
BEGIN
    WITH changed AS (
        UPDATE jobs SET
            limit_reached = CASE WHEN event_seq + 1 >= new.news_end THEN 'events' ELSE limit_reached END,
            progress_percent = greatest(progress_percent, new.percent),
            step = coalesce(new.step, jobs.step),
            progress_at = CASE WHEN new.percent > progress_percent OR coalesce(new.replayed, false) THEN now ELSE progress_at END,
            paced_at = CASE WHEN (new.percent > progress_percent AND paced_at IS NULL) OR coalesce(new.replayed, false) THEN now ELSE paced_at END,
            paced_percent = CASE WHEN (new.percent > progress_percent AND paced_at IS NULL) OR coalesce(new.replayed, false)
                THEN greatest(new.percent, progress_percent) ELSE paced_percent END,
            event_seq = event_seq + 1,
            updated_at = now
        FROM unnest(org_ids, job_ids, attempts, kinds, percents, steps, replays, news_ends) WITH ORDINALITY
            AS new (org_id, job_id, attempt, kind, percent, step, replayed, news_end, place)
        WHERE new.kind = 'progress' AND jobs.org_id = new.org_id AND jobs.job_id = new.job_id
          AND (new.percent > progress_percent OR new.step <> coalesce(jobs.step, ''))
          AND jobs.limit_reached IS DISTINCT FROM 'events'
          AND jobs.attempt = new.attempt AND jobs.status IN ('running', 'partial') AND jobs.next_attempt_at IS NULL
          AND EXISTS (SELECT 1 FROM leases AS lease WHERE lease.org_id = new.org_id AND lease.job_id = new.job_id
                        AND lease.attempt = new.attempt AND lease.expires_at > now)
        RETURNING jobs.org_id, jobs.job_id, jobs.event_seq, jobs.progress_percent, jobs.step, jobs.limit_reached, jobs.trace_id, jobs.request_id, new.place),
    told AS (
        INSERT INTO job_events (org_id, job_id, event_seq, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
        SELECT org_id, job_id, event_seq, 'job.progress', now, 'worker',
            '{"progress_percent":' || progress_percent || ',"step":' || said(step)
            || CASE limit_reached WHEN 'events' THEN ',"limit":"events"}' ELSE '}' END, trace_id, request_id
        FROM changed)
    SELECT array_agg(place) INTO places FROM changed;
    RETURN written_or_held(now, org_ids, job_ids, attempts, kinds, 'progress', places);
END $$;

-- A worker that was told of a failed commit writes again: a snapshot that is there already changes nothing. The first one that
-- does not fit any more is progress without a snapshot, and says so; those after it change nothing.
CREATE FUNCTION record_partials(
    now bigint, org_ids text[], job_ids text[], attempts integer[], kinds text[], percents integer[], steps text[],
    replays boolean[], news_ends integer[], sizes bigint[], most_partials bigint[], result_ids text[], payloads text[], refs text[], summaries text[], shown text[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    places bigint[];
BEGIN
    WITH changed AS (
        UPDATE jobs SET
            limit_reached = CASE WHEN event_seq + 1 >= new.news_end THEN 'events'
                                 WHEN partial_bytes + new.size > new.most_bytes THEN 'partials' END,
            status = CASE WHEN (event_seq + 1 < new.news_end AND partial_bytes + new.size <= new.most_bytes) THEN 'partial' ELSE status END,
            progress_percent = greatest(progress_percent, new.percent),
            step = coalesce(new.step, jobs.step),
            partial_count = partial_count + (event_seq + 1 < new.news_end AND partial_bytes + new.size <= new.most_bytes)::integer,
            partial_bytes = partial_bytes + CASE WHEN (event_seq + 1 < new.news_end AND partial_bytes + new.size <= new.most_bytes) THEN new.size ELSE 0 END,
            result_id = CASE WHEN (event_seq + 1 < new.news_end AND partial_bytes + new.size <= new.most_bytes) THEN new.result_id ELSE jobs.result_id END,
            progress_at = CASE WHEN new.percent > progress_percent OR coalesce(new.replayed, false) THEN now ELSE progress_at END,
            paced_at = CASE WHEN (new.percent > progress_percent AND paced_at IS NULL) OR coalesce(new.replayed, false) THEN now ELSE paced_at END,
            paced_percent = CASE WHEN (new.percent > progress_percent AND paced_at IS NULL) OR coalesce(new.replayed, false)
                THEN greatest(new.percent, progress_percent) ELSE paced_percent END,
            event_seq = event_seq + 1,
            updated_at = now
        FROM unnest(
            org_ids, job_ids, attempts, kinds, percents, steps, replays, news_ends, sizes, most_partials, result_ids, payloads,
            refs, summaries, shown) WITH ORDINALITY
            AS new (org_id, job_id, attempt, kind, percent, step, replayed, news_end, size, most_bytes, result_id, payload, ref,
                summary, views, place)
        WHERE new.kind = 'partial' AND jobs.org_id = new.org_id AND jobs.job_id = new.job_id
          AND jobs.attempt = new.attempt AND jobs.status IN ('running', 'partial') AND jobs.next_attempt_at IS NULL
          AND EXISTS (SELECT 1 FROM leases AS lease WHERE lease.org_id = new.org_id AND lease.job_id = new.job_id
                        AND lease.attempt = new.attempt AND lease.expires_at > now)
          AND (jobs.partial_count = 0 OR NOT EXISTS (
              SELECT 1 FROM job_results AS shown
              WHERE shown.org_id = new.org_id AND shown.job_id = new.job_id AND shown.result_id = new.result_id))
          AND jobs.limit_reached IS NULL
        RETURNING jobs.org_id, jobs.job_id, jobs.event_seq, jobs.progress_percent, jobs.step, jobs.partial_count,
            jobs.limit_reached, jobs.trace_id,
            jobs.request_id, new.result_id, new.payload, new.ref, new.summary, new.views, new.place),
    kept AS (
        INSERT INTO job_results (org_id, result_id, job_id, result_kind, result_seq, schema_version, result_payload_ref, created_at, summary_json, payload, views)
        SELECT org_id, result_id, job_id, 'partial', partial_count, 1, coalesce(ref, 'inline:'), now, summary, payload, views
        FROM changed WHERE limit_reached IS NULL),
    told AS (
        INSERT INTO job_events (org_id, job_id, event_seq, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
        SELECT org_id, job_id, event_seq, CASE WHEN limit_reached IS NULL THEN 'job.partial' ELSE 'job.progress' END, now, 'worker',
            CASE WHEN limit_reached IS NULL
                THEN '{"result_id":' || said(result_id) || ',"result_seq":' || partial_count || ',"progress_percent":' || progress_percent || '}'
                ELSE '{"progress_percent":' || progress_percent || ',"step":' || said(step) || ',"limit":"' || limit_reached || '"}' END,
            trace_id, request_id
        FROM changed)
    SELECT array_agg(place) INTO places FROM changed;
    RETURN written_or_held(now, org_ids, job_ids, attempts, kinds, 'partial', places);
END $$;

SELECT plan_with('{record_progress, record_partials, limits_of}',
    'SET enable_bitmapscan = on SET enable_indexscan = off SET enable_indexonlyscan = off');
SELECT plan_with('{record}', 'SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');
