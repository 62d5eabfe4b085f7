-- What of orgs PostgreSQL says in other words; the rest is in the `admin.sql` of both.

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

-- name: probe_write
-- Some pages, so that a file without room refuses it.
INSERT INTO duties (name, succeeded_at, host) VALUES ('write probe', :now, hex(zeroblob(8192)))

-- name: probe_erase
DELETE FROM duties WHERE name = 'write probe'

-- name: feed_home
-- Which store this is, and since when.
SELECT life, began_at FROM feed_home
