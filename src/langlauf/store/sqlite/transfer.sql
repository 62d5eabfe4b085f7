-- Taking over a store of the earlier system, and writing one.

-- name: import_by_name
SELECT sha256, imported_at, jobs FROM imports WHERE file_name = :file_name ORDER BY imported_at LIMIT 1

-- name: import_by_content
SELECT sha256, imported_at, jobs FROM imports WHERE sha256 = :sha256 ORDER BY imported_at LIMIT 1

-- name: note_import
INSERT INTO imports (file_name, sha256, imported_at, jobs) VALUES (:file_name, :sha256, :now, :jobs)

-- name: known_job
SELECT 1 FROM job_rows WHERE job_id = :job_id

-- name: last_given_ticket
SELECT coalesce(max(ticket), 0) FROM jobs
WHERE org_id = :org_id AND analysis = :analysis AND priority_class = :priority_class AND started_at IS NULL AND finished_at IS NULL

-- name: bring_job
INSERT INTO jobs ({job_names}) VALUES ({job_values})

-- name: bring_input
INSERT INTO job_inputs (org_id, job_id, payload) VALUES (?, ?, ?)

-- name: bring_key
INSERT INTO idempotency_keys (org_id, idempotency_key, job_id, created_at) VALUES (?, ?, ?, ?)

-- name: bring_chunk
INSERT INTO job_chunks (org_id, job_id, chunk_key, payload, created_at) VALUES (?, ?, ?, ?, ?)

-- name: bring_event
INSERT INTO job_events ({event_names}) VALUES ({event_values})

-- name: bring_result
INSERT INTO job_results ({snapshot_names}, payload, views, schema_text) VALUES ({snapshot_values}, ?, ?, ?)

-- name: bring_notification
INSERT INTO notifications ({notification_names}) VALUES ({notification_values})

-- name: touch_all_orgs
UPDATE orgs SET version = version + 1

-- name: recount_lanes
-- Lanes as the jobs say. An org that has waiting jobs keeps its turn; one that had none joins where the virtual clock stands.
INSERT INTO lane_rows (org, analysis, waiting, virtual_start, served, due_at)
SELECT job.org, job.analysis, sum(job.started_at IS NULL),
    coalesce((SELECT max(mine.virtual_start) FROM lane_rows AS mine WHERE mine.org = job.org AND mine.waiting > 0),
        max((SELECT virtual_now FROM lane_clock),
            coalesce((SELECT max(mine.virtual_start) FROM lane_rows AS mine WHERE mine.org = job.org), 0))),
    coalesce((SELECT max(mine.served) FROM lane_rows AS mine WHERE mine.org = job.org), 0), min(job.next_attempt_at)
FROM job_rows AS job INDEXED BY idx_jobs_duplicates WHERE job.finished_at IS NULL GROUP BY job.org, job.analysis
ON CONFLICT (org, analysis) DO UPDATE SET
    waiting = excluded.waiting, virtual_start = excluded.virtual_start, served = excluded.served, due_at = excluded.due_at

-- name: recount_waiting
UPDATE analyses SET running = 0, waiting = (
    SELECT coalesce(sum(lane.waiting), 0) FROM lane_rows AS lane WHERE lane.analysis = analyses.analysis AND lane.waiting > 0)

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

-- name: org_tables
-- Every table and view with rows of orgs.
SELECT one.name FROM sqlite_schema AS one
WHERE one.type IN ('table', 'view') AND EXISTS (SELECT 1 FROM pragma_table_info(one.name) AS own WHERE own.name = 'org_id')
ORDER BY one.name
