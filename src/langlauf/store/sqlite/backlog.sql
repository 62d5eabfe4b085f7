-- What metrics tell of all that waits and runs, over all orgs: each a look at an index, or as many rows as jobs run.

-- name: backlog_waiting
SELECT name, waiting FROM analyses WHERE analysis > 0 OR waiting > 0

-- name: backlog_oldest
-- When the first of each lane and class was accepted: as many looks as lanes that wait.
SELECT min(min(
    coalesce((SELECT one.queued_at FROM job_rows AS one INDEXED BY idx_jobs_lane_head
     WHERE one.org = lane.org AND one.analysis = lane.analysis AND one.expedite = 1
       AND one.started_at IS NULL AND one.finished_at IS NULL ORDER BY one.ticket LIMIT 1), 1 << 62),
    coalesce((SELECT one.queued_at FROM job_rows AS one INDEXED BY idx_jobs_lane_head
     WHERE one.org = lane.org AND one.analysis = lane.analysis AND one.expedite = 0
       AND one.started_at IS NULL AND one.finished_at IS NULL ORDER BY one.ticket LIMIT 1), 1 << 62)))
FROM lane_rows AS lane INDEXED BY idx_lanes_turn WHERE lane.waiting > 0

-- name: backlog_running
SELECT (SELECT analysis.name FROM analyses AS analysis WHERE analysis.analysis = job.analysis),
    sum(job.lease_expires_at > :now), sum(job.lease_expires_at <= :now),
    min(CASE WHEN job.lease_expires_at > :now THEN job.attempt_started_at END)
FROM job_rows AS job INDEXED BY idx_jobs_timeout_detection WHERE job.deadline_at IS NOT NULL GROUP BY job.analysis

-- name: backlog_retrying
SELECT count(*) FROM (
    SELECT 1 FROM job_rows AS job INDEXED BY idx_jobs_lane_due WHERE job.next_attempt_at IS NOT NULL LIMIT :most)

-- name: backlog_orgs_waiting
-- As many rows as orgs that wait: only where the operator wants orgs told.
SELECT org.org_id, sum(lane.waiting) FROM lane_rows AS lane INDEXED BY idx_lanes_turn
CROSS JOIN orgs AS org ON org.org = lane.org WHERE lane.waiting > 0 GROUP BY lane.org

-- name: backlog_orgs_running
SELECT (SELECT org.org_id FROM orgs AS org WHERE org.org = job.org), count(*)
FROM job_rows AS job INDEXED BY idx_jobs_timeout_detection
WHERE job.deadline_at IS NOT NULL AND job.lease_expires_at > :now GROUP BY job.org
