-- Every read of tenant data: one function each, so that one round trip is one statement on one snapshot. Each says first
-- whose rows it is after, for the security of rows, and names the org in its queries all the same.
--
-- A list walks along the inputs, which have the order of time and one version each, so many at a time: however few jobs fit
-- a filter, a call looks at no more of them than it was told to. `OFFSET 0` keeps a look-up by key what it is: on a table that
-- is still empty the planner would as soon read all rows of an org for each of them, and keep to it while the table grows.

-- A snapshot without its payload, which is not read where nobody asked for it.
CREATE VIEW snapshots WITH (security_invoker = true) AS
SELECT org_id, result_id, job_id, result_kind, result_seq, schema_version, result_payload_ref, created_at, summary_json, removed_at
FROM job_results;

-- One line of an org's history.
CREATE TYPE history_entry AS (result_id text, job_id text, created_at bigint, status text, payload text);

CREATE FUNCTION read_job(org text, job text) RETURNS SETOF job_views LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY SELECT one.* FROM job_views AS one WHERE one.org_id = org AND one.job_id = job;
END $$;

-- A job with its latest events, the last first, and its result where that is no larger than so many bytes: its size is known
-- without reading it.
CREATE FUNCTION read_status(org text, job text, most_events integer, most_bytes bigint)
RETURNS TABLE (view job_views, events job_events[], result text) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT one,
            ARRAY(SELECT event FROM job_events AS event WHERE event.org_id = org AND event.job_id = job
                  ORDER BY event.event_seq DESC LIMIT most_events),
            CASE one.status WHEN 'completed' THEN (
                SELECT CASE WHEN octet_length(final.payload) <= most_bytes THEN final.payload END
                FROM job_results AS final WHERE final.org_id = org AND final.result_id = one.result_id) END
        FROM job_views AS one WHERE one.org_id = org AND one.job_id = job;
END $$;

CREATE FUNCTION read_payload(org text, job text) RETURNS text LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN (SELECT input.payload FROM job_inputs AS input WHERE input.org_id = org AND input.job_id = job);
END $$;

CREATE FUNCTION read_events(org text, job text, past integer, most integer) RETURNS SETOF job_events LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT event.* FROM job_events AS event WHERE event.org_id = org AND event.job_id = job AND event.event_seq > past
        ORDER BY event.event_seq LIMIT most;
END $$;

-- The next events, up to the one with which they have so many bytes; whether there may be more already; and where there are
-- none, whether none will ever come.
CREATE FUNCTION read_log(org text, job text, past integer, most integer, most_bytes bigint)
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
              WHERE event.org_id = org AND event.job_id = job AND event.event_seq > past
              ORDER BY event.event_seq LIMIT most) AS next) AS summed
    WHERE before < most_bytes;
    events := ARRAY(
        SELECT event FROM job_events AS event
        WHERE event.org_id = org AND event.job_id = job AND event.event_seq > past AND event.event_seq <= last_seq
        ORDER BY event.event_seq);
    gone := last_seq IS NULL AND NOT EXISTS (
        SELECT 1 FROM jobs AS one
        WHERE one.org_id = org AND one.job_id = job AND one.finished_at IS NULL AND one.events_expired_at IS NULL);
    RETURN NEXT;
END $$;

CREATE FUNCTION read_results(org text, job text) RETURNS SETOF snapshots LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT one.* FROM snapshots AS one WHERE one.org_id = org AND one.job_id = job AND one.removed_at IS NULL
        ORDER BY one.result_seq;
END $$;

-- The snapshot that was asked for, and the one that is given for it: that one, or the newest of its job. The final one has
-- the highest number, so the newest is the last.
CREATE FUNCTION read_result(org text, result text, newest boolean, whole boolean)
RETURNS TABLE (view job_views, requested snapshots, delivered snapshots, payload text) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT found.view, asked, given.snapshot, CASE WHEN whole THEN (
            SELECT kept.payload FROM job_results AS kept
            WHERE kept.org_id = org AND kept.job_id = asked.job_id AND kept.result_seq = given.result_seq) END
        FROM snapshots AS asked
        CROSS JOIN LATERAL (
            SELECT one AS view FROM job_views AS one WHERE one.org_id = org AND one.job_id = asked.job_id OFFSET 0) AS found
        CROSS JOIN LATERAL (
            SELECT last AS snapshot, last.result_seq FROM snapshots AS last
            WHERE last.org_id = org AND last.job_id = asked.job_id
              AND last.result_seq >= asked.result_seq AND (newest OR last.result_seq <= asked.result_seq)
            ORDER BY last.result_seq DESC LIMIT 1) AS given
        WHERE asked.org_id = org AND asked.result_id = result;
END $$;

CREATE FUNCTION read_notifications(org text, job text, wanted text, most integer)
RETURNS SETOF notifications LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT one.* FROM notifications AS one
        WHERE one.org_id = org AND one.job_id = job AND (wanted IS NULL OR one.channel = wanted)
        ORDER BY one.created_at DESC, one.notification_id DESC LIMIT most;
END $$;

-- Where a walk over so many of the newest jobs before a position ends; nothing where it reaches the oldest.
CREATE FUNCTION end_of_walk(org text, before_at bigint, before_id text, walk integer, OUT end_at bigint, OUT end_id text)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    SELECT input.queued_at, input.job_id INTO end_at, end_id FROM job_inputs AS input
    WHERE input.org_id = org AND input.queued_at > 0 AND (input.queued_at, input.job_id) < (before_at, before_id)
    ORDER BY input.queued_at DESC, input.job_id DESC OFFSET walk - 1 LIMIT 1;
END $$;

