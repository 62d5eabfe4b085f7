-- Telling the world outside: endpoints of orgs, what single jobs wish to be told, and the outbox.

-- Its secret is made from this store's own secret, its id and `version`, so that none is kept here.
CREATE TABLE webhook_endpoints (
    org_id          text COLLATE "C" NOT NULL CHECK (length(org_id) BETWEEN 1 AND 128),
    endpoint_id     text COLLATE "C" NOT NULL,
    url             text    NOT NULL,
    name            text    NOT NULL,
    -- words with a comma before and after each
    subjects        text    NOT NULL,
    created_at      bigint  NOT NULL,
    version         integer NOT NULL CHECK (version >= 1),
    former_until    bigint,
    disabled_at     bigint,
    disabled_reason text,
    PRIMARY KEY (endpoint_id, org_id),
    UNIQUE (org_id, url),
    CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL))
);

-- What a submission asked to be told, and where.
CREATE TABLE job_wishes (
    org_id   text COLLATE "C" NOT NULL,
    job_id   text COLLATE "C" NOT NULL,
    channel  text NOT NULL CHECK (channel IN ('email', 'webhook')),
    target   text NOT NULL,
    lane     text COLLATE "C" NOT NULL,
    language text,
    PRIMARY KEY (job_id, channel, org_id)
);

-- A message knows where it goes: to an endpoint, or to the address that its job named. Messages of one lane of an org wait
-- for each other. Whoever sends one has claimed it until then. Tries are counted from `tries_from` on.
ALTER TABLE notifications
    ADD COLUMN endpoint_id text COLLATE "C",
    ADD COLUMN target text,
    ADD COLUMN lane text COLLATE "C",
    ADD COLUMN claimed_until bigint,
    ADD COLUMN tries_from integer NOT NULL DEFAULT 0;

-- What is to be sent, lane by lane, in the order of time; and what is being sent.
CREATE INDEX idx_notifications_due ON notifications (org_id, lane, scheduled_at)
    WHERE delivery_status = 'pending' AND channel <> 'in_app' AND lane IS NOT NULL;
CREATE INDEX idx_notifications_claimed ON notifications (org_id, lane, claimed_until) WHERE claimed_until IS NOT NULL;
CREATE INDEX idx_notifications_endpoint ON notifications (org_id, endpoint_id, created_at, notification_id)
    WHERE endpoint_id IS NOT NULL;
CREATE INDEX idx_notifications_sent_out ON notifications (org_id, created_at, notification_id) WHERE channel <> 'in_app';
CREATE INDEX idx_notifications_outcome ON notifications (org_id, delivery_status, created_at, notification_id)
    WHERE channel <> 'in_app';

-- Lanes where the last attempt failed. A lane that is well has no row.
CREATE TABLE delivery_lanes (
    org_id        text COLLATE "C" NOT NULL,
    lane          text COLLATE "C" NOT NULL,
    failures      integer NOT NULL CHECK (failures >= 1),
    failing_since bigint  NOT NULL,
    paused_until  bigint,
    PRIMARY KEY (org_id, lane)
);

-- The log of deliveries: every attempt that was brought to an end.
CREATE TABLE delivery_attempts (
    org_id          text COLLATE "C" NOT NULL,
    notification_id text COLLATE "C" NOT NULL,
    attempt         integer NOT NULL CHECK (attempt >= 1),
    job_id          text COLLATE "C" NOT NULL,
    at              bigint  NOT NULL,
    seconds         float8  NOT NULL,
    status          text    NOT NULL,
    status_code     integer,
    error           text,
    reply           text,
    PRIMARY KEY (notification_id, attempt, org_id)
);

CREATE INDEX idx_delivery_attempts_job ON delivery_attempts (job_id, org_id);

