-- An org as a whole. {table} and {key} stand for names that the file itself told.

-- name: org_tables
-- Every table with rows of orgs, and the columns of its key.
SELECT one.name, json_group_array(part.name) FILTER (WHERE part.pk > 0)
FROM sqlite_schema AS one CROSS JOIN pragma_table_info(one.name) AS part
WHERE one.type = 'table' AND EXISTS (SELECT 1 FROM pragma_table_info(one.name) AS own WHERE own.name = 'org_id')
GROUP BY one.name

-- name: org_count
SELECT count(*) FROM {table} WHERE org_id = :org_id

-- name: org_held
SELECT count(*) FROM jobs INDEXED BY idx_jobs_held WHERE org_id = :org_id AND held_at IS NOT NULL

-- name: org_unended
SELECT job_id FROM jobs
WHERE org_id = :org_id AND status IN ('queued', 'running', 'partial') LIMIT :limit

-- name: org_revoke_key
UPDATE api_keys SET revoked_at = :now, version = (SELECT max(version) + 1 FROM api_keys)
WHERE key_id = (SELECT key_id FROM api_keys WHERE org_id = :org_id AND revoked_at IS NULL LIMIT 1)

-- name: org_forget_keys
UPDATE api_keys SET name = '', last_used_at = NULL
WHERE org_id = :org_id AND (name <> '' OR last_used_at IS NOT NULL)

-- name: org_remove_ended
-- What belongs to a job goes with it.
DELETE FROM jobs WHERE rowid IN (
    SELECT rowid FROM jobs
    WHERE org_id = :org_id AND status IN ('completed', 'failed', 'canceled') AND (:with_held OR held_at IS NULL) LIMIT :limit)

-- name: org_remove_leased
-- With its lease gone, nothing that a worker writes later is taken.
DELETE FROM jobs WHERE rowid IN (
    SELECT job.rowid FROM leases AS lease CROSS JOIN jobs AS job USING (org_id, job_id)
    WHERE lease.org_id = :org_id AND (:with_held OR job.held_at IS NULL) LIMIT :limit)

-- name: org_remove_rows
DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE org_id = :org_id AND {goes} LIMIT :limit)
