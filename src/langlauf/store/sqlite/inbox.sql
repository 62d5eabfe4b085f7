-- What an org has seen of its messages.

-- name: mark_message
-- The id of a message begins as its job's does, and which one it is of follows from all of it.
UPDATE job_rows INDEXED BY idx_jobs_id SET read_at = :now
WHERE job_id BETWEEN substr(:notification_id, 1, min(14, length(:notification_id) - 1))
    AND substr(:notification_id, 1, 14) || char(1114111)
  AND substr(job_id, 1, 14) || '4' || substr(job_id, 16) = :notification_id
  AND org = (SELECT org FROM orgs WHERE org_id = :org_id)
  AND status IN ('completed', 'failed') AND (imported_at IS NULL OR imported_at < finished_at) AND read_at IS NULL

-- name: mark_stored_message
UPDATE outbox SET read_at = :now
WHERE org_id = :org_id AND notification_id = :notification_id AND channel = 'in_app' AND read_at IS NULL

-- name: mark_all
-- Only ever later, and only for an org that has messages.
INSERT INTO inbox_marks (org_id, read_until)
SELECT :org_id, :until
WHERE EXISTS (SELECT 1 FROM outbox AS one INDEXED BY idx_notifications_inbox
              WHERE one.org_id = :org_id AND one.channel = 'in_app')
   OR EXISTS (SELECT 1 FROM job_rows AS one INDEXED BY idx_jobs_org_status_updated
              WHERE one.org = (SELECT org FROM orgs WHERE org_id = :org_id) AND one.status IN ('completed', 'failed')
                AND one.finished_at IS NOT NULL AND (one.imported_at IS NULL OR one.imported_at < one.finished_at))
ON CONFLICT (org_id) DO UPDATE SET read_until = excluded.read_until WHERE excluded.read_until > read_until
