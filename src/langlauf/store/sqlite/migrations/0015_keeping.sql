-- A job is held while somebody wants its results kept: retention then leaves them, the record and its tombstones alone.
ALTER TABLE jobs ADD COLUMN held_at INTEGER;
ALTER TABLE jobs ADD COLUMN held_by TEXT;
ALTER TABLE jobs ADD COLUMN hold_reason TEXT;
CREATE INDEX idx_jobs_held ON jobs (org_id, held_at DESC, job_id DESC) WHERE held_at IS NOT NULL;
