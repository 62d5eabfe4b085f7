-- Schedules. Format: a line "-- name: …", a sentence, the statement.

-- name: read_schedule_runs
-- The newest runs of a schedule.
SELECT {job_columns}, job.lease_expires_at
FROM (SELECT one.job AS run FROM job_rows AS one INDEXED BY idx_jobs_schedule
      WHERE one.org = {org} AND one.schedule = :name
      ORDER BY one.planned_at DESC LIMIT :limit) AS newest
CROSS JOIN jobs AS job ON job.row = newest.run
WHERE job.org_id = :org_id

-- name: next_planned
-- When the first schedule of known analyses is due that no process fires at this moment: mostly the first entry of each analysis
-- in the index. Only where a process fires that one, those behind it are looked at.
SELECT min(CASE WHEN coalesce(first.claimed_until, 0) <= first.next_run_at THEN first.next_run_at ELSE (
    SELECT min(max(next_run_at, coalesce(claimed_until, 0))) FROM (
        SELECT one.next_run_at, one.claimed_until FROM schedules AS one INDEXED BY idx_schedules_due
        WHERE one.analysis = known.value AND one.next_run_at IS NOT NULL ORDER BY one.next_run_at LIMIT 1000)) END)
FROM json_each(:analyses) AS known CROSS JOIN schedules AS first
WHERE (first.org_id, first.name) = (
    SELECT one.org_id, one.name FROM schedules AS one INDEXED BY idx_schedules_due
    WHERE one.analysis = known.value AND one.next_run_at IS NOT NULL ORDER BY one.next_run_at LIMIT 1)

-- name: due_schedules
-- Due schedules of known analyses that no process fires at this moment, the longest due first.
SELECT {schedule_names} FROM schedules INDEXED BY idx_schedules_due
WHERE next_run_at <= :now AND coalesce(claimed_until, 0) <= :now AND analysis IN (SELECT value FROM json_each(:analyses))
ORDER BY next_run_at LIMIT :most

-- name: claim_schedule
UPDATE schedules SET claimed_until = ?3 WHERE org_id = ?1 AND name = ?2

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
