-- Rules that only a database can break.

-- name: own_orphans
SELECT org_id, job::text, 'rows of job_events without their job' FROM event_rows AS child
WHERE NOT EXISTS (SELECT 1 FROM job_rows AS owner WHERE owner.org_id = child.org_id AND owner.job = child.job)
GROUP BY org_id, job
UNION ALL
SELECT org_id, job::text, 'rows of job_results without their job' FROM result_rows AS child
WHERE NOT EXISTS (SELECT 1 FROM job_rows AS owner WHERE owner.org_id = child.org_id AND owner.job = child.job)
GROUP BY org_id, job
UNION ALL
SELECT org_id, job_id, 'rows of job_chunks without their job' FROM job_chunks AS child
WHERE NOT EXISTS (SELECT 1 FROM jobs AS job WHERE job.org_id = child.org_id AND job.job_id = child.job_id)
GROUP BY org_id, job_id
UNION ALL
SELECT org_id, job_id, 'rows of idempotency_keys without their job' FROM idempotency_keys AS child
WHERE NOT EXISTS (SELECT 1 FROM jobs AS job WHERE job.org_id = child.org_id AND job.job_id = child.job_id)
GROUP BY org_id, job_id

-- name: own_lane_counts
-- Running jobs are those with a lease.
SELECT NULL::text, NULL::text, analysis || ' counts ' || sum(counted) || ' leases, there are ' || sum(there) FROM (
    SELECT analysis, leased AS counted, 0 AS there FROM waiting_counts
    UNION ALL
    SELECT analysis, 0, count(*) FROM jobs WHERE deadline_at IS NOT NULL GROUP BY analysis) AS counts
GROUP BY analysis HAVING sum(counted) <> sum(there)

-- name: own_lane_due
-- Lost and released jobs are found by back_at.
SELECT job.org_id, job.job_id, 'next_attempt_at ' || job.next_attempt_at || ', lane back ' || coalesce(lane.back_at::text, 'never')
FROM jobs AS job LEFT JOIN lanes AS lane USING (org_id, analysis)
WHERE job.next_attempt_at IS NOT NULL AND NOT coalesce(job.last_retry_at >= job.attempt_started_at, false)
  AND (lane.back_at IS NULL OR job.next_attempt_at < lane.back_at)

-- name: own_lane_tickets
-- A job with a ticket outside of its lane's range would never be claimed.
SELECT job.org_id, job.job_id, 'ticket ' || job.ticket || ', its lane has given '
    || CASE job.priority_class WHEN 'expedite' THEN lane.expedite_head || ' to ' || lane.expedite_last
                               ELSE lane.default_head || ' to ' || lane.default_last END
FROM jobs AS job JOIN lanes AS lane USING (org_id, analysis)
WHERE job.started_at IS NULL AND job.finished_at IS NULL AND job.ticket >= 0
  AND NOT CASE job.priority_class WHEN 'expedite' THEN job.ticket > lane.expedite_head AND job.ticket <= lane.expedite_last
                                  ELSE job.ticket > lane.default_head AND job.ticket <= lane.default_last END

-- name: idempotency_keys
SELECT org_id, job_id, 'the key has another payload hash than its job'
FROM idempotency_keys AS used JOIN jobs AS job USING (org_id, job_id)
WHERE used.payload_hash <> job.request_payload_hash

-- name: all_events
SELECT org_id, job_id, event_seq, event_type, occurred_at, payload_json FROM job_events ORDER BY job_id, event_seq

-- name: changed_objects
SELECT change FROM changed_objects()

-- name: now
SELECT moment(NULL)
