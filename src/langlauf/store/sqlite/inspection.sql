-- The queries of `doctor` for a file. Each is a bounded index scan.

-- name: kept_beyond
-- The youngest jobs beyond an age: how many there are, and how many still have the part. Retention begins with the oldest:
-- these are the last it comes to. What is held it leaves alone.
SELECT count(*), count(*) FILTER (WHERE held_at IS NULL AND CASE :kind
    WHEN 'events' THEN events_expired_at IS NULL
    WHEN 'results' THEN result_id IS NOT NULL AND result_expired_at IS NULL
    ELSE true END)
FROM (
    SELECT held_at, result_id, result_expired_at, events_expired_at FROM (
        SELECT * FROM (SELECT job FROM job_rows WHERE kept = 0 AND finished_at <= :before ORDER BY finished_at DESC LIMIT :most)
        UNION ALL
        SELECT * FROM (SELECT job FROM job_rows WHERE kept = 1 AND finished_at <= :before ORDER BY finished_at DESC LIMIT :most)
        UNION ALL
        SELECT * FROM (SELECT job FROM job_rows WHERE kept = 2 AND finished_at <= :before ORDER BY finished_at DESC LIMIT :most)
        UNION ALL
        SELECT * FROM (SELECT job FROM job_rows WHERE kept = 3 AND finished_at <= :before ORDER BY finished_at DESC LIMIT :most))
    CROSS JOIN job_rows USING (job) ORDER BY finished_at DESC LIMIT :most)

-- name: newest_blobs
-- What the jobs that ended last keep outside of the file.
SELECT result.org_id, result.job_id, result.result_id, result.result_payload_ref
FROM (
    SELECT * FROM (SELECT job FROM job_rows WHERE kept = 3 AND finished_at IS NOT NULL ORDER BY finished_at DESC LIMIT :most)
    UNION ALL
    SELECT * FROM (
        SELECT job FROM job_rows WHERE kept = 2 AND finished_at IS NOT NULL ORDER BY finished_at DESC LIMIT :most)) AS ended
CROSS JOIN result_rows AS own ON own.job = ended.job
CROSS JOIN job_results AS result ON result.row = own.result
WHERE own.payload_ref IS NOT NULL AND own.removed_at IS NULL