-- The outbox fills itself: whoever writes events, by whatever way, leaves the messages about them in the same transaction. A
-- look at the end of each statement, over all that it wrote. What is copied was told where it comes from, and events of a store
-- of the earlier system are old news.
CREATE FUNCTION events_go_out() RETURNS trigger LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    -- Most events interest nobody: that is seen at a glance, one look for each org and for each end.
    IF NOT EXISTS (
        SELECT 1 FROM (SELECT DISTINCT org_id FROM fresh) AS told JOIN webhook_endpoints AS endpoint USING (org_id)
        WHERE endpoint.disabled_at IS NULL)
    AND NOT EXISTS (
        SELECT 1 FROM fresh JOIN job_wishes AS wish USING (job_id, org_id)
        WHERE event_type IN ('job.completed', 'job.failed', 'job.canceled'))
    THEN
        RETURN NULL;
    END IF;
    INSERT INTO notifications (
        org_id, job_id, channel, template_key, delivery_status, dedupe_key, scheduled_at, created_at, payload_json,
        endpoint_id, target, lane)
    SELECT told.org_id, told.job_id, receiver.channel, 'async.job.' || told.subject, 'pending',
        told.job_id || ':' || receiver.channel || ':async.job.' || told.subject || receiver.mark
            || CASE WHEN told.last THEN '' ELSE ':' || told.event_seq END,
        told.occurred_at, told.occurred_at,
        '{"job_id":' || said(told.job_id) || ',"status":' || said(told.status) || ',"event_seq":' || told.event_seq
            || ',"event_id":' || said(told.event_id) || ',"trace_id":' || said(told.trace_id) || ',"result_id":'
            || said(coalesce(told.payload_json::json ->> 'result_id', CASE told.subject WHEN 'failed' THEN about.result_id END))
            || ',"language":' || said(receiver.language) || '}',
        receiver.endpoint_id, receiver.target, receiver.lane
    FROM (
        SELECT *, substr(event_type, 5) AS status, CASE event_type WHEN 'job.running' THEN 'started' ELSE substr(event_type, 5) END AS subject,
            event_type IN ('job.completed', 'job.failed', 'job.canceled') AS last
        FROM fresh
        WHERE event_type IN ('job.queued', 'job.running', 'job.partial', 'job.completed', 'job.failed', 'job.canceled')) AS told
    CROSS JOIN LATERAL (
        SELECT 'webhook' AS channel, endpoint.endpoint_id, NULL AS target, endpoint.endpoint_id AS lane,
            ':' || endpoint.endpoint_id AS mark, NULL AS language
        FROM webhook_endpoints AS endpoint
        WHERE endpoint.org_id = told.org_id AND endpoint.disabled_at IS NULL
          AND strpos(endpoint.subjects, ',' || told.subject || ',') > 0
        UNION ALL
        -- Most jobs wish nothing: only their ends are worth a look.
        SELECT wish.channel, NULL, wish.target, wish.lane, CASE wish.channel WHEN 'webhook' THEN ':job' ELSE '' END, wish.language
        FROM job_wishes AS wish
        WHERE told.last AND wish.org_id = told.org_id AND wish.job_id = told.job_id
          AND (wish.channel = 'webhook' OR told.subject IN ('completed', 'failed'))
          -- An endpoint that hears of it anyway is not told twice.
          AND NOT EXISTS (
              SELECT 1 FROM webhook_endpoints AS known
              WHERE wish.channel = 'webhook' AND known.org_id = wish.org_id AND known.url = wish.target
                AND known.disabled_at IS NULL AND strpos(known.subjects, ',' || told.subject || ',') > 0)) AS receiver
    CROSS JOIN LATERAL (
        SELECT job.result_id, job.imported_at FROM jobs AS job
        WHERE job.org_id = told.org_id AND job.job_id = told.job_id OFFSET 0) AS about
    WHERE about.imported_at IS NULL OR about.imported_at < told.occurred_at;
    RETURN NULL;
END $$;

CREATE TRIGGER job_events_go_out AFTER INSERT ON job_events REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT
WHEN (current_setting('langlauf.copying', true) IS DISTINCT FROM 'on')
EXECUTE FUNCTION events_go_out();

