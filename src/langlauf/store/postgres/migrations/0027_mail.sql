-- Who may be written to by e-mail, how often, and by which processes.

-- What an org knows of an address: that it is on the list of those who may be written to, or that it has unsubscribed.
CREATE TABLE mail_marks (
    org_id  text COLLATE "C" NOT NULL CHECK (length(org_id) BETWEEN 1 AND 128),
    address text COLLATE "C" NOT NULL CHECK (address = lower(address)),
    mark    text COLLATE "C" NOT NULL CHECK (mark IN ('allowed', 'unsubscribed')),
    at      bigint NOT NULL,
    PRIMARY KEY (org_id, address, mark)
);

-- The mails that were let out lately, for the rates: a row for each, forgotten when the longest rate no longer looks at it.
CREATE TABLE mail_admissions (
    org_id          text COLLATE "C" NOT NULL,
    notification_id text COLLATE "C" NOT NULL,
    attempt         integer NOT NULL,
    address         text COLLATE "C" NOT NULL,
    at              bigint  NOT NULL,
    PRIMARY KEY (org_id, notification_id, attempt)
);

CREATE INDEX idx_mail_admissions_org ON mail_admissions (org_id, at);
CREATE INDEX idx_mail_admissions_address ON mail_admissions (org_id, address, at);

CREATE FUNCTION add_mail_mark(at bigint, org text, receiver text, wanted text) RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO mail_marks (org_id, address, mark, at) VALUES (org, receiver, wanted, moment($1)) ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;

CREATE FUNCTION remove_mail_mark(org text, receiver text, wanted text) RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM mail_marks WHERE org_id = org AND address = receiver AND mark = wanted;
    RETURN FOUND;
END $$;

CREATE FUNCTION read_mail_marks(org text, receiver text) RETURNS SETOF mail_marks LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT one.* FROM mail_marks AS one
        WHERE one.org_id = org AND (receiver IS NULL OR one.address = receiver) ORDER BY one.address, one.mark;
END $$;

