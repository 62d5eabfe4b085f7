-- Schedules. A process that fires due ones claims them for a moment; the idempotency key of a run makes one job of it.

-- The newest runs of a schedule.
-- query: read_schedule_runs(title text, most integer) RETURNS SETOF job_views
SELECT view.* FROM (
    SELECT run.job FROM job_rows AS run WHERE run.org_id = org AND run.schedule = title
    ORDER BY run.planned_at DESC LIMIT most) AS newest
JOIN job_views AS view ON view.job = newest.job AND view.org_id = org ORDER BY view.planned_at DESC;