-- An endpoint as it is read, with how its lane is doing.
CREATE VIEW endpoint_views WITH (security_invoker = true) AS
SELECT endpoint.org_id, endpoint.endpoint_id, endpoint.url, endpoint.name, endpoint.subjects, endpoint.created_at, endpoint.version,
    endpoint.former_until, endpoint.disabled_at, endpoint.disabled_reason, coalesce(trouble.failures, 0) AS failures,
    trouble.failing_since, trouble.paused_until
FROM webhook_endpoints AS endpoint
LEFT JOIN delivery_lanes AS trouble ON trouble.org_id = endpoint.org_id AND trouble.lane = endpoint.endpoint_id;

-- Those who add endpoints of an org take turns, so that it has no more than it may.
CREATE FUNCTION add_endpoint(at bigint, org text, endpoint text, address text, title text, wanted text, most integer)
RETURNS SETOF endpoint_views LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('langlauf endpoints ' || org, 0));
    INSERT INTO webhook_endpoints (org_id, endpoint_id, url, name, subjects, created_at, version)
    SELECT org, endpoint, address, title, wanted, moment(at), 1
    WHERE (SELECT count(*) FROM webhook_endpoints AS one WHERE one.org_id = org) < most
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
        RETURN QUERY SELECT made.* FROM endpoint_views AS made WHERE made.org_id = org AND made.endpoint_id = endpoint;
    END IF;
END $$;

-- What waits for an endpoint that is not called any more; what is being sent may still arrive, and is not noted. A message
-- that somebody has in hand at this moment is left to them: whoever claims it next gives it up.
CREATE FUNCTION give_up_waiting(org text, endpoint text, reason text) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    WITH waiting AS (
        SELECT org_id, notification_id FROM notifications
        WHERE org_id = org AND lane = endpoint AND endpoint_id = endpoint AND delivery_status = 'pending' AND channel <> 'in_app'
        ORDER BY scheduled_at FOR UPDATE SKIP LOCKED)
    UPDATE notifications AS message SET delivery_status = 'failed', last_error = reason, claimed_until = NULL
    FROM waiting
    WHERE message.notification_id = waiting.notification_id AND message.org_id = waiting.org_id AND message.delivery_status = 'pending';
END $$;

-- Lanes are locked before endpoints, here and where an attempt ends.
CREATE FUNCTION change_endpoint(
    at bigint, org text, endpoint text, title text, wanted text, enable boolean, reason text, rotate bigint
) RETURNS SETOF endpoint_views LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now CONSTANT bigint := moment(at);
BEGIN
    IF enable IS NOT NULL THEN
        DELETE FROM delivery_lanes WHERE org_id = org AND lane = endpoint;
    END IF;
    UPDATE webhook_endpoints SET
        name = coalesce(title, name),
        subjects = coalesce(wanted, subjects),
        version = version + (rotate IS NOT NULL)::integer,
        former_until = CASE WHEN rotate IS NOT NULL THEN now + rotate ELSE former_until END,
        disabled_at = CASE WHEN enable THEN NULL WHEN NOT enable THEN coalesce(disabled_at, now) ELSE disabled_at END,
        disabled_reason = CASE WHEN enable THEN NULL WHEN NOT enable THEN coalesce(disabled_reason, reason) ELSE disabled_reason END
    WHERE org_id = org AND endpoint_id = endpoint;
    IF FOUND AND NOT enable THEN
        PERFORM give_up_waiting(org, endpoint, 'the endpoint is disabled: ' || reason);
    END IF;
    RETURN QUERY SELECT changed.* FROM endpoint_views AS changed WHERE changed.org_id = org AND changed.endpoint_id = endpoint;
END $$;

