-- Submissions, in batches. Every function takes the time as `at`: NULL is this database's clock, and only tests pass a time.

-- Refuses submissions that find a queue full, one after another, as a refused one takes no place. Returns at once in the common
-- case that all fit.
CREATE OR REPLACE FUNCTION refuse_full(outcomes text[], new new_job[], lowest_limit bigint) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    of_all bigint := (SELECT coalesce(sum(waiting + scheduled), 0) FROM waiting_counts);
    -- accepted so far, by number of the org and of the analysis
    of_orgs bigint[] := array_fill(0::bigint, ARRAY[cardinality(new)]);
    of_names bigint[] := of_orgs;
    wish record;
BEGIN
    IF of_all + cardinality(new) <= lowest_limit THEN
        RETURN outcomes;
    END IF;
    FOR wish IN
        WITH asked AS MATERIALIZED (SELECT * FROM unnest(new) WITH ORDINALITY AS one WHERE outcomes[one.ordinality] IS NULL),
        mine AS (
            SELECT org_id, sum(waiting + scheduled) AS waiting FROM lanes
            WHERE org_id = ANY (ARRAY(SELECT org_id FROM asked)) GROUP BY org_id),
        counted AS (
            SELECT analysis, sum(waiting + scheduled) AS waiting FROM waiting_counts
            WHERE analysis = ANY (ARRAY(SELECT analysis FROM asked)) GROUP BY analysis)
        SELECT asked.ordinality AS place, most_of_org, most_of_all, most_of_analysis,
            dense_rank() OVER (ORDER BY org_id) AS org_number, dense_rank() OVER (ORDER BY analysis) AS name_number,
            coalesce(mine.waiting, 0) AS in_org, coalesce(counted.waiting, 0) AS in_analysis
        FROM asked LEFT JOIN mine USING (org_id) LEFT JOIN counted USING (analysis) ORDER BY asked.ordinality
    LOOP
        IF wish.in_org + of_orgs[wish.org_number] >= wish.most_of_org THEN
            outcomes[wish.place] := 'full org ' || wish.in_org + of_orgs[wish.org_number];
        ELSIF of_all >= wish.most_of_all THEN
            outcomes[wish.place] := 'full all ' || of_all;
        ELSIF wish.in_analysis + of_names[wish.name_number] >= wish.most_of_analysis THEN
            outcomes[wish.place] := 'full analysis ' || wish.in_analysis + of_names[wish.name_number];
        ELSE
            of_all := of_all + 1;
            of_orgs[wish.org_number] := of_orgs[wish.org_number] + 1;
            of_names[wish.name_number] := of_names[wish.name_number] + 1;
        END IF;
    END LOOP;
    RETURN outcomes;
END $$;

-- Whether all submissions without an outcome may start at once for a claim that waits: it has a slot for each, nothing else waits
-- that it could have, and no limit, pause or lost lease, whose job needs a slot, makes it a matter of turns. The clock is locked, so no other claim is under way.
CREATE OR REPLACE FUNCTION may_start(now bigint, outcomes text[], new new_job[], wanted claim_request) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(wanted.limited) > 0 OR wanted.org_limit IS NOT NULL THEN
        RETURN false;
    END IF;
    RETURN (
        SELECT asked.jobs BETWEEN 1 AND least(wanted.slots, wanted.most - counted.leased) AND asked.fit
            AND counted.waiting = 0 AND clock.pauses = 0 AND coalesce(clock.look_at > now, true)
            AND NOT EXISTS (SELECT 1 FROM lanes WHERE analysis = ANY (wanted.known) AND due_at <= now)
            AND NOT EXISTS (SELECT 1 FROM lanes WHERE next_run_at <= now)
        FROM (SELECT count(*) AS jobs, bool_and(analysis = ANY (wanted.known) AND run_at IS NULL AND start_by IS NULL
                  AND reuse_version IS NULL) AS fit
              FROM unnest(new) WITH ORDINALITY AS wish WHERE outcomes[wish.ordinality] IS NULL) AS asked,
            (SELECT coalesce(sum(leased), 0) AS leased, coalesce(sum(waiting) FILTER (WHERE analysis = ANY (wanted.known)), 0) AS waiting
             FROM waiting_counts) AS counted,
            lane_clock AS clock);
