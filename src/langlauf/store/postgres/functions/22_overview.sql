-- How many jobs wait and run. A lease that has ended does not count.
CREATE OR REPLACE FUNCTION depth(at bigint) RETURNS TABLE (waiting bigint, running bigint) LANGUAGE sql STABLE AS $$
    SELECT (SELECT coalesce(sum(waiting), 0)::bigint FROM waiting_counts),
           (SELECT count(*) FROM jobs WHERE deadline_at > 0 AND lease_expires_at > (SELECT moment(at)))
$$;

CREATE OR REPLACE FUNCTION paces() RETURNS TABLE (analysis text, mean_seconds float8) LANGUAGE sql STABLE AS $$
    SELECT analysis, mean_seconds FROM pace
$$;

-- All that waits and runs over all orgs, at one moment: as many rows as lanes that wait and jobs that run.
CREATE OR REPLACE FUNCTION load(at bigint) RETURNS TABLE (seen_at bigint, virtual_now bigint, lanes lane_load[], runs run_load[])
LANGUAGE plpgsql STABLE AS $$
DECLARE
    now bigint := moment(at);
BEGIN
    RETURN QUERY
        SELECT now, clock.virtual_now,
            ARRAY(SELECT ROW(lane.org_id, lane.analysis, lane.waiting, greatest(lane.virtual_start, clock.virtual_now))::lane_load
                  FROM lanes AS lane WHERE lane.waiting > 0),
            ARRAY(SELECT ROW(job.org_id, job.analysis, job.attempt_started_at, job.progress_percent, job.paced_percent,
                             job.paced_at, job.progress_at)::run_load
                  FROM jobs AS job WHERE job.deadline_at > 0 AND job.lease_expires_at > now)
        FROM lane_clock AS clock;
END $$;

-- How followed jobs of all orgs are doing, in one look.
-- query: pulses(org_ids text[], job_ids text[])
--   RETURNS TABLE ( org_id text, job_id text, event_seq integer, result_expired boolean, events_expired boolean,
--   lease_expires_at bigint, held_at bigint )
SELECT job.org_id, job.job_id, job.event_seq, job.result_expired_at IS NOT NULL, job.events_expired_at IS NOT NULL,
    job.lease_expires_at, job.held_at
FROM unnest(org_ids, job_ids) AS followed (org_id, job_id)
JOIN job_views AS job ON job.org_id = followed.org_id AND job.job = key_of(followed.job_id);

-- A mark of each followed org that any change of its jobs changes, in one look: when its last job was accepted, when one of
-- each final state was last written, and how far those are that run. A job that waits for another attempt left those that
-- run, or comes back to them.
-- query: org_pulses(org_ids text[]) RETURNS TABLE (org_id text, mark text)
SELECT followed.org_id, concat_ws('.',
    coalesce((SELECT input.queued_at FROM jobs AS input
              WHERE input.org_id = followed.org_id AND input.queued_at > 0
              ORDER BY input.queued_at DESC LIMIT 1), 0),
    (SELECT string_agg(coalesce((
         SELECT job.finished_at FROM jobs AS job
         WHERE job.org_id = followed.org_id AND job.status = state.name AND job.finished_at IS NOT NULL
         ORDER BY job.finished_at DESC LIMIT 1), 0)::text, '.' ORDER BY state.name)
     FROM unnest('{canceled, completed, failed}'::text[]) AS state (name)),
    (SELECT count(*) || '.' || coalesce(sum(job.event_seq), 0)
     FROM jobs AS job WHERE job.deadline_at > 0 AND job.org_id = followed.org_id))
FROM unnest(org_ids) AS followed (org_id);

