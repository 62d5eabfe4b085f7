-- Jobs that have started and not ended. No index holds exactly these, as it would change at every step of every job. Lists scan
-- jobs in the order of time in bounded steps, however few match a filter. `OFFSET 0` keeps lookups by key from being planned as
-- scans of an org while the table is empty.
-- query: read_started(most integer) RETURNS TABLE (job uuid, status text, queued_at bigint)
(SELECT held.job, held.status, held.queued_at FROM job_rows AS held WHERE held.deadline_at > 0 AND held.org_id = org LIMIT most)
UNION ALL
(SELECT due.job, due.status, due.queued_at FROM job_rows AS due
 WHERE due.org_id = org AND due.next_attempt_at IS NOT NULL LIMIT most)
LIMIT most;

-- Jobs by state, each counted up to `most`. ORDER BY makes the planner use the index of states, also on an empty table.
-- query: read_counts(most integer) RETURNS TABLE (status text, counted bigint)
SELECT 'queued', least(most, coalesce(sum(lane.waiting + lane.scheduled), 0)) FROM lanes AS lane WHERE lane.org_id = org
UNION ALL
SELECT started.status, least(most, count(*)) FROM read_started(org, 2 * most) AS started GROUP BY 1
UNION ALL
SELECT ended.status, few.counted FROM unnest('{completed, failed, canceled}'::text[]) AS ended (status)
CROSS JOIN LATERAL (
    SELECT count(*) AS counted FROM (
        SELECT 1 FROM jobs AS one
        WHERE one.org_id = org AND one.final_state = final_state_of(ended.status) AND one.finished_at IS NOT NULL
        ORDER BY one.finished_at DESC LIMIT most) AS newest_few) AS few;

