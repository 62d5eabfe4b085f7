-- What the lists of the pages look up. Each index holds a job only from its end on, or only if it ended badly: the versions of
-- a job that works cost nothing more. What it costs to read is told to each function: it looks at no more jobs than that.

-- Failed jobs in the order of time: the list of them, and what groups them by cause.
CREATE INDEX idx_jobs_failed ON jobs (org_id, queued_at, job_id) WHERE failed_at IS NOT NULL;
-- Which jobs were run again by somebody.
CREATE INDEX idx_jobs_retry_of ON jobs (retry_of, org_id) WHERE retry_of IS NOT NULL;
-- Ended jobs whose result is still there: counted without a look at the jobs.
CREATE INDEX idx_jobs_history ON jobs (org_id, queued_at, job_id)
    WHERE finished_at IS NOT NULL AND result_id IS NOT NULL AND result_expired_at IS NULL;

-- The inbox: when a message was seen, or up to when all of an org's were. All at once is one row, however many there are.
ALTER TABLE notifications ADD COLUMN read_at bigint;
CREATE INDEX idx_notifications_inbox ON notifications (org_id, created_at, notification_id, read_at) WHERE channel = 'in_app';
CREATE TABLE inbox_marks (
    org_id     text COLLATE "C" PRIMARY KEY CHECK (length(org_id) BETWEEN 1 AND 128),
    read_until bigint NOT NULL
);

DROP FUNCTION read_jobs;
DROP FUNCTION read_history;
DROP FUNCTION end_of_walk;

-- Jobs that have started and not ended: they are leased, or wait for another attempt. No index holds them as such, for it
-- would be rewritten at every step of every job.
CREATE FUNCTION read_started(org text, most integer) RETURNS TABLE (job_id text, status text, queued_at bigint)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT one.job_id, one.status, one.queued_at FROM (
            (SELECT held.job_id FROM leases AS held WHERE held.org_id = org LIMIT most)
            UNION ALL
            (SELECT due.job_id FROM jobs AS due WHERE due.org_id = org AND due.next_attempt_at IS NOT NULL LIMIT most)) AS started
        CROSS JOIN LATERAL (
            SELECT found.job_id, found.status, found.queued_at FROM jobs AS found
            WHERE found.org_id = org AND found.job_id = started.job_id AND found.finished_at IS NULL OFFSET 0) AS one
        LIMIT most;
END $$;

-- How many jobs are in each state, counted no further than told.
CREATE FUNCTION read_counts(org text, most integer) RETURNS TABLE (status text, counted bigint) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT 'queued', least(most, coalesce(sum(lane.waiting), 0)) FROM lanes AS lane WHERE lane.org_id = org;
    RETURN QUERY
        SELECT started.status, least(most, count(*)) FROM read_started(org, 2 * most) AS started GROUP BY 1;
    RETURN QUERY
        SELECT ended.status, few.counted FROM unnest('{completed, failed, canceled}'::text[]) AS ended (status)
        CROSS JOIN LATERAL (
            SELECT count(*) AS counted FROM (
                SELECT 1 FROM jobs AS one
                WHERE one.org_id = org AND one.status = ended.status AND one.finished_at IS NOT NULL LIMIT most) AS newest_few) AS few;
END $$;

-- All jobs in a state, where they are no more than so many: then they need not be looked for among the others.
CREATE FUNCTION read_few(org text, state text, most integer) RETURNS text[] LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    found text[];
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    IF state IN ('completed', 'failed', 'canceled') THEN
        found := ARRAY(
            SELECT one.job_id FROM jobs AS one
            WHERE one.org_id = org AND one.status = state AND one.finished_at IS NOT NULL LIMIT most + 1);
    ELSIF state = 'queued' THEN
        found := ARRAY(
            SELECT one.job_id FROM lanes AS lane
            CROSS JOIN LATERAL (VALUES ('expedite', lane.expedite_head), ('default', lane.default_head)) AS class (name, head)
            CROSS JOIN LATERAL (
                SELECT waiting.job_id FROM jobs AS waiting
                WHERE waiting.org_id = org AND waiting.analysis = lane.analysis AND waiting.priority_class = class.name
                  AND waiting.ticket > class.head AND waiting.started_at IS NULL AND waiting.finished_at IS NULL
                LIMIT most + 1) AS one
            WHERE lane.org_id = org AND lane.waiting > 0 LIMIT most + 1);
    ELSE
        -- Those that run and those that have shown something are few together, or are not known to be.
        IF (SELECT count(*) FROM read_started(org, most + 1)) > most THEN
            RETURN NULL;
        END IF;
        found := ARRAY(SELECT one.job_id FROM read_started(org, most) AS one WHERE one.status = state);
    END IF;
    RETURN CASE WHEN cardinality(found) <= most THEN found END;
END $$;

