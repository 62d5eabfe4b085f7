-- The rows of a group of jobs, stage by stage: one bare statement over arrays each. Nothing is looked up, decided, checked
-- or read back. The tables, their indexes and their triggers are the store's own. Rows are joined by columns alone: with a
-- constant for the org, a plan that was made for an empty table would go through all jobs of the org.

-- name: submit
WITH new AS MATERIALIZED (
    SELECT * FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[])
        AS one (job_id, hash, payload, trace_id, request_id, ticket)),
made AS (
    INSERT INTO jobs (
        org_id, job_id, analysis, status, priority_class, request_payload_hash, request_payload_ref, queued_at, updated_at,
        timeout_seconds, max_retries, trace_id, request_id, ticket)
    SELECT $1, job_id, $8, 'queued', 'default', hash, 'inline:', $9, $9, 1800, 3, trace_id, request_id, ticket FROM new),
given AS (
    INSERT INTO job_inputs (org_id, job_id, queued_at, payload) SELECT $1, job_id, $9, payload FROM new),
told AS (
    INSERT INTO job_events (org_id, job_id, event_seq, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
    SELECT $1, job_id, 1, 'job.queued', $9, 'user', '{"analysis":"bench"}', trace_id, request_id FROM new),
counted AS (
    INSERT INTO waiting_counts AS mine (analysis, shard, waiting) VALUES ($8, pg_backend_pid() % 32, cardinality($2))
    ON CONFLICT (analysis, shard) DO UPDATE SET waiting = mine.waiting + excluded.waiting)
INSERT INTO lanes AS mine (org_id, analysis, waiting, virtual_start) VALUES ($1, $8, cardinality($2), 0)
ON CONFLICT (org_id, analysis) DO UPDATE SET waiting = mine.waiting + excluded.waiting

-- name: claim
WITH new AS MATERIALIZED (
    SELECT $1 AS org_id, one.* FROM unnest($2::text[], $3::text[], $4::text[]) AS one (job_id, trace_id, request_id)),
started AS (
    UPDATE jobs SET
        status = 'running', started_at = $6, attempt_started_at = $6, attempt = 1, paced_at = $6, progress_at = $6, event_seq = 2,
        updated_at = $6
    FROM new WHERE jobs.org_id = new.org_id AND jobs.job_id = new.job_id),
leased AS (
    INSERT INTO leases (org_id, job_id, attempt, worker_id, expires_at, deadline_at, claim_id)
    SELECT $1, job_id, 1, 'bench-worker', $6 + 15000000, $6 + 1800000000, $7 FROM new),
told AS (
    INSERT INTO job_events (org_id, job_id, event_seq, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
    SELECT $1, job_id, 2, 'job.running', $6, 'worker', '{"attempt":1}', trace_id, request_id FROM new),
counted AS (
    UPDATE waiting_counts SET waiting = waiting - cardinality($2) WHERE analysis = $5 AND shard = pg_backend_pid() % 32)
UPDATE lanes SET waiting = waiting - cardinality($2) WHERE org_id = $1 AND analysis = $5

-- name: partial
WITH new AS MATERIALIZED (
    SELECT $1 AS org_id, one.* FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
        AS one (job_id, trace_id, request_id, result_id, facts)),
shown AS (
    UPDATE jobs SET
        status = 'partial', progress_percent = 50, partial_count = 1, result_id = new.result_id, progress_at = $8, event_seq = 3,
        updated_at = $8
    FROM new WHERE jobs.org_id = new.org_id AND jobs.job_id = new.job_id),
kept AS (
    INSERT INTO job_results (org_id, result_id, job_id, result_kind, result_seq, schema_version, result_payload_ref, created_at, payload)
    SELECT $1, result_id, job_id, 'partial', 1, 1, 'inline:', $8, $7 FROM new)
INSERT INTO job_events (org_id, job_id, event_seq, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
SELECT $1, job_id, 3, 'job.partial', $8, 'worker', facts, trace_id, request_id FROM new

-- name: complete
WITH new AS MATERIALIZED (
    SELECT $1 AS org_id, one.* FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
        AS one (job_id, trace_id, request_id, result_id, facts, dedupe_key, message)),
given_up AS (
    DELETE FROM leases USING new WHERE leases.org_id = new.org_id AND leases.job_id = new.job_id),
ended AS (
    UPDATE jobs SET
        status = 'completed', progress_percent = 100, result_id = new.result_id, finished_at = $10, event_seq = 4, updated_at = $10,
        estimated_seconds = 0
    FROM new WHERE jobs.org_id = new.org_id AND jobs.job_id = new.job_id),
kept AS (
    INSERT INTO job_results (org_id, result_id, job_id, result_kind, result_seq, schema_version, result_payload_ref, created_at, payload)
    SELECT $1, result_id, job_id, 'final', 2, 1, 'inline:', $10, $9 FROM new),
told AS (
    INSERT INTO job_events (org_id, job_id, event_seq, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
    SELECT $1, job_id, 4, 'job.completed', $10, 'worker', facts, trace_id, request_id FROM new)
INSERT INTO notifications (org_id, job_id, channel, template_key, delivery_status, dedupe_key, scheduled_at, created_at, payload_json)
SELECT $1, job_id, 'in_app', 'async.job.completed', 'pending', dedupe_key, $10, $10, message FROM new