-- What snapshots of these jobs name outside of the database, and whether no more will come.
-- query: kept_payloads(org_ids text[], job_ids text[]) RETURNS TABLE (org_id text, job_id text, ended boolean, refs text[])
SELECT job.org_id, job.job_id, job.finished_at IS NOT NULL, ARRAY(
    SELECT shown.result_payload_ref FROM job_results AS shown
    WHERE shown.org_id = job.org_id AND shown.job = job.job AND shown.removed_at IS NULL
      AND shown.result_payload_ref <> 'inline:')
FROM unnest(org_ids, job_ids) AS asked (org_id, job_id)
JOIN jobs AS job ON job.org_id = asked.org_id AND job.job = key_of(asked.job_id);

-- Which schema this is: the number of its last migration.
CREATE OR REPLACE FUNCTION schema_number() RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT coalesce(max(number), 0) FROM migrations
$$;

-- The newest that ended since then: the ways to end, each in the order of its index, merged until there are enough.
-- query: read_ended(since bigint, most integer) RETURNS SETOF ended_job
SELECT one.org_id, one.analysis, one.status, one.queued_at, one.started_at, one.finished_at, one.error_code,
    CASE one.status WHEN 'failed' THEN one.job_id END
FROM unnest('{completed, failed, canceled}'::text[]) AS state (name) CROSS JOIN LATERAL (
    SELECT * FROM jobs AS job
    WHERE job.org_id = org AND job.status = state.name AND job.finished_at >= since
    ORDER BY job.finished_at DESC LIMIT most) AS one
ORDER BY one.finished_at DESC LIMIT most;

-- When the jobs were queued that wait now, of each queue and class so many at most: tickets have the order of time.
-- query: read_queued(since bigint, most integer) RETURNS TABLE (queued_at bigint)
SELECT one.queued_at
FROM lanes AS lane
CROSS JOIN LATERAL (VALUES ('expedite', lane.expedite_head), ('default', lane.default_head)) AS class (name, head)
CROSS JOIN LATERAL (
    SELECT job.queued_at FROM jobs AS job
    WHERE job.org_id = org AND job.analysis = lane.analysis AND job.priority_class = class.name
      AND job.ticket > class.head AND job.started_at IS NULL AND job.finished_at IS NULL
    ORDER BY job.ticket DESC LIMIT most) AS one
WHERE lane.org_id = org AND lane.waiting > 0 AND one.queued_at >= since
ORDER BY one.queued_at DESC LIMIT most;

-- query: read_queues(most integer) RETURNS SETOF queues
SELECT * FROM queues WHERE org_id = org LIMIT most;

-- query: read_underway(most integer) RETURNS SETOF jobs_underway
SELECT * FROM jobs_underway WHERE org_id = org LIMIT most;

-- The same over all orgs, for operators.
-- query: all_ended(since bigint, most integer) RETURNS SETOF ended_job
SELECT one.org_id, one.analysis, one.status, one.queued_at, one.started_at, one.finished_at, one.error_code,
    CASE one.status WHEN 'failed' THEN one.job_id END
FROM newest_ended(since, 9223372036854775807, most) AS one;

-- query: all_queued(since bigint, most integer) RETURNS TABLE (queued_at bigint)
SELECT one.queued_at
FROM lanes AS lane
CROSS JOIN LATERAL (VALUES ('expedite', lane.expedite_head), ('default', lane.default_head)) AS class (name, head)
CROSS JOIN LATERAL (
    SELECT job.queued_at FROM jobs AS job
    WHERE job.org_id = lane.org_id AND job.analysis = lane.analysis AND job.priority_class = class.name
      AND job.ticket > class.head AND job.started_at IS NULL AND job.finished_at IS NULL
    ORDER BY job.ticket DESC LIMIT most) AS one
WHERE lane.waiting > 0 AND one.queued_at >= since
ORDER BY one.queued_at DESC LIMIT most;

-- query: all_queues(most integer) RETURNS SETOF queues
SELECT * FROM queues LIMIT most;

-- query: all_underway(most integer) RETURNS SETOF jobs_underway
SELECT * FROM jobs_underway LIMIT most;
