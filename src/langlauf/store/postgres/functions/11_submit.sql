-- Submissions, in batches. Every function takes the time as `at`: NULL is this database's clock, and only tests pass a time.

-- Refuses submissions that find a queue full, one after another, as a refused one takes no place. Returns at once in the common
-- case that all fit.
CREATE OR REPLACE FUNCTION refuse_full(
    outcomes text[], org_ids text[], names text[], most_of_org bigint[], most_of_all bigint[], most_of_analysis bigint[]
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    of_all bigint := (SELECT coalesce(sum(waiting + scheduled), 0) FROM waiting_counts);
    -- accepted so far, by number of the org and of the analysis
    of_orgs bigint[] := array_fill(0::bigint, ARRAY[cardinality(org_ids)]);
    of_names bigint[] := of_orgs;
    wish record;
BEGIN
    IF of_all + cardinality(org_ids) <= (
        SELECT min(least(of_org, of_any, of_analysis))
        FROM unnest(most_of_org, most_of_all, most_of_analysis) AS most (of_org, of_any, of_analysis)) THEN
        RETURN outcomes;
    END IF;
    FOR wish IN
        WITH mine AS (SELECT org_id, sum(waiting + scheduled) AS waiting FROM lanes WHERE org_id = ANY (org_ids) GROUP BY org_id),
        counted AS (SELECT analysis, sum(waiting + scheduled) AS waiting FROM waiting_counts WHERE analysis = ANY (names) GROUP BY analysis)
        SELECT one.*, dense_rank() OVER (ORDER BY org_id) AS org_number, dense_rank() OVER (ORDER BY analysis) AS name_number,
            coalesce(mine.waiting, 0) AS in_org, coalesce(counted.waiting, 0) AS in_analysis
        FROM unnest(org_ids, names, most_of_org, most_of_all, most_of_analysis, outcomes) WITH ORDINALITY
            AS one (org_id, analysis, most_org, most_all, most_analysis, answer, place)
        LEFT JOIN mine USING (org_id) LEFT JOIN counted USING (analysis) WHERE one.answer IS NULL ORDER BY one.place
    LOOP
        IF wish.in_org + of_orgs[wish.org_number] >= wish.most_org THEN
            outcomes[wish.place] := 'full org ' || wish.in_org + of_orgs[wish.org_number];
        ELSIF of_all >= wish.most_all THEN
            outcomes[wish.place] := 'full all ' || of_all;
        ELSIF wish.in_analysis + of_names[wish.name_number] >= wish.most_analysis THEN
            outcomes[wish.place] := 'full analysis ' || wish.in_analysis + of_names[wish.name_number];
        ELSE
            of_all := of_all + 1;
            of_orgs[wish.org_number] := of_orgs[wish.org_number] + 1;
            of_names[wish.name_number] := of_names[wish.name_number] + 1;
        END IF;
    END LOOP;
    RETURN outcomes;
END $$;

-- Inserts the submissions that have no outcome yet. Tickets follow (queued_at, job_id), which also orders jobs of several
-- lanes. The ticket of a job that waits for its time is that time with a minus sign.
CREATE OR REPLACE FUNCTION insert_jobs(
    now bigint, outcomes text[], org_ids text[], job_ids uuid[], job_names text[], names text[], classes text[], hashes bytea[], refs text[],
    payloads text[], timeouts float8[], retries integer[], traces uuid[], trace_names text[], requests uuid[], request_names text[], users text[],
    key_ids text[], clients text[], estimates float8[], retry_ofs text[], based_ons text[], traceparents text[], tracestates text[], labels text[],
    run_ats bigint[], start_bys bigint[], schedules text[], planned_ats bigint[]
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    places bigint[];
    tickets bigint[];
    whole text[];
BEGIN
    WITH wish AS (
        SELECT * FROM unnest(
            org_ids, job_ids, job_names, names, classes, hashes, refs, payloads, timeouts, retries, traces, trace_names, requests,
            request_names, users,
            key_ids, clients, estimates, retry_ofs, based_ons, traceparents, tracestates, labels, run_ats, start_bys, schedules, planned_ats,
            outcomes
        ) WITH ORDINALITY AS one (
            org_id, job, job_name, analysis, class, hash, ref, payload, timeout, retries, trace, trace_name, request,
            request_name, user_id,
            key_id, client, estimate, retry_of, based_on, traceparent, tracestate, label, run_at, start_by, schedule, planned_at,
            answer, place)
        WHERE answer IS NULL),
    lane AS MATERIALIZED (
        SELECT org_id, analysis, expedite_last, default_last FROM lanes WHERE org_id = ANY (org_ids)),
    numbered AS MATERIALIZED (
        SELECT wish.*, CASE WHEN run_at > now THEN -run_at ELSE
            CASE wish.class WHEN 'expedite' THEN lane.expedite_last ELSE lane.default_last END
            + row_number() OVER (
                PARTITION BY wish.org_id, wish.analysis, wish.class, coalesce(run_at > now, false) ORDER BY wish.job_name, wish.job)
            END AS ticket
        FROM wish JOIN lane USING (org_id, analysis)),
    made AS (
        INSERT INTO job_rows (
            org_id, job, job_name, analysis, status, priority_class, payload_hash, payload_ref, queued_at, updated_at, timeout_seconds,
            max_retries, trace, trace_name, request, request_name, requested_by_user_id, api_key_id, tool_client, estimated_seconds, retry_of, based_on, traceparent, tracestate,
            label, ticket, run_at, start_by, schedule, planned_at)
        SELECT org_id, job, job_name, analysis, 'queued', class, hash, ref, now, now, timeout, retries, trace, trace_name, request, request_name,
            user_id, key_id, client, estimate, retry_of, based_on, traceparent, tracestate, label, ticket, run_at, start_by, schedule, planned_at
        FROM numbered),
    written_events AS (
        INSERT INTO event_rows (org_id, job, event_seq, event_id, event_type, occurred_at, actor_type, payload_json, feed_mark, input)
        SELECT org_id, job, 1, new_event_id(job_name), 'job.queued', now, 'user',
            CASE WHEN retry_of IS NOT NULL THEN '{"analysis":' || json_string(analysis) || ',"retry_of":' || json_string(retry_of) || '}' END,
            (SELECT feed_mark()), payload
        FROM numbered)
    SELECT array_agg(place), array_agg(ticket), array_agg('accepted ' || now || ' ' || ticket ORDER BY place)
    INTO places, tickets, whole FROM numbered;
    IF cardinality(places) = cardinality(outcomes) THEN
        RETURN whole;
    END IF;
    FOR number IN 1 .. coalesce(cardinality(places), 0) LOOP
        outcomes[places[number]] := 'accepted ' || now || ' ' || tickets[number];
    END LOOP;
    RETURN outcomes;
END $$;

-- The jobs whose results new ones may have, by the order of `places`: of the own org, the same analysis, input and version, recent
-- enough and still in a row.
CREATE OR REPLACE FUNCTION find_reusable(
    now bigint, outcomes text[], org_ids text[], names text[], hashes bytea[], places bigint[], versions text[], ages bigint[]
) RETURNS uuid[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT (SELECT origin.job FROM job_rows AS origin JOIN codes ON codes.code = origin.code
                WHERE substr(origin.payload_hash, 1, 8) = substr(hashes[wish.place], 1, 8) AND origin.reusable = 1
                  AND origin.status = 'completed' AND origin.finished_at >= now - wish.age
                  AND origin.payload_hash = hashes[wish.place] AND origin.org_id = org_ids[wish.place]
                  AND origin.analysis = names[wish.place] AND codes.version = wish.version AND origin.result_expired_at IS NULL
                  AND EXISTS (SELECT 1 FROM result_rows AS final
                      WHERE final.job = origin.job AND final.result_kind = 'final' AND final.payload IS NOT NULL)
                  AND outcomes[wish.place] IS NULL
                ORDER BY origin.finished_at DESC LIMIT 1)
        FROM unnest(places, versions, ages) WITH ORDINALITY AS wish (place, version, age, number) ORDER BY number);
END $$;

-- Completes new jobs with the results of others: every transition and event, and no turn. Returns the outcomes, in which these
-- are `found time result origin`.
CREATE OR REPLACE FUNCTION complete_reused(
    now bigint, outcomes text[], org_ids text[], job_ids uuid[], job_names text[], places bigint[], results uuid[], origins uuid[]
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    place bigint;
    origin record;
BEGIN
    FOR number IN 1 .. cardinality(places) LOOP
        place := places[number];
        CONTINUE WHEN origins[number] IS NULL OR outcomes[place] NOT LIKE 'accepted %';
        SELECT coalesce(job_name, job::text) AS job_id, code INTO origin FROM job_rows WHERE job = origins[number];
        UPDATE job_rows SET status = 'running', attempt = 1, started_at = now, attempt_started_at = now, event_seq = 2, ticket = 0
        WHERE job = job_ids[place];
        INSERT INTO result_rows (org_id, result, job, result_kind, result_seq, schema_version, created_at, summary_json, payload, views)
        SELECT org_id, results[number], job_ids[place], 'final', 1, schema_version, now, summary_json, payload, views
        FROM result_rows WHERE job = origins[number] AND result_kind = 'final';
        UPDATE job_rows SET status = 'completed', progress_percent = 100, result = results[number], finished_at = now, event_seq = 3,
            kept = 3, estimated_seconds = NULL, updated_at = NULL, reused_from = origin.job_id, code = origin.code
        WHERE job = job_ids[place];
        -- The sources and attempts of the run whose result is reused: its own record may go first.
        INSERT INTO job_chunks (org_id, job_id, chunk_key, payload, created_at)
        SELECT org_id, coalesce(job_names[place], job_ids[place]::text), chunk_key, payload, created_at FROM job_chunks
        WHERE org_id = org_ids[place] AND job_id = origin.job_id AND chunk_key >= 'langlauf:' AND chunk_key < 'langlauf;'
        UNION ALL
        SELECT ran.org_id, coalesce(job_names[place], job_ids[place]::text), 'langlauf:attempt:' || ran.attempt,
            attempt_text(ran.attempt, ran.attempt_started_at, ran.finished_at, 'completed', NULL, ran.code), now
        FROM job_rows AS ran WHERE ran.job = origins[number]
        ON CONFLICT DO NOTHING;
        INSERT INTO event_rows (org_id, job, event_seq, event_type, occurred_at, actor_type, payload_json, feed_mark)
        VALUES (org_ids[place], job_ids[place], 2, 'job.running', now, 'system',
                '{"attempt":1,"reused_from":' || json_string(origin.job_id) || '}', (SELECT feed_mark())),
            (org_ids[place], job_ids[place], 3, 'job.completed', now, 'system', NULL, (SELECT feed_mark()));
        outcomes[place] := 'found ' || now || ' ' || results[number] || ' ' || origin.job_id;
    END LOOP;
    RETURN outcomes;
END $$;

-- Adds the messages about the later events of jobs that were completed at once.
CREATE OR REPLACE FUNCTION tell_reused(reused uuid[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    orgs CONSTANT text[] := ARRAY(
        SELECT job.org_id FROM unnest(reused) WITH ORDINALITY AS one (key, place) JOIN job_rows AS job ON job.job = one.key ORDER BY place);
BEGIN
    FOR seq IN 2 .. 3 LOOP
        PERFORM insert_messages(orgs, reused, array_fill(seq, ARRAY[cardinality(reused)]));
    END LOOP;
END $$;

-- Accepts or refuses submissions in their order: by idempotency key, duplicate input, then room in the queue. No two of a batch
-- share a key, nor an input if duplicates are refused. Outcomes: `accepted time ticket`, `replayed id`, `reused`, `duplicate
-- id`, `full scope waiting`, and for a retry whose first try was committed `known time ticket`. Subscriptions follow with the
-- place of their job.
CREATE OR REPLACE FUNCTION submit(
    at bigint, org_ids text[], job_ids uuid[], job_names text[], names text[], classes text[], hashes bytea[], refs text[],
    payloads text[], timeouts float8[], retries integer[], traces uuid[], trace_names text[], requests uuid[], request_names text[], users text[],
    key_ids text[], clients text[], estimates float8[], retry_ofs text[], based_ons text[], traceparents text[], tracestates text[], labels text[],
    run_ats bigint[], start_bys bigint[], schedules text[], planned_ats bigint[], keys text[],
    refuses boolean[], resume_froms text[], most_of_org bigint[], most_of_all bigint[], most_of_analysis bigint[],
    wish_places bigint[], wish_channels text[], wish_targets text[], wish_lanes text[], wish_languages text[],
    reuse_places bigint[], reuse_versions text[], reuse_ages bigint[], reuse_results uuid[], reusable_places bigint[], asked_again boolean
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    origins uuid[] := '{}';
    reused uuid[] := '{}';
    waits text[];
    outcomes text[] := array_fill(NULL::text, ARRAY[cardinality(org_ids)]);
    now bigint;
    hit record;
BEGIN
    PERFORM lock_lanes(org_ids, names);
    now := moment(at);
    IF asked_again THEN
        FOR hit IN
            SELECT wish.place, job.queued_at, job.ticket
            FROM unnest(org_ids, job_ids) WITH ORDINALITY AS wish (org_id, job, place)
            CROSS JOIN LATERAL (
                SELECT queued_at, ticket FROM job_rows AS one WHERE one.job = wish.job AND one.org_id = wish.org_id OFFSET 0) AS job
        LOOP
            outcomes[hit.place] := 'known ' || hit.queued_at || ' ' || hit.ticket;
        END LOOP;
    END IF;

    IF num_nonnulls(VARIADIC keys) > 0 THEN
        -- The first transaction with a key wins; others with the same key wait here for its outcome.
        FOR hit IN
            WITH new AS (
                SELECT org_id, key, coalesce(job_name, job::text) AS job_id, hash, place
                FROM unnest(org_ids, keys, job_ids, job_names, hashes, outcomes) WITH ORDINALITY
                    AS wish (org_id, key, job, job_name, hash, answer, place)
                WHERE key IS NOT NULL AND answer IS NULL),
            kept AS (
                INSERT INTO idempotency_keys (org_id, idempotency_key, job_id, payload_hash, created_at)
                SELECT org_id, key, job_id, encode(hash, 'hex'), now FROM new ORDER BY org_id, key
                ON CONFLICT DO NOTHING RETURNING job_id)
            SELECT place FROM new WHERE job_id NOT IN (SELECT job_id FROM kept)
        LOOP
            outcomes[hit.place] := (
                SELECT CASE WHEN used.payload_hash = encode(hashes[hit.place], 'hex') THEN 'replayed ' || used.job_id ELSE 'reused' END
                FROM idempotency_keys AS used
                WHERE used.org_id = org_ids[hit.place] AND used.idempotency_key = keys[hit.place]);
        END LOOP;
    END IF;

    IF cardinality(reuse_places) > 0 THEN
        origins := find_reusable(now, outcomes, org_ids, names, hashes, reuse_places, reuse_versions, reuse_ages);
        FOR number IN 1 .. cardinality(reuse_places) LOOP
            -- It takes no place in a queue, and is no duplicate of a run.
            IF origins[number] IS NOT NULL THEN outcomes[reuse_places[number]] := 'found'; END IF;
        END LOOP;
    END IF;

    FOR hit IN
        SELECT wish.place, twin.job_id
        FROM unnest(org_ids, names, hashes, refuses, outcomes) WITH ORDINALITY
            AS wish (org_id, analysis, hash, refuse, answer, place)
        CROSS JOIN LATERAL (
            SELECT coalesce(job_name, job::text) AS job_id FROM job_rows AS jobs
            WHERE substr(jobs.payload_hash, 1, 8) = substr(wish.hash, 1, 8) AND jobs.finished_at IS NULL
              AND jobs.payload_hash = wish.hash AND jobs.org_id = wish.org_id AND jobs.analysis = wish.analysis
            LIMIT 1) AS twin
        WHERE wish.refuse AND wish.answer IS NULL
    LOOP
        outcomes[hit.place] := 'duplicate ' || hit.job_id;
    END LOOP;

    outcomes := refuse_full(outcomes, org_ids, names, most_of_org, most_of_all, most_of_analysis);
    IF cardinality(origins) > 0 THEN
        outcomes := array_replace(outcomes, 'found', NULL);
    END IF;
    IF num_nonnulls(VARIADIC keys) > 0 AND num_nonnulls(VARIADIC outcomes) > 0 THEN
        DELETE FROM idempotency_keys AS unused
        USING unnest(org_ids, job_ids, job_names, outcomes) AS wish (org_id, job, job_name, answer)
        WHERE unused.org_id = wish.org_id AND unused.job_id = coalesce(wish.job_name, wish.job::text)
          AND wish.answer NOT LIKE 'known %';
    END IF;

    outcomes := insert_jobs(
        now, outcomes, org_ids, job_ids, job_names, names, classes, hashes, refs, payloads, timeouts, retries, traces, trace_names,
        requests, request_names, users, key_ids, clients, estimates, retry_ofs, based_ons, traceparents, tracestates, labels, run_ats,
        start_bys, schedules, planned_ats);
    IF num_nonnulls(VARIADIC resume_froms) > 0 THEN
        INSERT INTO job_chunks (org_id, job_id, chunk_key, payload, created_at, total)
        SELECT chunk.org_id, coalesce(wish.job_name, wish.job::text), chunk.chunk_key, chunk.payload, chunk.created_at, chunk.total
        FROM unnest(org_ids, job_ids, job_names, resume_froms, outcomes) AS wish (org_id, job, job_name, origin, answer)
        JOIN job_chunks AS chunk ON chunk.org_id = wish.org_id AND chunk.job_id = wish.origin
        WHERE wish.answer LIKE 'accepted %' AND NOT (chunk.chunk_key >= 'langlauf:attempt:' AND chunk.chunk_key < 'langlauf:attempt;');
    END IF;
    IF cardinality(wish_places) > 0 THEN
        INSERT INTO job_wishes (org_id, job_id, channel, target, lane, language)
        SELECT org_ids[place], coalesce(job_names[place], job_ids[place]::text), channel, target, lane, language
        FROM unnest(wish_places, wish_channels, wish_targets, wish_lanes, wish_languages) AS wish (place, channel, target, lane, language)
        WHERE outcomes[place] LIKE 'accepted %';
    END IF;
    waits := outcomes;
    IF cardinality(origins) > 0 THEN
        waits := complete_reused(now, outcomes, org_ids, job_ids, job_names, reuse_places, reuse_results, origins);
        reused := ARRAY(SELECT job_ids[place] FROM unnest(reuse_places) AS wish (place) WHERE waits[place] LIKE 'found %');
    END IF;
    IF cardinality(reusable_places) > 0 THEN
        UPDATE job_rows AS new SET reusable = 1
        FROM unnest(reusable_places) AS wish (place) WHERE new.job = job_ids[wish.place] AND waits[wish.place] LIKE 'accepted %';
    END IF;
    PERFORM join_lanes(org_ids, names, classes, waits);
    IF asked_again THEN
        SELECT array_agg(org_id), array_agg(job) INTO org_ids, job_ids
        FROM unnest(org_ids, job_ids, outcomes) AS wish (org_id, job, answer) WHERE answer LIKE 'accepted %';
    END IF;
    IF cardinality(job_ids) > 0 THEN
        PERFORM insert_messages(org_ids, job_ids, array_fill(1, ARRAY[cardinality(job_ids)]));
    END IF;
    IF cardinality(reused) > 0 THEN
        PERFORM tell_reused(reused);
    END IF;
    RETURN waits;
END $$;
