-- Ends of attempts and jobs, for every caller. The statement that clears the lease writes the end. Lock order everywhere: jobs,
-- then lanes, each in the order of their keys.

-- Decides the outcome of crashed attempts, and cancels jobs that would continue although a cancel was requested.
CREATE OR REPLACE FUNCTION decide_ends(writes attempt_write[], most_lost integer, most_crashes integer) RETURNS attempt_write[]
LANGUAGE plpgsql AS $$
DECLARE
    one attempt_write;
    seen record;
BEGIN
    FOR number IN 1 .. cardinality(writes) LOOP
        one := writes[number];
        -- Of every end, as jobs are locked in one order.
        SELECT crash_count, lost_count, cancel_requested_at, cancel_reason INTO seen
        FROM job_rows WHERE org_id = one.org_id AND job = one.job FOR UPDATE;
        CONTINUE WHEN one.kind NOT IN ('crashed', 'retry', 'lost', 'released');
        IF one.kind = 'crashed' THEN
            one.actor := 'system';
            IF seen.cancel_requested_at IS NOT NULL THEN
                one.kind := 'canceled';
                one.actor := NULL;
                one.canceled_by := CASE WHEN one.own THEN 'worker' ELSE 'system' END;
                one.reason := coalesce(seen.cancel_reason, CASE WHEN one.own THEN 'canceled when its process died'
                                                               ELSE 'canceled while its worker was gone' END);
            ELSIF NOT one.own AND seen.lost_count + 1 >= most_lost THEN
                one := fail_lost(one, most_lost);
            ELSIF one.own AND seen.crash_count + one.crashed >= most_crashes THEN
                one.kind := 'failed';
                one.code := 'worker_lost';
                one.message := format('The job was given up after %s deaths of its process; at last %s.',
                    seen.crash_count + one.crashed, one.crash);
                one.meta := '{"crash":' || json_string(one.crash) || ',"sentence":{"name":"process_died","deaths":'
                    || seen.crash_count + one.crashed || ',"how":' || json_string(one.crash) || '}}';
                one.retryable := true;
                one.hint := 'retry_with_backoff';
                one.crashed := 1;
            ELSE
                one.kind := 'lost';
                one.lost := CASE WHEN one.own THEN 0 ELSE 1 END;
                one.crashed := CASE WHEN one.own THEN one.crashed ELSE 0 END;
                one.crash := CASE WHEN one.own THEN one.crash END;
            END IF;
        ELSIF seen.cancel_requested_at IS NOT NULL THEN
            one.kind := 'canceled';
            one.actor := 'system';
            one.canceled_by := 'system';
            one.reason := 'canceled between attempts';
        END IF;
        IF one.kind = 'canceled' THEN
            -- Nothing else is reported or counted of a canceled attempt.
            one.timed_out := false;
            one.lost := 0;
            one.crashed := 0;
        END IF;
        writes[number] := one;
    END LOOP;
    RETURN writes;
END $$;

-- The failure of a job whose worker was lost too often.
CREATE OR REPLACE FUNCTION fail_lost(INOUT one attempt_write, most_lost integer) LANGUAGE plpgsql AS $$
BEGIN
    one.kind := 'failed';
    one.actor := 'system';
    one.code := 'worker_lost';
    one.message := format('The worker vanished %s times while this job ran.', most_lost);
    one.meta := format('{"sentence":{"name":"worker_vanished","times":%s}}', most_lost);
    one.retryable := true;
    one.hint := 'retry_with_backoff';
    one.lost := 1;
    one.crashed := 0;
END $$;

-- What is kept of an attempt, as JSON.
CREATE OR REPLACE FUNCTION attempt_text(
    number integer, began bigint, ended bigint, outcome text, why text, ran bigint
) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT '{"attempt":' || number || ',"started_at":' || coalesce(began::text, 'null') || ',"ended_at":' || coalesce(ended::text, 'null')
        || ',"outcome":' || json_string(outcome) || ',"why":' || json_string(why) || ',"host":' || json_string(codes.host)
        || ',"version":' || json_string(codes.version) || '}'
    FROM (SELECT 1) AS one LEFT JOIN codes ON codes.code = ran
$$;

-- Completes jobs, with their events and results; returns the places and analyses of those that were written. This is what most
-- jobs come to, so its statement has nothing of the other ends. The fence is in it. The caller counts them, after all lanes.
CREATE OR REPLACE FUNCTION complete_jobs(now bigint, ends attempt_write[], OUT places integer[], OUT names text[]) LANGUAGE plpgsql AS $$
DECLARE
    done record;