-- All jobs in a state if they are at most `most`, else NULL: few jobs need not be scanned for.
CREATE OR REPLACE FUNCTION read_few(org text, state text, most integer) RETURNS uuid[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    found uuid[];
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    IF state IN ('completed', 'failed', 'canceled') THEN
        found := ARRAY(
            SELECT one.job FROM job_rows AS one
            WHERE one.org_id = org AND one.final_state = final_state_of(state) AND one.finished_at IS NOT NULL
            ORDER BY one.finished_at DESC LIMIT most + 1);
    ELSIF state = 'queued' THEN
        found := ARRAY(
            SELECT one.job FROM lanes AS lane
            CROSS JOIN LATERAL (VALUES
                ('expedite', lane.expedite_head + 1, 9223372036854775807), ('default', lane.default_head + 1, 9223372036854775807),
                ('expedite', -9223372036854775807, -1), ('default', -9223372036854775807, -1)) AS class (name, first, last)
            CROSS JOIN LATERAL (
                SELECT waiting.job FROM job_rows AS waiting
                WHERE waiting.org_id = org AND waiting.analysis = lane.analysis AND waiting.priority_class = class.name
                  AND waiting.ticket BETWEEN class.first AND class.last AND waiting.started_at IS NULL AND waiting.finished_at IS NULL
                LIMIT most + 1) AS one
            WHERE lane.org_id = org AND lane.waiting + lane.scheduled > 0 LIMIT most + 1);
    ELSE
        -- Running and partial jobs are counted together.
        IF (SELECT count(*) FROM read_started(org, most + 1)) > most THEN
            RETURN NULL;
        END IF;
        found := ARRAY(SELECT one.job FROM read_started(org, most) AS one WHERE one.status = state);
    END IF;
    RETURN CASE WHEN cardinality(found) <= most THEN found END;
END $$;

-- One step: `walk` jobs before a position, those that match, and where the step ended unless nothing follows. It scans `few` if
-- given, else failed jobs or all.
CREATE OR REPLACE FUNCTION read_jobs(
    org text, few uuid[], state text, name text, failure text, words text, largest integer, since bigint,
    before_at bigint, before_id text, walk integer, most integer
) RETURNS TABLE (views job_views[], end_at bigint, end_id text) LANGUAGE plpgsql STABLE AS $$
DECLARE
    ids uuid[];
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    IF few IS NOT NULL THEN
        ids := ARRAY(
            SELECT input.job FROM unnest(few) AS wanted (job) CROSS JOIN LATERAL (
                SELECT one.job, one.queued_at FROM job_rows AS one
                WHERE one.org_id = org AND one.job = wanted.job OFFSET 0) AS input
            WHERE input.queued_at >= since AND (input.queued_at, input.job) < (before_at, key_of(before_id))
            ORDER BY input.queued_at DESC, input.job DESC);
    ELSIF state = 'failed' THEN
        ids := ARRAY(
            SELECT one.job FROM job_rows AS one
            WHERE one.org_id = org AND one.failed_at IS NOT NULL AND one.queued_at >= since
              AND one.queued_at <= before_at AND (one.queued_at, one.job) < (before_at, key_of(before_id))
            ORDER BY one.queued_at DESC, one.job DESC LIMIT walk);
    ELSE
        ids := ARRAY(
            SELECT input.job FROM job_rows AS input
            WHERE input.org_id = org AND input.queued_at > 0 AND input.queued_at >= since
              AND input.queued_at <= before_at AND (input.queued_at, input.job) < (before_at, key_of(before_id))
            ORDER BY input.queued_at DESC, input.job DESC LIMIT walk);
    END IF;
    views := ARRAY(
        SELECT fitting.view FROM unnest(ids) WITH ORDINALITY AS walked (job, place)
        CROSS JOIN LATERAL (
            SELECT one AS view FROM job_views AS one
            WHERE one.org_id = org AND one.job = walked.job
              AND (state IS NULL OR one.status = state) AND (name IS NULL OR one.analysis = name)
              AND (failure IS NULL OR one.error_code = failure)
              AND (words IS NULL
                OR strpos(lower(one.job_id), words) > 0 OR strpos(lower(one.analysis), words) > 0
                OR strpos(lower(one.label COLLATE "C"), words) > 0
                OR strpos(lower(one.step COLLATE "C"), words) > 0
                OR strpos(lower(one.error_code COLLATE "C"), words) > 0
                OR strpos(lower(one.error_message COLLATE "C"), words) > 0
                OR EXISTS (
                    SELECT 1 FROM event_rows AS first WHERE first.org_id = org AND first.job = walked.job AND first.event_seq = 1
                      AND CASE WHEN octet_length(first.input) <= largest
                          THEN strpos(lower(first.input COLLATE "C"), words) > 0 END))
            OFFSET 0) AS fitting
        ORDER BY walked.place LIMIT most);
    IF few IS NULL AND cardinality(ids) = walk THEN
        SELECT input.queued_at, input.job_id INTO end_at, end_id FROM jobs AS input
        WHERE input.org_id = org AND input.job = ids[walk];
    END IF;
    RETURN NEXT;
END $$;

-- Failed jobs, newest first, and whether they were retried.
-- query: read_failures(since bigint, before_at bigint, before_id text, longest integer, most integer)
--   RETURNS TABLE (job_id text, analysis text, error_code text, error_message text, queued_at bigint,
--   failed_at bigint, repeated boolean)
SELECT one.job_id, one.analysis, one.error_code, left(one.error_message, longest), one.queued_at, one.failed_at,
    coalesce((
        SELECT true FROM jobs AS again
        WHERE again.retry_of COLLATE "C" = one.job_id AND again.retry_of IS NOT NULL AND again.org_id = org LIMIT 1), false)
FROM jobs AS one
WHERE one.org_id = org AND one.failed_at IS NOT NULL AND one.queued_at >= since
  AND one.queued_at <= before_at AND (one.queued_at, one.job) < (before_at, key_of(before_id))
ORDER BY one.queued_at DESC, one.job DESC LIMIT most;

-- A page of an org's history and the total. Running jobs with a snapshot are few and in no index: they are merged into the
-- ended ones, which are read from the nearer end.
CREATE OR REPLACE FUNCTION read_history(org text, skipped bigint, most integer)
RETURNS TABLE (entries history_entry[], counted bigint) LANGUAGE plpgsql STABLE AS $$
DECLARE
    ids uuid[];
    from_place bigint;
    wanted bigint;
    ended bigint;
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    ids := ARRAY(SELECT one.job FROM read_started(org, 100000) AS one WHERE one.status = 'partial');
    from_place := greatest(0, skipped - cardinality(ids));
    wanted := skipped - from_place + most;
    SELECT count(*) INTO ended FROM job_rows AS one
    WHERE one.org_id = org AND one.queued_at > 0 AND one.kept >= 2;
    counted := ended + cardinality(ids);
    IF from_place <= ended / 2 THEN
        ids := ids || ARRAY(
            SELECT one.job FROM job_rows AS one
            WHERE one.org_id = org AND one.queued_at > 0 AND one.kept >= 2
            ORDER BY one.queued_at DESC, one.job DESC OFFSET from_place LIMIT wanted);
    ELSE
        ids := ids || ARRAY(
            SELECT one.job FROM job_rows AS one
            WHERE one.org_id = org AND one.queued_at > 0 AND one.kept >= 2
            ORDER BY one.queued_at, one.job
            OFFSET greatest(0, ended - from_place - wanted) LIMIT greatest(0, least(wanted, ended - from_place)));
    END IF;
    entries := ARRAY(
        SELECT line.entry FROM (
            SELECT input.job, input.queued_at FROM unnest(ids) AS shown (job) CROSS JOIN LATERAL (
                SELECT one.job, one.queued_at FROM job_rows AS one WHERE one.org_id = org AND one.job = shown.job OFFSET 0) AS input
            ORDER BY input.queued_at DESC, input.job DESC OFFSET skipped - from_place LIMIT most) AS page
        CROSS JOIN LATERAL (
            SELECT ROW(one.result_id, one.job_id,
                (SELECT shown.created_at FROM result_rows AS shown WHERE shown.org_id = org AND shown.result = one.result),
                one.status, one.payload)::history_entry AS entry
            FROM jobs AS one WHERE one.org_id = org AND one.job = page.job OFFSET 0) AS line
        ORDER BY page.queued_at DESC, page.job DESC);
    RETURN NEXT;
END $$;

-- The newest in-app messages before a position and after an instant: those derived from jobs and those that an import brought.
-- query: read_messages(before_at bigint, before_id text, since bigint, most integer)
--   RETURNS TABLE (created_at bigint, notification_id text, job_id text, read_at bigint, stored boolean)
SELECT newest.* FROM (
    SELECT ended.* FROM unnest('{completed, failed}'::text[]) AS state (name) CROSS JOIN LATERAL (
        SELECT job.finished_at, message_id_of(job.job_id) COLLATE "C" AS message_id, job.job_id, job.read_at, false FROM jobs AS job
        WHERE job.org_id = org AND job.final_state = final_state_of(state.name) AND job.finished_at IS NOT NULL
          AND job.finished_at <= before_at AND job.finished_at > since
          AND (job.finished_at, message_id_of(job.job_id) COLLATE "C") < (before_at, before_id)
          AND (job.imported_at IS NULL OR job.imported_at < job.finished_at)
        ORDER BY job.finished_at DESC, message_id DESC LIMIT most) AS ended
    UNION ALL
    (SELECT one.created_at, one.notification_id, one.job_id, one.read_at, true FROM outbox AS one
     WHERE one.org_id = org AND one.channel = 'in_app' AND one.created_at > since
       AND (one.created_at, one.notification_id) < (before_at, before_id)
     ORDER BY one.created_at DESC, one.notification_id DESC LIMIT most)
) AS newest (created_at, notification_id, job_id, read_at, stored)
ORDER BY newest.created_at DESC, newest.notification_id DESC LIMIT most;

-- In-app messages, newest first, with their jobs and whether they are unread.
-- query: read_inbox(before_at bigint, before_id text, most integer)
--   RETURNS TABLE (message notifications, view job_views, unread boolean)
SELECT kept.message, about.view, newest.read_at IS NULL AND newest.created_at > coalesce((
    SELECT mark.read_until FROM inbox_marks AS mark WHERE mark.org_id = org), 0)
FROM read_messages(org, before_at, before_id, -1, most) AS newest
CROSS JOIN LATERAL (
    SELECT ROW({notification_names})::notifications AS message FROM messages AS one
    WHERE NOT newest.stored AND one.org_id = org AND one.job = key_of(newest.job_id)
    UNION ALL
    SELECT ROW(one.*)::notifications FROM outbox AS one
    WHERE newest.stored AND one.notification_id = newest.notification_id AND one.org_id = org) AS kept
CROSS JOIN LATERAL (
    SELECT found AS view FROM job_views AS found WHERE found.org_id = org AND found.job = key_of(newest.job_id) OFFSET 0) AS about
ORDER BY newest.created_at DESC, newest.notification_id DESC;

-- Unread messages among the newest `walk`.
-- query: read_unread(walk integer) RETURNS bigint
SELECT count(*) FROM read_messages(org, 9223372036854775807, '',
    coalesce((SELECT mark.read_until FROM inbox_marks AS mark WHERE mark.org_id = org), 0), walk) AS newest
WHERE newest.read_at IS NULL;

-- Marks one message as read, or all up to a past instant; a mark never moves back. The id of a derived message gives the job's
-- id, whatever UUID version that has.
CREATE OR REPLACE FUNCTION mark_read(at bigint, org text, message text, until bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    now CONSTANT bigint := moment(at);
    changed integer := 0;
    more integer;
BEGIN
    UPDATE job_rows SET read_at = now
    WHERE job = ANY (ARRAY(
            SELECT key_of(left(message, 14) || version || substr(message, 16)) FROM unnest('{7,0,1,2,3,4,5,6,8,9,a,b,c,d,e,f,""}'::text[]) AS version))
        AND message_id_of(coalesce(job_name, job::text)) = message AND org_id = org AND read_at IS NULL
        AND status IN ('completed', 'failed') AND (imported_at IS NULL OR imported_at < finished_at);
    GET DIAGNOSTICS changed = ROW_COUNT;
    UPDATE outbox SET read_at = now
    WHERE org_id = org AND notification_id = message AND channel = 'in_app' AND read_at IS NULL;
    GET DIAGNOSTICS more = ROW_COUNT;
    changed := changed + more;
    INSERT INTO inbox_marks AS mark (org_id, read_until)
    SELECT org, least(until, now)
    WHERE until IS NOT NULL AND (
        EXISTS (SELECT FROM jobs AS job WHERE job.org_id = org AND job.final_state IN (1, 2) AND job.finished_at IS NOT NULL)
        OR EXISTS (SELECT FROM outbox AS one WHERE one.org_id = org AND one.channel = 'in_app'))
    ON CONFLICT (org_id) DO UPDATE SET read_until = excluded.read_until WHERE excluded.read_until > mark.read_until;
    GET DIAGNOSTICS more = ROW_COUNT;
    RETURN changed + more > 0;
END $$;

-- Held jobs before a position, the last held first.
-- query: read_held(before_at bigint, before_id text, most integer) RETURNS SETOF job_views
SELECT view.* FROM (
    SELECT one.held_at, one.job FROM job_rows AS one
    WHERE one.org_id = org AND one.held_at IS NOT NULL AND (one.held_at, one.job) < (before_at, key_of(before_id))
    ORDER BY one.held_at DESC, one.job DESC LIMIT most) AS held
CROSS JOIN LATERAL (
    SELECT * FROM job_views AS found WHERE found.org_id = org AND found.job = held.job OFFSET 0) AS view
ORDER BY held.held_at DESC, held.job DESC;

-- Holds or releases the job of a result; returns the job and when the result was removed. The job is locked first, so that
-- retention either removes it or finds it held.
CREATE OR REPLACE FUNCTION hold_result(at bigint, org text, id text, wished boolean, who text, why text)
RETURNS TABLE (job_id text, removed_at bigint) LANGUAGE plpgsql AS $$
DECLARE
    wanted CONSTANT uuid := key_of(id);
    owner CONSTANT uuid := (SELECT one.job FROM result_rows AS one WHERE one.org_id = org AND one.result = wanted);
BEGIN
    PERFORM 1 FROM job_rows AS jobs WHERE jobs.org_id = org AND jobs.job = owner FOR UPDATE;
    IF wished THEN
        UPDATE job_rows AS jobs SET held_at = moment(at), held_by = who, hold_reason = why
        WHERE jobs.org_id = org AND jobs.job = owner AND held_at IS NULL AND EXISTS (
            SELECT 1 FROM result_rows AS one WHERE one.org_id = org AND one.result = wanted AND one.removed_at IS NULL);
    ELSE
        UPDATE job_rows AS jobs SET held_at = NULL, held_by = NULL, hold_reason = NULL
        WHERE jobs.org_id = org AND jobs.job = owner AND held_at IS NOT NULL;
    END IF;
    RETURN QUERY SELECT one.job_id, one.removed_at FROM job_results AS one WHERE one.org_id = org AND one.result = wanted;
END $$;

-- The first and last waiting job of each lane and class, one index lookup each.
-- query: read_ranks()
--   RETURNS TABLE ( analysis text, priority_class text, lane_waiting integer, first_ticket bigint,
--   last_ticket bigint, first_at bigint, last_at bigint )
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
