-- Schedules. A process that fires due ones claims them for a moment; the idempotency key of a run makes one job of it.

-- Only from the planned time that was fired: another process may have been faster, or the schedule was changed.
CREATE OR REPLACE FUNCTION advance_schedules(
    orgs text[], titles text[], fired_ats bigint[], next_ats bigint[], last_ats bigint[], outcomes text[], job_ids text[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    changed bigint;
BEGIN
    PERFORM 1 FROM schedules AS one JOIN unnest(orgs, titles) AS mine (org_id, name) ON one.org_id = mine.org_id AND one.name = mine.name
    ORDER BY one.org_id, one.name FOR UPDATE OF one;
    UPDATE schedules AS one SET next_run_at = done.next_at, last_run_at = coalesce(done.last_at, one.last_run_at),
        last_outcome = coalesce(done.outcome, one.last_outcome), last_job_id = coalesce(done.job_id, one.last_job_id), claimed_until = NULL
    FROM unnest(orgs, titles, fired_ats, next_ats, last_ats, outcomes, job_ids)
        AS done (org_id, name, fired_at, next_at, last_at, outcome, job_id)
    WHERE one.org_id = done.org_id AND one.name = done.name AND one.next_run_at = done.fired_at;
    GET DIAGNOSTICS changed = ROW_COUNT;
    RETURN changed;
END $$;

-- Schedules of which an earlier run has not ended: the newest few of each are looked at.
-- query: unfinished_runs(orgs text[], titles text[], planned_ats bigint[]) RETURNS TABLE (org_id text, name text)
SELECT run.org_id, run.name FROM unnest(orgs, titles, planned_ats) AS run (org_id, name, planned)
WHERE EXISTS (SELECT 1 FROM (
    SELECT one.finished_at FROM job_rows AS one
    WHERE one.org_id = run.org_id AND one.schedule = run.name AND one.planned_at < run.planned
    ORDER BY one.planned_at DESC LIMIT 100) AS newest WHERE newest.finished_at IS NULL);

-- The newest runs of a schedule.
-- query: read_schedule_runs(title text, most integer) RETURNS SETOF job_views
SELECT view.* FROM (
    SELECT run.job FROM job_rows AS run WHERE run.org_id = org AND run.schedule = title
    ORDER BY run.planned_at DESC LIMIT most) AS newest
JOIN job_views AS view ON view.job = newest.job AND view.org_id = org ORDER BY view.planned_at DESC;
