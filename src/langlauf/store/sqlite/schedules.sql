-- Schedules. Format: a line "-- name: …", a sentence, the statement.

-- name: read_schedule_runs
-- The newest runs of a schedule.
SELECT {job_columns}, job.lease_expires_at
FROM (SELECT one.job AS run FROM job_rows AS one INDEXED BY idx_jobs_schedule
      WHERE one.org = {org} AND one.schedule = :name
      ORDER BY one.planned_at DESC LIMIT :limit) AS newest
CROSS JOIN jobs AS job ON job.row = newest.run
WHERE job.org_id = :org_id
