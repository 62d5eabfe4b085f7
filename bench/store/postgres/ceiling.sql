-- The rows of a group of jobs, stage by stage: one bare statement over arrays each. Nothing is looked up, decided, checked
-- or read back. The tables, their indexes and their triggers are the store's own.

-- name: submit
WITH new AS MATERIALIZED (
    SELECT * FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[])
        AS one (job_id, hash, payload, trace_id, request_id, ticket)),
made AS (
    INSERT INTO jobs (
        org_id, job_id, analysis, status, priority_class, request_payload_hash, request_payload_ref, queued_at, updated_at,
        timeout_seconds, max_retries, trace_id, request_id, ticket, payload)
    SELECT $1, job_id, $8, 'queued', 'default', hash, 'inline:', $9, $9, 1800, 3, trace_id, request_id, ticket, payload FROM new),
told AS (
    INSERT INTO event_rows (org_id, job_id, event_seq, event_type, occurred_at, actor_type, payload_json, feed_mark)
    SELECT $1, job_id, 1, 'job.queued', $9, 'user', '{"analysis":"bench"}', $9 FROM new),
counted AS (
    INSERT INTO waiting_counts AS mine (analysis, shard, waiting) VALUES ($8, pg_backend_pid() % 32, cardinality($2))
    ON CONFLICT (analysis, shard) DO UPDATE SET waiting = mine.waiting + excluded.waiting)
INSERT INTO lanes AS mine (org_id, analysis, waiting, virtual_start) VALUES ($1, $8, cardinality($2), 0)
ON CONFLICT (org_id, analysis) DO UPDATE SET waiting = mine.waiting + excluded.waiting

-- name: claim
WITH started AS (
    UPDATE jobs SET
        status = 'running', started_at = $4::bigint, attempt_started_at = $4::bigint, attempt = 1, paced_at = $4, progress_at = $4, event_seq = 2,
        updated_at = $4, worker_id = 'bench-worker', lease_expires_at = $4::bigint + 15000000, deadline_at = $4::bigint + 1800000000, claim_id = $5
    FROM unnest($2::text[]) AS new (job_id) WHERE jobs.job_id = new.job_id),
told AS (
    INSERT INTO event_rows (org_id, job_id, event_seq, event_type, occurred_at, actor_type, payload_json, feed_mark)
    SELECT $1, job_id, 2, 'job.running', $4, 'worker', '{"attempt":1}', $4 FROM unnest($2::text[]) AS new (job_id)),
counted AS (
    UPDATE waiting_counts SET waiting = waiting - cardinality($2), leased = leased + cardinality($2)
    WHERE analysis = $3 AND shard = pg_backend_pid() % 32)
UPDATE lanes SET waiting = waiting - cardinality($2) WHERE org_id = $1 AND analysis = $3

-- name: partial
WITH new AS MATERIALIZED (SELECT * FROM unnest($2::text[], $3::text[], $4::text[]) AS one (job_id, result_id, facts)),
shown AS (
    UPDATE jobs SET
        status = 'partial', progress_percent = 50, partial_count = 1, result_id = new.result_id, progress_at = $6, event_seq = 3,
        updated_at = $6
    FROM new WHERE jobs.job_id = new.job_id),
kept AS (
    INSERT INTO job_results (org_id, result_id, job_id, result_kind, result_seq, schema_version, result_payload_ref, created_at, payload)
    SELECT $1, result_id, job_id, 'partial', 1, 1, 'inline:', $6, $5 FROM new)
INSERT INTO event_rows (org_id, job_id, event_seq, event_type, occurred_at, actor_type, payload_json, feed_mark)
SELECT $1, job_id, 3, 'job.partial', $6, 'worker', facts, $6 FROM new

-- name: complete
WITH new AS MATERIALIZED (SELECT * FROM unnest($2::text[], $3::text[], $4::text[]) AS one (job_id, result_id, facts)),
ended AS (
    UPDATE jobs SET
        status = 'completed', progress_percent = 100, result_id = new.result_id, finished_at = $6, kept = 3, event_seq = 4,
        updated_at = $6, estimated_seconds = 0, worker_id = NULL, lease_expires_at = NULL, deadline_at = NULL, claim_id = NULL
    FROM new WHERE jobs.job_id = new.job_id),
kept AS (
    INSERT INTO job_results (org_id, result_id, job_id, result_kind, result_seq, schema_version, result_payload_ref, created_at, payload)
    SELECT $1, result_id, job_id, 'final', 2, 1, 'inline:', $6, $5 FROM new)
INSERT INTO event_rows (org_id, job_id, event_seq, event_type, occurred_at, actor_type, payload_json, feed_mark)
SELECT $1, job_id, 4, 'job.completed', $6, 'worker', facts, $6 FROM new