CREATE FUNCTION remove_endpoint(org text, endpoint text) RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM delivery_lanes WHERE org_id = org AND lane = endpoint;
    DELETE FROM webhook_endpoints WHERE org_id = org AND endpoint_id = endpoint;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM give_up_waiting(org, endpoint, 'the endpoint was removed');
    RETURN true;
END $$;

-- The lanes that have something to send now, each with when its first message is due and how many more of it may be taken:
-- none while it is paused, one by one until it works again. One look per lane, however much waits in it.
CREATE FUNCTION lanes_with_room(now bigint, most_of_lane integer, cautious_after integer)
RETURNS TABLE (org_id text, lane text, due_at bigint, failures integer, room bigint) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        WITH RECURSIVE walk AS (
            (SELECT first.org_id, first.lane FROM notifications AS first
             WHERE first.delivery_status = 'pending' AND first.channel <> 'in_app' AND first.lane IS NOT NULL
             ORDER BY first.org_id, first.lane LIMIT 1)
            UNION ALL
            SELECT later.org_id, later.lane FROM walk CROSS JOIN LATERAL (
                SELECT next.org_id, next.lane FROM notifications AS next
                WHERE next.delivery_status = 'pending' AND next.channel <> 'in_app' AND next.lane IS NOT NULL
                  AND (next.org_id, next.lane) > (walk.org_id, walk.lane)
                ORDER BY next.org_id, next.lane LIMIT 1) AS later)
        SELECT walk.org_id, walk.lane, waiting.due_at, coalesce(trouble.failures, 0), places.most - (
                SELECT count(*) FROM notifications AS flying
                WHERE flying.org_id = walk.org_id AND flying.lane = walk.lane AND flying.claimed_until > now)
        FROM walk
        CROSS JOIN LATERAL (
            SELECT first.scheduled_at AS due_at FROM notifications AS first
            WHERE first.org_id = walk.org_id AND first.lane = walk.lane
              AND first.delivery_status = 'pending' AND first.channel <> 'in_app'
            ORDER BY first.scheduled_at LIMIT 1) AS waiting
        LEFT JOIN LATERAL (
            SELECT bad.failures, bad.paused_until FROM delivery_lanes AS bad
            WHERE bad.org_id = walk.org_id AND bad.lane = walk.lane OFFSET 0) AS trouble ON true
        CROSS JOIN LATERAL (
            SELECT CASE WHEN coalesce(trouble.failures, 0) >= cautious_after THEN 1 ELSE most_of_lane END AS most) AS places
        WHERE waiting.due_at <= now AND coalesce(trouble.paused_until, now) <= now;
END $$;

-- Hands out messages that are due: by turns to the orgs, of each the longest due lanes first, and one message of each lane, so
-- that none holds up another. What an org has under way counts as turns that it had.
-- Those who claim take turns, so that what is under way in a lane is counted by one after the other; most find nothing, and
-- neither wait nor write. The number of the attempt is the fence: it grows here and nowhere else. A message to an endpoint that
-- is gone or disabled is given up: it was on its way into the outbox, or claimed, when that was said.
CREATE FUNCTION claim_deliveries(at bigint, most integer, most_of_lane integer, claim bigint, cautious_after integer)
RETURNS TABLE (
    org_id text, notification_id text, job_id text, channel text, template_key text, created_at bigint, payload_json text,
    attempt integer, try_number integer, target text, lane text, endpoint_id text, version integer, former_until bigint,
    traceparent text, lane_failures integer) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now bigint := moment(at);
BEGIN
    IF NOT EXISTS (SELECT 1 FROM lanes_with_room(now, most_of_lane, cautious_after) AS look WHERE look.room > 0) THEN
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
            WHERE look.room > 0 ORDER BY rank, look.due_at LIMIT most),
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

-- Notes how an attempt went, once, unless another one was made meanwhile. Whoever did not hear the answer and says it again
-- hears the same. Locks are taken in one order: the message, its lane, its endpoint; others of its lane only where nobody has them.
CREATE FUNCTION finish_delivery(
    at bigint, org text, message text, attempt_no integer, outcome text, took float8, retry bigint, code integer, failure text,
    answer text, pause bigint, lane_failed boolean, disable text
) RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now CONSTANT bigint := moment(at);
    ended record;
