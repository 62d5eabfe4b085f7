-- Keys of orgs and what signatures are made with: none of it belongs to the life of a job.

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

-- name: read_key_changes
SELECT {key_columns}, key.secret_hash, key.version FROM api_keys AS key WHERE key.version > :after ORDER BY key.version

-- name: keep_secret
INSERT INTO signing_secrets (purpose, secret, created_at) VALUES (:purpose, :secret, :now) ON CONFLICT DO NOTHING

-- name: read_secret
SELECT secret FROM signing_secrets WHERE purpose = :purpose

-- name: forget_session_ends
-- The highest number is never given again.
DELETE FROM ended_sessions WHERE expires_at <= :now AND number < (SELECT max(number) FROM ended_sessions)

-- name: end_session
INSERT INTO ended_sessions (session_id, expires_at, number)
SELECT :session_id, :expires_at, coalesce(max(number), 0) + 1 FROM ended_sessions
WHERE true
ON CONFLICT (session_id) DO NOTHING

-- name: read_session_ends
SELECT session_id, expires_at, number FROM ended_sessions WHERE number > :after ORDER BY number

-- name: find_job
SELECT org_id, job_id FROM jobs WHERE job_id = :id

-- name: find_result
SELECT org_id, job_id FROM job_results WHERE result_id = :id
