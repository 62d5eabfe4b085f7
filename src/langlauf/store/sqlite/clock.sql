-- What the store's clock reads and writes. Format: a line "-- name: …", a sentence, the statement.

-- name: clock_shift
-- What is added to the time since this start of the machine.
SELECT shift FROM clocks WHERE boot_id = :boot_id

-- name: clock_set
-- Only ever forward, whoever else sets it: time in a store does not run back.
INSERT INTO clocks (boot_id, shift) VALUES (:boot_id, :shift)
ON CONFLICT (boot_id) DO UPDATE SET shift = max(shift, excluded.shift)

-- name: clock_busy
-- Whether a lease lives: it would be cut short if the clock were moved forward now.
SELECT EXISTS (SELECT 1 FROM leases WHERE expires_at > :now)

-- name: clock_newest
-- The newest time in the store: of what has ended, of what has started, of what waits. What was imported has the times
-- of another system's clock, and does not count.
SELECT max(
    coalesce((SELECT finished_at FROM jobs WHERE finished_at IS NOT NULL AND imported_at IS NULL
              ORDER BY finished_at DESC LIMIT 1), 0),
    coalesce((SELECT max(updated_at) FROM jobs
              WHERE finished_at IS NULL AND attempt_started_at IS NOT NULL AND imported_at IS NULL), 0),
    coalesce((SELECT queued_at FROM jobs WHERE status = 'queued' AND priority_class = 'default' AND imported_at IS NULL
              ORDER BY queued_at DESC LIMIT 1), 0),
    coalesce((SELECT queued_at FROM jobs WHERE status = 'queued' AND priority_class = 'expedite' AND imported_at IS NULL
              ORDER BY queued_at DESC LIMIT 1), 0))
