-- Writes of attempts, in batches: no two for the same job, in the order of the jobs' keys, which is the lock order.
--
-- Every write is fenced: the row's attempt is this one and its lease has not expired. The condition is on the row itself, so a
-- write that waited for a lock checks it again.

CREATE OR REPLACE FUNCTION record(
    at bigint, batch uuid, writes attempt_write[], kinds text[], most_lost integer, most_crashes integer, asked_again boolean
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    now bigint;
    written integer[] := '{}';
    completed text[] := '{}';
    done record;
    outcomes text[];
    place integer;
    limit_reached text;
BEGIN
    IF asked_again THEN
        -- Waits for the first try, if it is still running. A completed job shows its outcome by itself.
        PERFORM lock_jobs(ARRAY(SELECT job FROM unnest(writes)));
        SELECT known.answers INTO outcomes FROM batches AS known WHERE batch_id = batch;
        IF outcomes IS NOT NULL THEN
            RETURN outcomes;
        END IF;
    ELSIF cardinality(kinds) > 1 AND kinds && '{progress, partial, checkpoint, completed}' THEN
        -- Lock jobs first, in order, if several statements will write.
        PERFORM lock_jobs(ARRAY(SELECT job FROM unnest(writes)));
    END IF;
    now := moment(at);
    IF 'checkpoint' = ANY (kinds) THEN
        written := written || record_checkpoints(now, writes);
    END IF;
    IF 'completed' = ANY (kinds) THEN
        done := complete_jobs(now, writes);
        written := written || done.places;
        completed := coalesce(done.names, '{}');
    END IF;
    IF kinds && '{failed, retry, released, crashed, canceled}' THEN
        IF kinds && '{retry, released, crashed}' THEN
            writes := decide_ends(writes, most_lost, most_crashes);
        END IF;
        written := written || write_ends(now, writes, completed);
    ELSIF cardinality(completed) > 0 THEN
        PERFORM count_jobs(completed, array_fill(0::bigint, ARRAY[cardinality(completed)]), array_fill(-1::bigint, ARRAY[cardinality(completed)]));
    END IF;
    IF 'progress' = ANY (kinds) THEN
        written := written || record_progress(now, writes);
    END IF;
    IF 'partial' = ANY (kinds) THEN
        written := written || record_partials(now, writes);
    END IF;
    outcomes := array_fill('false'::text, ARRAY[cardinality(writes)]);
    FOREACH place IN ARRAY written LOOP
        outcomes[place] := 'true';
    END LOOP;
    IF kinds && '{progress, partial}' THEN
        FOR place, limit_reached IN SELECT * FROM limits_reached(writes) LOOP
            outcomes[place] := CASE outcomes[place] WHEN 'true' THEN limit_reached ELSE outcomes[place] END;
        END LOOP;
    END IF;
    IF kinds && '{failed, retry, released, crashed, canceled}' THEN
        INSERT INTO batches (batch_id, made_at, answers) VALUES (batch, now, outcomes);
    END IF;
    RETURN outcomes;
END $$;

-- The limits that jobs of a batch have reached.
-- query: limits_reached(writes attempt_write[]) RETURNS TABLE (place integer, limit_reached text)
SELECT one.place, job.limit_reached
FROM unnest(writes) AS one JOIN job_rows AS job ON job.org_id = one.org_id AND job.job = one.job
WHERE one.kind IN ('progress', 'partial') AND job.limit_reached IS NOT NULL;

-- The places of a kind that were written, or that found nothing to change while the attempt holds its lease.
CREATE OR REPLACE FUNCTION written_or_unchanged(now bigint, writes attempt_write[], wanted text, written integer[]) RETURNS integer[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF cardinality(written) = (SELECT count(*) FROM unnest(writes) AS one WHERE one.kind = wanted) THEN
        RETURN written;
    END IF;
    RETURN coalesce(written, '{}') || ARRAY(
        SELECT place FROM unnest(writes) AS one JOIN job_rows AS job ON job.job = one.job AND job.org_id = one.org_id
        WHERE one.kind = wanted AND job.attempt = one.attempt AND job.lease_expires_at > now);
END $$;

-- Progress that changes neither percent nor step writes nothing. The pace is measured from where the attempt began to compute:
-- without stored chunks and without the progress of earlier attempts. The last event that fits into the log says so.
CREATE OR REPLACE FUNCTION record_progress(now bigint, writes attempt_write[]) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    places integer[];
BEGIN
    WITH changed AS (
        UPDATE job_rows AS jobs SET
            limit_reached = CASE WHEN event_seq + 1 >= new.news_end THEN 'events' ELSE limit_reached END,
            progress_percent = greatest(progress_percent, new.percent),
            step = coalesce(new.step, jobs.step),
            progress_at = CASE WHEN new.percent > progress_percent OR coalesce(new.replayed, false) THEN now ELSE progress_at END,
            paced_at = CASE WHEN (new.percent > progress_percent AND paced_at IS NULL) OR coalesce(new.replayed, false) THEN now ELSE paced_at END,
            paced_percent = CASE WHEN (new.percent > progress_percent AND paced_at IS NULL) OR coalesce(new.replayed, false)
                THEN greatest(new.percent, progress_percent) ELSE paced_percent END,
            event_seq = event_seq + 1,
            updated_at = now
        FROM unnest(writes) AS new
        WHERE new.kind = 'progress' AND jobs.job = new.job AND jobs.org_id = new.org_id
          AND (new.percent > progress_percent OR new.step <> coalesce(jobs.step, ''))
          AND jobs.limit_reached IS DISTINCT FROM 'events'
          AND jobs.attempt = new.attempt AND jobs.status IN ('running', 'partial') AND jobs.lease_expires_at > now
        RETURNING jobs.org_id, jobs.job, jobs.job_name, jobs.event_seq, jobs.progress_percent, jobs.step, jobs.limit_reached, new.place),
    written_events AS (
        INSERT INTO event_rows (org_id, job, event_seq, event_id, event_type, occurred_at, actor_type, payload_json)
        SELECT org_id, job, event_seq, new_event_id(job_name), 'job.progress', now, NULL,
            '{"progress_percent":' || progress_percent || ',"step":' || json_string(step)
            || CASE limit_reached WHEN 'events' THEN ',"limit":"events"}' ELSE '}' END
        FROM changed)
    SELECT array_agg(place) INTO places FROM changed;
    RETURN written_or_unchanged(now, writes, 'progress', places);
END $$;

-- Whether a partial still fits into the log and the size limit of its job.
CREATE OR REPLACE FUNCTION partial_fits(next_seq integer, last_seq integer, bytes bigint, most bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT next_seq < last_seq AND bytes <= most
$$;

-- A worker repeats a partial after a failed commit: an existing snapshot changes nothing. The first partial beyond the limit is
-- written as progress with that limit; later ones change nothing.
CREATE OR REPLACE FUNCTION record_partials(now bigint, writes attempt_write[]) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    places integer[];
    orgs text[];
    ids uuid[];
    seqs integer[];
BEGIN
    WITH changed AS (
        UPDATE job_rows AS jobs SET
            limit_reached = CASE WHEN event_seq + 1 >= new.news_end THEN 'events'
                                 WHEN coalesce(partial_bytes, 0) + new.size > new.most_bytes THEN 'partials' END,
            status = CASE WHEN partial_fits(event_seq + 1, new.news_end, coalesce(partial_bytes, 0) + new.size, new.most_bytes)
                THEN 'partial' ELSE status END,
            progress_percent = greatest(progress_percent, new.percent),
            step = coalesce(new.step, jobs.step),
            partial_count = partial_count
                + partial_fits(event_seq + 1, new.news_end, coalesce(partial_bytes, 0) + new.size, new.most_bytes)::integer,
            partial_bytes = coalesce(partial_bytes, 0) + CASE
                WHEN partial_fits(event_seq + 1, new.news_end, coalesce(partial_bytes, 0) + new.size, new.most_bytes)
                THEN new.size ELSE 0 END,
            result = CASE WHEN partial_fits(event_seq + 1, new.news_end, coalesce(partial_bytes, 0) + new.size, new.most_bytes)
                THEN new.result ELSE jobs.result END,
            result_name = CASE
                WHEN partial_fits(event_seq + 1, new.news_end, coalesce(partial_bytes, 0) + new.size, new.most_bytes)
                THEN new.result_name ELSE jobs.result_name END,
            progress_at = CASE WHEN new.percent > progress_percent OR coalesce(new.replayed, false) THEN now ELSE progress_at END,
            paced_at = CASE WHEN (new.percent > progress_percent AND paced_at IS NULL) OR coalesce(new.replayed, false) THEN now ELSE paced_at END,
            paced_percent = CASE WHEN (new.percent > progress_percent AND paced_at IS NULL) OR coalesce(new.replayed, false)
                THEN greatest(new.percent, progress_percent) ELSE paced_percent END,
            event_seq = event_seq + 1,
            updated_at = now
        FROM unnest(writes) AS new
        WHERE new.kind = 'partial' AND jobs.job = new.job AND jobs.org_id = new.org_id
          AND jobs.attempt = new.attempt AND jobs.status IN ('running', 'partial') AND jobs.lease_expires_at > now
          AND (jobs.partial_count = 0 OR NOT EXISTS (
              SELECT 1 FROM result_rows AS shown
              WHERE shown.result = new.result AND shown.job = new.job AND shown.org_id = new.org_id))
          AND jobs.limit_reached IS NULL
        RETURNING jobs.org_id, jobs.job, jobs.job_name, jobs.event_seq, jobs.progress_percent, jobs.step, jobs.partial_count,
            jobs.limit_reached, new.result, new.result_name, new.payload, new.payload_ref, new.summary, new.views, new.place),
    kept AS (
        INSERT INTO result_rows (org_id, result, result_name, job, result_kind, result_seq, schema_version, payload_ref, created_at, summary_json, payload, views)
        SELECT org_id, result, result_name, job, 'partial', partial_count, 1, payload_ref, now, summary, payload, views
        FROM changed WHERE limit_reached IS NULL),
    written_events AS (
        INSERT INTO event_rows (org_id, job, event_seq, event_id, event_type, occurred_at, actor_type, payload_json, feed_mark)
        SELECT org_id, job, event_seq, new_event_id(job_name), CASE WHEN limit_reached IS NULL THEN 'job.partial' ELSE 'job.progress' END, now, NULL,
            CASE WHEN limit_reached IS NULL
                THEN '{"result_id":' || json_string(coalesce(result_name, result::text)) || ',"result_seq":' || partial_count || ',"progress_percent":' || progress_percent || '}'
                ELSE '{"progress_percent":' || progress_percent || ',"step":' || json_string(step) || ',"limit":"' || limit_reached || '"}' END,
            CASE WHEN limit_reached IS NULL THEN (SELECT feed_mark()) END
        FROM changed)
    SELECT array_agg(place), array_agg(org_id), array_agg(job), array_agg(event_seq) INTO places, orgs, ids, seqs FROM changed;
    IF places IS NOT NULL THEN
        PERFORM insert_messages(orgs, ids, seqs);
    END IF;
    RETURN written_or_unchanged(now, writes, 'partial', places);
END $$;

-- The first value of a chunk wins. A checkpoint writes no event.
CREATE OR REPLACE FUNCTION record_checkpoints(now bigint, writes attempt_write[]) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    places integer[];
BEGIN
    -- A shared lock suffices: a checkpoint changes nothing that other writers read.
    SELECT array_agg(place) INTO places FROM (
        SELECT one.place FROM unnest(writes) AS one JOIN job_rows AS job ON job.job = one.job AND job.org_id = one.org_id
        WHERE one.kind = 'checkpoint' AND job.attempt = one.attempt AND job.lease_expires_at > now
        ORDER BY job.job FOR SHARE OF job) AS held_ones;
    INSERT INTO job_chunks (org_id, job_id, chunk_key, payload, created_at, total)
    SELECT org_id, coalesce(job_name, job::text), chunk_key, payload, now, total FROM unnest(writes)
    WHERE place = ANY (places)
    ON CONFLICT DO NOTHING;
    RETURN coalesce(places, '{}');
END $$;
