-- Schedules. Format: a line "-- name: …", a sentence, the statement.

-- name: read_schedule_runs
-- The newest runs of a schedule.
SELECT {job_columns}, job.lease_expires_at
FROM (SELECT one.job AS run FROM job_rows AS one INDEXED BY idx_jobs_schedule
      WHERE one.org = {org} AND one.schedule = :name
      ORDER BY one.planned_at DESC LIMIT :limit) AS newest
CROSS JOIN jobs AS job ON job.row = newest.run
WHERE job.org_id = :org_id

-- name: advance_schedule
-- Only from the planned time that was fired: any other process may have been faster, or the schedule was changed.
UPDATE schedules SET next_run_at = :next_run_at, last_run_at = coalesce(:last_run_at, last_run_at),
    last_outcome = coalesce(:outcome, last_outcome), last_job_id = coalesce(:job_id, last_job_id), claimed_until = NULL
WHERE org_id = :org_id AND name = :name AND next_run_at = :fired_at

-- name: unfinished_runs
-- Schedules of which an earlier run has not ended: the newest few of each are looked at.
SELECT run.value, :name ->> run.key FROM json_each(:org_id) AS run
WHERE EXISTS (SELECT 1 FROM (
    SELECT one.finished_at FROM job_rows AS one INDEXED BY idx_jobs_schedule
    WHERE one.org = (SELECT org FROM orgs WHERE org_id = run.value) AND one.schedule = :name ->> run.key
      AND one.planned_at < :planned_at ->> run.key
    ORDER BY one.planned_at DESC LIMIT 100) WHERE finished_at IS NULL)
