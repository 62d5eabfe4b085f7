-- The overview of all orgs, for operators. That of one org is in reads.sql.

-- name: all_ended
SELECT org.org_id, analysis.name, ended.status, ended.queued_at, ended.started_at, ended.finished_at, ended.error_code,
    CASE ended.status WHEN 'failed' THEN ended.job_id END
FROM ({newest_kept:3|2|1|0} ORDER BY finished_at DESC LIMIT :most) AS newest
CROSS JOIN job_rows AS ended ON ended.job = newest.job
CROSS JOIN orgs AS org ON org.org = ended.org
CROSS JOIN analyses AS analysis ON analysis.analysis = ended.analysis

-- name: all_tails
{tails:INDEXED BY idx_lanes_turn} LIMIT :most

-- name: all_waiting
-- Tickets are given in the order of time.
SELECT one.ticket, one.queued_at FROM job_rows AS one INDEXED BY idx_jobs_lane_head
WHERE one.org = :org AND one.analysis = :analysis AND one.expedite = :expedite AND one.ticket >= 0 AND one.ticket < :behind
  AND one.started_at IS NULL AND one.finished_at IS NULL
ORDER BY one.ticket DESC LIMIT :most

-- name: all_queues
SELECT org.org_id, analysis.name, lane.waiting, {oldest_queued}
FROM lane_rows AS lane INDEXED BY idx_lanes_turn
CROSS JOIN orgs AS org ON org.org = lane.org CROSS JOIN analyses AS analysis ON analysis.analysis = lane.analysis
WHERE lane.waiting > 0 LIMIT :most

-- name: all_underway
SELECT org.org_id, found.job_id, analysis.name, found.queued_at, found.started_at, found.cancel_requested_at,
    found.next_attempt_at, found.lease_expires_at
FROM (SELECT * FROM job_rows AS job INDEXED BY idx_jobs_timeout_detection WHERE job.deadline_at IS NOT NULL
      UNION ALL SELECT * FROM job_rows AS job INDEXED BY idx_jobs_lane_due WHERE job.next_attempt_at IS NOT NULL) AS found
JOIN orgs AS org ON org.org = found.org JOIN analyses AS analysis ON analysis.analysis = found.analysis
LIMIT :most

-- The backlog over all orgs, for metrics: each query reads one index entry, or as many rows as jobs run.

-- name: backlog_waiting
SELECT name, waiting FROM analyses WHERE analysis > 0 OR waiting > 0

-- name: backlog_scheduled
SELECT name, scheduled FROM analyses WHERE analysis > 0 OR scheduled > 0

-- name: backlog_oldest
-- When the first of each lane and class was accepted: as many looks as lanes that wait.
SELECT min({oldest_queued})
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
-- One row per org with waiting jobs: only where the operator wants figures by org.
SELECT org.org_id, sum(lane.waiting) FROM lane_rows AS lane INDEXED BY idx_lanes_turn
CROSS JOIN orgs AS org ON org.org = lane.org WHERE lane.waiting > 0 GROUP BY lane.org

-- name: backlog_orgs_running
SELECT (SELECT org.org_id FROM orgs AS org WHERE org.org = job.org), count(*)
FROM job_rows AS job INDEXED BY idx_jobs_timeout_detection
WHERE job.deadline_at IS NOT NULL AND job.lease_expires_at > :now GROUP BY job.org
