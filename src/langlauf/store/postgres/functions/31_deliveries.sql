-- Lanes with a due message, when it is due, and how many may be claimed: none while paused, one while failing. One lookup per
-- lane, however many messages wait.
-- query: lanes_with_room(now bigint, most_of_lane integer, cautious_after integer)
--   RETURNS TABLE (org_id text, lane text, due_at bigint, failures integer, room bigint)
WITH RECURSIVE walk AS (
    (SELECT first.org_id, first.lane FROM outbox AS first
     WHERE first.delivery_status = 'pending' AND first.channel <> 'in_app' AND first.lane IS NOT NULL
     ORDER BY first.org_id, first.lane LIMIT 1)
    UNION ALL
    SELECT later.org_id, later.lane FROM walk CROSS JOIN LATERAL (
        SELECT next.org_id, next.lane FROM outbox AS next
        WHERE next.delivery_status = 'pending' AND next.channel <> 'in_app' AND next.lane IS NOT NULL
          AND (next.org_id, next.lane) > (walk.org_id, walk.lane)
        ORDER BY next.org_id, next.lane LIMIT 1) AS later)
SELECT walk.org_id, walk.lane, waiting.due_at, coalesce(trouble.failures, 0), places.most - (
        SELECT count(*) FROM outbox AS flying
        WHERE flying.org_id = walk.org_id AND flying.lane = walk.lane AND flying.claimed_until > now)
FROM walk
CROSS JOIN LATERAL (
    SELECT first.scheduled_at AS due_at FROM outbox AS first
    WHERE first.org_id = walk.org_id AND first.lane = walk.lane
      AND first.delivery_status = 'pending' AND first.channel <> 'in_app'
    ORDER BY first.scheduled_at LIMIT 1) AS waiting
LEFT JOIN LATERAL (
    SELECT bad.failures, bad.paused_until FROM delivery_lanes AS bad
    WHERE bad.org_id = walk.org_id AND bad.lane = walk.lane OFFSET 0) AS trouble ON true
CROSS JOIN LATERAL (
    SELECT CASE WHEN coalesce(trouble.failures, 0) >= cautious_after THEN 1 ELSE most_of_lane END AS most) AS places
WHERE waiting.due_at <= now AND coalesce(trouble.paused_until, now) <= now;

-- Claims due messages: orgs take turns, of each the longest due lanes first, one message per lane in turn; messages in flight
-- count as turns. An advisory lock serialises claims, so that messages in flight are counted correctly; most claims find
-- nothing and neither lock nor write. The attempt number is the fencing token and grows only here. Messages to removed or
-- disabled endpoints are failed: they were inserted or claimed at that moment. A process without mail skips mail.
CREATE OR REPLACE FUNCTION claim_deliveries(at bigint, most integer, most_of_lane integer, claim bigint, cautious_after integer, with_mail boolean DEFAULT true)
RETURNS TABLE (
    org_id text, notification_id text, job_id text, channel text, template_key text, created_at bigint, payload_json text,
    attempt integer, try_number integer, target text, lane text, endpoint_id text, version integer, former_until bigint,
    traceparent text, lane_failures integer) LANGUAGE plpgsql AS $$
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
                    SELECT count(*) FROM outbox AS flying
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
                SELECT one.notification_id, one.scheduled_at, one.endpoint_id FROM outbox AS one
                WHERE one.org_id = open_lane.org_id AND one.lane = open_lane.lane
                  AND one.delivery_status = 'pending' AND one.channel <> 'in_app'
                  AND one.scheduled_at <= now AND (one.claimed_until IS NULL OR one.claimed_until <= now)
                ORDER BY one.scheduled_at LIMIT least(open_lane.room, most) FOR UPDATE SKIP LOCKED) AS first),
        picked AS MATERIALIZED (SELECT due.* FROM due ORDER BY due.turn, due.rank, due.due_at LIMIT most),
        taken AS (
            UPDATE outbox AS message SET
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
                -- A claim without a recorded attempt is no try.
                SELECT count(*) FROM delivery_attempts AS tried
                WHERE tried.notification_id = taken.notification_id AND tried.org_id = taken.org_id
                  AND tried.attempt > taken.tries_from)::integer, coalesce(goes_to.url, taken.target),
            taken.lane, goes_to.endpoint_id, goes_to.version, goes_to.former_until, origin.traceparent, taken.failures
        FROM taken
        LEFT JOIN LATERAL (
            SELECT named.url, named.endpoint_id, named.version, named.former_until FROM webhook_endpoints AS named
            WHERE taken.endpoint_id IS NOT NULL AND named.endpoint_id = taken.endpoint_id AND named.org_id = taken.org_id
            UNION ALL
            -- If the org has an endpoint with the job's URL, its secret signs.
            SELECT same.url, same.endpoint_id, same.version, same.former_until FROM webhook_endpoints AS same
            WHERE taken.endpoint_id IS NULL AND taken.channel = 'webhook'
              AND same.org_id = taken.org_id AND same.url = taken.target) AS goes_to ON true
        LEFT JOIN LATERAL (
            SELECT job.traceparent FROM jobs AS job
            WHERE job.job = key_of(taken.job_id) AND job.org_id = taken.org_id OFFSET 0) AS origin ON true
        WHERE NOT taken.gone
        ORDER BY taken.turn, taken.due_at;
