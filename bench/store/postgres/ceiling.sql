-- The rows of a group of jobs, stage by stage: one bare statement over arrays each. Nothing is looked up, decided, checked
-- or read back. The tables, their indexes and their triggers are the store's own.

-- name: submit
WITH new AS MATERIALIZED (
    SELECT * FROM unnest($2::uuid[], $3::bytea[], $4::text[], $5::uuid[], $6::uuid[], $7::bigint[])
        AS one (job, hash, payload, trace, request, ticket)),
made AS (
    INSERT INTO job_rows (
        org_id, job, analysis, status, priority_class, payload_hash, queued_at, updated_at, timeout_seconds, max_retries, trace, request,
        ticket)
    SELECT $1, job, $8, 'queued', 'default', hash, $9, $9, 1800, 3, trace, request, ticket FROM new),
logged AS (
    INSERT INTO event_rows (org_id, job, event_seq, event_type, occurred_at, actor_type, feed_mark, input)
    SELECT $1, job, 1, 'job.queued', $9, 'user', $9, payload FROM new),
counted AS (
    INSERT INTO waiting_counts AS mine (analysis, shard, waiting) VALUES ($8, pg_backend_pid() % 32, cardinality($2))
    ON CONFLICT (analysis, shard) DO UPDATE SET waiting = mine.waiting + excluded.waiting)
INSERT INTO lanes AS mine (org_id, analysis, waiting, virtual_start) VALUES ($1, $8, cardinality($2), 0)
ON CONFLICT (org_id, analysis) DO UPDATE SET waiting = mine.waiting + excluded.waiting

-- name: claim
WITH started AS (
    UPDATE job_rows AS jobs SET
        status = 'running', started_at = $4::bigint, attempt_started_at = $4::bigint, attempt = 1, paced_at = $4, progress_at = $4, event_seq = 2,
        updated_at = $4, worker_id = 'bench-worker', lease_expires_at = $4::bigint + 15000000, deadline_at = $4::bigint + 1800000000, claim_id = $5
    FROM unnest($2::uuid[]) AS new (job) WHERE jobs.job = new.job),
logged AS (
    INSERT INTO event_rows (org_id, job, event_seq, event_type, occurred_at, feed_mark)
    SELECT $1, job, 2, 'job.running', $4, $4 FROM unnest($2::uuid[]) AS new (job)),
counted AS (
    UPDATE waiting_counts SET waiting = waiting - cardinality($2), leased = leased + cardinality($2)
    WHERE analysis = $3 AND shard = pg_backend_pid() % 32)
UPDATE lanes SET waiting = waiting - cardinality($2) WHERE org_id = $1 AND analysis = $3

-- name: partial
WITH new AS MATERIALIZED (SELECT * FROM unnest($2::uuid[], $3::uuid[], $4::text[]) AS one (job, result, facts)),
shown AS (
    UPDATE job_rows AS jobs SET
        status = 'partial', progress_percent = 50, partial_count = 1, result = new.result, progress_at = $6, event_seq = 3,
        updated_at = $6
    FROM new WHERE jobs.job = new.job),
kept AS (
    INSERT INTO result_rows (org_id, result, job, result_kind, result_seq, schema_version, created_at, payload)
    SELECT $1, result, job, 'partial', 1, 1, $6, $5 FROM new)
INSERT INTO event_rows (org_id, job, event_seq, event_type, occurred_at, payload_json, feed_mark)
SELECT $1, job, 3, 'job.partial', $6, facts, $6 FROM new

-- name: complete
WITH new AS MATERIALIZED (SELECT * FROM unnest($2::uuid[], $3::uuid[]) AS one (job, result)),
ended AS (
    UPDATE job_rows AS jobs SET
        status = 'completed', progress_percent = 100, result = new.result, finished_at = $5, kept = 3, final_state = 1, event_seq = 4,
        updated_at = NULL, worker_id = NULL, lease_expires_at = NULL, deadline_at = NULL, claim_id = NULL
    FROM new WHERE jobs.job = new.job),
kept AS (
    INSERT INTO result_rows (org_id, result, job, result_kind, result_seq, schema_version, created_at, payload)
    SELECT $1, result, job, 'final', 2, 1, $5, $4 FROM new)
INSERT INTO event_rows (org_id, job, event_seq, event_type, occurred_at, feed_mark)
SELECT $1, job, 4, 'job.completed', $5, $5 FROM new
