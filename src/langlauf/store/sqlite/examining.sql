-- What `doctor` asks of a file. Each is a walk along an index, and no longer than it was asked for.

-- name: kept_beyond_results
-- Retention begins with the oldest: the youngest beyond an age are the last it comes to.
SELECT count(*), coalesce(sum(result_id IS NOT NULL AND result_expired_at IS NULL), 0) FROM (
    SELECT result_id, result_expired_at FROM jobs INDEXED BY idx_jobs_finished
    WHERE finished_at IS NOT NULL AND finished_at <= :before ORDER BY finished_at DESC LIMIT :most)

-- name: kept_beyond_events
SELECT count(*), coalesce(sum(events_expired_at IS NULL), 0) FROM (
    SELECT events_expired_at FROM jobs INDEXED BY idx_jobs_finished
    WHERE finished_at IS NOT NULL AND finished_at <= :before ORDER BY finished_at DESC LIMIT :most)

-- name: kept_beyond_jobs
SELECT count(*), count(*) FROM (
    SELECT 1 FROM jobs INDEXED BY idx_jobs_finished
    WHERE finished_at IS NOT NULL AND finished_at <= :before ORDER BY finished_at DESC LIMIT :most)

-- name: newest_blobs
-- What the jobs that ended last keep outside of the file.
SELECT result.org_id, result.job_id, result.result_id, result.result_payload_ref
FROM (SELECT org_id, job_id FROM jobs INDEXED BY idx_jobs_finished
      WHERE finished_at IS NOT NULL ORDER BY finished_at DESC LIMIT :most) AS ended
CROSS JOIN job_results AS result ON result.org_id = ended.org_id AND result.job_id = ended.job_id
WHERE result.result_payload_ref <> 'inline:' AND result.removed_at IS NULL

-- name: any_key
SELECT EXISTS (SELECT 1 FROM api_keys)