-- One look: so many jobs before a position, those of them that fit, and where the look ended unless nothing is behind. `few`
-- are the jobs to look among, where they are known; else it looks along the failed ones or along all.
CREATE FUNCTION read_jobs(
    org text, few text[], state text, name text, code text, words text, largest integer, since bigint,
    before_at bigint, before_id text, walk integer, most integer
) RETURNS TABLE (views job_views[], end_at bigint, end_id text) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    ids text[];
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    IF few IS NOT NULL THEN
        ids := ARRAY(
            SELECT input.job_id FROM unnest(few) AS wanted (job_id) CROSS JOIN LATERAL (
                SELECT one.job_id, one.queued_at FROM job_inputs AS one
                WHERE one.org_id = org AND one.job_id = wanted.job_id OFFSET 0) AS input
            WHERE input.queued_at >= since AND (input.queued_at, input.job_id) < (before_at, before_id)
            ORDER BY input.queued_at DESC, input.job_id DESC);
    ELSIF state = 'failed' THEN
        ids := ARRAY(
            SELECT one.job_id FROM jobs AS one
            WHERE one.org_id = org AND one.failed_at IS NOT NULL AND one.queued_at >= since
              AND (one.queued_at, one.job_id) < (before_at, before_id)
            ORDER BY one.queued_at DESC, one.job_id DESC LIMIT walk);
    ELSE
        ids := ARRAY(
            SELECT input.job_id FROM job_inputs AS input
            WHERE input.org_id = org AND input.queued_at > 0 AND input.queued_at >= since
              AND (input.queued_at, input.job_id) < (before_at, before_id)
            ORDER BY input.queued_at DESC, input.job_id DESC LIMIT walk);
    END IF;
    views := ARRAY(
        SELECT fitting.view FROM unnest(ids) WITH ORDINALITY AS walked (job_id, place)
        CROSS JOIN LATERAL (
            SELECT one AS view FROM job_views AS one
            WHERE one.org_id = org AND one.job_id = walked.job_id
              AND (state IS NULL OR one.status = state) AND (name IS NULL OR one.analysis = name)
              AND (code IS NULL OR one.error_code = code)
              AND (words IS NULL
                OR strpos(lower(one.job_id), words) > 0 OR strpos(lower(one.analysis), words) > 0
                OR strpos(lower(one.step COLLATE "C"), words) > 0
                OR strpos(lower(one.error_code COLLATE "C"), words) > 0
                OR strpos(lower(one.error_message COLLATE "C"), words) > 0
                OR EXISTS (
                    SELECT 1 FROM job_inputs AS input WHERE input.org_id = org AND input.job_id = walked.job_id
                      AND CASE WHEN octet_length(input.payload) <= largest
                          THEN strpos(lower(input.payload COLLATE "C"), words) > 0 END))
            OFFSET 0) AS fitting
        ORDER BY walked.place LIMIT most);
    IF few IS NULL AND cardinality(ids) = walk THEN
        SELECT input.queued_at, input.job_id INTO end_at, end_id FROM job_inputs AS input
        WHERE input.org_id = org AND input.job_id = ids[walk];
    END IF;
    RETURN NEXT;
END $$;

-- Failed jobs, newest first, and whether somebody had them run again.
CREATE FUNCTION read_failures(org text, since bigint, before_at bigint, before_id text, longest integer, most integer)
RETURNS TABLE (job_id text, analysis text, error_code text, error_message text, queued_at bigint, failed_at bigint, repeated boolean)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT one.job_id, one.analysis, one.error_code, left(one.error_message, longest), one.queued_at, one.failed_at,
            EXISTS (SELECT FROM jobs AS again WHERE again.retry_of = one.job_id AND again.org_id = org)
        FROM jobs AS one
        WHERE one.org_id = org AND one.failed_at IS NOT NULL AND one.queued_at >= since
          AND (one.queued_at, one.job_id) < (before_at, before_id)
        ORDER BY one.queued_at DESC, one.job_id DESC LIMIT most;
END $$;