BEGIN
    UPDATE notifications SET
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
            PERFORM hasten_lane(now, org, ended.lane);
        END IF;
    END IF;
    IF disable IS NOT NULL AND ended.endpoint_id IS NOT NULL THEN
        PERFORM change_endpoint(at, org, ended.endpoint_id, NULL, NULL, false, disable, NULL);
    END IF;
    RETURN true;
END $$;

-- A lane that works again need not wait for the times that were set while it did not.
CREATE FUNCTION hasten_lane(now bigint, org text, name text) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    WITH late AS (
        SELECT org_id, notification_id FROM notifications
        WHERE org_id = org AND lane = name AND delivery_status = 'pending' AND channel <> 'in_app'
          AND scheduled_at > now AND claimed_until IS NULL
        ORDER BY scheduled_at LIMIT 10000 FOR UPDATE SKIP LOCKED)
    UPDATE notifications AS message SET scheduled_at = now FROM late
    WHERE message.notification_id = late.notification_id AND message.org_id = late.org_id AND message.delivery_status = 'pending';
END $$;

-- Makes settled messages due again, with all their tries: one, or what of an endpoint is settled since an instant, the oldest
-- first. An endpoint that is not called is not called by this either.
CREATE FUNCTION replay(at bigint, org text, message text, endpoint text, since bigint, sent_too boolean, most integer)
RETURNS integer LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    found text[] := ARRAY[message];
    changed integer;
BEGIN
    IF message IS NULL AND sent_too THEN
        found := ARRAY(
            SELECT one.notification_id FROM notifications AS one
            WHERE one.org_id = org AND one.endpoint_id = endpoint AND one.created_at >= since AND one.delivery_status <> 'pending'
            ORDER BY one.created_at, one.notification_id LIMIT most);
    ELSIF message IS NULL THEN
        -- What failed is little beside what arrived: it is looked for by its state.
        found := ARRAY(
            SELECT one.notification_id FROM unnest('{failed, suppressed}'::text[]) AS state (name) CROSS JOIN LATERAL (
                SELECT few.notification_id, few.created_at FROM notifications AS few
                WHERE few.org_id = org AND few.delivery_status = state.name AND few.channel <> 'in_app'
                  AND few.created_at >= since AND few.endpoint_id = endpoint
                ORDER BY few.created_at, few.notification_id LIMIT most) AS one
            ORDER BY one.created_at, one.notification_id LIMIT most);
    END IF;
    WITH settled AS (
        SELECT one.org_id, one.notification_id FROM unnest(found) AS wanted (notification_id)
        CROSS JOIN LATERAL (
            SELECT * FROM notifications AS same
            WHERE same.notification_id = wanted.notification_id AND same.org_id = org OFFSET 0 FOR UPDATE SKIP LOCKED) AS one
        WHERE one.channel <> 'in_app' AND one.lane IS NOT NULL
          AND (one.delivery_status IN ('failed', 'suppressed') OR (sent_too AND one.delivery_status = 'sent'))
          AND (one.endpoint_id IS NULL OR EXISTS (
              SELECT 1 FROM webhook_endpoints AS there
              WHERE there.endpoint_id = one.endpoint_id AND there.org_id = org AND there.disabled_at IS NULL)))
    UPDATE notifications AS again SET delivery_status = 'pending', tries_from = again.attempt_count, scheduled_at = moment(at)
    FROM settled
    WHERE again.notification_id = settled.notification_id AND again.org_id = settled.org_id
      AND again.delivery_status <> 'pending';
    GET DIAGNOSTICS changed = ROW_COUNT;
    RETURN changed;
END $$;

