-- Claims and lease renewals.
--
-- Claims lock the virtual clock first, then lanes in the order of their names: limits hold over all hosts, without deadlocks. A
-- claim waits once, for all lanes that it needs first; further lanes are skipped while another transaction holds them, which
-- will wake workers. Locked job rows, such as those being canceled, are skipped. A claim that joins a submission comes when the
-- lanes of that are locked, and waits for no others: it would lock them out of order.
--
-- Lost and released jobs go first and cost no turn. A due retry costs a turn like a start: it goes before the waiting jobs of
-- its org, at the org's turn.

-- Computes the free slots of a claim. Leases are counted incrementally; they are read one by one only once one may have
-- expired, as only live ones count against a limit, or if orgs have a limit. An expired lease that is not swept yet keeps its
-- slot for a while (`lost_orgs`, `lost_names`).
CREATE OR REPLACE FUNCTION free_slots(
    free claim_state, now bigint, slots integer, known text[], lease_time bigint, most integer, limited text[], limits integer[],
    org_limit integer
) RETURNS claim_state LANGUAGE plpgsql AS $$
DECLARE
    live bigint;
    busy_names text[];
    busy_counts bigint[];
BEGIN
    free.org_limit := org_limit;
    free.held := '{}';
    free.lost_orgs := '{}';
    IF org_limit IS NULL AND coalesce(free.look_at > now, true) THEN
        SELECT coalesce(sum(leased), 0), array_agg(analysis), array_agg(leased) INTO live, busy_names, busy_counts
        FROM (SELECT analysis, sum(leased) AS leased FROM waiting_counts GROUP BY analysis) AS counted;
    ELSE
        WITH lease AS MATERIALIZED (
            SELECT org_id, analysis, lease_expires_at, cancel_requested_at FROM job_rows WHERE deadline_at > 0),
        by_name AS (SELECT analysis, count(*) AS leased FROM lease WHERE lease_expires_at > now GROUP BY analysis),
        by_org AS (SELECT org_id, count(*)::integer AS leased FROM lease WHERE lease_expires_at > now GROUP BY org_id),
        lost AS (
            SELECT org_id, analysis FROM lease
            WHERE lease_expires_at <= now AND lease_expires_at > now - lease_time AND cancel_requested_at IS NULL)
        SELECT (SELECT coalesce(sum(leased), 0) FROM by_name),
            (SELECT array_agg(analysis) FROM by_name), (SELECT array_agg(leased) FROM by_name),
            (SELECT array_agg(org_id) FROM by_org), (SELECT array_agg(leased) FROM by_org),
            (SELECT coalesce(array_agg(org_id), '{}') FROM lost), (SELECT coalesce(array_agg(analysis), '{}') FROM lost),
            (SELECT min(lease_expires_at) FROM lease)
        INTO live, busy_names, busy_counts, free.orgs, free.org_counts, free.lost_orgs, free.lost_names, free.look_at;
        UPDATE lane_clock SET look_at = free.look_at WHERE look_at IS DISTINCT FROM free.look_at;
    END IF;
    free.slots := least(slots, most - live);
    IF cardinality(limited) = 0 THEN
        free.names := known;
        free.rooms := array_fill(NULL::integer, ARRAY[cardinality(known)]);
    ELSE
        SELECT array_agg(name), array_agg(most_of - coalesce(running, 0)) INTO free.names, free.rooms
        FROM unnest(known) AS wanted (name)
        LEFT JOIN unnest(limited, limits) AS given (name, most_of) USING (name)
        LEFT JOIN unnest(busy_names, busy_counts) AS busy (name, running) USING (name);
    END IF;
    RETURN free;
END $$;

-- Subtracts the slots that jobs of these lanes take.
CREATE OR REPLACE FUNCTION slots_after(free claim_state, taken_orgs text[], taken_names text[]) RETURNS claim_state LANGUAGE plpgsql AS $$
BEGIN
    free.slots := free.slots - cardinality(taken_orgs);
    IF num_nonnulls(VARIADIC free.rooms) > 0 THEN
        SELECT array_agg(name ORDER BY place), array_agg(room - coalesce(taken, 0) ORDER BY place) INTO free.names, free.rooms
        FROM unnest(free.names, free.rooms) WITH ORDINALITY AS mine (name, room, place)
        LEFT JOIN (SELECT name, count(*) AS taken FROM unnest(taken_names) AS one (name) GROUP BY name) AS used USING (name);
    END IF;
    IF free.org_limit IS NOT NULL THEN
        SELECT array_agg(org_id), array_agg(running) INTO free.orgs, free.org_counts
        FROM (SELECT org_id, sum(running)::integer AS running
              FROM (SELECT * FROM unnest(free.orgs, free.org_counts) AS before (org_id, running)
                    UNION ALL SELECT org_id, 1 FROM unnest(taken_orgs) AS new (org_id)) AS both_
              GROUP BY org_id) AS busy;
    END IF;
    RETURN free;
