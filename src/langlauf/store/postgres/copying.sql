-- Copying all rows out of a database, and into one. {table}, {columns} and their like are filled in table by table.

-- name: read_rows
SELECT {columns} FROM {table} ORDER BY {key}

-- name: read_rows_behind
SELECT {columns} FROM {table} WHERE ({key}) > ({marks}) ORDER BY {key}

-- name: count_rows
SELECT count(*) FROM {table}

-- name: live_leases
SELECT count(*) FROM leases WHERE expires_at > :now

-- name: read_progress
SELECT source, table_name, position FROM copying

-- name: begin_copy
INSERT INTO copying (only_row, source, table_name, position) VALUES (1, :source, :table, :position)

-- name: move_copy
-- Only where nobody else moved it meanwhile.
UPDATE copying SET table_name = :table, position = :position
WHERE source = :source AND table_name = :from_table AND position IS NOT DISTINCT FROM :from_position
RETURNING 1

-- name: end_copy
DELETE FROM copying WHERE source = :source AND table_name = :table AND position IS NOT DISTINCT FROM :position
RETURNING 1

-- name: rebuild_lanes
SELECT recount_lanes(coalesce(array_agg(org_id), '{}'), coalesce(array_agg(analysis), '{}'))
FROM (SELECT DISTINCT org_id, analysis FROM jobs WHERE finished_at IS NULL) AS lane

-- name: recount_leases
SELECT recount_leases()

-- name: analyze
-- Whoever plans statements over so many new rows should know of them.
ANALYZE jobs, event_rows, job_results, outbox, delivery_attempts, job_wishes, webhook_endpoints, job_chunks, idempotency_keys, lanes
