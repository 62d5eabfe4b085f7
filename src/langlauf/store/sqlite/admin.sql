-- Administrative tables: API keys, ended sessions, signing secrets, orgs, workers and duties. No job depends on them.

-- name: create_key
-- An id that is taken makes nothing: the caller draws another one.
INSERT INTO api_keys (key_id, org_id, name, secret_hash, scopes, created_at, expires_at, version)
SELECT :key_id, :org_id, :name, :secret_hash, :scopes, :now, :expires_at, coalesce(max(version), 0) + 1 FROM api_keys
WHERE true
ON CONFLICT (key_id) DO NOTHING

-- name: revoke_key
-- With an org, only a key of that org.
UPDATE api_keys SET revoked_at = :now, version = (SELECT max(version) + 1 FROM api_keys)
WHERE key_id = :key_id AND (:org_id IS NULL OR org_id = :org_id) AND revoked_at IS NULL

-- name: note_key_use
UPDATE api_keys SET last_used_at = :at
WHERE key_id = :key_id AND (last_used_at IS NULL OR last_used_at < :at)

-- name: read_key
SELECT {key_columns} FROM api_keys AS key WHERE key.key_id = :key_id AND (:org_id IS NULL OR key.org_id = :org_id)

-- name: read_keys_of_org
SELECT {key_columns} FROM api_keys AS key WHERE key.org_id = :org_id ORDER BY key.created_at, key.key_id

-- name: read_all_keys
SELECT {key_columns} FROM api_keys AS key ORDER BY key.org_id, key.created_at, key.key_id

-- name: key_changes
SELECT {key_columns}, key.secret_hash, key.version FROM api_keys AS key WHERE key.version > :after ORDER BY key.version

-- name: keep_secret
INSERT INTO signing_secrets (purpose, secret, created_at) VALUES (:purpose, :secret, :now) ON CONFLICT DO NOTHING

-- name: kept_secret
SELECT secret FROM signing_secrets WHERE purpose = :purpose

-- name: forget_session_ends
-- The highest number is never given again.
DELETE FROM ended_sessions WHERE expires_at <= :now AND number < (SELECT max(number) FROM ended_sessions)

-- name: end_session
INSERT INTO ended_sessions (session_id, expires_at, number)
SELECT :session_id, :expires_at, coalesce(max(number), 0) + 1 FROM ended_sessions
WHERE true
ON CONFLICT (session_id) DO NOTHING

-- name: session_ends
SELECT session_id, expires_at, number FROM ended_sessions WHERE number > :after ORDER BY number

-- name: owners
-- The org of a job or a result by its id.
SELECT org_id, job_id FROM jobs WHERE :kind = 'job' AND job_id = :record_id
UNION ALL
SELECT org_id, job_id FROM job_results WHERE :kind = 'result' AND result_id = :record_id

-- Orgs as a whole. {table}, {key} and {own} stand for names read from the schema of the file.

-- name: org_tables
-- Every table with rows of orgs, how it names them, and the columns of its key.
SELECT one.name, max(part.name) FILTER (WHERE part.name IN ('org', 'org_id')),
    json_group_array(part.name) FILTER (WHERE part.pk > 0)
FROM sqlite_schema AS one CROSS JOIN pragma_table_info(one.name) AS part
WHERE one.type = 'table'
GROUP BY one.name HAVING max(part.name IN ('org', 'org_id'))

-- name: org_count
SELECT count(*) FROM {table} WHERE {own}

-- name: org_held
SELECT count(*) FROM job_rows INDEXED BY idx_jobs_held
WHERE org = {org} AND held_at IS NOT NULL

-- name: org_unended
SELECT job_id FROM job_rows INDEXED BY idx_jobs_lane_head
WHERE org = {org} AND started_at IS NULL AND finished_at IS NULL
UNION ALL
SELECT job_id FROM job_rows INDEXED BY idx_jobs_lane_due
WHERE org = {org} AND next_attempt_at IS NOT NULL
UNION ALL
SELECT job_id FROM job_rows INDEXED BY idx_jobs_timeout_detection
WHERE org = {org} AND deadline_at IS NOT NULL
LIMIT :limit

-- name: org_revoke_key
UPDATE api_keys SET revoked_at = :now, version = (SELECT max(version) + 1 FROM api_keys)
WHERE key_id = (SELECT key_id FROM api_keys WHERE org_id = :org_id AND revoked_at IS NULL LIMIT 1)

-- name: org_forget_keys
UPDATE api_keys SET name = '', last_used_at = NULL
WHERE org_id = :org_id AND (name <> '' OR last_used_at IS NOT NULL)

-- name: org_remove_ended
-- What belongs to a job goes with it.
DELETE FROM job_rows WHERE job IN (
    SELECT job FROM job_rows INDEXED BY idx_jobs_org_status_updated
    WHERE org = {org} AND status IN ('completed', 'failed', 'canceled')
      AND finished_at IS NOT NULL AND (:with_held OR held_at IS NULL) LIMIT :limit)

-- name: org_remove_leased
-- With its lease gone, nothing that a worker writes later is taken.
DELETE FROM job_rows WHERE job IN (
    SELECT job FROM job_rows INDEXED BY idx_jobs_timeout_detection
    WHERE org = {org} AND deadline_at IS NOT NULL AND (:with_held OR held_at IS NULL) LIMIT :limit)
RETURNING analysis

-- name: org_remove_rows
DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE {own} AND {goes} LIMIT :limit)

-- name: save_worker_report
-- A worker that stops does not come back; its next life has another id.
INSERT INTO workers ({worker_names}, seen_at) VALUES ({worker_named}, :now)
ON CONFLICT (worker_id) DO UPDATE SET
    busy = excluded.busy, slots = excluded.slots, stopping = excluded.stopping, seen_at = excluded.seen_at
WHERE workers.stopping <= excluded.stopping

-- name: remove_worker
DELETE FROM workers WHERE worker_id = :worker_id

-- name: forget_silent_workers
DELETE FROM workers WHERE seen_at < :before

-- name: all_workers
-- Each with the jobs that it holds, and until when: one walk over as many rows as run.
SELECT {worker_columns}, worker.seen_at, coalesce(held.jobs, 0), held.until
FROM workers AS worker LEFT JOIN (
    SELECT job.worker_id, count(*) AS jobs, max(job.lease_expires_at) AS until
    FROM job_rows AS job INDEXED BY idx_jobs_timeout_detection WHERE job.deadline_at IS NOT NULL GROUP BY job.worker_id
) AS held ON held.worker_id = worker.worker_id
ORDER BY worker.started_at, worker.worker_id

-- name: find_code
SELECT * FROM codes WHERE code = :code

-- name: all_pauses
SELECT {pause_columns} FROM pauses AS pause ORDER BY pause.analysis, pause.org_id

-- name: record_duty
-- Processes have the same duties: the latest success of any of them counts.
INSERT INTO duties (name, succeeded_at, host) VALUES (:name, :now, :host)
ON CONFLICT (name) DO UPDATE SET succeeded_at = excluded.succeeded_at, host = excluded.host
WHERE duties.succeeded_at <= excluded.succeeded_at

-- name: all_duties
SELECT name, succeeded_at, host FROM duties ORDER BY name

-- name: probe_write
-- Some pages, so that a file without room refuses it.
INSERT INTO duties (name, succeeded_at, host) VALUES ('write probe', :now, hex(zeroblob(8192)))

-- name: probe_erase
DELETE FROM duties WHERE name = 'write probe'

-- name: feed_home
-- Which store this is, and since when.
SELECT life, began_at FROM feed_home
