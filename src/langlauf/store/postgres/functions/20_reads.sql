-- query: read_job(id text) RETURNS SETOF job_views
SELECT one.* FROM job_views AS one WHERE one.org_id = org AND one.job = key_of(id);

-- Jobs, each of its org, with their latest events, newest first, and their results if they are no larger than `most_bytes`; the
-- size of a result is known without reading it. Many requests wait for a status at the same moment: the jobs of an org are read by
-- one statement, because to begin one takes longer than a look-up.
CREATE OR REPLACE FUNCTION read_statuses(orgs text[], ids text[], most_events integer[], most_bytes bigint[])
RETURNS TABLE (place integer, view job_views, events job_events[], result text) LANGUAGE plpgsql STABLE AS $$
DECLARE
    org text;
BEGIN
    FOR org IN SELECT DISTINCT one FROM unnest(orgs) AS one LOOP
        PERFORM set_config('langlauf.org_id', org, true);
        RETURN QUERY
        SELECT wish.place::integer, found.job,
            ARRAY(SELECT event FROM job_events AS event WHERE event.org_id = org AND event.job = (found.job).job
                  ORDER BY event.event_seq DESC LIMIT wish.most),
            CASE (found.job).status WHEN 'completed' THEN (
                SELECT CASE WHEN octet_length(final.payload) <= wish.bytes THEN final.payload END
                FROM result_rows AS final WHERE final.org_id = org AND final.result = (found.job).result) END
        FROM unnest(orgs, ids, most_events, most_bytes) WITH ORDINALITY AS wish (org_id, id, most, bytes, place)
        CROSS JOIN LATERAL (SELECT one AS job FROM job_views AS one WHERE one.org_id = org AND one.job = key_of(wish.id) OFFSET 0) AS found
        WHERE wish.org_id = org;
    END LOOP;
END $$;

-- query: read_payload(id text) RETURNS text
SELECT first.input FROM event_rows AS first WHERE first.org_id = org AND first.job = key_of(id) AND first.event_seq = 1;

-- query: read_events(id text, past integer, most integer) RETURNS SETOF job_events
SELECT event.* FROM job_events AS event WHERE event.org_id = org AND event.job = key_of(id) AND event.event_seq > past
ORDER BY event.event_seq LIMIT most;

-- The next events, up to the one that reaches `most_bytes`; whether there may be more; and if there are none, whether none will
-- follow.
CREATE OR REPLACE FUNCTION read_log(org text, id text, past integer, most integer, most_bytes bigint)
RETURNS TABLE (events job_events[], more boolean, gone boolean) LANGUAGE plpgsql STABLE AS $$
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

-- query: read_results(id text) RETURNS SETOF snapshots
SELECT {snapshot_names} FROM job_results AS one WHERE one.org_id = org AND one.job = key_of(id) AND one.removed_at IS NULL
ORDER BY one.result_seq;

-- The requested snapshot, and the delivered one: the same, or the newest of its job, which has the highest number.
-- query: read_result(id text, newest boolean, whole boolean)
--   RETURNS TABLE (view job_views, requested snapshots, delivered snapshots, payload text, views text)
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

-- query: read_notifications(id text, wanted text, most integer) RETURNS SETOF notifications
SELECT * FROM (
    SELECT {notification_names} FROM messages WHERE messages.org_id = org AND messages.job = key_of(id)
    UNION ALL SELECT sent.* FROM outbox AS sent WHERE sent.org_id = org AND sent.job_id = id) AS one
WHERE wanted IS NULL OR one.channel = wanted
ORDER BY one.created_at DESC, one.notification_id DESC LIMIT most;

-- query: read_chunk(id text, key text) RETURNS text
SELECT one.payload FROM job_chunks AS one WHERE one.org_id = org AND one.job_id = id AND one.chunk_key = key;

-- query: read_chunks(id text, keys text[]) RETURNS TABLE (chunk_key text, payload text)
SELECT one.chunk_key, one.payload FROM job_chunks AS one
WHERE one.org_id = org AND one.job_id = id AND one.chunk_key = ANY (keys);

-- Stored chunks of a job, without the trail, counted up to `most`. The total grows with each map of a job: the largest is the newest.
-- query: read_kept_parts(id text, most integer) RETURNS TABLE (kept bigint, total integer)
SELECT count(*), max(counted.total) FROM (
    SELECT one.total FROM job_chunks AS one
    WHERE one.org_id = org AND one.job_id = id AND NOT (one.chunk_key >= 'langlauf:' AND one.chunk_key < 'langlauf;')
    LIMIT most) AS counted;

