-- Copying all of a file, taking over a store of the earlier system, and writing one.

-- name: known_job
SELECT 1 FROM job_rows WHERE job_id = :job_id

-- name: last_given_ticket
SELECT max(coalesce(max(ticket), 0), 0) FROM jobs
WHERE org_id = :org_id AND analysis = :analysis AND priority_class = :priority_class AND started_at IS NULL AND finished_at IS NULL

-- name: put_rows
INSERT INTO {table} ({columns}) VALUES ({marks})

-- name: place_events
-- Places in the feeds, in the order of time: that of each event, or the one behind the last where it is taken.
UPDATE event_rows SET feed_at = placed.feed_at
FROM (
    SELECT job, event_seq, number + max(occurred_at - number) OVER (PARTITION BY org ORDER BY number) AS feed_at
    FROM (
        SELECT job, event_seq, org, occurred_at,
            row_number() OVER (PARTITION BY org ORDER BY occurred_at, job, event_seq) AS number
        FROM event_rows
        WHERE feed_at IS NULL AND event_type IN (
            'job.queued', 'job.running', 'job.partial', 'job.completed', 'job.failed', 'job.canceled'))) AS placed
WHERE event_rows.job = placed.job AND event_rows.event_seq = placed.event_seq

-- name: touch_all_orgs
UPDATE orgs SET version = version + 1

-- name: recount_lanes
-- Lanes as the jobs say. An org that has waiting jobs keeps its turn; one that had none joins where the virtual clock stands.
INSERT INTO lane_rows (org, analysis, waiting, scheduled, next_run_at, virtual_start, served, due_at)
SELECT job.org, job.analysis, sum(job.started_at IS NULL AND job.ticket >= 0), sum(job.started_at IS NULL AND job.ticket < 0),
    min(-job.ticket) FILTER (WHERE job.started_at IS NULL AND job.ticket < 0),
    coalesce((SELECT max(mine.virtual_start) FROM lane_rows AS mine WHERE mine.org = job.org AND mine.waiting > 0),
        max((SELECT virtual_now FROM lane_clock),
            coalesce((SELECT max(mine.virtual_start) FROM lane_rows AS mine WHERE mine.org = job.org), 0))),
    coalesce((SELECT max(mine.served) FROM lane_rows AS mine WHERE mine.org = job.org), 0), min(job.next_attempt_at)
FROM job_rows AS job INDEXED BY idx_jobs_duplicates WHERE job.finished_at IS NULL GROUP BY job.org, job.analysis
ON CONFLICT (org, analysis) DO UPDATE SET
    waiting = excluded.waiting, scheduled = excluded.scheduled, next_run_at = excluded.next_run_at, virtual_start = excluded.virtual_start, served = excluded.served, due_at = excluded.due_at

-- name: recount_waiting
UPDATE analyses SET running = 0, waiting = (
    SELECT coalesce(sum(lane.waiting), 0) FROM lane_rows AS lane WHERE lane.analysis = analyses.analysis AND lane.waiting > 0),
    scheduled = (SELECT coalesce(sum(lane.scheduled), 0) FROM lane_rows AS lane WHERE lane.analysis = analyses.analysis)

-- name: recount_running
UPDATE analyses SET running = runs.leased
FROM (SELECT analysis, count(*) AS leased FROM job_rows WHERE deadline_at IS NOT NULL GROUP BY analysis) AS runs
WHERE runs.analysis = analyses.analysis

-- name: an_unnamed_job
SELECT 1 FROM job_rows WHERE analysis = 0 LIMIT 1

-- name: unnamed_jobs
SELECT org_id, job_id, priority_class, status = 'queued', ticket, request_payload_hash,
    (SELECT payload FROM job_inputs AS input WHERE input.job_id = job.job_id)
FROM jobs AS job WHERE row IN (SELECT job FROM job_rows WHERE analysis = 0) ORDER BY org, ticket, queued_at, row

-- name: make_analysis
INSERT INTO analyses (name) VALUES (:name) ON CONFLICT DO NOTHING

-- name: name_job
UPDATE job_rows SET
    analysis = (SELECT analysis FROM analyses WHERE name = :analysis), ticket = :ticket, payload_hash = unhex(:payload_hash)
WHERE job_id = :job_id AND analysis = 0

-- name: forget_unnamed_lanes
DELETE FROM lane_rows WHERE analysis = 0

-- name: every_job
SELECT {job_columns},
    (SELECT payload FROM job_inputs AS input WHERE input.job_id = job.job_id),
    (SELECT used.idempotency_key FROM key_rows AS used WHERE used.job = job.row)
FROM jobs AS job
WHERE :org_id IS NULL OR job.org_id = :org_id
ORDER BY job.job_id

-- name: every_chunk
SELECT chunk.org_id, chunk.job_id, chunk.chunk_key, chunk.payload, chunk.created_at
FROM job_rows AS job CROSS JOIN chunk_rows AS kept CROSS JOIN job_chunks AS chunk
WHERE kept.job = job.job AND chunk.row = kept.chunk AND (:org_id IS NULL OR chunk.org_id = :org_id)
ORDER BY job.job_id, kept.chunk_key

-- name: every_event
SELECT {event_columns} FROM job_events AS event
WHERE :org_id IS NULL OR event.org_id = :org_id
ORDER BY event.row, event.event_seq

-- name: every_result
-- What retention removed is no result any more: the earlier system would count it as one.
SELECT {snapshot_columns}, snapshot.payload, snapshot.views, snapshot.schema_text FROM job_results AS snapshot
WHERE snapshot.removed_at IS NULL AND (:org_id IS NULL OR snapshot.org_id = :org_id)
ORDER BY snapshot.row

-- name: every_notification
SELECT {notification_columns} FROM notifications AS notification
WHERE :org_id IS NULL OR notification.org_id = :org_id

-- name: exported_tables
-- Every table and view with rows of orgs.
SELECT one.name FROM sqlite_schema AS one
WHERE one.type IN ('table', 'view') AND EXISTS (SELECT 1 FROM pragma_table_info(one.name) AS own WHERE own.name = 'org_id')
ORDER BY one.name
