CREATE OR REPLACE FUNCTION read_job(org text, id text) RETURNS SETOF job_views LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY SELECT one.* FROM job_views AS one WHERE one.org_id = org AND one.job = key_of(id);
END $$;

-- A job with its latest events, the last first, and its result where that is no larger than so many bytes: its size is known
-- without reading it.
CREATE OR REPLACE FUNCTION read_status(org text, id text, most_events integer, most_bytes bigint)
RETURNS TABLE (view job_views, events job_events[], result text) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT one,
            ARRAY(SELECT event FROM job_events AS event WHERE event.org_id = org AND event.job = key_of(id)
                  ORDER BY event.event_seq DESC LIMIT most_events),
            CASE one.status WHEN 'completed' THEN (
                SELECT CASE WHEN octet_length(final.payload) <= most_bytes THEN final.payload END
                FROM result_rows AS final WHERE final.org_id = org AND final.result = key_of(one.result_id)) END
        FROM job_views AS one WHERE one.org_id = org AND one.job = key_of(id);
END $$;

CREATE OR REPLACE FUNCTION read_payload(org text, id text) RETURNS text LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN (SELECT first.input FROM event_rows AS first WHERE first.org_id = org AND first.job = key_of(id) AND first.event_seq = 1);
END $$;

CREATE OR REPLACE FUNCTION read_events(org text, id text, past integer, most integer) RETURNS SETOF job_events LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT event.* FROM job_events AS event WHERE event.org_id = org AND event.job = key_of(id) AND event.event_seq > past
        ORDER BY event.event_seq LIMIT most;
END $$;

-- The next events, up to the one with which they have so many bytes; whether there may be more already; and where there are
-- none, whether none will ever come.
CREATE OR REPLACE FUNCTION read_log(org text, id text, past integer, most integer, most_bytes bigint)
RETURNS TABLE (events job_events[], more boolean, gone boolean) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    last_seq integer;
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    SELECT max(event_seq), coalesce(count(*) = most OR sum(bytes) >= most_bytes, false) INTO last_seq, more
    FROM (
        SELECT event_seq, bytes, sum(bytes) OVER (ORDER BY event_seq) - bytes AS before
        FROM (SELECT event.event_seq, octet_length(event.payload_json) AS bytes FROM job_events AS event
              WHERE event.org_id = org AND event.job = key_of(id) AND event.event_seq > past
              ORDER BY event.event_seq LIMIT most) AS next) AS summed
    WHERE before < most_bytes;
    events := ARRAY(
        SELECT event FROM job_events AS event
        WHERE event.org_id = org AND event.job = key_of(id) AND event.event_seq > past AND event.event_seq <= last_seq
        ORDER BY event.event_seq);
    gone := last_seq IS NULL AND NOT EXISTS (
        SELECT 1 FROM jobs AS one
        WHERE one.org_id = org AND one.job = key_of(id) AND one.finished_at IS NULL AND one.events_expired_at IS NULL);
    RETURN NEXT;
END $$;

CREATE OR REPLACE FUNCTION read_results(org text, id text) RETURNS SETOF snapshots LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT {snapshot_names} FROM job_results AS one WHERE one.org_id = org AND one.job = key_of(id) AND one.removed_at IS NULL
        ORDER BY one.result_seq;
END $$;

-- The snapshot that was asked for, and the one that is given for it: that one, or the newest of its job. The final one has
-- the highest number, so the newest is the last.
CREATE OR REPLACE FUNCTION read_result(org text, id text, newest boolean, whole boolean)
RETURNS TABLE (view job_views, requested snapshots, delivered snapshots, payload text, views text) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT found.view, asked.snapshot, given.snapshot, parts.payload, parts.views
        FROM (
            SELECT ROW({snapshot_names})::snapshots AS snapshot, job, result_seq FROM job_results AS one
            WHERE one.org_id = org AND one.result = key_of(id)) AS asked
        CROSS JOIN LATERAL (
            SELECT one AS view FROM job_views AS one WHERE one.org_id = org AND one.job = asked.job OFFSET 0) AS found
        CROSS JOIN LATERAL (
            SELECT ROW({snapshot_names})::snapshots AS snapshot, last.result_seq FROM job_results AS last
            WHERE last.org_id = org AND last.job = asked.job
              AND last.result_seq >= asked.result_seq AND (newest OR last.result_seq <= asked.result_seq)
            ORDER BY last.result_seq DESC LIMIT 1) AS given
        LEFT JOIN LATERAL (
            SELECT kept.payload, kept.views FROM result_rows AS kept
            WHERE whole AND kept.org_id = org AND kept.job = asked.job AND kept.result_seq = given.result_seq
            OFFSET 0) AS parts ON true;