END $$;

-- The orgs at their limit.
CREATE OR REPLACE FUNCTION full_orgs(free claim_state) RETURNS text[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF free.org_limit IS NULL THEN
        RETURN '{}';
    END IF;
    RETURN (
        SELECT coalesce(array_agg(org_id), '{}') FROM unnest(free.orgs, free.org_counts) AS busy (org_id, running)
        WHERE running >= free.org_limit);
END $$;

-- Locks the lanes of all orgs that a claim reads first. A claim that has joined a submission gets nothing where it would have to
-- wait for one of them, and neither a turn nor a time is passed over: the next claim waits for it.
CREATE OR REPLACE FUNCTION lock_first_lanes(free claim_state, now bigint, joined boolean) RETURNS claim_state LANGUAGE plpgsql AS $$
DECLARE
    full_ones text[] := full_orgs(free);
    wanted text[];
BEGIN
    SELECT coalesce(array_agg(DISTINCT org_id), '{}'), coalesce(bool_or(kind = 0), false), coalesce(bool_or(kind = 1), false)
    INTO free.held, free.backs, free.dues
    FROM unnest(free.names, free.rooms) AS mine (name, room)
    CROSS JOIN LATERAL (
        (SELECT org_id, 0 AS kind FROM lanes
         WHERE analysis = mine.name AND back_at <= now AND org_id <> ALL (full_ones)
           AND (free.paused IS NULL OR org_id || ' ' || analysis <> ALL (free.paused))
         ORDER BY back_at, org_id LIMIT free.slots)
        UNION ALL
        (SELECT org_id, 1 FROM lanes
         WHERE analysis = mine.name AND due_at <= now AND org_id <> ALL (full_ones)
           AND (free.paused IS NULL OR org_id || ' ' || analysis <> ALL (free.paused))
         ORDER BY due_at, org_id LIMIT free.slots)
        UNION ALL
        -- Those whose jobs are too late may have nothing to give.
        (SELECT org_id, 2 FROM lanes
         WHERE analysis = mine.name AND waiting > 0 AND org_id <> ALL (full_ones)
           AND (free.paused IS NULL OR org_id || ' ' || analysis <> ALL (free.paused))
         ORDER BY virtual_start, served, org_id LIMIT free.slots + cardinality(free.timed))) AS next
    WHERE coalesce(mine.room, free.slots) > 0;
    free.held := free.held || free.timed;
    IF joined THEN
        wanted := free.held;
        free.held := '{}';
        free := lock_more_lanes(free, wanted);
        IF NOT wanted <@ free.held THEN
            free.held := '{}';
            free.timed := '{}';
        END IF;
    ELSIF cardinality(free.held) > 0 THEN
        PERFORM lock_orgs(free.held);
    END IF;
    RETURN free;
END $$;

-- The orgs with jobs whose time has come, or that should have started by now.
CREATE OR REPLACE FUNCTION timed_orgs(now bigint) RETURNS text[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        (SELECT org_id FROM lanes WHERE next_run_at <= now ORDER BY next_run_at LIMIT 100)
        UNION
        (SELECT org_id FROM job_rows
         WHERE start_by > 0 AND start_by <= now AND started_at IS NULL AND finished_at IS NULL ORDER BY start_by LIMIT 100));
END $$;

-- Cancels jobs of locked orgs that should have started by now, and lets into the line what may start. Locked jobs are skipped.
-- Returns the jobs that were canceled, with attempt 0.
CREATE OR REPLACE FUNCTION settle_times(now bigint, org_ids text[]) RETURNS SETOF claimed LANGUAGE plpgsql AS $$
DECLARE
    ends attempt_write[];
    places integer[];
BEGIN
    SELECT array_agg(jsonb_populate_record(NULL::attempt_write, jsonb_build_object(
        'place', place, 'org_id', org_id, 'job', job, 'attempt', 0, 'kind', 'canceled', 'actor', 'system', 'unfenced', true,
        'unleased', true, 'canceled_by', 'system', 'reason', 'too_late')))
    INTO ends
    FROM (SELECT late.org_id, late.job, row_number() OVER () AS place
          FROM (SELECT org_id, job FROM job_rows AS jobs
                WHERE start_by > 0 AND start_by <= now AND started_at IS NULL AND finished_at IS NULL AND org_id = ANY (org_ids)
                ORDER BY start_by LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED) AS late) AS numbered;
    IF ends IS NOT NULL THEN
        places := write_ends(now, ends, '{}');
        RETURN QUERY SELECT job.org_id, job.job_id, 0, job.analysis, NULL::text, now, now, 0.0::float8, 0, 0, 0, ''::text, ''::text,
            NULL::text, NULL::text, NULL::bigint
        FROM unnest(ends) AS one JOIN jobs AS job ON job.job = one.job WHERE one.place = ANY (places);
    END IF;
    PERFORM enter_line(now, org_ids, 100);
END $$;

-- Does what is due without a claim: all slots may be taken, or no worker may be there.
CREATE OR REPLACE FUNCTION sweep_times(at bigint) RETURNS TABLE (org_id text, job_id text, outcome text) LANGUAGE plpgsql AS $$
DECLARE
    now bigint := moment(at);
    org_ids text[] := timed_orgs(now);
BEGIN
    IF cardinality(org_ids) > 0 THEN
        PERFORM lock_orgs(org_ids);
        RETURN QUERY SELECT one.org_id, one.job_id, 'canceled'::text FROM settle_times(now, org_ids) AS one;
    END IF;
END $$;

-- The next time after now at which a job may start, or is too late.
-- query: next_start(now bigint) RETURNS bigint
SELECT least(
    (SELECT next_run_at FROM lanes WHERE next_run_at > now ORDER BY next_run_at LIMIT 1),
    (SELECT start_by FROM job_rows WHERE start_by > now AND started_at IS NULL AND finished_at IS NULL ORDER BY start_by LIMIT 1),
    (SELECT min(first.due_at) FROM (SELECT DISTINCT analysis FROM waiting_counts) AS known CROSS JOIN LATERAL (
        SELECT due_at FROM lanes WHERE lanes.analysis = known.analysis AND due_at > now ORDER BY due_at LIMIT 1) AS first));

-- Locks the lanes of further orgs, skipping orgs with a lane that is locked.
CREATE OR REPLACE FUNCTION lock_more_lanes(free claim_state, wanted text[]) RETURNS claim_state LANGUAGE plpgsql AS $$
BEGIN
    IF wanted <@ free.held THEN
        RETURN free;
    END IF;
    WITH got AS MATERIALIZED (
        SELECT org_id FROM lanes WHERE org_id = ANY (wanted) AND org_id <> ALL (free.held)
        ORDER BY org_id, analysis FOR UPDATE SKIP LOCKED)
    SELECT free.held || coalesce(array_agg(org_id), '{}') INTO free.held
    FROM (SELECT org_id, count(*) AS locked FROM got GROUP BY org_id) AS mine
    WHERE locked = (SELECT count(*) FROM lanes WHERE lanes.org_id = mine.org_id);
    RETURN free;
END $$;

-- Which jobs, in the order of their turns, fit into the limits.
CREATE OR REPLACE FUNCTION within_limits(free claim_state, org_ids text[], names text[]) RETURNS boolean[] LANGUAGE plpgsql AS $$
BEGIN
    IF free.org_limit IS NULL AND num_nonnulls(VARIADIC free.rooms) = 0 THEN
        RETURN array_fill(true, ARRAY[least(free.slots, cardinality(org_ids))])
            || array_fill(false, ARRAY[greatest(0, cardinality(org_ids) - free.slots)]);
    END IF;
    RETURN (
        WITH ranked AS (
            SELECT place, rooms.room, free.org_limit - coalesce(busy.running, 0) AS org_room,
                row_number() OVER (PARTITION BY wish.name ORDER BY place) AS in_analysis,
                row_number() OVER (PARTITION BY wish.org_id ORDER BY place) AS in_org
            FROM unnest(org_ids, names) WITH ORDINALITY AS wish (org_id, name, place)
            JOIN unnest(free.names, free.rooms) AS rooms (name, room) USING (name)
            LEFT JOIN unnest(free.orgs, free.org_counts) AS busy (org_id, running) USING (org_id)),
        fit AS (
            SELECT place, in_analysis <= coalesce(room, free.slots) AND in_org <= coalesce(org_room, free.slots) AS may FROM ranked)
        SELECT array_agg(may AND before < free.slots ORDER BY place)
        FROM (SELECT place, may, count(*) FILTER (WHERE may) OVER (ORDER BY place) - may::integer AS before FROM fit) AS counted);
END $$;

-- Starts attempts of chosen jobs. The attempt number is the fencing token and grows only here. An attempt that starts with
-- progress of an earlier one has no pace until it exceeds it. The time is read after the locks are taken: no job starts before
-- it was accepted.
CREATE OR REPLACE FUNCTION start_attempts(
    free claim_state, at bigint, claim uuid, worker text, lease_time bigint, job_ids uuid[]
) RETURNS claimed[] LANGUAGE plpgsql AS $$
DECLARE
    now bigint := moment(at);
    made claimed[];
    org_ids text[];
    seqs integer[];
BEGIN
    WITH started AS (
        UPDATE job_rows AS jobs SET
            status = CASE status WHEN 'queued' THEN 'running' ELSE status END,
            started_at = coalesce(started_at, now),
            attempt_started_at = now,
            attempt = attempt + 1,
            paced_percent = progress_percent,
            paced_at = CASE progress_percent WHEN 0 THEN now END,
            progress_at = CASE progress_percent WHEN 0 THEN now END,
            next_attempt_at = NULL,
            worker_id = worker,
            lease_expires_at = now + lease_time,
            deadline_at = now + attempt_time(timeout_seconds),
            claim_id = claim,
            reusable = CASE WHEN attempt = 0 OR code IS NOT DISTINCT FROM free.codes[array_position(free.coded, analysis)] THEN reusable END,
            code = free.codes[array_position(free.coded, analysis)],
            event_seq = event_seq + 1,
            updated_at = now
        FROM unnest(job_ids) WITH ORDINALITY AS chosen (job, place)
        WHERE jobs.job = chosen.job
          AND ((status = 'queued' AND ticket >= 0) OR (status IN ('running', 'partial') AND next_attempt_at <= now))
        RETURNING chosen.place, jobs.org_id, jobs.job, jobs.job_name, jobs.attempt, jobs.analysis, jobs.event_seq, lease_expires_at,
            timeout_seconds, progress_percent, retry_count, max_retries, trace, trace_name, request, request_name, traceparent, tracestate,
            planned_at),
    written_events AS (
        INSERT INTO event_rows (org_id, job, event_seq, event_id, event_type, occurred_at, actor_type, payload_json, feed_mark)
        SELECT org_id, job, event_seq, new_event_id(job_name),
            CASE attempt WHEN 1 THEN 'job.running' ELSE 'job.attempt_started' END, now, NULL,
            CASE WHEN attempt > 1 THEN '{"attempt":' || attempt || '}' END,
            CASE attempt WHEN 1 THEN (SELECT feed_mark()) END
        FROM started)
    SELECT array_agg(ROW(
            org_id, coalesce(job_name, job::text), attempt, analysis,
            (SELECT first.input FROM event_rows AS first WHERE first.job = started.job AND first.event_seq = 1), now, lease_expires_at, timeout_seconds, progress_percent, retry_count,
            max_retries, coalesce(trace_name, replace(trace::text, '-', '')), coalesce(request_name, request::text), traceparent,
            tracestate, planned_at)::claimed ORDER BY place),
        array_agg(org_id ORDER BY place), array_agg(event_seq ORDER BY place)
    INTO made, org_ids, seqs FROM started;
    IF coalesce(free.look_at > now + lease_time, true) THEN
        UPDATE lane_clock SET look_at = now + lease_time WHERE look_at IS NULL OR look_at > now + lease_time;
    END IF;
    PERFORM insert_messages(org_ids, job_ids, seqs);
    RETURN made;
END $$;

-- Claims lost and released jobs, the oldest first; sets whether another pass may find more.
CREATE OR REPLACE FUNCTION claim_back(free claim_state, at bigint, now bigint, claim uuid, worker text, lease_time bigint) RETURNS claim_state
LANGUAGE plpgsql AS $$
DECLARE
    lane_orgs text[];
    lane_names text[];
    orgs text[];
    names text[];
    ids uuid[];
    fit boolean[];
    corrected bigint;
BEGIN
    free.again := false;
    SELECT array_agg(org_id), array_agg(analysis) INTO lane_orgs, lane_names
    FROM unnest(free.names, free.rooms) AS mine (name, room)
    CROSS JOIN LATERAL (
        SELECT org_id, analysis FROM lanes
        WHERE analysis = mine.name AND back_at <= now AND org_id <> ALL (full_orgs(free))
          AND (free.paused IS NULL OR org_id || ' ' || analysis <> ALL (free.paused))
        ORDER BY back_at, org_id LIMIT free.slots) AS back
    WHERE coalesce(mine.room, free.slots) > 0;
    IF lane_orgs IS NULL THEN
        RETURN free;
    END IF;
    free := lock_more_lanes(free, lane_orgs);
    SELECT array_agg(org_id), array_agg(analysis) INTO lane_orgs, lane_names
    FROM unnest(lane_orgs, lane_names) AS back (org_id, analysis) WHERE org_id = ANY (free.held);
    IF lane_orgs IS NULL THEN
        RETURN free;
    END IF;
    SELECT array_agg(org_id), array_agg(analysis), array_agg(job) INTO orgs, names, ids FROM (
        SELECT one.org_id, one.analysis, one.job FROM unnest(lane_orgs, lane_names) AS lane (org_id, analysis)
        CROSS JOIN LATERAL (
            SELECT org_id, analysis, job, next_attempt_at FROM job_rows AS jobs
            WHERE jobs.org_id = lane.org_id AND jobs.analysis = lane.analysis
              AND coalesce(last_retry_at >= attempt_started_at, false)::integer = 0 AND next_attempt_at <= now
            ORDER BY next_attempt_at LIMIT free.slots FOR UPDATE SKIP LOCKED) AS one
        ORDER BY one.next_attempt_at, one.job) AS back;
    IF ids IS NOT NULL THEN
        fit := within_limits(free, orgs, names);
        SELECT array_agg(org_id), array_agg(name), array_agg(job) INTO orgs, names, ids
        FROM unnest(orgs, names, ids, fit) AS back (org_id, name, job, may) WHERE may;
    END IF;
    IF ids IS NOT NULL THEN
        free.claims := free.claims || start_attempts(free, at, claim, worker, lease_time, ids);
        PERFORM count_jobs(
            names, array_fill(0::bigint, ARRAY[cardinality(ids)]), array_fill(1::bigint, ARRAY[cardinality(ids)]));
        free := slots_after(free, orgs, names);
    END IF;
    -- The due time of a lane is too early if its first job was canceled: correct it and look again.
    corrected := correct_due(lane_orgs, lane_names);
    free.again := free.slots > 0 AND (ids IS NOT NULL OR corrected > 0);
    RETURN free;
END $$;

-- The number of due retries of a lane, up to `most`.
-- query: retries_due(org text, name text, now bigint, most integer) RETURNS integer
SELECT count(*) FROM (
    SELECT 1 FROM job_rows AS jobs
    WHERE jobs.org_id = org AND jobs.analysis = name AND coalesce(last_retry_at >= attempt_started_at, false)::integer = 1
      AND next_attempt_at <= now LIMIT most) AS few;

-- The orgs with the next turns in their order, with their turn and how many of their jobs may start: waiting jobs and due
-- retries. An org that was over its limit continues from the virtual clock, like an idle one. If more may start than there are
-- slots, the slots are dealt out.
CREATE OR REPLACE FUNCTION deal_turns(
    free claim_state, now bigint, candidates text[], OUT orgs text[], OUT turns bigint[], OUT starts integer[]
) LANGUAGE plpgsql AS $$
DECLARE
    clock CONSTANT bigint := free.clock;
    lowest bigint;
    highest bigint;
    level bigint;
    wanted bigint;
BEGIN
    WITH supply AS (
        SELECT lane.org_id, lane.virtual_start, lane.served, least(
            lane.waiting + CASE WHEN lane.due_at <= now THEN retries_due(lane.org_id, lane.analysis, now, free.slots) ELSE 0 END,
            room.room, free.slots) AS jobs
        FROM lanes AS lane JOIN unnest(free.names, free.rooms) AS room (name, room) ON room.name = lane.analysis
        WHERE lane.org_id = ANY (candidates) AND lane.org_id = ANY (free.held) AND coalesce(room.room, free.slots) > 0
          AND (free.paused IS NULL OR lane.org_id || ' ' || lane.analysis <> ALL (free.paused))),
    mine AS (
        SELECT supply.org_id, max(virtual_start) AS stood_at, max(served) AS served,
            least(sum(jobs), free.org_limit - coalesce(max(busy.running), 0), free.slots)::integer AS jobs
        FROM supply LEFT JOIN unnest(free.orgs, free.org_counts) AS busy (org_id, running) USING (org_id)
        GROUP BY supply.org_id)
    SELECT array_agg(org_id ORDER BY rank), array_agg(turn ORDER BY rank), array_agg(jobs ORDER BY rank), min(turn),
        max(turn + jobs), sum(jobs)
    INTO orgs, turns, starts, lowest, highest, wanted
    FROM (SELECT org_id, greatest(stood_at, clock) AS turn, jobs,
              row_number() OVER (ORDER BY greatest(stood_at, clock), stood_at, served, org_id) AS rank
          FROM mine WHERE jobs > 0) AS ordered;
    IF wanted <= free.slots OR orgs IS NULL THEN
        RETURN;
    END IF;
    -- The highest turn that all can reach; remaining slots go to the first orgs at that turn.
    WHILE lowest < highest LOOP
        level := (lowest + highest + 1) / 2;
        SELECT sum(least(greatest(level - turn, 0), jobs)) INTO wanted FROM unnest(turns, starts) AS org (turn, jobs);
        IF wanted <= free.slots THEN lowest := level; ELSE highest := level - 1; END IF;
    END LOOP;
    WITH dealt AS (
        SELECT rank, turn, jobs, least(greatest(lowest - turn, 0), jobs) AS given
        FROM unnest(turns, starts) WITH ORDINALITY AS org (turn, jobs, rank)),
    more AS (
        SELECT rank FROM dealt WHERE turn <= lowest AND given < jobs ORDER BY rank
        LIMIT free.slots - (SELECT sum(given) FROM dealt))
    SELECT array_agg(given + (rank IN (SELECT rank FROM more))::integer ORDER BY rank) INTO starts FROM dealt;
END $$;

-- The next jobs of orgs in the order of their turns: of each org due retries, then expedited jobs, then the others.
CREATE OR REPLACE FUNCTION next_in_turn(
    free claim_state, now bigint, INOUT orgs text[], turns bigint[], starts integer[], OUT names text[], OUT ids uuid[], OUT waited bigint[]
) LANGUAGE plpgsql AS $$
BEGIN
    WITH lanes_of AS (
        SELECT org.rank, org.turn, lane.*, least(org.starts, coalesce(room.room, org.starts)) AS most
        FROM unnest(orgs, turns, starts) WITH ORDINALITY AS org (org_id, turn, starts, rank)
        JOIN lanes AS lane USING (org_id)
        JOIN unnest(free.names, free.rooms) AS room (name, room) ON room.name = lane.analysis
        WHERE org.starts > 0 AND (lane.waiting > 0 OR lane.due_at <= now) AND coalesce(room.room, 1) > 0
          AND (free.paused IS NULL OR lane.org_id || ' ' || lane.analysis <> ALL (free.paused))),
    found AS (
        SELECT lane.org_id, lane.analysis, lane.rank, lane.turn, 0 AS class, one.due_at AS since, one.job
        FROM lanes_of AS lane CROSS JOIN LATERAL (
            SELECT next_attempt_at AS due_at, job FROM job_rows AS jobs
            WHERE jobs.org_id = lane.org_id AND jobs.analysis = lane.analysis
              AND coalesce(last_retry_at >= attempt_started_at, false)::integer = 1 AND next_attempt_at <= now
            ORDER BY next_attempt_at LIMIT lane.most FOR UPDATE SKIP LOCKED) AS one
        WHERE lane.due_at <= now
        UNION ALL
        SELECT lane.org_id, lane.analysis, lane.rank, lane.turn, class.number, one.since, one.job
        FROM lanes_of AS lane
        CROSS JOIN LATERAL (VALUES
            (1, 'expedite', lane.expedite_head, lane.expedite_last),
            (2, 'default', lane.default_head, lane.default_last)) AS class (number, name, head, last)
        CROSS JOIN LATERAL (
            SELECT greatest(queued_at, run_at) AS since, job FROM job_rows AS jobs
            WHERE jobs.org_id = lane.org_id AND jobs.analysis = lane.analysis AND priority_class = class.name
              AND ticket > class.head AND started_at IS NULL AND finished_at IS NULL AND coalesce(start_by > now, true)
            ORDER BY ticket LIMIT lane.most FOR UPDATE SKIP LOCKED) AS one
        WHERE class.head < class.last),
    in_turn AS (
        SELECT *, turn + row_number() OVER (PARTITION BY org_id ORDER BY class, since, job) AS place FROM found)
    SELECT array_agg(org_id ORDER BY place, rank), array_agg(analysis ORDER BY place, rank), array_agg(job ORDER BY place, rank),
        array_agg(-(class > 0)::integer::bigint ORDER BY place, rank)
    INTO orgs, names, ids, waited FROM in_turn;
END $$;

-- The orgs with waiting jobs or due retries, and the lanes with due retries: the longest due first.
CREATE OR REPLACE FUNCTION turns_wanted(
    free claim_state, now bigint, OUT candidates text[], OUT due_orgs text[], OUT due_names text[]
) LANGUAGE plpgsql AS $$
DECLARE
    full_ones CONSTANT text[] := full_orgs(free);
BEGIN
    SELECT array_agg(DISTINCT org_id), array_agg(org_id) FILTER (WHERE due), array_agg(name) FILTER (WHERE due)
    INTO candidates, due_orgs, due_names
    FROM unnest(free.names, free.rooms) AS mine (name, room)
    CROSS JOIN LATERAL (
        (SELECT org_id, false AS due FROM lanes
         WHERE analysis = mine.name AND waiting > 0 AND org_id <> ALL (full_ones)
           AND (free.paused IS NULL OR org_id || ' ' || analysis <> ALL (free.paused))
         ORDER BY virtual_start, served, org_id LIMIT free.slots)
        UNION ALL
        (SELECT org_id, true FROM lanes
         WHERE analysis = mine.name AND due_at <= now AND org_id <> ALL (full_ones)
           AND (free.paused IS NULL OR org_id || ' ' || analysis <> ALL (free.paused))
         ORDER BY due_at, org_id LIMIT free.slots + 1000)) AS next
    WHERE coalesce(mine.room, free.slots) > 0;
END $$;

-- Claims jobs by turns; sets whether another pass may find more.
CREATE OR REPLACE FUNCTION claim_turns(free claim_state, at bigint, now bigint, claim uuid, worker text, lease_time bigint, first boolean)
RETURNS claim_state LANGUAGE plpgsql AS $$
DECLARE
    candidates text[] := free.held;
    due_orgs text[];
    due_names text[];
    turns record;
    next record;
    fit boolean[];
    found integer;
BEGIN
    free.again := false;
    -- The first pass uses the lanes locked already, which suffice if only new jobs wait.
    IF NOT first OR free.backs OR free.dues THEN
        SELECT wanted.candidates, wanted.due_orgs, wanted.due_names INTO candidates, due_orgs, due_names
        FROM turns_wanted(free, now) AS wanted;
        free := lock_more_lanes(free, coalesce(candidates, '{}'));
    END IF;
    turns := deal_turns(free, now, candidates);
    IF turns.orgs IS NULL THEN
        found := 0;
    ELSE
        next := next_in_turn(free, now, turns.orgs, turns.turns, turns.starts);
        found := coalesce(cardinality(next.ids), 0);
    END IF;
    IF found > 0 THEN
        fit := within_limits(free, next.orgs, next.names);
        IF false = ANY (fit) THEN
            SELECT array_agg(org_id) AS orgs, array_agg(name) AS names, array_agg(job) AS ids, array_agg(waits) AS waited INTO next
            FROM unnest(next.orgs, next.names, next.ids, next.waited, fit) AS head (org_id, name, job, waits, may) WHERE may;
        END IF;
        free.again := cardinality(next.ids) < least(found, free.slots);
        free.claims := free.claims || start_attempts(free, at, claim, worker, lease_time, next.ids);
        PERFORM take_turns(next.orgs, next.names, next.waited, turns.orgs, turns.turns);
        free := slots_after(free, next.orgs, next.names);
    END IF;
    IF due_orgs IS NOT NULL THEN
        PERFORM correct_due(due_orgs, due_names);
    END IF;
    free.again := free.again AND free.slots > 0;
    IF free.again THEN
        free.clock := (SELECT virtual_now FROM lane_clock);
    END IF;
    RETURN free;
END $$;

-- What a claim was given, for a retry whose response was lost.
-- query: claimed_by(claim uuid) RETURNS SETOF claimed
SELECT org_id, job_id, attempt, analysis, payload, attempt_started_at, lease_expires_at,
    timeout_seconds, progress_percent::integer, retry_count, max_retries, trace_id, request_id, traceparent, tracestate, planned_at
FROM jobs WHERE deadline_at > 0 AND claim_id = claim;

-- The analyses of a claim that are not paused, and the lanes of single orgs that are.
CREATE OR REPLACE FUNCTION unpaused(now bigint, known text[], OUT names text[], OUT lanes text[]) LANGUAGE plpgsql AS $$
BEGIN
    SELECT array_agg(analysis) FILTER (WHERE org_id = ''), array_agg(org_id || ' ' || analysis) FILTER (WHERE org_id <> '')
    INTO names, lanes FROM pauses WHERE coalesce(paused_until > now, true);
    names := ARRAY(SELECT name FROM unnest(known) AS mine (name) WHERE name <> ALL (coalesce(names, '{}')));
END $$;

-- Leaves out the lost jobs that a pause keeps from going on: they need no slot.
CREATE OR REPLACE FUNCTION lost_and_unpaused(free claim_state) RETURNS claim_state LANGUAGE plpgsql AS $$
BEGIN
    SELECT coalesce(array_agg(org_id), '{}'), coalesce(array_agg(name), '{}') INTO free.lost_orgs, free.lost_names
    FROM unnest(free.lost_orgs, free.lost_names) AS lost (org_id, name)
    WHERE name = ANY (free.names) AND (free.paused IS NULL OR org_id || ' ' || name <> ALL (free.paused));
    RETURN free;
END $$;

-- Claims as many jobs as there are free slots, on this worker and in the deployment. A slot stays free only if no job may take
-- it, or if a lost job that is not swept yet will need it.
CREATE OR REPLACE FUNCTION claim(at bigint, wanted claim_request, asked_again boolean) RETURNS SETOF claimed LANGUAGE plpgsql AS $$
DECLARE
    claim CONSTANT uuid := wanted.claim;
    worker CONSTANT text := wanted.worker;
    lease_time CONSTANT bigint := wanted.lease_time;
    -- its transaction has written before, and holds locks
    joined CONSTANT boolean := pg_current_xact_id_if_assigned() IS NOT NULL;
    known text[] := wanted.known;
    now bigint;
    free claim_state;
    first boolean := true;
    held bigint;
BEGIN
    SELECT virtual_now, look_at, pauses INTO free.clock, free.look_at, held FROM lane_clock FOR UPDATE;
    now := moment(at);
    IF asked_again AND EXISTS (SELECT 1 FROM job_rows WHERE deadline_at > 0 AND claim_id = claim) THEN
        RETURN QUERY SELECT * FROM claimed_by(claim);
        RETURN;
    END IF;
    free.coded := wanted.coded;
    free.codes := wanted.codes;
    IF held > 0 THEN
        SELECT * INTO known, free.paused FROM unpaused(now, known);
    END IF;
    free := free_slots(free, now, wanted.slots, known, lease_time, wanted.most, wanted.limited, wanted.limits, wanted.org_limit);
    free.timed := timed_orgs(now);
    IF held > 0 AND cardinality(free.lost_orgs) > 0 THEN
        free := lost_and_unpaused(free);
    END IF;
    IF free.slots > 0 THEN
        free := lock_first_lanes(free, now, joined);
    ELSIF joined THEN
        RETURN;
    ELSIF cardinality(free.timed) > 0 THEN
        PERFORM lock_orgs(free.timed);
    END IF;
    IF cardinality(free.timed) > 0 THEN
        RETURN QUERY SELECT * FROM settle_times(now, free.timed);
    END IF;
    IF coalesce(cardinality(free.held), 0) = 0 THEN
        RETURN;  -- nothing waits, or no slot is free
    END IF;
    free.again := free.backs;
    WHILE free.again AND free.slots > 0 LOOP
        free := claim_back(free, at, now, claim, worker, lease_time);
    END LOOP;
    IF free.slots > 0 AND cardinality(free.lost_orgs) > 0 THEN
        free := slots_after(free, free.lost_orgs, free.lost_names);
    END IF;
    free.again := true;
    WHILE free.again AND free.slots > 0 LOOP
        free := claim_turns(free, at, now, claim, worker, lease_time, first);
        first := false;
    END LOOP;
    RETURN QUERY SELECT * FROM unnest(free.claims);
END $$;

-- Locks jobs in the order of their keys.
CREATE OR REPLACE FUNCTION lock_jobs(job_ids uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM unnest(job_ids) AS mine (key) JOIN job_rows AS jobs ON jobs.job = mine.key
    ORDER BY jobs.job FOR NO KEY UPDATE OF jobs;
END $$;

-- Extends leases that are held: NULL for one that is lost, else `held`, or `stop` and the reason of a cancel. An expired lease
-- cannot be renewed, even if no other worker has the job. Leases come in the order of their keys, which is the lock order.
CREATE OR REPLACE FUNCTION renew(at bigint, org_ids text[], job_ids uuid[], attempts integer[], lease_time bigint) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    now bigint := moment(at);
    answers text[] := array_fill(NULL::text, ARRAY[cardinality(org_ids)]);
    hit record;
BEGIN
    FOR hit IN
        UPDATE job_rows AS jobs SET lease_expires_at = now + lease_time
        FROM unnest(org_ids, job_ids, attempts) WITH ORDINALITY AS mine (org_id, job, attempt, place)
        WHERE jobs.job = mine.job AND jobs.org_id = mine.org_id AND jobs.attempt = mine.attempt AND jobs.lease_expires_at > now
        RETURNING mine.place, cancel_requested_at, cancel_reason
    LOOP
        answers[hit.place] := CASE WHEN hit.cancel_requested_at IS NULL THEN 'held' ELSE 'stop ' || coalesce(hit.cancel_reason, '') END;
    END LOOP;
    RETURN answers;
END $$;
