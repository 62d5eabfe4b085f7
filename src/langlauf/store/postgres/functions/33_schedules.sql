-- Schedules. A process that fires due ones claims them for a moment; the idempotency key of a run makes one job of it.

-- When the first schedule of known analyses is due that no process fires at this moment: mostly the first entry of each analysis
-- in the index. Only where a process fires that one, those behind it are looked at.
-- query: next_planned(known text[]) RETURNS bigint
SELECT min(CASE WHEN coalesce(first.claimed_until, 0) <= first.next_run_at THEN first.next_run_at ELSE (
    SELECT min(greatest(few.next_run_at, few.claimed_until)) FROM (
        SELECT one.next_run_at, one.claimed_until FROM schedules AS one
        WHERE one.analysis = title AND one.next_run_at IS NOT NULL ORDER BY one.next_run_at LIMIT 1000) AS few) END)
FROM unnest(known) AS title CROSS JOIN LATERAL (
    SELECT one.next_run_at, one.claimed_until FROM schedules AS one
    WHERE one.analysis = title AND one.next_run_at IS NOT NULL ORDER BY one.next_run_at LIMIT 1) AS first;

-- Due schedules of known analyses that no process fires at this moment, the longest due first.
CREATE OR REPLACE FUNCTION claim_schedules(at bigint, known text[], held bigint, most integer) RETURNS SETOF schedules
LANGUAGE plpgsql AS $$
DECLARE
    now bigint := moment(at);
BEGIN
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT one.org_id, one.name FROM schedules AS one
        WHERE one.next_run_at <= now AND coalesce(one.claimed_until, 0) <= now AND one.analysis = ANY (known)
        ORDER BY one.next_run_at LIMIT most FOR UPDATE SKIP LOCKED)
    UPDATE schedules AS one SET claimed_until = now + held
    FROM due WHERE one.org_id = due.org_id AND one.name = due.name
    RETURNING one.*;
END $$;

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
