-- Copying all rows out of a file, and into one. {table}, {columns} and their like are filled in table by table.

-- name: read_rows
SELECT {columns} FROM {table} ORDER BY {order}

-- name: read_rows_behind
SELECT {columns} FROM {table} WHERE ({order}) > ({behind}) ORDER BY {order}

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
