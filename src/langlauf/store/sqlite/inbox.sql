-- What an org has seen of its messages.

-- name: mark_message
UPDATE notifications SET read_at = :now
WHERE org_id = :org_id AND notification_id = :notification_id AND channel = 'in_app' AND read_at IS NULL

-- name: mark_all
-- Only ever later, and only for an org that has messages.
INSERT INTO inbox_marks (org_id, read_until)
SELECT :org_id, :until
WHERE EXISTS (SELECT 1 FROM notifications AS one WHERE one.org_id = :org_id AND one.channel = 'in_app')
ON CONFLICT (org_id) DO UPDATE SET read_until = excluded.read_until WHERE excluded.read_until > read_until