-- Of one walk, the first so many that fit, and where the walk ended if those are not all.
CREATE FUNCTION read_jobs(
    org text, state text, name text, words text, before_at bigint, before_id text, walk integer, most integer
) RETURNS TABLE (views job_views[], end_at bigint, end_id text) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    views := ARRAY(
        SELECT fitting.view FROM (
            SELECT input.queued_at, input.job_id FROM job_inputs AS input
            WHERE input.org_id = org AND input.queued_at > 0 AND (input.queued_at, input.job_id) < (before_at, before_id)
            ORDER BY input.queued_at DESC, input.job_id DESC LIMIT walk) AS walked
        CROSS JOIN LATERAL (
            SELECT one AS view FROM job_views AS one
            WHERE one.org_id = org AND one.job_id = walked.job_id
              AND (state IS NULL OR one.status = state) AND (name IS NULL OR one.analysis = name)
              AND (words IS NULL OR strpos(one.job_id, words) > 0 OR EXISTS (
                  SELECT 1 FROM job_inputs AS input
                  WHERE input.org_id = org AND input.job_id = walked.job_id AND strpos(lower(input.payload), words) > 0))
            OFFSET 0) AS fitting
        ORDER BY walked.queued_at DESC, walked.job_id DESC LIMIT most);
    IF cardinality(views) < most THEN
        SELECT * INTO end_at, end_id FROM end_of_walk(org, before_at, before_id, walk);
    END IF;
    RETURN NEXT;
END $$;

-- Of one walk, how many jobs have a result, some of them, and where the walk ended.
CREATE FUNCTION read_history(org text, before_at bigint, before_id text, walk integer, skipped bigint, most integer)
RETURNS TABLE (entries history_entry[], counted bigint, end_at bigint, end_id text) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    jobs_found text[];
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    jobs_found := ARRAY(
        SELECT walked.job_id FROM (
            SELECT input.queued_at, input.job_id FROM job_inputs AS input
            WHERE input.org_id = org AND input.queued_at > 0 AND (input.queued_at, input.job_id) < (before_at, before_id)
            ORDER BY input.queued_at DESC, input.job_id DESC LIMIT walk) AS walked
        CROSS JOIN LATERAL (
            SELECT 1 FROM jobs AS one
            WHERE one.org_id = org AND one.job_id = walked.job_id AND one.result_id IS NOT NULL AND one.result_expired_at IS NULL
            OFFSET 0) AS with_result
        ORDER BY walked.queued_at DESC, walked.job_id DESC);
    counted := cardinality(jobs_found);
    entries := ARRAY(
        SELECT line.entry
        FROM (SELECT job_id, place FROM unnest(jobs_found) WITH ORDINALITY AS fitting (job_id, place)
              WHERE place > skipped ORDER BY place LIMIT most) AS page
        CROSS JOIN LATERAL (
            SELECT ROW(one.result_id, one.job_id,
                (SELECT shown.created_at FROM job_results AS shown WHERE shown.org_id = org AND shown.result_id = one.result_id),
                one.status,
                (SELECT input.payload FROM job_inputs AS input WHERE input.org_id = org AND input.job_id = page.job_id)
            )::history_entry AS entry
            FROM jobs AS one WHERE one.org_id = org AND one.job_id = page.job_id OFFSET 0) AS line
        ORDER BY page.place);
    SELECT * INTO end_at, end_id FROM end_of_walk(org, before_at, before_id, walk);
    RETURN NEXT;
END $$;

-- The first and the last waiting job of each analysis and class, each one look into the index.
CREATE FUNCTION read_ranks(org text) RETURNS TABLE (
    analysis text, priority_class text, lane_waiting integer, first_ticket bigint, last_ticket bigint, first_at bigint, last_at bigint
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT lane.analysis, class.name, lane.waiting, first.ticket, last.ticket, first.queued_at, last.queued_at
        FROM lanes AS lane
        CROSS JOIN LATERAL (VALUES
            ('expedite', lane.expedite_head, lane.expedite_last),
            ('default', lane.default_head, lane.default_last)) AS class (name, head, last)
        CROSS JOIN LATERAL (
            SELECT one.ticket, one.queued_at FROM jobs AS one
            WHERE one.org_id = org AND one.analysis = lane.analysis AND one.priority_class = class.name
              AND one.ticket > class.head AND one.started_at IS NULL AND one.finished_at IS NULL
            ORDER BY one.ticket LIMIT 1) AS first
        CROSS JOIN LATERAL (
            SELECT one.ticket, one.queued_at FROM jobs AS one
            WHERE one.org_id = org AND one.analysis = lane.analysis AND one.priority_class = class.name
              AND one.ticket >= first.ticket AND one.started_at IS NULL AND one.finished_at IS NULL
            ORDER BY one.ticket DESC LIMIT 1) AS last
        WHERE lane.org_id = org AND lane.waiting > 0 AND class.head < class.last;
END $$;

CREATE FUNCTION read_chunk(org text, job text, key text) RETURNS text LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN (SELECT one.payload FROM job_chunks AS one WHERE one.org_id = org AND one.job_id = job AND one.chunk_key = key);
END $$;

CREATE FUNCTION read_chunks(org text, job text, keys text[]) RETURNS TABLE (chunk_key text, payload text) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT one.chunk_key, one.payload FROM job_chunks AS one
        WHERE one.org_id = org AND one.job_id = job AND one.chunk_key = ANY (keys);
END $$;

SELECT plan_with(
    '{read_job, read_status, read_payload, read_events, read_log, read_results, read_result, read_notifications, read_jobs,
      read_history, end_of_walk, read_ranks, read_chunk, read_chunks}',
    'SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');