-- Some lines of an org's history and how many there are. Jobs that work and have a snapshot are few and in no index: they are
-- put among the ended ones, of which that many more are read, from whichever end is nearer.
CREATE FUNCTION read_history(org text, skipped bigint, most integer)
RETURNS TABLE (entries history_entry[], counted bigint) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    ids text[];
    from_place bigint;
    wanted bigint;
    ended bigint;
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    ids := ARRAY(SELECT one.job_id FROM read_started(org, 100000) AS one WHERE one.status = 'partial');
    from_place := greatest(0, skipped - cardinality(ids));
    wanted := skipped - from_place + most;
    SELECT count(*) INTO ended FROM jobs AS one
    WHERE one.org_id = org AND one.queued_at > 0
      AND one.finished_at IS NOT NULL AND one.result_id IS NOT NULL AND one.result_expired_at IS NULL;
    counted := ended + cardinality(ids);
    IF from_place <= ended / 2 THEN
        ids := ids || ARRAY(
            SELECT one.job_id FROM jobs AS one
            WHERE one.org_id = org AND one.queued_at > 0
              AND one.finished_at IS NOT NULL AND one.result_id IS NOT NULL AND one.result_expired_at IS NULL
            ORDER BY one.queued_at DESC, one.job_id DESC OFFSET from_place LIMIT wanted);
    ELSE
        ids := ids || ARRAY(
            SELECT one.job_id FROM jobs AS one
            WHERE one.org_id = org AND one.queued_at > 0
              AND one.finished_at IS NOT NULL AND one.result_id IS NOT NULL AND one.result_expired_at IS NULL
            ORDER BY one.queued_at, one.job_id
            OFFSET greatest(0, ended - from_place - wanted) LIMIT greatest(0, least(wanted, ended - from_place)));
    END IF;
    entries := ARRAY(
        SELECT line.entry FROM (
            SELECT input.job_id, input.queued_at, input.payload FROM unnest(ids) AS shown (job_id) CROSS JOIN LATERAL (
                SELECT one.job_id, one.queued_at, one.payload FROM job_inputs AS one
                WHERE one.org_id = org AND one.job_id = shown.job_id OFFSET 0) AS input
            ORDER BY input.queued_at DESC, input.job_id DESC OFFSET skipped - from_place LIMIT most) AS page
        CROSS JOIN LATERAL (
            SELECT ROW(one.result_id, one.job_id,
                (SELECT shown.created_at FROM job_results AS shown WHERE shown.org_id = org AND shown.result_id = one.result_id),
                one.status, page.payload)::history_entry AS entry
            FROM jobs AS one WHERE one.org_id = org AND one.job_id = page.job_id OFFSET 0) AS line
        ORDER BY page.queued_at DESC, page.job_id DESC);
    RETURN NEXT;
END $$;

-- Messages for people, newest first, each with its job and whether nobody has seen it.
CREATE FUNCTION read_inbox(org text, before_at bigint, before_id text, most integer)
RETURNS TABLE (message notifications, view job_views, unread boolean) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    seen_until bigint;
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    SELECT mark.read_until INTO seen_until FROM inbox_marks AS mark WHERE mark.org_id = org;
    RETURN QUERY
        SELECT kept.message, told.view, newest_few.read_at IS NULL AND newest_few.created_at > coalesce(seen_until, 0)
        FROM (
            SELECT * FROM notifications AS newest
            WHERE newest.org_id = org AND newest.channel = 'in_app'
              AND (newest.created_at, newest.notification_id) < (before_at, before_id)
            ORDER BY newest.created_at DESC, newest.notification_id DESC LIMIT most) AS newest_few
        CROSS JOIN LATERAL (
            SELECT same AS message FROM notifications AS same
            WHERE same.notification_id = newest_few.notification_id AND same.org_id = org OFFSET 0) AS kept
        CROSS JOIN LATERAL (
            SELECT found AS view FROM job_views AS found WHERE found.org_id = org AND found.job_id = newest_few.job_id OFFSET 0) AS told
        ORDER BY newest_few.created_at DESC, newest_few.notification_id DESC;
END $$;

-- Among the newest so many, down to where all are seen.
CREATE FUNCTION read_unread(org text, walk integer) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    seen_until bigint;
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    SELECT mark.read_until INTO seen_until FROM inbox_marks AS mark WHERE mark.org_id = org;
    RETURN (
        SELECT count(*) FROM (
            SELECT one.read_at FROM notifications AS one
            WHERE one.org_id = org AND one.channel = 'in_app' AND one.created_at > coalesce(seen_until, 0)
            ORDER BY one.created_at DESC, one.notification_id DESC LIMIT walk) AS newest
        WHERE newest.read_at IS NULL);
END $$;

-- Remembers that one message was seen, or all up to an instant that has passed. Only ever later.
CREATE FUNCTION mark_read(at bigint, org text, message text, until bigint) RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now CONSTANT bigint := moment(at);
    changed integer := 0;
    more integer;
BEGIN
    UPDATE notifications SET read_at = now
    WHERE org_id = org AND notification_id = message AND channel = 'in_app' AND read_at IS NULL;
    GET DIAGNOSTICS changed = ROW_COUNT;
    INSERT INTO inbox_marks AS mark (org_id, read_until)
    SELECT org, least(until, now)
    WHERE until IS NOT NULL AND EXISTS (SELECT FROM notifications AS one WHERE one.org_id = org AND one.channel = 'in_app')
    ON CONFLICT (org_id) DO UPDATE SET read_until = excluded.read_until WHERE excluded.read_until > mark.read_until;
    GET DIAGNOSTICS more = ROW_COUNT;
    RETURN changed + more > 0;
END $$;

SELECT plan_with(
    '{read_started, read_counts, read_few, read_jobs, read_failures, read_history, read_inbox, read_unread, mark_read}',
    'SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');
