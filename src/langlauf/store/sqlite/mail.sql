-- Who may be written to by e-mail, and how often.

-- name: add_mail_mark
INSERT INTO mail_marks (org_id, address, mark, at) VALUES (:org_id, :address, :mark, :now) ON CONFLICT DO NOTHING

-- name: remove_mail_mark
DELETE FROM mail_marks WHERE org_id = :org_id AND address = :address AND mark = :mark

-- name: read_mail_marks
SELECT org_id, address, mark, at FROM mail_marks
WHERE org_id = :org_id AND (:address IS NULL OR address = :address) ORDER BY address, mark

-- name: forget_mail_admissions
DELETE FROM mail_admissions WHERE org_id = :org_id AND at <= :before

-- name: admit_mail
-- Lets a mail out unless the org, or the address in this org, has had as many as it may.
INSERT INTO mail_admissions (org_id, notification_id, attempt, address, at)
SELECT :org_id, :notification_id, :attempt, :address, :now
WHERE (SELECT count(*) FROM mail_admissions AS one INDEXED BY idx_mail_admissions_org
       WHERE one.org_id = :org_id AND one.at > :org_since) < :org_quota
  AND (SELECT count(*) FROM mail_admissions AS one INDEXED BY idx_mail_admissions_address
       WHERE one.org_id = :org_id AND one.address = :address AND one.at > :address_since) < :address_quota
ON CONFLICT DO NOTHING

-- name: mail_admitted
SELECT 1 FROM mail_admissions WHERE org_id = :org_id AND notification_id = :notification_id AND attempt = :attempt

-- name: mails_to_address
SELECT count(*) FROM mail_admissions INDEXED BY idx_mail_admissions_address
WHERE org_id = :org_id AND address = :address AND at > :address_since
