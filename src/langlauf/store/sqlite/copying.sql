-- Copying all rows out of a file, and into one. {table}, {columns} and their like are filled in table by table.

-- name: read_rows
SELECT {columns} FROM {table} ORDER BY {key}

-- name: read_rows_behind
SELECT {columns} FROM {table} WHERE ({key}) > ({marks}) ORDER BY {key}

-- name: count_rows
SELECT count(*) FROM {table}

-- name: live_leases
SELECT count(*) FROM leases WHERE expires_at > :now

-- name: put_rows
INSERT INTO {table} ({columns}) VALUES ({marks})

-- name: read_progress
SELECT source, table_name, position FROM copying

-- name: begin_copy
INSERT INTO copying (only_row, source, table_name, position) VALUES (1, :source, :table, :position)

-- name: move_copy
-- Only where nobody else moved it meanwhile.
UPDATE copying SET table_name = :table, position = :position
WHERE source = :source AND table_name = :from_table AND position IS :from_position

-- name: end_copy
DELETE FROM copying WHERE source = :source AND table_name = :table AND position IS :position

-- name: rebuild_lanes
-- How many wait in all is counted by the triggers of lanes.
INSERT INTO lanes (org_id, analysis, waiting, virtual_start, due_at)
SELECT org_id, analysis, sum(started_at IS NULL), 0, min(next_attempt_at) FROM jobs
WHERE finished_at IS NULL GROUP BY org_id, analysis
ON CONFLICT (org_id, analysis) DO UPDATE SET waiting = excluded.waiting, due_at = excluded.due_at
