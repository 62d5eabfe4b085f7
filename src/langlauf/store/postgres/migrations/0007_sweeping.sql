-- Taking jobs back from workers that vanished or did not stop in time. Not a job itself: it needs no free slot.

-- Chance, from 0 up to 1: how long a retry waits.
CREATE FUNCTION draw() RETURNS float8 LANGUAGE sql VOLATILE AS $$
    SELECT random()
$$;

-- Takes up to so many attempts back: whose lease is over, or that should have been stopped by now although their lease lives,
-- out of time or canceled. Rows that another sweep or an end has in hand are left to it. Running it again does nothing.
CREATE FUNCTION sweep(
    at bigint, grace bigint, cancel_grace bigint, retry_base float8, retry_cap float8, most_lost integer, most integer
) RETURNS TABLE (org_id text, job_id text, outcome text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now bigint := moment(at);
    hit record;
    one ending;
BEGIN
    FOR hit IN
        SELECT lease.org_id, lease.job_id, lease.attempt, lease.deadline_at FROM leases AS lease
        WHERE (lease.expires_at <= now OR lease.deadline_at + grace <= now OR EXISTS (
                SELECT 1 FROM jobs AS job WHERE job.org_id = lease.org_id AND job.job_id = lease.job_id
                  AND job.cancel_requested_at + cancel_grace <= now))
          -- A lease of an attempt that is none holds up nobody; `verify` tells of it.
          AND EXISTS (
              SELECT 1 FROM jobs AS job WHERE job.org_id = lease.org_id AND job.job_id = lease.job_id
                AND job.attempt = lease.attempt AND job.finished_at IS NULL)
        ORDER BY lease.job_id, lease.org_id LIMIT most FOR UPDATE OF lease SKIP LOCKED
    LOOP
        -- Each by itself: one that cannot be written is told of, and the others go on.
        BEGIN
            one := overdue(now, hit.org_id, hit.job_id, hit.attempt, hit.deadline_at, retry_base, retry_cap, most_lost);
            DELETE FROM leases WHERE leases.org_id = hit.org_id AND leases.job_id = hit.job_id AND leases.attempt = hit.attempt;
            one.place := 1;
            IF one.job_id IS NOT NULL AND cardinality(write_ends(now, ARRAY[one])) > 0 THEN
                RETURN QUERY SELECT one.org_id, one.job_id, one.outcome;
            END IF;
        EXCEPTION WHEN integrity_constraint_violation OR data_exception OR raise_exception THEN
            RAISE WARNING 'the job % cannot be swept: %', hit.job_id, SQLERRM;
        END;
    END LOOP;
END $$;

-- What becomes of an attempt that is overdue: canceled, tried again, lost or given up.
CREATE FUNCTION overdue(
    now bigint, org text, job text, attempt_no integer, deadline bigint, retry_base float8, retry_cap float8, most_lost integer
) RETURNS ending LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    found_job jobs;
    one ending;
BEGIN
    SELECT * INTO found_job FROM jobs WHERE org_id = org AND job_id = job AND attempt = attempt_no FOR UPDATE;
    IF found_job.job_id IS NULL THEN
        RETURN NULL;
    END IF;
    one.org_id := org;
    one.job_id := job;
    one.attempt := attempt_no;
    one.actor := 'system';
    one.timed_out := false;
    IF found_job.cancel_requested_at IS NOT NULL THEN
        one.outcome := 'canceled';
        one.canceled_by := 'system';
        one.reason := 'canceled while its worker was gone';
    ELSIF deadline <= now THEN
        one.timed_out := true;
        one.code := 'timeout';
        one.threshold := regexp_replace(found_job.timeout_seconds::text, '^\d+$', '\&.0');
        one.message := format('The attempt was stopped after %s s, its time limit.', found_job.timeout_seconds);
        one.meta := '{"threshold_seconds":' || one.threshold || ',"started_at":' || said(time_text(found_job.attempt_started_at))
            || ',"detected_at":' || said(time_text(now)) || '}';
        IF found_job.retry_count < found_job.max_retries THEN
            one.outcome := 'retry';
            one.delay := (draw() * least(retry_cap, retry_base * power(2, least(found_job.retry_count, 60))) * 1000000)::bigint;
        ELSE
            one.outcome := 'failed';
            one.code := CASE WHEN found_job.max_retries > 0 THEN 'timeout_max_retries' ELSE 'timeout' END;
            one.retryable := true;
            one.hint := 'retry_with_backoff';
        END IF;
    ELSIF found_job.lost_count + 1 >= most_lost THEN
        one := lost_for_good(one, most_lost);
    ELSE
        one.outcome := 'lost';
        one.lost := 1;
    END IF;
    RETURN one;
END $$;

-- Removes what says nothing any more: lanes that are empty and behind the virtual clock, whose org would join at the clock
-- anyway, and answers that nobody can ask for again.
CREATE FUNCTION tidy(at bigint) RETURNS void LANGUAGE sql AS $$
    DELETE FROM lanes USING (
        SELECT org_id, analysis FROM lanes
        WHERE waiting = 0 AND due_at IS NULL AND virtual_start <= (SELECT virtual_now FROM lane_clock)
        ORDER BY org_id, analysis FOR UPDATE SKIP LOCKED) AS empty
    WHERE lanes.org_id = empty.org_id AND lanes.analysis = empty.analysis;
    DELETE FROM batches WHERE made_at < moment(at) - 3600000000;
$$;
