-- What must not be left when everything has come to rest: jobs without exactly one end, logs with gaps, and leases.
SELECT job_id, status FROM langlauf.jobs AS job
LEFT JOIN LATERAL (
    SELECT count(*) AS events,
        count(*) FILTER (WHERE event_type IN ('job.completed', 'job.failed', 'job.canceled')) AS ends
    FROM langlauf.job_events AS event
    WHERE event.org_id = job.org_id AND event.job_id = job.job_id) AS log ON true
LEFT JOIN LATERAL (
    SELECT count(*) FILTER (WHERE result_kind = 'final') AS finals
    FROM langlauf.job_results AS result
    WHERE result.org_id = job.org_id AND result.job_id = job.job_id) AS shown ON true
WHERE finished_at IS NULL OR ends <> 1 OR events <> event_seq OR finals <> (status = 'completed')::integer
UNION ALL
SELECT job_id, 'leased' FROM langlauf.leases