END $$;

-- Inserts the submissions that have no outcome yet. Tickets follow (queued_at, job_id), which also orders jobs of several
-- lanes. The ticket of a job that waits for its time is that time with a minus sign. With a request of a worker the jobs start at
-- once: they get the state and the events that `start_attempts` would give them, without another version of their rows.
CREATE OR REPLACE FUNCTION insert_jobs(now bigint, outcomes text[], new new_job[], org_ids text[], wanted claim_request) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    -- NULL of jobs that wait, as are all fields of the request then
    begun CONSTANT bigint := CASE WHEN wanted.claim IS NOT NULL THEN now END;
    word CONSTANT text := CASE WHEN begun IS NULL THEN 'accepted ' ELSE 'started ' END;
    places bigint[];
    tickets bigint[];
    whole text[];
BEGIN
    WITH lane AS MATERIALIZED (
        SELECT org_id, analysis, expedite_last, default_last FROM lanes WHERE org_id = ANY (org_ids)),
    numbered AS MATERIALIZED (
        SELECT wish.*, CASE WHEN run_at > now THEN -run_at ELSE
            CASE priority_class WHEN 'expedite' THEN lane.expedite_last ELSE lane.default_last END
            + row_number() OVER (
                PARTITION BY wish.org_id, wish.analysis, priority_class, coalesce(run_at > now, false) ORDER BY job_name, job)
            END AS ticket
        FROM unnest(new) WITH ORDINALITY AS wish JOIN lane USING (org_id, analysis)
        WHERE outcomes[wish.ordinality] IS NULL),
    made AS (
        INSERT INTO job_rows (
            org_id, job, job_name, analysis, status, priority_class, payload_hash, payload_ref, queued_at, updated_at, timeout_seconds,
            max_retries, trace, trace_name, request, request_name, requested_by_user_id, api_key_id, tool_client, estimated_seconds,
            retry_of, based_on, traceparent, tracestate, label, ticket, run_at, start_by, schedule, planned_at, reusable,
            event_seq, attempt, started_at, attempt_started_at, paced_at, progress_at, worker_id, lease_expires_at, deadline_at, claim_id,
            code)
        SELECT org_id, job, job_name, analysis, CASE WHEN begun IS NULL THEN 'queued' ELSE 'running' END, priority_class, payload_hash, payload_ref, now, now, timeout_seconds,
            max_retries, trace, trace_name, request, request_name, requested_by_user_id, api_key_id, tool_client, estimated_seconds,
            retry_of, based_on, traceparent, tracestate, label, ticket, run_at, start_by, schedule, planned_at, reusable,
            1 + (begun IS NOT NULL)::integer, (begun IS NOT NULL)::integer, begun, begun, begun, begun, wanted.worker,
            begun + wanted.lease_time, begun + attempt_time(timeout_seconds), wanted.claim,
            wanted.codes[array_position(wanted.coded, analysis)]
        FROM numbered),
    written_events AS (
        INSERT INTO event_rows (org_id, job, event_seq, event_id, event_type, occurred_at, actor_type, payload_json, feed_mark, input)
        SELECT org_id, job, 1, new_event_id(job_name), 'job.queued', now, 'user',
            CASE WHEN retry_of IS NOT NULL THEN '{"analysis":' || json_string(analysis) || ',"retry_of":' || json_string(retry_of) || '}' END,
            (SELECT feed_mark()), input
        FROM numbered
        UNION ALL
        SELECT org_id, job, 2, new_event_id(job_name), 'job.running', begun, NULL, NULL, (SELECT feed_mark()), NULL
        FROM numbered WHERE begun IS NOT NULL)
    SELECT array_agg(ordinality), array_agg(ticket), array_agg(word || now || ' ' || ticket ORDER BY ordinality)
    INTO places, tickets, whole FROM numbered;
    IF cardinality(places) = cardinality(outcomes) THEN
        RETURN whole;
    END IF;
    FOR number IN 1 .. coalesce(cardinality(places), 0) LOOP
        outcomes[places[number]] := word || now || ' ' || tickets[number];
    END LOOP;
    RETURN outcomes;
