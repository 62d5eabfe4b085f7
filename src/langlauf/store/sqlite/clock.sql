-- What the store's clock reads and writes. Format: a line "-- name: …", a sentence, the statement.

-- name: clock_shift
-- What is added to the time since this start of the machine.
SELECT shift FROM clocks WHERE boot_id = :boot_id

-- name: clock_set
-- Only ever forward, whichever process sets it: time in a store does not run back.
INSERT INTO clocks (boot_id, shift) VALUES (:boot_id, :shift)
ON CONFLICT (boot_id) DO UPDATE SET shift = max(shift, excluded.shift)

-- name: clock_busy
-- Whether a lease is live: it would be shortened if the clock were moved forward now.
SELECT EXISTS (SELECT 1 FROM job_rows INDEXED BY idx_jobs_timeout_detection
               WHERE deadline_at IS NOT NULL AND lease_expires_at > :now)

-- name: clock_newest
-- The newest time in the store: of what has ended, of what has started, of what came last. What was imported has the times
-- of another system's clock, and does not count.
SELECT max(
    coalesce((
        SELECT max((SELECT job.finished_at FROM job_rows AS job INDEXED BY idx_jobs_finished
                    WHERE job.kept = part.value AND job.finished_at IS NOT NULL AND job.imported_at IS NULL
                    ORDER BY job.finished_at DESC LIMIT 1))
        FROM json_each('[0, 1, 2, 3]') AS part), 0),
    coalesce((SELECT max(updated_at) FROM job_rows INDEXED BY idx_jobs_timeout_detection
              WHERE deadline_at IS NOT NULL AND imported_at IS NULL), 0),
    coalesce((SELECT max(updated_at) FROM job_rows INDEXED BY idx_jobs_lane_due
              WHERE next_attempt_at IS NOT NULL AND imported_at IS NULL), 0),
    coalesce((SELECT queued_at FROM job_rows WHERE imported_at IS NULL ORDER BY job DESC LIMIT 1), 0))