-- Lets a mail out and counts it, or tells why not. Those who ask for an org take turns, so that it has no more than it may.
-- A repeat for the same attempt, after an answer that was lost, is not counted again.
CREATE FUNCTION admit_mail(
    at bigint, org text, message text, attempt_no integer, receiver text, counted boolean, only_listed boolean,
    org_quota integer, org_window bigint, address_quota integer, address_window bigint
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
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

DROP FUNCTION claim_deliveries(bigint, integer, integer, bigint, integer);

-- Hands out messages that are due: by turns to the orgs, of each the longest due lanes first, and one message of each lane, so
-- that none holds up another. What an org has under way counts as turns that it had.
-- Those who claim take turns, so that what is under way in a lane is counted by one after the other; most find nothing, and
-- neither wait nor write. The number of the attempt is the fence: it grows here and nowhere else. A message to an endpoint that
-- is gone or disabled is given up: it was on its way into the outbox, or claimed, when that was said. A process that
-- cannot send mail leaves it to others.
CREATE FUNCTION claim_deliveries(at bigint, most integer, most_of_lane integer, claim bigint, cautious_after integer, with_mail boolean DEFAULT true)
RETURNS TABLE (
    org_id text, notification_id text, job_id text, channel text, template_key text, created_at bigint, payload_json text,
    attempt integer, try_number integer, target text, lane text, endpoint_id text, version integer, former_until bigint,
    traceparent text, lane_failures integer) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now bigint := moment(at);
BEGIN
    IF NOT EXISTS (SELECT 1 FROM lanes_with_room(now, most_of_lane, cautious_after) AS look WHERE look.room > 0 AND (with_mail OR look.lane <> 'mail')) THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('langlauf deliveries', 0));
    now := moment(at);
    RETURN QUERY
        WITH open_lane AS MATERIALIZED (
            SELECT look.*, row_number() OVER (PARTITION BY look.org_id ORDER BY look.due_at) + (
                    SELECT count(*) FROM notifications AS flying
                    WHERE flying.org_id = look.org_id AND flying.claimed_until > now) AS rank
            FROM lanes_with_room(now, most_of_lane, cautious_after) AS look
            WHERE look.room > 0 AND (with_mail OR look.lane <> 'mail') ORDER BY rank, look.due_at LIMIT most),
        due AS MATERIALIZED (
            SELECT open_lane.org_id, first.notification_id, open_lane.failures, open_lane.due_at, open_lane.rank,
                row_number() OVER (PARTITION BY open_lane.org_id, open_lane.lane ORDER BY first.scheduled_at) AS turn,
                first.endpoint_id IS NOT NULL AND NOT EXISTS (
                    SELECT 1 FROM webhook_endpoints AS there
                    WHERE there.endpoint_id = first.endpoint_id AND there.org_id = open_lane.org_id AND there.disabled_at IS NULL) AS gone
            FROM open_lane CROSS JOIN LATERAL (
                SELECT one.notification_id, one.scheduled_at, one.endpoint_id FROM notifications AS one
                WHERE one.org_id = open_lane.org_id AND one.lane = open_lane.lane
                  AND one.delivery_status = 'pending' AND one.channel <> 'in_app'
                  AND one.scheduled_at <= now AND (one.claimed_until IS NULL OR one.claimed_until <= now)
                ORDER BY one.scheduled_at LIMIT least(open_lane.room, most) FOR UPDATE SKIP LOCKED) AS first),
        picked AS MATERIALIZED (SELECT due.* FROM due ORDER BY due.turn, due.rank, due.due_at LIMIT most),
        taken AS (
            UPDATE notifications AS message SET
                attempt_count = message.attempt_count + (NOT picked.gone)::integer,
                claimed_until = CASE WHEN NOT picked.gone THEN now + claim END,
                scheduled_at = now + claim,
                delivery_status = CASE WHEN picked.gone THEN 'failed' ELSE 'pending' END,
                last_error = CASE WHEN picked.gone THEN 'the endpoint is not called any more' ELSE message.last_error END
            FROM picked
            WHERE message.notification_id = picked.notification_id AND message.org_id = picked.org_id
              AND message.delivery_status = 'pending' AND (message.claimed_until IS NULL OR message.claimed_until <= now)
            RETURNING message.*, picked.failures, picked.turn, picked.due_at, picked.gone)
        SELECT taken.org_id, taken.notification_id, taken.job_id, taken.channel, taken.template_key, taken.created_at,
            taken.payload_json, taken.attempt_count, 1 + (
                -- A claim that came to nothing is no try.
                SELECT count(*) FROM delivery_attempts AS tried
                WHERE tried.notification_id = taken.notification_id AND tried.org_id = taken.org_id
                  AND tried.attempt > taken.tries_from)::integer, coalesce(goes_to.url, taken.target),
            taken.lane, goes_to.endpoint_id, goes_to.version, goes_to.former_until, origin.traceparent, taken.failures
        FROM taken
        LEFT JOIN LATERAL (
            SELECT named.url, named.endpoint_id, named.version, named.former_until FROM webhook_endpoints AS named
            WHERE taken.endpoint_id IS NOT NULL AND named.endpoint_id = taken.endpoint_id AND named.org_id = taken.org_id
            UNION ALL
            -- The job's own address may be one that the org has an endpoint for: then that one's secret signs.
            SELECT same.url, same.endpoint_id, same.version, same.former_until FROM webhook_endpoints AS same
            WHERE taken.endpoint_id IS NULL AND taken.channel = 'webhook'
              AND same.org_id = taken.org_id AND same.url = taken.target) AS goes_to ON true
        LEFT JOIN LATERAL (
            SELECT job.traceparent FROM jobs AS job
            WHERE job.job_id = taken.job_id AND job.org_id = taken.org_id OFFSET 0) AS origin ON true
        WHERE NOT taken.gone
        ORDER BY taken.turn, taken.due_at;
END $$;

SELECT plan_with(
    '{add_mail_mark, remove_mail_mark, read_mail_marks, admit_mail, claim_deliveries}',
    'SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');