-- How sending goes over all orgs.
CREATE FUNCTION delivery_figures(
    at bigint, OUT channels text[], OUT counts bigint[], OUT oldest_due bigint, OUT paused bigint, OUT disabled bigint
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    now CONSTANT bigint := moment(at);
BEGIN
    SELECT array_agg(kind.channel), array_agg(kind.counted) INTO channels, counts
    FROM (SELECT channel, count(*) AS counted FROM notifications
          WHERE delivery_status = 'pending' AND channel <> 'in_app' AND lane IS NOT NULL GROUP BY channel) AS kind;
    -- What is being sent is due when its claim is over.
    oldest_due := (SELECT min(look.due_at) FROM lanes_with_room(now, 1, 1) AS look);
    paused := (SELECT count(*) FROM delivery_lanes WHERE paused_until > now);
    disabled := (SELECT count(*) FROM webhook_endpoints WHERE disabled_at IS NOT NULL);
END $$;

CREATE FUNCTION read_endpoints(org text) RETURNS SETOF endpoint_views LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY SELECT one.* FROM endpoint_views AS one WHERE one.org_id = org ORDER BY one.created_at, one.endpoint_id;
END $$;

-- The messages of an org that go out, newest first: of a job, of an endpoint, in a state, or all. Few are in another state than
-- sent: those of an endpoint are looked for among them.
CREATE FUNCTION read_deliveries(
    org text, endpoint text, job text, state text, before_at bigint, before_id text, most integer
) RETURNS SETOF notifications LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    IF job IS NOT NULL THEN
        RETURN QUERY
            SELECT found.* FROM (
                SELECT * FROM notifications AS one WHERE one.org_id = org AND one.job_id = job OFFSET 0) AS found
            WHERE found.channel <> 'in_app' AND (found.created_at, found.notification_id) < (before_at, before_id)
              AND (endpoint IS NULL OR found.endpoint_id = endpoint) AND (state IS NULL OR found.delivery_status = state)
            ORDER BY found.created_at DESC, found.notification_id DESC LIMIT most;
    ELSIF endpoint IS NOT NULL AND (state IS NULL OR state = 'sent') THEN
        RETURN QUERY
            SELECT one.* FROM notifications AS one
            WHERE one.org_id = org AND one.endpoint_id = endpoint AND (one.created_at, one.notification_id) < (before_at, before_id)
              AND (state IS NULL OR one.delivery_status = state)
            ORDER BY one.created_at DESC, one.notification_id DESC LIMIT most;
    ELSIF state IS NOT NULL THEN
        RETURN QUERY
            SELECT one.* FROM notifications AS one
            WHERE one.org_id = org AND one.channel <> 'in_app' AND one.delivery_status = state
              AND (endpoint IS NULL OR one.endpoint_id = endpoint) AND (one.created_at, one.notification_id) < (before_at, before_id)
            ORDER BY one.created_at DESC, one.notification_id DESC LIMIT most;
    ELSE
        RETURN QUERY
            SELECT one.* FROM notifications AS one
            WHERE one.org_id = org AND one.channel <> 'in_app' AND (one.created_at, one.notification_id) < (before_at, before_id)
            ORDER BY one.created_at DESC, one.notification_id DESC LIMIT most;
    END IF;
END $$;

CREATE FUNCTION read_delivery(org text, message text) RETURNS SETOF notifications LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT found.* FROM (
            SELECT * FROM notifications AS one WHERE one.org_id = org AND one.notification_id = message OFFSET 0) AS found
        WHERE found.channel <> 'in_app';
END $$;

CREATE FUNCTION read_delivery_attempts(org text, message text, most integer)
RETURNS SETOF delivery_attempts LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT one.* FROM delivery_attempts AS one WHERE one.org_id = org AND one.notification_id = message
        ORDER BY one.attempt DESC LIMIT most;
END $$;

DROP FUNCTION submit;

-- Accepts jobs or tells why not, in the order they came: the key first, then duplicates, then room in the queue. No two of a
-- batch have the same key, nor the same input where duplicates are refused. The answers are: accepted, time and ticket;
-- replayed and the job's id; reused; duplicate and the job's id; full, whose queue, and how many wait. What they wish to be
-- told comes behind them, each with the place of its job.
CREATE FUNCTION submit(
    at bigint, batch uuid, org_ids text[], job_ids text[], names text[], classes text[], hashes text[], refs text[],
    payloads text[], timeouts float8[], retries integer[], trace_ids text[], request_ids text[], users text[],
    key_ids text[], estimates float8[], retry_ofs text[], traceparents text[], tracestates text[], keys text[],
    refuses boolean[], resume_froms text[], most_of_org bigint[], most_of_all bigint[], most_of_analysis bigint[],
    wish_places bigint[], wish_channels text[], wish_targets text[], wish_lanes text[], wish_languages text[]
) RETURNS text[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    outcomes text[] := array_fill(NULL::text, ARRAY[cardinality(org_ids)]);
    now bigint;
    hit record;
BEGIN
    INSERT INTO batches (batch_id, made_at, answers) VALUES (batch, moment(at), '{}') ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN (SELECT known.answers FROM batches AS known WHERE batch_id = batch);
    END IF;
    PERFORM lock_lanes(org_ids, names);
    now := moment(at);

    IF EXISTS (SELECT 1 FROM unnest(keys) AS key WHERE key IS NOT NULL) THEN
        -- Whoever brings a key first keeps it; another one with the same key waits here until that is decided.
        FOR hit IN
            WITH new AS (
                SELECT * FROM unnest(org_ids, keys, job_ids, hashes) WITH ORDINALITY AS wish (org_id, key, job_id, hash, place)
                WHERE key IS NOT NULL),
            kept AS (
                INSERT INTO idempotency_keys (org_id, idempotency_key, job_id, payload_hash, created_at)
                SELECT org_id, key, job_id, hash, now FROM new ORDER BY org_id, key
                ON CONFLICT DO NOTHING RETURNING job_id)
            SELECT place FROM new WHERE job_id NOT IN (SELECT job_id FROM kept)
        LOOP
            outcomes[hit.place] := (
                SELECT CASE WHEN used.payload_hash = hashes[hit.place] THEN 'replayed ' || used.job_id ELSE 'reused' END
                FROM idempotency_keys AS used
                WHERE used.org_id = org_ids[hit.place] AND used.idempotency_key = keys[hit.place]);
        END LOOP;
    END IF;

    FOR hit IN
        SELECT wish.place, twin.job_id
        FROM unnest(org_ids, names, hashes, refuses, outcomes) WITH ORDINALITY
            AS wish (org_id, analysis, hash, refuse, answer, place)
        CROSS JOIN LATERAL (
            SELECT jobs.job_id FROM jobs
            WHERE jobs.org_id = wish.org_id AND jobs.analysis = wish.analysis AND jobs.request_payload_hash = wish.hash
              AND jobs.finished_at IS NULL
            LIMIT 1) AS twin
        WHERE wish.refuse AND wish.answer IS NULL
    LOOP
        outcomes[hit.place] := 'duplicate ' || hit.job_id;
    END LOOP;

    outcomes := refuse_full(outcomes, org_ids, names, most_of_org, most_of_all, most_of_analysis);
    IF EXISTS (SELECT 1 FROM unnest(keys, outcomes) AS wish (key, answer) WHERE key IS NOT NULL AND answer IS NOT NULL) THEN
        DELETE FROM idempotency_keys AS unused USING unnest(org_ids, job_ids, outcomes) AS wish (org_id, job_id, answer)
        WHERE unused.org_id = wish.org_id AND unused.job_id = wish.job_id AND wish.answer IS NOT NULL;
    END IF;

    outcomes := insert_jobs(
        now, outcomes, org_ids, job_ids, names, classes, hashes, refs, payloads, timeouts, retries, trace_ids, request_ids, users,
        key_ids, estimates, retry_ofs, traceparents, tracestates);
    IF EXISTS (SELECT 1 FROM unnest(resume_froms) AS origin WHERE origin IS NOT NULL) THEN
        INSERT INTO job_chunks (org_id, job_id, chunk_key, payload, created_at)
        SELECT chunk.org_id, wish.job_id, chunk.chunk_key, chunk.payload, chunk.created_at
        FROM unnest(org_ids, job_ids, resume_froms, outcomes) AS wish (org_id, job_id, origin, answer)
        JOIN job_chunks AS chunk ON chunk.org_id = wish.org_id AND chunk.job_id = wish.origin
        WHERE wish.answer LIKE 'accepted %';
    END IF;
    IF cardinality(wish_places) > 0 THEN
        INSERT INTO job_wishes (org_id, job_id, channel, target, lane, language)
        SELECT org_ids[place], job_ids[place], channel, target, lane, language
        FROM unnest(wish_places, wish_channels, wish_targets, wish_lanes, wish_languages) AS wish (place, channel, target, lane, language)
        WHERE outcomes[place] LIKE 'accepted %';
    END IF;
    PERFORM join_lanes(org_ids, names, classes, outcomes);
    UPDATE batches SET answers = outcomes WHERE batch_id = batch;
    RETURN outcomes;
END $$;

-- A job goes with its input, log, snapshots, tombstones, messages with the log of their deliveries, wishes, chunks and key.
CREATE OR REPLACE FUNCTION retire_jobs(at bigint, org_ids text[], job_ids text[], cutoff bigint) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    orgs text[];
    ids text[];
    removed bigint;
BEGIN
    SELECT may.orgs, may.ids INTO orgs, ids FROM may_retire(org_ids, job_ids, cutoff) AS may;
    DELETE FROM job_inputs AS part USING unnest(orgs, ids) AS old (org_id, job_id) WHERE part.job_id = old.job_id AND part.org_id = old.org_id;
    DELETE FROM job_events AS part USING unnest(orgs, ids) AS old (org_id, job_id) WHERE part.job_id = old.job_id AND part.org_id = old.org_id;
    DELETE FROM job_results AS part USING unnest(orgs, ids) AS old (org_id, job_id) WHERE part.job_id = old.job_id AND part.org_id = old.org_id;
    DELETE FROM delivery_attempts AS part USING unnest(orgs, ids) AS old (org_id, job_id) WHERE part.job_id = old.job_id AND part.org_id = old.org_id;
    DELETE FROM notifications AS part USING unnest(orgs, ids) AS old (org_id, job_id) WHERE part.job_id = old.job_id AND part.org_id = old.org_id;
    DELETE FROM job_wishes AS part USING unnest(orgs, ids) AS old (org_id, job_id) WHERE part.job_id = old.job_id AND part.org_id = old.org_id;
    DELETE FROM job_chunks AS part USING unnest(orgs, ids) AS old (org_id, job_id) WHERE part.job_id = old.job_id AND part.org_id = old.org_id;
    DELETE FROM idempotency_keys AS part USING unnest(orgs, ids) AS old (org_id, job_id) WHERE part.job_id = old.job_id AND part.org_id = old.org_id;
    DELETE FROM jobs USING unnest(orgs, ids) AS old (org_id, job_id)
    WHERE jobs.job_id = old.job_id AND jobs.org_id = old.org_id AND finished_at <= cutoff;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

SELECT plan_with('{retire_jobs}', 'SET enable_bitmapscan = on SET enable_indexscan = off SET enable_indexonlyscan = off');
SELECT plan_with(
    '{events_go_out, submit, add_endpoint, give_up_waiting, change_endpoint, remove_endpoint, lanes_with_room, claim_deliveries,
      finish_delivery, hasten_lane, replay, delivery_figures, read_endpoints, read_deliveries, read_delivery, read_delivery_attempts}',
    'SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');