END $$;

-- Records an attempt, once, unless a later one was claimed; a repeat returns the same. Lock order: the message, its lane, its
-- endpoint; other messages of the lane are skipped if locked.
CREATE OR REPLACE FUNCTION finish_delivery(
    at bigint, org text, message text, attempt_no integer, outcome text, took float8, retry bigint, code integer, failure text,
    answer text, pause bigint, lane_failed boolean, disable text
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    now CONSTANT bigint := moment(at);
    ended record;
BEGIN
    UPDATE outbox SET
        delivery_status = outcome,
        claimed_until = NULL,
        last_error = coalesce(failure, CASE outcome WHEN 'sent' THEN NULL ELSE last_error END),
        sent_at = CASE outcome WHEN 'sent' THEN now ELSE sent_at END,
        scheduled_at = CASE outcome WHEN 'pending' THEN now + retry ELSE scheduled_at END
    WHERE org_id = org AND notification_id = message AND attempt_count = attempt_no AND delivery_status = 'pending'
      AND claimed_until IS NOT NULL
    RETURNING job_id, lane, endpoint_id INTO ended;
    IF NOT FOUND THEN
        RETURN EXISTS (
            SELECT 1 FROM delivery_attempts
            WHERE org_id = org AND notification_id = message AND attempt = attempt_no AND status = outcome);
    END IF;
    INSERT INTO delivery_attempts (org_id, notification_id, attempt, job_id, at, seconds, status, status_code, error, reply)
    VALUES (org, message, attempt_no, ended.job_id, now, took, outcome, code, failure, answer);
    IF lane_failed THEN
        INSERT INTO delivery_lanes AS bad (org_id, lane, failures, failing_since, paused_until)
        VALUES (org, ended.lane, 1, now, now + pause)
        ON CONFLICT (org_id, lane) DO UPDATE SET
            failures = bad.failures + 1, paused_until = greatest(bad.paused_until, excluded.paused_until);
    ELSIF outcome = 'sent' THEN
        DELETE FROM delivery_lanes WHERE org_id = org AND lane = ended.lane;
        IF FOUND THEN
            PERFORM make_lane_due(now, org, ended.lane);
        END IF;
    END IF;
    IF disable IS NOT NULL AND ended.endpoint_id IS NOT NULL THEN
        PERFORM change_endpoint(at, org, ended.endpoint_id, NULL, NULL, false, disable, NULL);
    END IF;
    RETURN true;
END $$;

-- Makes waiting messages of a recovered lane due now.
CREATE OR REPLACE FUNCTION make_lane_due(now bigint, org text, name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH late AS (
        SELECT org_id, notification_id FROM outbox
        WHERE org_id = org AND lane = name AND delivery_status = 'pending' AND channel <> 'in_app'
          AND scheduled_at > now AND claimed_until IS NULL
        ORDER BY scheduled_at LIMIT 10000 FOR UPDATE SKIP LOCKED)
    UPDATE outbox AS message SET scheduled_at = now FROM late
    WHERE message.notification_id = late.notification_id AND message.org_id = late.org_id AND message.delivery_status = 'pending';
END $$;

-- Makes settled messages due again with all their tries: one, or those of an endpoint since an instant, oldest first. Disabled
-- endpoints are skipped.
CREATE OR REPLACE FUNCTION replay(at bigint, org text, message text, endpoint text, since bigint, sent_too boolean, most integer)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    found text[] := ARRAY[message];
    changed integer;
BEGIN
    IF message IS NULL AND sent_too THEN
        found := ARRAY(
            SELECT one.notification_id FROM outbox AS one
            WHERE one.org_id = org AND one.endpoint_id = endpoint AND one.created_at >= since AND one.delivery_status <> 'pending'
            ORDER BY one.created_at, one.notification_id LIMIT most);
    ELSIF message IS NULL THEN
        -- Failed messages are few: find them by state. IS TRUE keeps the planner from the index of endpoints.
        found := ARRAY(
            SELECT one.notification_id FROM unnest('{failed, suppressed}'::text[]) AS state (name) CROSS JOIN LATERAL (
                SELECT few.notification_id, few.created_at FROM outbox AS few
                WHERE few.org_id = org AND few.delivery_status = state.name AND few.channel <> 'in_app'
                  AND few.created_at >= since AND (few.endpoint_id = endpoint) IS TRUE
                ORDER BY few.created_at, few.notification_id LIMIT most) AS one
            ORDER BY one.created_at, one.notification_id LIMIT most);
    END IF;
    WITH settled AS (
        SELECT one.org_id, one.notification_id FROM unnest(found) AS wanted (notification_id)
        CROSS JOIN LATERAL (
            SELECT * FROM outbox AS same
            WHERE same.notification_id = wanted.notification_id AND same.org_id = org OFFSET 0 FOR UPDATE SKIP LOCKED) AS one
        WHERE one.channel <> 'in_app' AND one.lane IS NOT NULL
          AND (one.delivery_status IN ('failed', 'suppressed') OR (sent_too AND one.delivery_status = 'sent'))
          AND (one.endpoint_id IS NULL OR EXISTS (
              SELECT 1 FROM webhook_endpoints AS there
              WHERE there.endpoint_id = one.endpoint_id AND there.org_id = org AND there.disabled_at IS NULL)))
    UPDATE outbox AS again SET delivery_status = 'pending', tries_from = again.attempt_count, scheduled_at = moment(at)
    FROM settled
    WHERE again.notification_id = settled.notification_id AND again.org_id = settled.org_id
      AND again.delivery_status <> 'pending';
    GET DIAGNOSTICS changed = ROW_COUNT;
    RETURN changed;
END $$;

-- How many messages wait, since when the longest overdue of a lane that is not paused is due, and who gets nothing at present. A
-- message in flight is due when its claim expires.
-- query: delivery_state(at bigint) RETURNS TABLE (pending bigint, oldest_due bigint, paused bigint, disabled bigint)
SELECT (SELECT count(*) FROM outbox WHERE delivery_status = 'pending' AND channel <> 'in_app' AND lane IS NOT NULL),
    (SELECT min(look.due_at) FROM lanes_with_room(seen.now, 1, 1) AS look),
    (SELECT count(*) FROM delivery_lanes WHERE paused_until > seen.now),
    (SELECT count(*) FROM webhook_endpoints WHERE disabled_at IS NOT NULL)
FROM moment(at) AS seen (now);

-- Outgoing messages of an org, newest first, by job, endpoint or state. Unsent ones are few: those of an endpoint are found by
-- state.
CREATE OR REPLACE FUNCTION read_deliveries(
    org text, endpoint text, job text, state text, before_at bigint, before_id text, most integer
) RETURNS SETOF notifications LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    IF job IS NOT NULL THEN
        RETURN QUERY
            SELECT found.* FROM (
                SELECT * FROM outbox AS one WHERE one.org_id = org AND one.job_id = job OFFSET 0) AS found
            WHERE found.channel <> 'in_app' AND (found.created_at, found.notification_id) < (before_at, before_id)
              AND (endpoint IS NULL OR found.endpoint_id = endpoint) AND (state IS NULL OR found.delivery_status = state)
            ORDER BY found.created_at DESC, found.notification_id DESC LIMIT most;
    ELSIF endpoint IS NOT NULL AND (state IS NULL OR state = 'sent') THEN
        RETURN QUERY
            SELECT one.* FROM outbox AS one
            WHERE one.org_id = org AND one.endpoint_id = endpoint AND (one.created_at, one.notification_id) < (before_at, before_id)
              AND (state IS NULL OR one.delivery_status = state)
            ORDER BY one.created_at DESC, one.notification_id DESC LIMIT most;
    ELSIF state IS NOT NULL THEN
        RETURN QUERY
            SELECT one.* FROM outbox AS one
            WHERE one.org_id = org AND one.channel <> 'in_app' AND one.delivery_status = state
              AND (endpoint IS NULL OR one.endpoint_id = endpoint) AND (one.created_at, one.notification_id) < (before_at, before_id)
            ORDER BY one.created_at DESC, one.notification_id DESC LIMIT most;
    ELSE
        RETURN QUERY
            SELECT one.* FROM outbox AS one
            WHERE one.org_id = org AND one.channel <> 'in_app' AND (one.created_at, one.notification_id) < (before_at, before_id)
            ORDER BY one.created_at DESC, one.notification_id DESC LIMIT most;
    END IF;
END $$;

-- query: read_delivery(message text) RETURNS SETOF notifications
SELECT found.* FROM (
    SELECT * FROM outbox AS one WHERE one.org_id = org AND one.notification_id = message OFFSET 0) AS found
WHERE found.channel <> 'in_app';
