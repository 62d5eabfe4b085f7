-- The number of waiting jobs and of live leases.
-- query: depth(at bigint) RETURNS TABLE (waiting bigint, running bigint)
SELECT (SELECT coalesce(sum(counted.waiting + counted.scheduled), 0)::bigint FROM waiting_counts AS counted),
       (SELECT count(*) FROM jobs AS job WHERE job.deadline_at > 0 AND job.lease_expires_at > (SELECT moment(at)));

CREATE OR REPLACE FUNCTION paces() RETURNS TABLE (analysis text, mean_seconds float8) LANGUAGE sql STABLE AS $$
    SELECT analysis, mean_seconds FROM pace
$$;

-- Waiting lanes and running jobs of all orgs at one instant.
-- query: load(at bigint) RETURNS TABLE (seen_at bigint, virtual_now bigint, lanes lane_load[], runs run_load[])
SELECT seen.now, clock.virtual_now,
    ARRAY(SELECT ROW(lane.org_id, lane.analysis, lane.waiting, greatest(lane.virtual_start, clock.virtual_now))::lane_load
          FROM lanes AS lane WHERE lane.waiting > 0),
    ARRAY(SELECT ROW(job.org_id, job.analysis, job.attempt_started_at, job.progress_percent, job.paced_percent,
                     job.paced_at, job.progress_at)::run_load
          FROM jobs AS job WHERE job.deadline_at > 0 AND job.lease_expires_at > seen.now)
FROM lane_clock AS clock, moment(at) AS seen (now);

-- How many jobs wait for their time, by analysis.
-- query: scheduled_counts() RETURNS TABLE (analysis text, scheduled bigint)
SELECT analysis, sum(scheduled)::bigint FROM waiting_counts GROUP BY analysis;

-- The progress of followed jobs.
-- query: pulses(org_ids text[], job_ids text[])
--   RETURNS TABLE ( org_id text, job_id text, event_seq integer, result_expired boolean, events_expired boolean,
--   lease_expires_at bigint, held_at bigint )
SELECT job.org_id, job.job_id, job.event_seq, job.result_expired_at IS NOT NULL, job.events_expired_at IS NOT NULL,
    job.lease_expires_at, job.held_at
FROM unnest(org_ids, job_ids) AS followed (org_id, job_id)
JOIN job_views AS job ON job.org_id = followed.org_id AND job.job = key_of(followed.job_id);

-- A version of each org that changes with any of its jobs: when the last one was accepted, when the last one of each final
-- state ended, and the progress of running ones. A job that waits for a retry has left the running ones.
-- query: org_pulses(org_ids text[]) RETURNS TABLE (org_id text, mark text)
SELECT followed.org_id, concat_ws('.',
    coalesce((SELECT input.queued_at FROM jobs AS input
              WHERE input.org_id = followed.org_id AND input.queued_at > 0
              ORDER BY input.queued_at DESC LIMIT 1), 0),
    (SELECT string_agg(coalesce((
         SELECT job.finished_at FROM jobs AS job
         WHERE job.org_id = followed.org_id AND job.final_state = final_state_of(state.name) AND job.finished_at IS NOT NULL
         ORDER BY job.finished_at DESC LIMIT 1), 0)::text, '.' ORDER BY state.name)
     FROM unnest('{canceled, completed, failed}'::text[]) AS state (name)),
    (SELECT count(*) || '.' || coalesce(sum(job.event_seq), 0)
     FROM jobs AS job WHERE job.deadline_at > 0 AND job.org_id = followed.org_id))
FROM unnest(org_ids) AS followed (org_id);

-- The blobs of these jobs, and whether no more will follow.
-- query: kept_payloads(org_ids text[], job_ids text[]) RETURNS TABLE (org_id text, job_id text, ended boolean, refs text[])
SELECT job.org_id, job.job_id, job.finished_at IS NOT NULL, ARRAY(
    SELECT shown.result_payload_ref FROM job_results AS shown
    WHERE shown.org_id = job.org_id AND shown.job = job.job AND shown.removed_at IS NULL
      AND shown.result_payload_ref <> 'inline:')
FROM unnest(org_ids, job_ids) AS asked (org_id, job_id)
JOIN jobs AS job ON job.org_id = asked.org_id AND job.job = key_of(asked.job_id);

-- The number of the last migration.
CREATE OR REPLACE FUNCTION schema_number() RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT coalesce(max(number), 0) FROM migrations
$$;

-- The newest ended jobs of each final state, merged.
-- query: read_ended(since bigint, most integer) RETURNS SETOF ended_job
SELECT one.org_id, one.analysis, one.status, one.queued_at, one.started_at, one.finished_at, one.error_code,
    CASE one.status WHEN 'failed' THEN one.job_id END
FROM unnest('{completed, failed, canceled}'::text[]) AS state (name) CROSS JOIN LATERAL (
    SELECT * FROM jobs AS job
    WHERE job.org_id = org AND job.final_state = final_state_of(state.name) AND job.finished_at >= since
    ORDER BY job.finished_at DESC LIMIT most) AS one
ORDER BY one.finished_at DESC LIMIT most;

-- When waiting jobs were queued, up to `most` of each lane and class, in the order of tickets.
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
