-- The feed: the events of an org in an order in which a reader misses none, although transactions commit in any order.
--
-- The mark of an event is the newest transaction known to have ended, or its own if that is newer. So
--   * an uncommitted event has the mark of its transaction or a later one: a reader that stops at the oldest open transaction
--     misses none;
--   * an event that follows a committed one, such as the next of the same job, has the same mark or a later one, even if its
--     transaction began earlier and waited.
-- Copied and imported events have no mark: they come first, by time.

-- The mark of events written now, from a fresh snapshot: the writing statement may have waited for a transaction. A statement
-- that changes jobs calls it once, after all changes.
CREATE OR REPLACE FUNCTION feed_mark() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN greatest(pg_current_xact_id()::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1);
END $$;

CREATE OR REPLACE FUNCTION read_feed_home() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT to_hex(control.system_identifier) || '-' || (SELECT oid FROM pg_database WHERE datname = current_database())
    FROM pg_control_system() AS control
$$;

GRANT EXECUTE ON FUNCTION read_feed_home() TO langlauf_engine;

INSERT INTO feed_home (only_row, home) VALUES (1, read_feed_home()) ON CONFLICT DO NOTHING;

-- When a store is opened: clears marks counted by another database, so that those events come by time. No host writes before
-- the store is open.
CREATE OR REPLACE FUNCTION clear_foreign_marks() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    moved bigint;
BEGIN
    IF EXISTS (SELECT FROM feed_home WHERE home = read_feed_home()) THEN
        RETURN 0;
    END IF;
    -- Another host may have done it while this one waited for the row.
    UPDATE feed_home SET home = read_feed_home() WHERE home <> read_feed_home();
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    UPDATE event_rows SET feed_mark = NULL WHERE feed_mark IS NOT NULL;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END $$;

-- The identity of a database and its timeline: a server restored to an earlier state, or replaced by a lagging standby,
-- continues in another timeline and issues the same marks again.
CREATE OR REPLACE FUNCTION read_feed_life() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT read_feed_home() || '-' || timeline_id FROM pg_control_checkpoint()
$$;

-- The events behind a place, scanning at most `walk` and returning at most `most` of the wanted kinds, where the scan ended,
-- and the results of failed jobs. A place of another database only has a usable time: unmarked events are read from a while
-- before it, and marked ones, all younger, from the first. A place of another timeline, or of future transactions, may be
-- behind a loss: marks are read from a while before its time.
CREATE OR REPLACE FUNCTION read_feed(
    org text, place_life text, place_mark bigint, place_at bigint, place_job text, place_seq integer, kinds text[], walk integer,
    most integer, overlap bigint
) RETURNS TABLE (
    life text, events job_events[], results text[], end_mark bigint, end_at bigint, end_job text, end_seq integer, more boolean, held boolean
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    open_from CONSTANT bigint := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
    one job_events;
    looked_at integer := 0;
    unmarked_first boolean;
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    life := read_feed_life();
    events := '{}';
    results := '{}';
    more := false;
    IF place_life <> life OR place_mark > pg_snapshot_xmax(pg_current_snapshot())::text::bigint THEN
        IF place_mark > 0 AND split_part(place_life, '-', 1) || '-' || split_part(place_life, '-', 2) = read_feed_home() THEN
            place_mark := coalesce(read_feed_mark(org, place_at - overlap), open_from);
        ELSE
            place_mark := 0;
        END IF;
        place_at := place_at - overlap;
        place_job := '';
        place_seq := 0;
    END IF;
    unmarked_first := place_mark = 0;
    FOR one IN
        -- An append runs its parts in order, the second only if the first was not enough.
        SELECT * FROM (
            SELECT * FROM job_events AS event
            WHERE unmarked_first AND event.org_id = org AND event.feed_mark IS NULL
              AND event.event_type IN ('job.queued', 'job.running', 'job.partial', 'job.completed', 'job.failed', 'job.canceled')
              AND (event.occurred_at, event.job, event.event_seq) > (place_at, key_of(place_job), place_seq)
            ORDER BY event.occurred_at, event.job, event.event_seq LIMIT walk) AS unmarked
        UNION ALL
        SELECT * FROM (
            SELECT * FROM job_events AS event
            WHERE event.org_id = org AND event.feed_mark >= place_mark AND event.feed_mark < open_from
              AND (event.feed_mark, event.job, event.event_seq) > (place_mark,
                CASE WHEN unmarked_first THEN key_of('') ELSE key_of(place_job) END,
                CASE WHEN unmarked_first THEN 0 ELSE place_seq END)
            ORDER BY event.feed_mark, event.job, event.event_seq LIMIT walk) AS marked
        LIMIT walk
    LOOP
        looked_at := looked_at + 1;
        end_mark := coalesce(one.feed_mark, 0);
        end_at := one.occurred_at;
        end_job := one.job_id;
        end_seq := one.event_seq;
        IF one.event_type = ANY (kinds) THEN
            events := events || one;
            results := array_append(results, CASE one.event_type WHEN 'job.failed' THEN (
                SELECT job.result_id::text FROM jobs AS job WHERE job.org_id = org AND job.job = one.job) END);
        END IF;
        more := looked_at = walk OR cardinality(events) = most;
        EXIT WHEN more;
    END LOOP;
    held := NOT more AND EXISTS (
        SELECT FROM job_events AS event WHERE event.org_id = org AND event.feed_mark >= open_from LIMIT 1);
    RETURN NEXT;
END $$;

-- The first mark of an org that may have events of that time or later: transactions write within seconds, and `since` is
-- earlier by more than that. Beyond 20,000 events it is the first of all.
CREATE OR REPLACE FUNCTION read_feed_mark(org text, since bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    far CONSTANT integer := 20000;
    looked_at integer := 0;
    first bigint;
    one record;
BEGIN
    FOR one IN
        SELECT event.feed_mark, event.occurred_at FROM job_events AS event
        WHERE event.org_id = org AND event.feed_mark IS NOT NULL ORDER BY event.feed_mark DESC LIMIT far
    LOOP
        IF one.occurred_at < since THEN
            RETURN first;
        END IF;
        looked_at := looked_at + 1;
        first := one.feed_mark;
    END LOOP;
    RETURN CASE WHEN looked_at = far THEN 1 ELSE first END;
END $$;

-- The end of the feed: open transactions come behind it.
-- query: read_feed_end() RETURNS TABLE (life text, mark bigint, at bigint)
SELECT read_feed_life(), pg_snapshot_xmin(pg_current_snapshot())::text::bigint, moment(NULL);