END $$;

CREATE OR REPLACE FUNCTION read_notifications(org text, id text, wanted text, most integer)
RETURNS SETOF notifications LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT * FROM (
            SELECT {notification_names} FROM messages WHERE messages.org_id = org AND messages.job = key_of(id)
            UNION ALL SELECT sent.* FROM outbox AS sent WHERE sent.org_id = org AND sent.job_id = id) AS one
        WHERE wanted IS NULL OR one.channel = wanted
        ORDER BY one.created_at DESC, one.notification_id DESC LIMIT most;
END $$;

CREATE OR REPLACE FUNCTION read_chunk(org text, id text, key text) RETURNS text LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN (SELECT one.payload FROM job_chunks AS one WHERE one.org_id = org AND one.job_id = id AND one.chunk_key = key);
END $$;

CREATE OR REPLACE FUNCTION read_chunks(org text, id text, keys text[]) RETURNS TABLE (chunk_key text, payload text) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT one.chunk_key, one.payload FROM job_chunks AS one
        WHERE one.org_id = org AND one.job_id = id AND one.chunk_key = ANY (keys);
END $$;

CREATE OR REPLACE FUNCTION read_views(org text, id text) RETURNS text LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN (SELECT one.views FROM job_results AS one WHERE one.org_id = org AND one.result = key_of(id));
END $$;

-- Completed jobs of an analysis before a position, the last to end first, with their inputs: so many and no more.
CREATE OR REPLACE FUNCTION read_completed(org text, wanted text, before_at bigint, before_id text, most integer)
RETURNS TABLE (job_id text, result_id text, finished_at bigint, payload text) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT one.job_id, one.result_id, one.finished_at, one.payload FROM jobs AS one
        WHERE one.org_id = org AND one.status = 'completed' AND one.finished_at IS NOT NULL AND one.analysis = wanted
          AND one.result_expired_at IS NULL
          AND one.finished_at <= before_at AND (one.finished_at, one.job) < (before_at, key_of(before_id))
        ORDER BY one.finished_at DESC, one.job DESC LIMIT most;
END $$;

-- What some jobs were asked, for lists that say what each is about: no more than a glance.
CREATE OR REPLACE FUNCTION read_inputs(org text, job_ids text[], largest integer) RETURNS TABLE (job_id text, payload text)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT one.job_id, one.payload FROM unnest(job_ids) AS wanted (job_id)
        CROSS JOIN LATERAL (
            SELECT wanted.job_id, first.input AS payload FROM event_rows AS first
            WHERE first.org_id = org AND first.job = key_of(wanted.job_id) AND first.event_seq = 1
              AND octet_length(first.input) <= largest OFFSET 0) AS one;
END $$;

-- Whom a job asked to be told of its end: a job that repeats it asks the same.
CREATE OR REPLACE FUNCTION read_wishes(org text, id text) RETURNS TABLE (channel text, target text, lane text, language text)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT wish.channel, wish.target, wish.lane, wish.language FROM job_wishes AS wish
        WHERE wish.org_id = org AND wish.job_id = id ORDER BY wish.channel;
END $$;

-- Payloads as bytes, to be sent on undecoded.
-- How large the payload of a snapshot is, and the payload itself where it is small; no row where it is not kept here.
CREATE OR REPLACE FUNCTION read_payload_size(org text, id text, small integer)
RETURNS TABLE (size integer, payload text) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT octet_length(one.payload), CASE WHEN octet_length(one.payload) <= small THEN one.payload END
        FROM job_results AS one WHERE one.org_id = org AND one.result = key_of(id) AND one.payload IS NOT NULL;
END $$;

CREATE OR REPLACE FUNCTION read_payload_bytes(org text, id text) RETURNS bytea LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN (SELECT convert_to(one.payload, 'UTF8') FROM job_results AS one WHERE one.org_id = org AND one.result = key_of(id));
END $$;
