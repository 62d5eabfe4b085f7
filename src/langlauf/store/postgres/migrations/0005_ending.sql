-- How attempts and jobs end: one implementation, whoever ends them. Whoever takes the lease away, and nobody else, writes the
-- end. Locks are taken in one order everywhere: leases, then jobs, then lanes.

-- One end to write. Which of the fields are set depends on the outcome.
CREATE TYPE ending AS (
    place      bigint,
    org_id     text,
    job_id     text,
    attempt    integer,
    -- failed, retry, lost, released or canceled; crashed is decided upon before it is written
    outcome    text,
    actor      text,
    code       text,
    message    text,
    meta       text,
    retryable  boolean,
    hint       text,
    delay      bigint,
    timed_out  boolean,
    -- what the event of a timeout says
    threshold  text,
    lost       integer,
    crashed    integer,
    crash      text,
    own        boolean,
    canceled_by text,
    reason     text
);

-- What becomes of attempts whose process died, and of those that would go on although somebody asked the job to stop.
CREATE FUNCTION decided(ends ending[], most_lost integer, most_crashes integer) RETURNS ending[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    one ending;
    made ending[] := '{}';
    job record;
BEGIN
    FOREACH one IN ARRAY ends LOOP
        SELECT crash_count, lost_count, cancel_requested_at, cancel_reason INTO job
        FROM jobs WHERE org_id = one.org_id AND job_id = one.job_id FOR UPDATE;
        IF one.outcome = 'crashed' THEN
            one.actor := 'system';
            IF job.cancel_requested_at IS NOT NULL THEN
                one.outcome := 'canceled';
                one.actor := 'worker';
                one.canceled_by := CASE WHEN one.own THEN 'worker' ELSE 'system' END;
                one.reason := coalesce(job.cancel_reason, CASE WHEN one.own THEN 'canceled when its process died'
                                                               ELSE 'canceled while its worker was gone' END);
            ELSIF NOT one.own AND job.lost_count + 1 >= most_lost THEN
                one := lost_for_good(one, most_lost);
            ELSIF one.own AND job.crash_count + one.crashed >= most_crashes THEN
                one.outcome := 'failed';
                one.code := 'worker_lost';
                one.message := format('The job was given up after %s deaths of its process; at last %s.',
                    job.crash_count + one.crashed, one.crash);
                one.meta := '{"crash":' || said(one.crash) || '}';
                one.retryable := true;
                one.hint := 'retry_with_backoff';
                one.crashed := 1;
            ELSE
                one.outcome := 'lost';
                one.lost := CASE WHEN one.own THEN 0 ELSE 1 END;
                one.crashed := CASE WHEN one.own THEN one.crashed ELSE 0 END;
                one.crash := CASE WHEN one.own THEN one.crash END;
            END IF;
        ELSIF one.outcome IN ('retry', 'lost', 'released') AND job.cancel_requested_at IS NOT NULL THEN
            one.outcome := 'canceled';
            one.actor := 'system';
            one.canceled_by := 'system';
            one.reason := 'canceled between attempts';
        END IF;
        IF one.outcome = 'canceled' THEN
            -- It is canceled, and nothing else is told or counted of how the attempt ended.
            one.timed_out := false;
            one.lost := 0;
            one.crashed := 0;
        END IF;
        made := made || one;
    END LOOP;
    RETURN made;
END $$;

-- A job whose worker vanished too often.
CREATE FUNCTION lost_for_good(INOUT one ending, most_lost integer) LANGUAGE plpgsql AS $$
BEGIN
    one.outcome := 'failed';
    one.actor := 'system';
    one.code := 'worker_lost';
    one.message := format('The worker vanished %s times while this job ran.', most_lost);
    one.retryable := true;
    one.hint := 'retry_with_backoff';
    one.lost := 1;
    one.crashed := 0;
END $$;

-- Writes ends whose leases were just taken, with events, snapshots and messages; returns the places of those it wrote.
CREATE FUNCTION write_ends(now bigint, ends ending[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    places bigint[];
    lane_orgs text[];
    lane_names text[];
    lane_dues bigint[];
    left_orgs text[];
    left_names text[];
BEGIN
    WITH ended AS (
        UPDATE jobs SET
            status = CASE new.outcome WHEN 'failed' THEN 'failed' WHEN 'canceled' THEN 'canceled' ELSE status END,
            updated_at = now,
            event_seq = event_seq + CASE WHEN new.timed_out THEN 2 ELSE 1 END,
            finished_at = CASE WHEN new.outcome IN ('failed', 'canceled') THEN now END,
            failed_at = CASE new.outcome WHEN 'failed' THEN now END,
            error_code = CASE new.outcome WHEN 'failed' THEN new.code END,
            error_message = CASE new.outcome WHEN 'failed' THEN new.message END,
            error_meta = CASE new.outcome WHEN 'failed' THEN new.meta END,
            retryable = CASE new.outcome WHEN 'failed' THEN new.retryable END,
            retry_hint = CASE new.outcome WHEN 'failed' THEN new.hint END,
            error_count = error_count + (new.outcome IN ('failed', 'retry'))::integer,
            lost_count = lost_count + coalesce(new.lost, 0),
            crash_count = crash_count + coalesce(new.crashed, 0),
            retry_count = retry_count + (new.outcome = 'retry')::integer,
            last_retry_at = CASE new.outcome WHEN 'retry' THEN now ELSE last_retry_at END,
            retry_reason = CASE new.outcome WHEN 'retry' THEN new.code || ': ' || new.message ELSE retry_reason END,
            next_attempt_at = CASE WHEN new.outcome = 'retry' THEN now + new.delay WHEN new.outcome IN ('lost', 'released') THEN now END,
            canceled_at = CASE new.outcome WHEN 'canceled' THEN now END,
            -- Who asked and why was noted with the request; a cancel without one brings its own words.
            canceled_by = CASE WHEN new.outcome = 'canceled' THEN coalesce(jobs.canceled_by, new.canceled_by)
                               WHEN new.outcome = 'failed' THEN NULL ELSE jobs.canceled_by END,
            cancel_reason = CASE WHEN new.outcome = 'canceled' THEN coalesce(cancel_reason, new.reason)
                                 WHEN new.outcome = 'failed' THEN NULL ELSE cancel_reason END,
            cancel_requested_at = CASE new.outcome WHEN 'canceled' THEN coalesce(cancel_requested_at, now) ELSE cancel_requested_at END
        FROM unnest(ends) AS new
        WHERE jobs.org_id = new.org_id AND jobs.job_id = new.job_id AND jobs.attempt = new.attempt
          AND (jobs.status IN ('running', 'partial') OR (jobs.status = 'queued' AND new.outcome = 'canceled'))
          AND (new.outcome NOT IN ('retry', 'lost', 'released') OR jobs.cancel_requested_at IS NULL)
        RETURNING new.*, jobs.event_seq, jobs.analysis, jobs.progress_percent, jobs.retry_count,
            jobs.next_attempt_at, jobs.canceled_by AS by_whom, jobs.cancel_reason AS why, jobs.result_id AS shown_id,
            jobs.trace_id, jobs.request_id),
    told AS (
        INSERT INTO job_events (org_id, job_id, event_seq, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
        SELECT org_id, job_id, event_seq - 1, 'job.timeout', now, 'system',
            '{"attempt":' || attempt || ',"threshold_seconds":' || coalesce(threshold, 'null') || '}', trace_id, request_id
        FROM ended WHERE timed_out
        UNION ALL
        SELECT org_id, job_id, event_seq,
            CASE outcome WHEN 'failed' THEN 'job.failed' WHEN 'canceled' THEN 'job.canceled'
                WHEN 'retry' THEN 'job.retry_scheduled' WHEN 'lost' THEN 'job.lease_lost' ELSE 'job.released' END,
            now, actor,
            CASE outcome
                WHEN 'failed' THEN '{"error_code":' || said(code) || ',"error_message":' || said(message) || ',"retryable":' || retryable
                    || ',"retry_hint":' || said(hint) || ',"attempt":' || attempt || '}'
                WHEN 'canceled' THEN '{"canceled_by":' || said(by_whom) || ',"cancel_reason":' || said(why) || ',"result_id":' || said(shown_id) || '}'
                WHEN 'retry' THEN '{"attempt":' || attempt || ',"retry_count":' || retry_count || ',"error_code":' || said(code)
                    || ',"error_message":' || said(message) || ',"next_attempt_at":' || said(time_text(next_attempt_at)) || '}'
                ELSE '{"attempt":' || attempt || CASE WHEN crash IS NULL THEN '' ELSE ',"crash":' || said(crash) END || '}' END,
            trace_id, request_id
        FROM ended),
    noted AS (
        INSERT INTO notifications (org_id, job_id, channel, template_key, delivery_status, dedupe_key, scheduled_at, created_at, payload_json)
        SELECT org_id, job_id, 'in_app', 'async.job.failed', 'pending', job_id || ':in_app:async.job.failed', now, now,
            '{"job_id":' || said(job_id) || ',"status":"failed","result_id":' || said(shown_id) || ',"progress_percent":'
            || progress_percent || ',"error_code":' || said(code) || ',"retry_hint":' || said(hint) || ',"finished_at":"'
            || time_text(now) || '"}'
        FROM ended WHERE outcome = 'failed')
    SELECT array_agg(place),
        array_agg(org_id) FILTER (WHERE next_attempt_at IS NOT NULL),
        array_agg(analysis) FILTER (WHERE next_attempt_at IS NOT NULL),
        array_agg(next_attempt_at) FILTER (WHERE next_attempt_at IS NOT NULL),
        array_agg(org_id) FILTER (WHERE attempt = 0),
        array_agg(analysis) FILTER (WHERE attempt = 0)
    INTO places, lane_orgs, lane_names, lane_dues, left_orgs, left_names FROM ended;

    IF lane_orgs IS NOT NULL THEN
        INSERT INTO lanes (org_id, analysis, waiting, virtual_start, due_at)
        SELECT org_id, analysis, 0, 0, min(due) FROM unnest(lane_orgs, lane_names, lane_dues) AS goes_on (org_id, analysis, due)
        GROUP BY org_id, analysis ORDER BY org_id, analysis
        ON CONFLICT (org_id, analysis) DO UPDATE SET due_at = least(lanes.due_at, excluded.due_at);
    END IF;
    IF left_orgs IS NOT NULL THEN
        PERFORM 1 FROM lanes WHERE org_id = ANY (left_orgs) ORDER BY org_id, analysis FOR UPDATE;
        PERFORM leave_lanes(left_orgs, left_names);
    END IF;
    RETURN coalesce(places, '{}');
END $$;

-- The mean of recent runs. Whoever finds a mean being written leaves it: one measure more or less tells nothing new.
CREATE FUNCTION note_paces(names text[], seconds float8[]) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    WITH new AS (
        SELECT name, count(*) AS runs, avg(took) AS mean, 1 - power(0.8, count(*)) AS weight
        FROM unnest(names, seconds) AS run (name, took) GROUP BY name),
    free AS (
        SELECT analysis FROM pace WHERE analysis = ANY (names) FOR UPDATE SKIP LOCKED)
    UPDATE pace SET runs = pace.runs + new.runs, mean_seconds = mean_seconds + new.weight * (new.mean - mean_seconds)
    FROM new JOIN free ON free.analysis = new.name WHERE pace.analysis = new.name;
    INSERT INTO pace (analysis, runs, mean_seconds)
    SELECT name, count(*), avg(took) FROM unnest(names, seconds) AS run (name, took)
    WHERE NOT EXISTS (SELECT 1 FROM pace WHERE analysis = name)
    GROUP BY name ORDER BY name ON CONFLICT DO NOTHING;
END $$;

-- Notes the wish that an attempt stops, once; its worker hears of it at its next heartbeat.
CREATE FUNCTION ask_to_stop(now bigint, org text, job text, by_whom text, reason text, request text) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    WITH asked AS (
        UPDATE jobs SET cancel_requested_at = now, canceled_by = by_whom, cancel_reason = reason, event_seq = event_seq + 1,
            updated_at = now
        WHERE org_id = org AND job_id = job AND status IN ('running', 'partial') AND cancel_requested_at IS NULL
        RETURNING org_id, job_id, event_seq, trace_id)
    INSERT INTO job_events (org_id, job_id, event_seq, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
    SELECT org_id, job_id, event_seq, 'job.cancel_requested', now, CASE by_whom WHEN 'user' THEN 'user' ELSE 'system' END,
        '{"canceled_by":' || said(by_whom) || ',"cancel_reason":' || said(reason) || '}', trace_id, request
    FROM asked;
END $$;

-- Stops jobs that nobody runs at once, and asks the workers of those that run. Repeating it changes nothing.
CREATE FUNCTION cancel(
    at bigint, org_ids text[], job_ids text[], bys text[], reasons text[], request_ids text[]
) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now bigint;
    hit record;
    held bigint;
    tries integer;
    ends ending[] := '{}';
BEGIN
    PERFORM lock_leases(org_ids, job_ids);
    FOR hit IN
        SELECT * FROM unnest(org_ids, job_ids, bys, reasons, request_ids) WITH ORDINALITY
            AS wish (org_id, job_id, by_whom, reason, request_id, place) ORDER BY job_id, org_id, place
    LOOP
        -- From here on nobody can claim it; whoever claimed it a moment ago is seen.
        SELECT attempt INTO tries FROM jobs
        WHERE org_id = hit.org_id AND job_id = hit.job_id AND finished_at IS NULL FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        held := (SELECT expires_at FROM leases WHERE org_id = hit.org_id AND job_id = hit.job_id);
        now := moment(at);
        IF held > now THEN
            PERFORM ask_to_stop(now, hit.org_id, hit.job_id, hit.by_whom, hit.reason, hit.request_id);
        ELSE
            DELETE FROM leases WHERE org_id = hit.org_id AND job_id = hit.job_id;
            ends := ends || ROW(
                hit.place, hit.org_id, hit.job_id, tries, 'canceled', CASE hit.by_whom WHEN 'user' THEN 'user' ELSE 'system' END,
                NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, 0, 0, NULL, NULL, hit.by_whom, hit.reason)::ending;
        END IF;
    END LOOP;
    IF cardinality(ends) > 0 THEN
        PERFORM write_ends(moment(at), ends);
    END IF;
END $$;

-- Jobs as they are now, for writers that answer with them.
CREATE FUNCTION views_of(org_ids text[], job_ids text[]) RETURNS SETOF job_views LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT view.* FROM unnest(org_ids, job_ids) AS wanted (org_id, job_id)
        JOIN job_views AS view ON view.org_id = wanted.org_id AND view.job_id = wanted.job_id;
END $$;
