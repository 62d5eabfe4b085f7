-- What an analysis wants people to see of a snapshot, as JSON. It goes with the payload, and is read with it alone.
ALTER TABLE job_results ADD COLUMN views TEXT CHECK (views IS NULL OR removed_at IS NULL);

-- The results that a later job of the same analysis can look back at, newest first.
CREATE INDEX idx_jobs_completed ON jobs (org_id, analysis, finished_at DESC, job_id DESC)
WHERE status = 'completed' AND result_expired_at IS NULL;