BEGIN
    WITH ended AS (
        UPDATE job_rows AS jobs SET
            status = 'completed', final_state = 1, finished_at = now, updated_at = NULL, kept = 3, event_seq = event_seq + 1,
            worker_id = NULL, lease_expires_at = NULL, deadline_at = NULL, claim_id = NULL, next_attempt_at = NULL,
            progress_percent = 100, estimated_seconds = CASE WHEN imported_at IS NOT NULL THEN 0 END,
            attempt_started_at = nullif(attempt_started_at, started_at),
            -- RETURNING still needs the first: it is derived there where it is not stored.
            paced_at = nullif(paced_at, CASE paced_percent WHEN 0 THEN attempt_started_at END), progress_at = NULL,
            result = new.result, result_name = new.result_name,
            failed_at = NULL, error_code = NULL, error_message = NULL, error_meta = NULL, retryable = NULL, retry_hint = NULL,
            canceled_at = NULL, canceled_by = NULL, cancel_reason = NULL
        FROM unnest(ends) AS new
        WHERE new.kind = 'completed' AND jobs.job = new.job AND jobs.org_id = new.org_id AND jobs.attempt = new.attempt
          AND jobs.status IN ('running', 'partial') AND jobs.lease_expires_at > now
        RETURNING new.place, jobs.org_id, jobs.job, jobs.job_name, jobs.analysis, jobs.event_seq, jobs.partial_count, jobs.paced_percent,
            coalesce(jobs.paced_at, CASE jobs.paced_percent WHEN 0 THEN coalesce(jobs.attempt_started_at, jobs.started_at) END) AS paced_at,
            new.result, new.result_name, new.payload, new.payload_ref, new.summary, new.views),
    shown AS (
        INSERT INTO result_rows (org_id, result, result_name, job, result_kind, result_seq, schema_version, payload_ref, created_at, summary_json, payload, views)
        SELECT org_id, result, result_name, job, 'final', partial_count + 1, 1, payload_ref, now, summary, payload, views FROM ended),
    written_events AS (
        INSERT INTO event_rows (org_id, job, event_seq, event_id, event_type, occurred_at, feed_mark)
        SELECT org_id, job, event_seq, new_event_id(job_name), 'job.completed', now, (SELECT feed_mark()) FROM ended)
    SELECT array_agg(place) AS places, array_agg(org_id) AS orgs, array_agg(job) AS ids, array_agg(event_seq) AS seqs,
        array_agg(analysis) AS names,
        -- Estimated duration of a whole run; not from attempts that computed less than half of it themselves.
        array_agg(analysis) FILTER (WHERE paced_at IS NOT NULL AND paced_percent <= 50) AS paced,
        array_agg((now - paced_at) / 10000.0 / (100 - paced_percent)) FILTER (WHERE paced_at IS NOT NULL AND paced_percent <= 50) AS seconds
    INTO done FROM ended;
    IF done.places IS NULL THEN
        RETURN;
    END IF;
    places := done.places;
    names := done.names;
    IF done.paced IS NOT NULL THEN
        PERFORM update_paces(done.paced, done.seconds);
    END IF;
    PERFORM insert_messages(done.orgs, done.ids, done.seqs);
END $$;

