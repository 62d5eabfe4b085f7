-- The sweep: ends attempts of lost workers, and attempts that did not stop in time.

-- Ends up to `most` attempts whose lease has expired, or that are past their timeout or cancel although their lease is live.
-- Rows locked by another transaction are skipped. Idempotent.
CREATE OR REPLACE FUNCTION sweep(
    at bigint, grace bigint, cancel_grace bigint, retry_base float8, retry_cap float8, most_lost integer, most integer
) RETURNS TABLE (org_id text, job_id text, outcome text) LANGUAGE plpgsql AS $$
DECLARE
    now bigint := moment(at);
    ids uuid[];
    orgs text[];
    late uuid;
    hit job_rows;
    one attempt_write;
BEGIN
    WITH overdue AS MATERIALIZED (
        SELECT job.job, job.org_id, coalesce(job.job_name, job.job::text) AS id FROM job_rows AS job
        WHERE job.deadline_at > 0 AND (job.lease_expires_at <= now OR job.deadline_at + grace <= now
            OR job.cancel_requested_at + cancel_grace <= now))
    SELECT array_agg(taken.job ORDER BY first.id), array_agg(DISTINCT taken.org_id) INTO ids, orgs
    FROM (SELECT * FROM overdue ORDER BY id LIMIT most) AS first
    CROSS JOIN LATERAL (
        SELECT job.job, job.org_id FROM job_rows AS job WHERE job.job = first.job AND job.deadline_at IS NOT NULL
        OFFSET 0 FOR NO KEY UPDATE SKIP LOCKED) AS taken;
    IF ids IS NULL THEN
        RETURN;
    END IF;
    -- All lanes in order, after the jobs, which are never waited for.
    PERFORM lock_orgs(orgs);
    FOREACH late IN ARRAY ids LOOP
        -- One savepoint each: a job that cannot be written is logged, and the others continue.
        BEGIN
            SELECT * INTO hit FROM job_rows AS job WHERE job.job = late AND job.deadline_at IS NOT NULL;
            CONTINUE WHEN NOT FOUND OR least(
                hit.lease_expires_at, hit.deadline_at + grace, hit.cancel_requested_at + cancel_grace) > now;
            one := overdue_end(now, hit, retry_base, retry_cap, most_lost);
            IF cardinality(write_ends(now, ARRAY[one], '{}')) > 0 THEN
                RETURN QUERY SELECT one.org_id, coalesce(hit.job_name, hit.job::text), one.kind;
            END IF;
        EXCEPTION WHEN integrity_constraint_violation OR data_exception OR raise_exception THEN
            RAISE WARNING 'the job % cannot be swept: %', late, SQLERRM;
        END;
    END LOOP;
END $$;

-- Decides the outcome of an overdue attempt: canceled, retried, lost or failed.
CREATE OR REPLACE FUNCTION overdue_end(now bigint, found_job job_rows, retry_base float8, retry_cap float8, most_lost integer) RETURNS attempt_write
LANGUAGE plpgsql AS $$
DECLARE
    one attempt_write;
BEGIN
    one.place := 1;
    one.org_id := found_job.org_id;
    one.job := found_job.job;
    one.attempt := found_job.attempt;
    one.unfenced := true;
    one.actor := 'system';
    one.timed_out := false;
    IF found_job.cancel_requested_at IS NOT NULL THEN
        one.kind := 'canceled';
        one.canceled_by := 'system';
        one.reason := 'canceled while its worker was gone';
    ELSIF found_job.deadline_at <= now THEN
        one.timed_out := true;
        one.code := 'timeout';
        one.threshold := regexp_replace(found_job.timeout_seconds::text, '^\d+$', '\&.0');
        one.message := format('The attempt was stopped after %s s, its time limit.', found_job.timeout_seconds);
        one.meta := '{"threshold_seconds":' || one.threshold || ',"started_at":' || json_string(time_text(found_job.attempt_started_at))
            || ',"detected_at":' || json_string(time_text(now)) || ',"sentence":{"name":"timed_out","seconds":' || one.threshold || '}}';
        IF found_job.retry_count < found_job.max_retries THEN
            one.kind := 'retry';
            one.delay := (random_fraction() * least(retry_cap, retry_base * power(2, least(found_job.retry_count, 60))) * 1000000)::bigint;
        ELSE
            one.kind := 'failed';
            one.code := CASE WHEN found_job.max_retries > 0 THEN 'timeout_max_retries' ELSE 'timeout' END;
            one.retryable := true;
            one.hint := 'retry_with_backoff';
        END IF;
    ELSIF found_job.lost_count + 1 >= most_lost THEN
        one := fail_lost(one, most_lost);
    ELSE
        one.kind := 'lost';
        one.lost := 1;
    END IF;
    RETURN one;
END $$;
