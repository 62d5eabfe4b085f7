-- When upkeep last succeeded: no tenant data, and nothing that a job depends on.

-- name: note_duty
-- Processes have the same duties: the latest success of any of them counts.
INSERT INTO duties (name, succeeded_at, host) VALUES (:name, :now, :host)
ON CONFLICT (name) DO UPDATE SET succeeded_at = excluded.succeeded_at, host = excluded.host
WHERE duties.succeeded_at <= excluded.succeeded_at

-- name: all_duties
SELECT name, succeeded_at, host FROM duties ORDER BY name

-- name: probe_write
-- Some pages, so that a file without room refuses it.
INSERT INTO duties (name, succeeded_at, host) VALUES ('write probe', :now, hex(zeroblob(8192)))

-- name: probe_erase
DELETE FROM duties WHERE name = 'write probe'