-- Writes all other ends with their events; returns the places of those that were written. Writes of other kinds are left alone. The
-- fence is in the statement: an attempt that ends itself must hold its lease; other callers have locked the job. `completed` are
-- the analyses of jobs that the same transaction has completed: counts come after lanes, all at once.
CREATE OR REPLACE FUNCTION write_ends(now bigint, ends attempt_write[], completed text[]) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    done record;
BEGIN
    WITH ended AS (
        UPDATE job_rows AS jobs SET
            status = CASE WHEN new.kind IN ('failed', 'canceled') THEN new.kind ELSE status END, final_state = final_state_of(new.kind),
            updated_at = CASE WHEN new.kind NOT IN ('failed', 'canceled') THEN now END,
            event_seq = event_seq + CASE WHEN new.timed_out THEN 2 ELSE 1 END,
            worker_id = NULL, lease_expires_at = NULL, deadline_at = NULL, claim_id = NULL,
            finished_at = CASE WHEN new.kind IN ('failed', 'canceled') THEN now END,
            kept = CASE WHEN new.kind NOT IN ('failed', 'canceled') THEN 0 WHEN jobs.result IS NULL THEN 1 ELSE 3 END,
            failed_at = CASE new.kind WHEN 'failed' THEN now END,
            error_code = CASE new.kind WHEN 'failed' THEN new.code END,
            error_message = CASE new.kind WHEN 'failed' THEN new.message END,
            error_meta = CASE new.kind WHEN 'failed' THEN new.meta END,
            retryable = CASE new.kind WHEN 'failed' THEN new.retryable END,
            retry_hint = CASE new.kind WHEN 'failed' THEN new.hint END,
            error_count = error_count + (new.kind IN ('failed', 'retry'))::integer,
            lost_count = lost_count + coalesce(new.lost, 0),
            crash_count = crash_count + coalesce(new.crashed, 0),
            retry_count = retry_count + (new.kind = 'retry')::integer,
            last_retry_at = CASE new.kind WHEN 'retry' THEN now ELSE last_retry_at END,
            retry_reason = CASE new.kind WHEN 'retry' THEN new.code || ': ' || new.message ELSE retry_reason END,
            next_attempt_at = CASE WHEN new.kind = 'retry' THEN now + new.delay WHEN new.kind IN ('lost', 'released') THEN now END,
            canceled_at = CASE new.kind WHEN 'canceled' THEN now END,
            -- The request of a cancel has set these; a cancel without a request brings its own.
            canceled_by = CASE WHEN new.kind = 'canceled' THEN coalesce(jobs.canceled_by, new.canceled_by)
                               WHEN new.kind = 'failed' THEN NULL ELSE jobs.canceled_by END,
            cancel_reason = CASE WHEN new.kind = 'canceled' THEN coalesce(cancel_reason, new.reason)
                                 WHEN new.kind = 'failed' THEN NULL ELSE cancel_reason END,
            cancel_requested_at = CASE new.kind WHEN 'canceled' THEN coalesce(cancel_requested_at, now) ELSE cancel_requested_at END
        FROM unnest(ends) AS new
        WHERE new.kind IN ('failed', 'retry', 'lost', 'released', 'canceled')
          AND jobs.job = new.job AND jobs.org_id = new.org_id AND jobs.attempt = new.attempt
          AND (jobs.status IN ('running', 'partial') OR (jobs.status = 'queued' AND new.kind = 'canceled'))
          AND (new.unfenced OR jobs.lease_expires_at > now)
          AND (new.kind NOT IN ('retry', 'lost', 'released') OR jobs.cancel_requested_at IS NULL)
        RETURNING new.place, jobs.org_id, jobs.job, jobs.job_name, jobs.attempt, new.kind, new.actor, new.code, new.message, new.meta, new.retryable, new.hint, new.timed_out,
            new.threshold, new.crash, new.unleased, jobs.event_seq, jobs.analysis, jobs.retry_count,
            jobs.next_attempt_at, jobs.canceled_by AS by_whom, jobs.cancel_reason AS why,
            coalesce(jobs.result_name, jobs.result::text) AS shown_id, jobs.ticket),
    written_events AS (
        INSERT INTO event_rows (org_id, job, event_seq, event_id, event_type, occurred_at, actor_type, payload_json, feed_mark)
        SELECT org_id, job, event_seq - 1, new_event_id(job_name), 'job.timeout', now, 'system',
            '{"attempt":' || attempt || ',"threshold_seconds":' || coalesce(threshold, 'null') || '}', NULL
        FROM ended WHERE timed_out
        UNION ALL
        SELECT org_id, job, event_seq, new_event_id(job_name),
            CASE kind WHEN 'failed' THEN 'job.failed' WHEN 'canceled' THEN 'job.canceled'
                WHEN 'retry' THEN 'job.retry_scheduled' WHEN 'lost' THEN 'job.lease_lost' ELSE 'job.released' END,
            now, actor,
            CASE kind
                WHEN 'failed' THEN '{"error_code":' || json_string(code) || ',"error_message":' || json_string(message) || ',"retryable":' || retryable
                    || ',"retry_hint":' || json_string(hint) || ',"attempt":' || attempt || sentence_member(meta) || '}'
                WHEN 'canceled' THEN '{"canceled_by":' || json_string(by_whom) || ',"cancel_reason":' || json_string(why) || ',"result_id":' || json_string(shown_id) || '}'
                WHEN 'retry' THEN '{"attempt":' || attempt || ',"retry_count":' || retry_count || ',"error_code":' || json_string(code)
                    || ',"error_message":' || json_string(message) || ',"next_attempt_at":' || json_string(time_text(next_attempt_at)) || sentence_member(meta) || '}'
                ELSE '{"attempt":' || attempt || CASE WHEN crash IS NULL THEN '' ELSE ',"crash":' || json_string(crash) END || '}' END,
            CASE WHEN kind IN ('failed', 'canceled') THEN (SELECT feed_mark()) END
        FROM ended)
    SELECT array_agg(place) AS places, array_agg(org_id) AS orgs, array_agg(job) AS ids, array_agg(event_seq) AS seqs,
        array_agg(analysis) AS names, array_agg(-(attempt = 0 AND ticket >= 0)::integer::bigint) AS waits,
        array_agg(-(attempt = 0 AND ticket < 0)::integer::bigint) AS times,
        array_agg(-(unleased IS NULL)::integer::bigint) AS leases, array_agg(next_attempt_at) AS dues, array_agg(kind = 'retry') AS retries,
        bool_or(next_attempt_at IS NOT NULL) AS goes_on, bool_or(attempt = 0) AS waited
    INTO done FROM ended;
    IF done.goes_on THEN
        PERFORM keep_attempts(now, ends, done.places);
    END IF;
    IF done.goes_on OR done.waited THEN
        PERFORM update_lanes(done.orgs, done.names, done.dues, done.retries, done.waits, done.times);
    END IF;
    PERFORM count_jobs(done.names || completed, done.waits || array_fill(0::bigint, ARRAY[cardinality(completed)]),
        done.leases || array_fill(-1::bigint, ARRAY[cardinality(completed)]));
    IF done.places IS NOT NULL THEN
        PERFORM insert_messages(done.orgs, done.ids, done.seqs);
    END IF;
    RETURN coalesce(done.places, '{}');
