-- Retention finds what is old without walking over what it has already taken: a job leaves these indexes with its parts.

CREATE INDEX idx_jobs_results_kept ON jobs (finished_at)
    WHERE finished_at IS NOT NULL AND result_id IS NOT NULL AND result_expired_at IS NULL;
CREATE INDEX idx_jobs_events_kept ON jobs (finished_at)
    WHERE finished_at IS NOT NULL AND events_expired_at IS NULL;
-- Tombstones are counted through this, so that counting what is left reads no payload.
CREATE INDEX idx_job_results_removed ON job_results (org_id, job_id) WHERE removed_at IS NOT NULL;