-- Chunks that a job did not compute: they are older than the job, which began with those of another one.
-- query: read_resumed(id text) RETURNS bigint
SELECT count(*) FROM job_chunks AS one JOIN job_rows AS job ON job.job = key_of(id) AND job.org_id = org
WHERE one.org_id = org AND one.job_id = id AND one.created_at < job.queued_at
  AND NOT (one.chunk_key >= 'langlauf:' AND one.chunk_key < 'langlauf;');

-- The keys of a trail begin with langlauf: and a semicolon is the character behind that colon.
-- query: read_trail(id text) RETURNS TABLE (chunk_key text, payload text, created_at bigint)
SELECT one.chunk_key, one.payload, one.created_at FROM job_chunks AS one
WHERE one.org_id = org AND one.job_id = id AND one.chunk_key >= 'langlauf:' AND one.chunk_key < 'langlauf;'
ORDER BY one.created_at, one.chunk_key;

-- Jobs that repeat a job, or started from its input, the newest first.
-- query: read_reruns(id text, most integer) RETURNS SETOF job_views
SELECT one.* FROM (
    (SELECT again.job, again.queued_at FROM job_rows AS again
     WHERE again.retry_of COLLATE "C" = id AND again.retry_of IS NOT NULL AND again.org_id = org
     ORDER BY again.queued_at DESC LIMIT most)
    UNION ALL
    (SELECT changed.job, changed.queued_at FROM job_rows AS changed
     WHERE changed.based_on COLLATE "C" = id AND changed.based_on IS NOT NULL AND changed.org_id = org
     ORDER BY changed.queued_at DESC LIMIT most)) AS found
CROSS JOIN LATERAL (SELECT view.* FROM job_views AS view WHERE view.org_id = org AND view.job = found.job OFFSET 0) AS one
ORDER BY one.queued_at DESC, one.job DESC LIMIT most;

-- query: read_views(id text) RETURNS text
SELECT one.views FROM job_results AS one WHERE one.org_id = org AND one.result = key_of(id);

-- Completed jobs of an analysis before a position, the last to end first, with their inputs.
-- query: read_completed(wanted text, before_at bigint, before_id text, most integer)
--   RETURNS TABLE (job_id text, result_id text, finished_at bigint, payload text)
SELECT one.job_id, one.result_id, one.finished_at, one.payload FROM jobs AS one
WHERE one.org_id = org AND one.final_state = 1 AND one.finished_at IS NOT NULL AND one.analysis = wanted
  AND one.result_expired_at IS NULL
  AND one.finished_at <= before_at AND (one.finished_at, one.job) < (before_at, key_of(before_id))
ORDER BY one.finished_at DESC, one.job DESC LIMIT most;

-- Inputs of jobs for lists, without large ones.
-- query: read_inputs(job_ids text[], largest integer) RETURNS TABLE (job_id text, payload text)
SELECT one.job_id, one.payload FROM unnest(job_ids) AS wanted (job_id)
CROSS JOIN LATERAL (
    SELECT wanted.job_id, first.input AS payload FROM event_rows AS first
    WHERE first.org_id = org AND first.job = key_of(wanted.job_id) AND first.event_seq = 1
      AND octet_length(first.input) <= largest OFFSET 0) AS one;

-- The subscriptions of a job, which a retry of it copies.
-- query: read_wishes(id text) RETURNS TABLE (channel text, target text, lane text, language text)
SELECT wish.channel, wish.target, wish.lane, wish.language FROM job_wishes AS wish
WHERE wish.org_id = org AND wish.job_id = id ORDER BY wish.channel;

-- The size of a snapshot's payload, and a small payload itself; no row if the payload is not in the database.
-- query: read_payload_size(id text, small integer) RETURNS TABLE (size integer, payload text)
SELECT octet_length(one.payload), CASE WHEN octet_length(one.payload) <= small THEN one.payload END
FROM job_results AS one WHERE one.org_id = org AND one.result = key_of(id) AND one.payload IS NOT NULL;

-- query: read_payload_bytes(id text) RETURNS bytea
SELECT convert_to(one.payload, 'UTF8') FROM job_results AS one WHERE one.org_id = org AND one.result = key_of(id);