END $$;

-- The jobs whose results new ones may have, by the places of those that ask: of the own org, the same analysis, input and version,
-- recent enough and still in a row.
CREATE OR REPLACE FUNCTION find_reusable(now bigint, outcomes text[], new new_job[]) RETURNS uuid[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT (SELECT origin.job FROM job_rows AS origin JOIN codes ON codes.code = origin.code
                WHERE substr(origin.payload_hash, 1, 8) = substr(wish.payload_hash, 1, 8) AND origin.reusable = 1
                  AND origin.final_state = 1 AND origin.finished_at >= now - wish.reuse_age
                  AND origin.payload_hash = wish.payload_hash AND origin.org_id = wish.org_id
                  AND origin.analysis = wish.analysis AND codes.version = wish.reuse_version AND origin.result_expired_at IS NULL
                  AND EXISTS (SELECT 1 FROM result_rows AS final
                      WHERE final.job = origin.job AND final.result_kind = 'final' AND final.payload IS NOT NULL)
                ORDER BY origin.finished_at DESC LIMIT 1)
        FROM unnest(new) WITH ORDINALITY AS wish
        ORDER BY wish.ordinality);
END $$;

-- Completes new jobs with the results of others: every transition and event, and no turn. Returns the outcomes, in which these
-- are `found time result origin`.
CREATE OR REPLACE FUNCTION complete_reused(now bigint, outcomes text[], new new_job[], origins uuid[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    one new_job;
    one_id text;
    origin record;
BEGIN
    FOR place IN 1 .. cardinality(new) LOOP
        CONTINUE WHEN origins[place] IS NULL OR outcomes[place] NOT LIKE 'accepted %';
        one := new[place];
        one_id := coalesce(one.job_name, one.job::text);
        SELECT coalesce(job_name, job::text) AS job_id, code INTO origin FROM job_rows WHERE job = origins[place];
        UPDATE job_rows SET status = 'running', attempt = 1, started_at = now, attempt_started_at = now, event_seq = 2, ticket = 0
        WHERE job = one.job;
        INSERT INTO result_rows (org_id, result, job, result_kind, result_seq, schema_version, created_at, summary_json, payload, views)
        SELECT org_id, one.reuse_result, one.job, 'final', 1, schema_version, now, summary_json, payload, views
        FROM result_rows WHERE job = origins[place] AND result_kind = 'final';
        UPDATE job_rows SET status = 'completed', progress_percent = 100, result = one.reuse_result, finished_at = now, event_seq = 3,
            kept = 3, final_state = 1, estimated_seconds = NULL, updated_at = NULL, reused_from = origin.job_id, code = origin.code, reusable = NULL
        WHERE job = one.job;
        -- The sources and attempts of the run whose result is reused: its own record may go first.
        INSERT INTO job_chunks (org_id, job_id, chunk_key, payload, created_at)
        SELECT org_id, one_id, chunk_key, payload, created_at FROM job_chunks
        WHERE org_id = one.org_id AND job_id = origin.job_id AND chunk_key >= 'langlauf:' AND chunk_key < 'langlauf;'
        UNION ALL
        SELECT ran.org_id, one_id, 'langlauf:attempt:' || ran.attempt,
            attempt_text(ran.attempt, coalesce(ran.attempt_started_at, ran.started_at), ran.finished_at, 'completed', NULL, ran.code), now
        FROM job_rows AS ran WHERE ran.job = origins[place]
        ON CONFLICT DO NOTHING;
        INSERT INTO event_rows (org_id, job, event_seq, event_type, occurred_at, actor_type, payload_json, feed_mark)
        VALUES (one.org_id, one.job, 2, 'job.running', now, 'system',
                '{"attempt":1,"reused_from":' || json_string(origin.job_id) || '}', (SELECT feed_mark())),
            (one.org_id, one.job, 3, 'job.completed', now, 'system', NULL, (SELECT feed_mark()));
        outcomes[place] := 'found ' || now || ' ' || one.reuse_result || ' ' || origin.job_id;
    END LOOP;
    RETURN outcomes;
END $$;

-- Adds the messages about the later events of jobs that were completed at once.
CREATE OR REPLACE FUNCTION announce_reused(reused uuid[]) RETURNS void LANGUAGE plpgsql AS $$
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
-- id`, `full scope waiting`, and for a retry whose first try was committed `known time ticket`. A request of a worker that waits
-- for jobs is claimed for in the same transaction: `started time ticket` says that a job began with its submission; where that may
-- not be, `claims` is what the worker got.
CREATE OR REPLACE FUNCTION submit(
    at bigint, new new_job[], wishes new_subscription[], wanted claim_request, asked_again boolean, OUT outcomes text[], OUT claims claimed[]
) LANGUAGE plpgsql AS $$
DECLARE
    given record;
    clock record;
    origins uuid[] := '{}';
    at_once claim_request;
    now bigint;
    hit record;
BEGIN
    outcomes := array_fill(NULL::text, ARRAY[cardinality(new)]);
    IF wanted.claim IS NOT NULL THEN
        -- Before lanes, as every claim does.
        SELECT virtual_now, served INTO clock FROM lane_clock FOR UPDATE;
    END IF;
    SELECT array_agg(org_id) AS org_ids, array_agg(job) AS job_ids, array_agg(analysis) AS names, array_agg(priority_class) AS classes,
        min(least(most_of_org, most_of_all, most_of_analysis)) AS lowest_limit, bool_or(refuse_duplicate) AS refuses,
        count(idempotency_key) > 0 AS keys, count(reuse_version) > 0 AS reuses, count(resume_from) > 0 AS resumes
    INTO given FROM unnest(new);
    PERFORM lock_lanes(given.org_ids, given.names);
    now := moment(at);
    IF asked_again THEN
        FOR hit IN
            SELECT wish.ordinality AS place, job.queued_at, job.ticket FROM unnest(new) WITH ORDINALITY AS wish
            CROSS JOIN LATERAL (
                SELECT queued_at, ticket FROM job_rows AS one WHERE one.job = wish.job AND one.org_id = wish.org_id OFFSET 0) AS job
        LOOP
            outcomes[hit.place] := 'known ' || hit.queued_at || ' ' || hit.ticket;
        END LOOP;
    END IF;

    IF given.keys THEN
        -- The first transaction with a key wins; others with the same key wait here for its outcome.
        FOR hit IN
            WITH asked AS (
                SELECT org_id, idempotency_key, coalesce(job_name, job::text) AS job_id, payload_hash, wish.ordinality AS place
                FROM unnest(new) WITH ORDINALITY AS wish
                WHERE idempotency_key IS NOT NULL AND outcomes[wish.ordinality] IS NULL),
            kept AS (
                INSERT INTO idempotency_keys (org_id, idempotency_key, job_id, payload_hash, created_at)
                SELECT org_id, idempotency_key, job_id, encode(payload_hash, 'hex'), now FROM asked ORDER BY org_id, idempotency_key
                ON CONFLICT DO NOTHING RETURNING job_id)
            SELECT place FROM asked WHERE job_id NOT IN (SELECT job_id FROM kept)
        LOOP
            outcomes[hit.place] := (
                SELECT CASE WHEN used.payload_hash = encode(new[hit.place].payload_hash, 'hex') THEN 'replayed ' || used.job_id ELSE 'reused' END
                FROM idempotency_keys AS used
                WHERE used.org_id = new[hit.place].org_id AND used.idempotency_key = new[hit.place].idempotency_key);
        END LOOP;
    END IF;

    IF given.reuses THEN
        origins := find_reusable(now, outcomes, new);
        FOR number IN 1 .. cardinality(new) LOOP
            -- It takes no place in a queue, and is no duplicate of a run.
            IF outcomes[number] IS NULL AND origins[number] IS NOT NULL THEN outcomes[number] := 'found'; END IF;
        END LOOP;
    END IF;

    IF given.refuses THEN
        FOR hit IN
            SELECT wish.ordinality AS place, twin.job_id FROM unnest(new) WITH ORDINALITY AS wish
            CROSS JOIN LATERAL (
                SELECT coalesce(job_name, job::text) AS job_id FROM job_rows AS jobs
                WHERE substr(jobs.payload_hash, 1, 8) = substr(wish.payload_hash, 1, 8) AND jobs.finished_at IS NULL
                  AND jobs.payload_hash = wish.payload_hash AND jobs.org_id = wish.org_id AND jobs.analysis = wish.analysis
                LIMIT 1) AS twin
            WHERE wish.refuse_duplicate AND outcomes[wish.ordinality] IS NULL
        LOOP
            outcomes[hit.place] := 'duplicate ' || hit.job_id;
        END LOOP;
    END IF;

    outcomes := refuse_full(outcomes, new, given.lowest_limit);
    IF given.reuses THEN
        outcomes := array_replace(outcomes, 'found', NULL);
    END IF;
    IF given.keys AND num_nonnulls(VARIADIC outcomes) > 0 THEN
        DELETE FROM idempotency_keys AS unused USING unnest(new) WITH ORDINALITY AS wish
        WHERE unused.org_id = wish.org_id AND unused.job_id = coalesce(wish.job_name, wish.job::text)
          AND outcomes[wish.ordinality] NOT LIKE 'known %';
    END IF;

    IF wanted.claim IS NOT NULL AND NOT asked_again AND may_start(now, outcomes, new, wanted) THEN
        at_once := wanted;
    END IF;
    outcomes := insert_jobs(now, outcomes, new, given.org_ids, at_once);
    IF given.resumes THEN
        INSERT INTO job_chunks (org_id, job_id, chunk_key, payload, created_at, total)
        SELECT chunk.org_id, coalesce(wish.job_name, wish.job::text), chunk.chunk_key, chunk.payload, chunk.created_at, chunk.total
        FROM unnest(new) WITH ORDINALITY AS wish
        JOIN job_chunks AS chunk ON chunk.org_id = wish.org_id AND chunk.job_id = wish.resume_from
        WHERE outcomes[wish.ordinality] ~ '^(accepted|started) '
          AND NOT (chunk.chunk_key >= 'langlauf:attempt:' AND chunk.chunk_key < 'langlauf:attempt;');
    END IF;
    IF cardinality(wishes) > 0 THEN
        INSERT INTO job_wishes (org_id, job_id, channel, target, lane, language)
        SELECT job.org_id, coalesce(job.job_name, job.job::text), channel, target, lane, language
        FROM unnest(wishes) AS wish JOIN unnest(new) WITH ORDINALITY AS job ON job.ordinality = wish.place
        WHERE outcomes[wish.place] ~ '^(accepted|started) ';
    END IF;
    IF given.reuses THEN
        outcomes := complete_reused(now, outcomes, new, origins);
    END IF;
    IF at_once.claim IS NOT NULL THEN
        PERFORM start_lanes(given.org_ids, given.names, given.classes, outcomes, clock.virtual_now, clock.served, now + wanted.lease_time);
    ELSE
        PERFORM join_lanes(given.org_ids, given.names, given.classes, outcomes);
    END IF;
    IF asked_again THEN
        SELECT array_agg(org_id) AS org_ids, array_agg(job) AS job_ids INTO given
        FROM unnest(new) WITH ORDINALITY AS wish WHERE outcomes[wish.ordinality] ~ '^(accepted|found) ';
    END IF;
    IF at_once.claim IS NOT NULL THEN
        PERFORM insert_messages(given.org_ids || given.org_ids, given.job_ids || given.job_ids,
            array_fill(1, ARRAY[cardinality(given.job_ids)]) || array_fill(2, ARRAY[cardinality(given.job_ids)]));
    ELSIF cardinality(given.job_ids) > 0 THEN
        PERFORM insert_messages(given.org_ids, given.job_ids, array_fill(1, ARRAY[cardinality(given.job_ids)]));
    END IF;
    IF cardinality(origins) > 0 THEN
        PERFORM announce_reused(ARRAY(
            SELECT job FROM unnest(new) WITH ORDINALITY AS wish WHERE outcomes[wish.ordinality] LIKE 'found %' ORDER BY wish.ordinality));
    END IF;
    IF wanted.claim IS NOT NULL AND at_once.claim IS NULL THEN
        claims := ARRAY(SELECT one FROM claim(at, wanted, asked_again) AS one);
    END IF;
END $$;
