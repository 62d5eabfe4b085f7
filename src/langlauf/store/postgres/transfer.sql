-- Copying a whole database, and import and export of legacy stores. Rows come in the order of the keys.

-- name: import_lock
-- Imports are serialised until the end of their transaction.
SELECT pg_advisory_xact_lock(hashtextextended('langlauf imports', 0))

-- name: known_job
-- One of these jobs that exists already.
SELECT new.org_id, new.job_id FROM unnest(:org_ids::text[], :job_ids::text[]) AS new (org_id, job_id)
JOIN job_rows ON job = key_of(new.job_id) LIMIT 1

-- name: lock_lanes
SELECT lock_lanes(:org_ids, :names)

-- name: last_given_ticket
SELECT CASE :priority_class WHEN 'expedite' THEN expedite_last ELSE default_last END
FROM lanes WHERE org_id = :org_id AND analysis = :analysis

-- name: recount_lanes
SELECT recount_lanes(:org_ids, :names)

-- name: rebuild_lanes
SELECT recount_lanes(coalesce(array_agg(org_id), '{}'), coalesce(array_agg(analysis), '{}'))
FROM (SELECT DISTINCT org_id, analysis FROM jobs WHERE finished_at IS NULL) AS lane

-- name: recount_leases
SELECT recount_leases()

-- name: analyze
-- Gives the planner statistics of the new rows.
ANALYZE job_rows, event_rows, result_rows, outbox, delivery_attempts, job_wishes, webhook_endpoints, job_chunks, idempotency_keys, lanes

-- name: every_job
SELECT {job_columns}, job.payload, used.idempotency_key
FROM jobs AS job
LEFT JOIN idempotency_keys AS used USING (org_id, job_id)
WHERE :org_id::text IS NULL OR job.org_id = :org_id::text
ORDER BY job.job_id, job.org_id

-- name: every_chunk
SELECT org_id, job_id, chunk_key, payload, created_at FROM job_chunks
WHERE :org_id::text IS NULL OR org_id = :org_id::text
ORDER BY job_id, org_id, chunk_key

-- name: every_event
SELECT {event_columns} FROM job_events AS event
WHERE :org_id::text IS NULL OR event.org_id = :org_id::text
ORDER BY event.job, event.event_seq

-- name: every_result
-- Removed results are left out: the legacy system would count them.
SELECT {snapshot_columns}, snapshot.payload, snapshot.views, snapshot.schema_text FROM job_results AS snapshot
WHERE snapshot.removed_at IS NULL AND (:org_id::text IS NULL OR snapshot.org_id = :org_id::text)
ORDER BY snapshot.result_id, snapshot.org_id

-- name: every_notification
SELECT {notification_columns} FROM notifications AS notification
WHERE :org_id::text IS NULL OR notification.org_id = :org_id::text
ORDER BY notification.notification_id, notification.org_id

-- name: org_tables
SELECT unnest(tables_of_orgs('org_id'))
