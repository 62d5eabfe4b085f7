-- What only a file can break: rows whose job, org or analysis is not there show in no view, and some things are counted here alone.

-- name: own_orphans
SELECT NULL, job_id, 'a row of job_rows without its org' FROM job_rows WHERE org NOT IN (SELECT org FROM orgs)
UNION ALL
SELECT NULL, job_id, 'a row of job_rows without its analysis' FROM job_rows WHERE analysis NOT IN (SELECT analysis FROM analyses)
UNION ALL
SELECT NULL, NULL, 'a row of inputs without its job' FROM inputs AS child
WHERE NOT EXISTS (SELECT 1 FROM job_rows AS job WHERE job.job = child.job)
UNION ALL
SELECT NULL, NULL, 'event ' || child.event_seq || ' of job ' || child.job || ', org ' || child.org || ', without its job'
FROM event_rows AS child
WHERE NOT EXISTS (SELECT 1 FROM job_rows AS job WHERE job.job = child.job AND job.org = child.org)
UNION ALL
SELECT NULL, NULL, 'result ' || child.result_id || ' without its job' FROM result_rows AS child
WHERE NOT EXISTS (SELECT 1 FROM job_rows AS job WHERE job.job = child.job AND job.org = child.org)
UNION ALL
SELECT NULL, NULL, 'chunk ' || child.chunk || ' without its job' FROM chunk_rows AS child
WHERE NOT EXISTS (SELECT 1 FROM job_rows AS job WHERE job.job = child.job AND job.org = child.org)
UNION ALL
SELECT NULL, NULL, 'an idempotency key of org ' || child.org || ' without its job' FROM key_rows AS child
WHERE NOT EXISTS (SELECT 1 FROM job_rows AS job WHERE job.job = child.job AND job.org = child.org)
UNION ALL
SELECT NULL, NULL, 'a lane of org ' || org || ' and analysis ' || analysis || ' without them' FROM lane_rows
WHERE org NOT IN (SELECT org FROM orgs) OR analysis NOT IN (SELECT analysis FROM analyses)

-- name: own_known_values
SELECT org.org_id, job.job_id, 'a row of job_rows' FROM job_rows AS job JOIN orgs AS org ON org.org = job.org
WHERE job.retryable NOT IN (0, 1) OR job.expedite NOT IN (0, 1) OR length(job.payload_hash) <> 32
   OR (job.lease_expires_at IS NULL) <> (job.deadline_at IS NULL) OR (job.lease_expires_at IS NULL) <> (job.worker_id IS NULL)

-- name: own_input_kept
SELECT org.org_id, job.job_id, 'its input is there twice' FROM inputs AS large
JOIN job_rows AS job ON job.job = large.job JOIN orgs AS org ON org.org = job.org
WHERE job.input IS NOT NULL

-- name: own_lane_counts
-- What runs is what has a lease.
SELECT NULL, NULL, name || ' counts ' || running || ' running, there are ' || leased FROM (
    SELECT analyses.name, analyses.running, coalesce(runs.leased, 0) AS leased FROM analyses LEFT JOIN (
        SELECT analysis, count(*) AS leased FROM job_rows WHERE deadline_at IS NOT NULL GROUP BY analysis) AS runs
    ON runs.analysis = analyses.analysis)
WHERE running <> leased

-- name: feed_places
SELECT org.org_id, job.job_id, 'event ' || event.event_seq || ' at ' || coalesce(event.feed_at, 'no place')
FROM event_rows AS event JOIN job_rows AS job ON job.job = event.job JOIN orgs AS org ON org.org = event.org
WHERE (event.feed_at IS NOT NULL) <> (event.event_type IN (
    'job.queued', 'job.running', 'job.partial', 'job.completed', 'job.failed', 'job.canceled'))
UNION ALL
SELECT org.org_id, NULL, 'place ' || twice.feed_at || ' is given ' || twice.given || ' times' FROM (
    SELECT org, feed_at, count(*) AS given FROM event_rows
    WHERE feed_at IS NOT NULL GROUP BY org, feed_at HAVING count(*) > 1) AS twice JOIN orgs AS org ON org.org = twice.org

-- name: all_events
SELECT org.org_id, job.job_id, event.event_seq, event.event_type, event.occurred_at, event.payload_json
FROM job_rows AS job CROSS JOIN event_rows AS event CROSS JOIN orgs AS org
WHERE event.job = job.job AND org.org = job.org
ORDER BY job.job_id, event.event_seq

-- name: schema_objects
SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL
