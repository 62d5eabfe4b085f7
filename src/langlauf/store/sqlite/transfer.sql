-- Taking over a store of the earlier system, and writing one.

-- name: import_by_name
SELECT sha256, imported_at, jobs FROM imports WHERE file_name = :file_name ORDER BY imported_at LIMIT 1

-- name: import_by_content
SELECT sha256, imported_at, jobs FROM imports WHERE sha256 = :sha256 ORDER BY imported_at LIMIT 1

-- name: note_import
INSERT INTO imports (file_name, sha256, imported_at, jobs) VALUES (:file_name, :sha256, :now, :jobs)

-- name: known_job
SELECT 1 FROM jobs WHERE org_id = :org_id AND job_id = :job_id

-- name: insert_chunk
INSERT INTO job_chunks (org_id, job_id, chunk_key, payload, created_at) VALUES (?, ?, ?, ?, ?)

-- name: an_unnamed_job
SELECT 1 FROM jobs WHERE analysis = '(default)' LIMIT 1

-- name: unnamed_jobs
SELECT job.org_id, job.job_id, job.priority_class, job.status = 'queued', job.ticket, job.request_payload_hash, input.payload
FROM jobs AS job LEFT JOIN job_inputs AS input USING (org_id, job_id)
WHERE job.analysis = '(default)' ORDER BY job.org_id, job.ticket, job.queued_at, job.job_id

-- name: unnamed_lanes
SELECT org_id, waiting FROM lanes WHERE analysis = '(default)'

-- name: name_job
UPDATE jobs SET analysis = :analysis, ticket = :ticket, request_payload_hash = :payload_hash
WHERE org_id = :org_id AND job_id = :job_id

-- name: due_lanes_of
-- When the jobs of an analysis that wait for their next attempt are due.
INSERT INTO lanes (org_id, analysis, waiting, virtual_start, due_at)
SELECT org_id, analysis, 0, 0, min(next_attempt_at) FROM jobs
WHERE analysis = :analysis AND next_attempt_at IS NOT NULL GROUP BY org_id
ON CONFLICT (org_id, analysis) DO UPDATE SET due_at = min(coalesce(due_at, excluded.due_at), excluded.due_at)

-- name: forget_unnamed_lanes
DELETE FROM lanes WHERE analysis = '(default)'

-- name: forget_unnamed_count
DELETE FROM waiting_counts WHERE analysis = '(default)'

-- name: insert_imported_result
INSERT INTO job_results ({snapshot_names}, payload, views, schema_text) VALUES ({snapshot_values}, ?, ?, ?)

-- name: every_job
SELECT {job_columns}, input.payload, used.idempotency_key
FROM jobs AS job
LEFT JOIN job_inputs AS input USING (org_id, job_id)
LEFT JOIN idempotency_keys AS used USING (org_id, job_id)
WHERE :org_id IS NULL OR job.org_id = :org_id
ORDER BY job.org_id, job.job_id

-- name: every_chunk
SELECT org_id, job_id, chunk_key, payload, created_at FROM job_chunks
WHERE :org_id IS NULL OR org_id = :org_id
ORDER BY org_id, job_id, chunk_key

-- name: every_event
SELECT {event_columns} FROM job_events AS event
WHERE :org_id IS NULL OR event.org_id = :org_id
ORDER BY event.org_id, event.job_id, event.event_seq

-- name: every_result
-- What retention removed is no result any more: the earlier system would count it as one.
SELECT {snapshot_columns}, snapshot.payload, snapshot.views, snapshot.schema_text FROM job_results AS snapshot
WHERE snapshot.removed_at IS NULL AND (:org_id IS NULL OR snapshot.org_id = :org_id)
ORDER BY snapshot.org_id, snapshot.result_id

-- name: every_notification
SELECT {notification_columns} FROM notifications AS notification
WHERE :org_id IS NULL OR notification.org_id = :org_id
ORDER BY notification.org_id, notification.notification_id

-- name: org_tables
-- Every table with rows of orgs, and its columns.
SELECT one.name, json_group_array(part.name)
FROM sqlite_schema AS one CROSS JOIN pragma_table_info(one.name) AS part
WHERE one.type = 'table' AND EXISTS (SELECT 1 FROM pragma_table_info(one.name) AS own WHERE own.name = 'org_id')
GROUP BY one.name ORDER BY one.name