END $$;

-- Keeps what is known of attempts after which their jobs go on: the log is removed before the job.
CREATE OR REPLACE FUNCTION keep_attempts(now bigint, ends attempt_write[], places integer[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO job_chunks (org_id, job_id, chunk_key, payload, created_at)
    SELECT one.org_id, coalesce(job.job_name, job.job::text), 'langlauf:attempt:' || one.attempt,
        attempt_text(one.attempt, job.attempt_started_at, now, CASE one.kind WHEN 'retry' THEN 'retried' ELSE one.kind END,
            CASE one.kind WHEN 'retry' THEN one.code END, job.code), now
    FROM unnest(ends) AS one JOIN job_rows AS job ON job.job = one.job AND job.org_id = one.org_id
    WHERE one.place = ANY (places) AND one.kind IN ('retry', 'lost', 'released')
    ON CONFLICT DO NOTHING;
END $$;

-- Updates lanes with jobs that continue, and with waiting jobs that ended.
CREATE OR REPLACE FUNCTION update_lanes(orgs text[], names text[], dues bigint[], retries boolean[], waits bigint[], times bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF num_nonnulls(VARIADIC dues) > 0 THEN
        INSERT INTO lanes (org_id, analysis, waiting, virtual_start, due_at, back_at)
        SELECT org_id, analysis, 0, 0, min(due), min(due) FILTER (WHERE NOT retry)
        FROM unnest(orgs, names, dues, retries) AS goes_on (org_id, analysis, due, retry)
        WHERE due IS NOT NULL GROUP BY org_id, analysis ORDER BY org_id, analysis
        ON CONFLICT (org_id, analysis) DO UPDATE SET
            due_at = least(lanes.due_at, excluded.due_at), back_at = least(lanes.back_at, excluded.back_at);
    END IF;
    IF -1 = ANY (waits) THEN
        PERFORM lock_orgs(array_agg(org_id)), leave_lanes(array_agg(org_id), array_agg(name))
        FROM unnest(orgs, names, waits) AS gone (org_id, name, wait) WHERE wait < 0;
    END IF;
    IF -1 = ANY (times) THEN
        PERFORM lock_orgs(array_agg(org_id)) FROM unnest(orgs, times) AS gone (org_id, time) WHERE time < 0;
        UPDATE lanes SET scheduled = scheduled - gone.jobs
        FROM (SELECT org_id, name, count(*) AS jobs FROM unnest(orgs, names, times) AS one (org_id, name, time)
              WHERE time < 0 GROUP BY org_id, name) AS gone
        WHERE lanes.org_id = gone.org_id AND lanes.analysis = gone.name;
        PERFORM count_scheduled(names, array_fill(0::bigint, ARRAY[cardinality(names)]), times);
    END IF;
END $$;

-- Updates the mean duration of recent runs, skipping means that another transaction is updating.
CREATE OR REPLACE FUNCTION update_paces(names text[], seconds float8[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH new AS (
        SELECT name, count(*) AS runs, avg(took) AS mean, 1 - power(0.8, count(*)) AS weight
        FROM unnest(names, seconds) AS run (name, took) GROUP BY name),
    free AS (
        SELECT analysis FROM pace WHERE analysis = ANY (names) FOR UPDATE SKIP LOCKED)
    UPDATE pace SET runs = pace.runs + new.runs, mean_seconds = mean_seconds + new.weight * (new.mean - mean_seconds)
    FROM new JOIN free ON free.analysis = new.name WHERE pace.analysis = new.name;
    IF FOUND AND cardinality(array_remove(names, names[1])) = 0 THEN
        RETURN;
    END IF;
    INSERT INTO pace (analysis, runs, mean_seconds)
    SELECT name, count(*), avg(took) FROM unnest(names, seconds) AS run (name, took)
    WHERE NOT EXISTS (SELECT 1 FROM pace WHERE analysis = name)
    GROUP BY name ORDER BY name ON CONFLICT DO NOTHING;
END $$;

-- Requests a cancel, once; the worker receives it with its next heartbeat.
CREATE OR REPLACE FUNCTION request_cancel(now bigint, org text, key uuid, by_whom text, reason text, request text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH asked AS (
        UPDATE job_rows SET cancel_requested_at = now, canceled_by = by_whom, cancel_reason = reason, event_seq = event_seq + 1,
            updated_at = now
        WHERE org_id = org AND job = key AND status IN ('running', 'partial') AND cancel_requested_at IS NULL
        RETURNING org_id, job, job_name, event_seq, coalesce(request_name, request::text) AS request_id)
    INSERT INTO event_rows (org_id, job, event_seq, event_id, event_type, occurred_at, actor_type, payload_json, request_id)
    SELECT org_id, job, event_seq, new_event_id(job_name), 'job.cancel_requested', now,
        CASE by_whom WHEN 'user' THEN 'user' ELSE 'system' END,
        '{"canceled_by":' || json_string(by_whom) || ',"cancel_reason":' || json_string(reason) || '}', nullif(request, request_id)
    FROM asked;
END $$;

-- Cancels jobs without a live lease at once, and requests a cancel of the others. Idempotent.
CREATE OR REPLACE FUNCTION cancel(
    at bigint, org_ids text[], job_ids uuid[], bys text[], reasons text[], request_ids text[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    now bigint;
    hit record;
    seen record;
    one attempt_write;
    ends attempt_write[] := '{}';
BEGIN
    FOR hit IN
        SELECT * FROM unnest(org_ids, job_ids, bys, reasons, request_ids) WITH ORDINALITY
            AS wish (org_id, job, by_whom, reason, request_id, place) ORDER BY job, place
    LOOP
        -- This lock excludes concurrent claims.
        SELECT attempt, lease_expires_at INTO seen FROM job_rows
        WHERE job = hit.job AND org_id = hit.org_id AND finished_at IS NULL FOR NO KEY UPDATE;
        CONTINUE WHEN NOT FOUND;
        now := moment(at);
        IF seen.lease_expires_at > now THEN
            PERFORM request_cancel(now, hit.org_id, hit.job, hit.by_whom, hit.reason, hit.request_id);
        ELSE
            one := NULL;
            one.place := hit.place;
            one.org_id := hit.org_id;
            one.job := hit.job;
            one.attempt := seen.attempt;
            one.kind := 'canceled';
            one.actor := CASE hit.by_whom WHEN 'user' THEN 'user' ELSE 'system' END;
            one.unfenced := true;
            one.unleased := CASE WHEN seen.lease_expires_at IS NULL THEN true END;
            one.canceled_by := hit.by_whom;
            one.reason := hit.reason;
            ends := ends || one;
        END IF;
    END LOOP;
    IF cardinality(ends) > 0 THEN
        PERFORM write_ends(moment(at), ends, '{}');
    END IF;
END $$;

-- Jobs as they are now.
-- query: views_of(org_ids text[], job_ids uuid[]) RETURNS SETOF job_views
SELECT view.* FROM unnest(org_ids, job_ids) AS wanted (org_id, job)
JOIN job_views AS view ON view.org_id = wanted.org_id AND view.job = wanted.job;
