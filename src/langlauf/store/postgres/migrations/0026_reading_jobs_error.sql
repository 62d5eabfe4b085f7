-- The view for callers of the earlier schema also has the message of an error, as that schema's table has it, and tells with the
-- details of an error how many retries there were. Its columns say what they are. A relation of others under that name stays.
DO $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_rewrite JOIN pg_depend ON pg_depend.objid = pg_rewrite.oid
        WHERE ev_class = to_regclass('public.reading_jobs') AND refobjid = 'langlauf.jobs'::regclass)
    THEN
        RETURN;
    END IF;
    CREATE OR REPLACE VIEW public.reading_jobs AS
    SELECT
        uuid_of(job.job_id) AS id,
        (CASE
            WHEN job.status = 'queued' THEN 'pending'
            WHEN job.status = 'completed' THEN 'done'
            WHEN job.status = 'failed' THEN 'failed'
            WHEN job.status = 'canceled' THEN 'cancelled'
            WHEN waits.after_timeout THEN 'timeout'
            ELSE 'generating'
        END)::text AS status,
        timestamp_of(job.queued_at) AS created_at,
        timestamp_of(job.updated_at) AS updated_at,
        timestamp_of(coalesce(job.attempt_started_at, job.started_at)) AS started_at,
        job.retry_count,
        job.max_retries,
        timestamp_of(job.last_retry_at) AS last_retry_at,
        job.retry_reason,
        upper(CASE WHEN waits.after_timeout THEN 'timeout' ELSE job.error_code END)::varchar(50) AS error_code,
        CASE WHEN waits.after_timeout OR job.error_code IS NOT NULL THEN
            CASE
                WHEN waits.after_timeout AND job.last_retry_at >= job.attempt_started_at + job.timeout_seconds * 1000000
                THEN jsonb_build_object(
                    'threshold_seconds', job.timeout_seconds,
                    'started_at', time_text(job.attempt_started_at),
                    'detected_at', time_text(job.last_retry_at))
                ELSE coalesce(details_of(job.error_meta), '{}')
            END || jsonb_build_object('retry_count', job.retry_count, 'max_retries', job.max_retries)
        END AS error_meta,
        -- What a retry is for begins with the code of the error.
        CASE WHEN waits.after_timeout THEN substr(job.retry_reason, length('timeout: ') + 1) ELSE job.error_message END AS error
    FROM langlauf.jobs AS job
    CROSS JOIN LATERAL (
        SELECT job.next_attempt_at IS NOT NULL AND job.last_retry_at > job.attempt_started_at
            AND job.retry_reason LIKE 'timeout: %' AS after_timeout) AS waits
    WHERE uuid_of(job.job_id) IS NOT NULL;
    COMMENT ON COLUMN public.reading_jobs.id IS 'The id of the job.';
    COMMENT ON COLUMN public.reading_jobs.status IS
        'pending, generating, done, failed, timeout (waits for a retry after a timeout) or cancelled.';
    COMMENT ON COLUMN public.reading_jobs.created_at IS 'When the job was accepted.';
    COMMENT ON COLUMN public.reading_jobs.updated_at IS 'When the job last changed.';
    COMMENT ON COLUMN public.reading_jobs.started_at IS 'When its latest attempt began; time limits count from here.';
    COMMENT ON COLUMN public.reading_jobs.retry_count IS 'How many failed attempts were tried again.';
    COMMENT ON COLUMN public.reading_jobs.max_retries IS 'How many failed attempts may be tried again.';
    COMMENT ON COLUMN public.reading_jobs.last_retry_at IS 'When the last retry was decided.';
    COMMENT ON COLUMN public.reading_jobs.retry_reason IS 'Why it was: the code of the error and its message.';
    COMMENT ON COLUMN public.reading_jobs.error_code IS 'What kind of error it was, in capitals, such as TIMEOUT.';
    COMMENT ON COLUMN public.reading_jobs.error_meta IS
        'Details of the error, with retry_count and max_retries; of a timeout threshold_seconds, started_at and detected_at.';
    COMMENT ON COLUMN public.reading_jobs.error IS 'The message of the error, for people.';
END $$;
