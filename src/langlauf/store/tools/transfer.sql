-- What is asked of every store when all of it is copied or an earlier one is taken over, in words that each database knows.
-- {table}, {columns} and their like are filled in table by table.

-- name: read_rows
SELECT {columns} FROM {table} ORDER BY {order}

-- name: read_rows_behind
SELECT {columns} FROM {table} WHERE ({order}) > ({behind}) ORDER BY {order}

-- name: count_rows
SELECT count(*) FROM {table}

-- name: live_leases
SELECT count(*) FROM leases WHERE expires_at > :now

-- name: read_progress
SELECT source, table_name, position FROM copying

-- name: begin_copy
INSERT INTO copying (only_row, source, table_name, position) VALUES (1, :source, :table, :position)

-- name: move_copy
-- Only where no other process moved it meanwhile.
UPDATE copying SET table_name = :table, position = :position
WHERE source = :source AND table_name = :from_table AND position IS NOT DISTINCT FROM :from_position
RETURNING 1

-- name: end_copy
DELETE FROM copying WHERE source = :source AND table_name = :table AND position IS NOT DISTINCT FROM :position
RETURNING 1

-- name: import_by_name
SELECT sha256 FROM imports WHERE file_name = :file_name ORDER BY imported_at LIMIT 1

-- name: import_by_content
SELECT 1 FROM imports WHERE sha256 = :sha256 LIMIT 1

-- name: note_import
INSERT INTO imports (file_name, sha256, imported_at, jobs) VALUES (:file_name, :sha256, :now, :jobs)
