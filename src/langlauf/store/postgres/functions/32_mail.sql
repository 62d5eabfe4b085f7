CREATE OR REPLACE FUNCTION add_mail_mark(at bigint, org text, receiver text, wanted text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO mail_marks (org_id, address, mark, at) VALUES (org, receiver, wanted, moment($1)) ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;

CREATE OR REPLACE FUNCTION remove_mail_mark(org text, receiver text, wanted text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM mail_marks WHERE org_id = org AND address = receiver AND mark = wanted;
    RETURN FOUND;
END $$;

-- query: read_mail_marks(receiver text) RETURNS SETOF mail_marks
SELECT one.* FROM mail_marks AS one
WHERE one.org_id = org AND (receiver IS NULL OR one.address = receiver) ORDER BY one.address, one.mark;

-- Admits and counts a mail, or returns why not. An advisory lock per org serialises this. A repeat for the same attempt is not
-- counted again.
CREATE OR REPLACE FUNCTION admit_mail(
    at bigint, org text, message text, attempt_no integer, receiver text, counted boolean, only_listed boolean,
    org_quota integer, org_window bigint, address_quota integer, address_window bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    now bigint;
BEGIN
    IF EXISTS (SELECT 1 FROM mail_marks WHERE org_id = org AND address = receiver AND mark = 'unsubscribed') THEN
        RETURN 'unsubscribed';
    ELSIF only_listed AND NOT EXISTS (
        SELECT 1 FROM mail_marks WHERE org_id = org AND address = receiver AND mark = 'allowed') THEN
        RETURN 'unlisted';
    ELSIF NOT counted THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('langlauf mail ' || org, 0));
    now := moment($1);
    DELETE FROM mail_admissions AS old WHERE old.org_id = org AND old.at <= now - greatest(org_window, address_window);
    INSERT INTO mail_admissions (org_id, notification_id, attempt, address, at)
    SELECT org, message, attempt_no, receiver, now
    WHERE (SELECT count(*) FROM mail_admissions AS one WHERE one.org_id = org AND one.at > now - org_window) < org_quota
      AND (SELECT count(*) FROM mail_admissions AS one
           WHERE one.org_id = org AND one.address = receiver AND one.at > now - address_window) < address_quota
    ON CONFLICT DO NOTHING;
    IF FOUND OR EXISTS (
        SELECT 1 FROM mail_admissions AS same
        WHERE same.org_id = org AND same.notification_id = message AND same.attempt = attempt_no) THEN
        RETURN NULL;
    END IF;
    RETURN CASE WHEN (
        SELECT count(*) FROM mail_admissions AS one
        WHERE one.org_id = org AND one.address = receiver AND one.at > now - address_window) >= address_quota
        THEN 'address_rate' ELSE 'org_rate' END;
END $$;
