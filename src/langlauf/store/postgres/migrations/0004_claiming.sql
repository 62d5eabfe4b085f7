-- Handing out jobs under a lease, and keeping the leases alive.
--
-- Claims take turns: they lock the virtual clock first, then lanes in the order of their names, so that limits hold over
-- all hosts and nobody waits in a circle. Lanes are waited for once, all at the same time; of others that turn out to be of
-- use, those that are busy are left: whoever has them wakes workers. Job rows are never waited for: one that is being canceled
-- is skipped.

-- What a claim gave out, with all that a worker needs.
CREATE TYPE claimed AS (
    org_id text, job_id text, attempt integer, analysis text, payload text, started_at bigint, expires_at bigint,
    timeout_seconds float8, progress_percent integer, retry_count integer, max_retries integer, trace_id text,
    request_id text, traceparent text, tracestate text
);

-- The free slots of one claim: over all, of the analyses it may start, of orgs. A room that is NULL has no limit.
CREATE TYPE room AS (
    slots      integer,
    names      text[],
    rooms      integer[],
    org_limit  integer,
    orgs       text[],
    org_counts integer[],
    -- whose lanes this claim has locked
    held       text[],
    -- something could not be taken, or was not as it seemed: it is worth looking further
    again      boolean,
    -- what was taken so far
    claims     claimed[]
);

CREATE FUNCTION room_for(
    now bigint, slots integer, known text[], most integer, limited text[], limits integer[], org_limit integer
) RETURNS room LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    free room;
BEGIN
    free.slots := least(slots, most - (SELECT count(*) FROM leases WHERE expires_at > now));
    free.org_limit := org_limit;
    IF free.slots <= 0 THEN
        RETURN free;
    END IF;
    IF cardinality(limited) = 0 THEN
        free.names := known;
        free.rooms := array_fill(NULL::integer, ARRAY[cardinality(known)]);
    ELSE
        SELECT array_agg(name), array_agg(most_of - coalesce(running, 0)) INTO free.names, free.rooms
        FROM unnest(known) AS wanted (name)
        LEFT JOIN unnest(limited, limits) AS given (name, most_of) USING (name)
        LEFT JOIN (
            SELECT job.analysis AS name, count(*) AS running FROM leases AS lease
            CROSS JOIN LATERAL (
                SELECT analysis FROM jobs WHERE jobs.org_id = lease.org_id AND jobs.job_id = lease.job_id OFFSET 0) AS job
            WHERE lease.expires_at > now GROUP BY job.analysis) AS busy USING (name);
    END IF;
    IF org_limit IS NOT NULL THEN
        SELECT array_agg(org_id), array_agg(running) INTO free.orgs, free.org_counts
        FROM (SELECT org_id, count(*)::integer AS running FROM leases WHERE expires_at > now GROUP BY org_id) AS busy;
    END IF;
    RETURN free;
END $$;

-- The room that is left when jobs of these lanes have taken theirs.
CREATE FUNCTION room_after(free room, taken_orgs text[], taken_names text[]) RETURNS room LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    free.slots := free.slots - cardinality(taken_orgs);
    SELECT array_agg(name ORDER BY place), array_agg(room - coalesce(taken, 0) ORDER BY place) INTO free.names, free.rooms
    FROM unnest(free.names, free.rooms) WITH ORDINALITY AS mine (name, room, place)
    LEFT JOIN (SELECT name, count(*) AS taken FROM unnest(taken_names) AS one (name) GROUP BY name) AS used USING (name);
    IF free.org_limit IS NOT NULL THEN
        SELECT array_agg(org_id), array_agg(running) INTO free.orgs, free.org_counts
        FROM (SELECT org_id, sum(running)::integer AS running
              FROM (SELECT * FROM unnest(free.orgs, free.org_counts) AS before (org_id, running)
                    UNION ALL SELECT org_id, 1 FROM unnest(taken_orgs) AS new (org_id)) AS both_
              GROUP BY org_id) AS busy;
    END IF;
    RETURN free;
END $$;

-- The orgs that may not start anything more: at most as many as jobs run.
CREATE FUNCTION full_orgs(free room) RETURNS text[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF free.org_limit IS NULL THEN
        RETURN '{}';
    END IF;
    RETURN (
        SELECT coalesce(array_agg(org_id), '{}') FROM unnest(free.orgs, free.org_counts) AS busy (org_id, running)
        WHERE running >= free.org_limit);
END $$;

-- Locks the lanes of all orgs that a claim would look at first.
CREATE FUNCTION hold_lanes(free room, now bigint) RETURNS room LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    full_ones text[] := full_orgs(free);
BEGIN
    SELECT coalesce(array_agg(DISTINCT org_id), '{}') INTO free.held
    FROM unnest(free.names, free.rooms) AS mine (name, room)
    CROSS JOIN LATERAL (
        (SELECT org_id FROM lanes WHERE analysis = mine.name AND due_at <= now AND org_id <> ALL (full_ones)
         ORDER BY due_at, org_id LIMIT free.slots)
        UNION ALL
        (SELECT org_id FROM lanes WHERE analysis = mine.name AND waiting > 0 AND org_id <> ALL (full_ones)
         ORDER BY virtual_start, served, org_id LIMIT free.slots)) AS next
    WHERE coalesce(mine.room, free.slots) > 0;
    PERFORM lock_orgs(free.held);
    RETURN free;
END $$;

-- Locks the lanes of further orgs, except those that somebody else has in hand.
CREATE FUNCTION hold_more(free room, wanted text[]) RETURNS room LANGUAGE plpgsql AS $$
#variable_conflict use_column
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

-- Of jobs in the order of their turns, those that the limits leave room for.
CREATE FUNCTION fitting(free room, org_ids text[], names text[]) RETURNS boolean[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF free.org_limit IS NULL AND NOT EXISTS (SELECT 1 FROM unnest(free.rooms) AS room WHERE room IS NOT NULL) THEN
        RETURN (SELECT array_agg(place <= free.slots) FROM generate_series(1, cardinality(org_ids)) AS place);
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

-- Makes the attempts of chosen jobs. The attempt number is the fencing token: it grows here and nowhere else. An attempt that
-- starts with progress of another has no pace until it gets beyond it. The time is read behind the locks: no job starts before
-- it was accepted, however long this waited for that.
CREATE FUNCTION start_attempts(at bigint, claim uuid, worker text, lease_time bigint, org_ids text[], job_ids text[])
RETURNS claimed[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now bigint := moment(at);
    made claimed[];
BEGIN
    WITH started AS (
        UPDATE jobs SET
            status = CASE status WHEN 'queued' THEN 'running' ELSE status END,
            started_at = coalesce(started_at, now),
            attempt_started_at = now,
            attempt = attempt + 1,
            paced_percent = progress_percent,
            paced_at = CASE progress_percent WHEN 0 THEN now END,
            progress_at = CASE progress_percent WHEN 0 THEN now END,
            next_attempt_at = NULL,
            event_seq = event_seq + 1,
            updated_at = now
        FROM unnest(org_ids, job_ids) WITH ORDINALITY AS chosen (org_id, job_id, place)
        WHERE jobs.org_id = chosen.org_id AND jobs.job_id = chosen.job_id
          AND (status = 'queued' OR (status IN ('running', 'partial') AND next_attempt_at <= now))
        RETURNING chosen.place, jobs.*),
    leased AS (
        INSERT INTO leases (org_id, job_id, attempt, worker_id, expires_at, deadline_at, claim_id)
        SELECT org_id, job_id, attempt, worker, now + lease_time,
            now + (least(timeout_seconds, 315360000) * 1000000)::bigint, claim
        FROM started),
    told AS (
        INSERT INTO job_events (org_id, job_id, event_seq, event_type, occurred_at, actor_type, payload_json, trace_id, request_id)
        SELECT org_id, job_id, event_seq, CASE attempt WHEN 1 THEN 'job.running' ELSE 'job.attempt_started' END, now, 'worker',
            '{"attempt":' || attempt || '}', trace_id, request_id
        FROM started)
    SELECT array_agg(ROW(
        org_id, job_id, attempt, analysis, payload, now, now + lease_time, timeout_seconds, progress_percent, retry_count,
        max_retries, trace_id, request_id, traceparent, tracestate)::claimed ORDER BY place)
    INTO made FROM started JOIN job_inputs AS input USING (org_id, job_id);
    RETURN made;
END $$;

-- Lets lanes say when the first of their jobs that had started is due; tells how many said something else.
CREATE FUNCTION correct_due(lane_orgs text[], lane_names text[]) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    corrected bigint;
BEGIN
    WITH next AS (
        SELECT lane.org_id, lane.analysis, (
            SELECT min(next_attempt_at) FROM jobs
            WHERE jobs.org_id = lane.org_id AND jobs.analysis = lane.analysis AND next_attempt_at IS NOT NULL) AS due_at
        FROM unnest(lane_orgs, lane_names) AS lane (org_id, analysis))
    UPDATE lanes SET due_at = next.due_at FROM next
    WHERE lanes.org_id = next.org_id AND lanes.analysis = next.analysis AND lanes.due_at IS DISTINCT FROM next.due_at;
    GET DIAGNOSTICS corrected = ROW_COUNT;
    RETURN corrected;
END $$;

-- Jobs that had started and may go on, the longest due first. Tells whether it is worth looking again.
CREATE FUNCTION claim_due(free room, at bigint, now bigint, claim uuid, worker text, lease_time bigint) RETURNS room LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    lane_orgs text[];
    lane_names text[];
    orgs text[];
    names text[];
    jobs_due text[];
    fit boolean[];
    corrected bigint;
BEGIN
    free.again := false;
    SELECT array_agg(org_id), array_agg(analysis) INTO lane_orgs, lane_names
    FROM unnest(free.names, free.rooms) AS mine (name, room)
    CROSS JOIN LATERAL (
        SELECT org_id, analysis FROM lanes
        WHERE analysis = mine.name AND due_at <= now AND org_id <> ALL (full_orgs(free))
        ORDER BY due_at, org_id LIMIT free.slots) AS due
    WHERE coalesce(mine.room, free.slots) > 0;
    IF lane_orgs IS NULL THEN
        RETURN free;
    END IF;
    free := hold_more(free, lane_orgs);
    SELECT array_agg(org_id), array_agg(analysis) INTO lane_orgs, lane_names
    FROM unnest(lane_orgs, lane_names) AS due (org_id, analysis) WHERE org_id = ANY (free.held);
    IF lane_orgs IS NULL THEN
        RETURN free;
    END IF;
    -- A lane whose first job was canceled says too early when it is due: whoever looks corrects it, and looks again.
    IF correct_due(lane_orgs, lane_names) > 0 THEN
        free.again := true;
        RETURN free;
    END IF;
    SELECT array_agg(org_id), array_agg(analysis), array_agg(job_id) INTO orgs, names, jobs_due FROM (
        SELECT one.org_id, one.analysis, one.job_id FROM unnest(lane_orgs, lane_names) AS lane (org_id, analysis)
        CROSS JOIN LATERAL (
            SELECT org_id, analysis, job_id, next_attempt_at FROM jobs
            WHERE jobs.org_id = lane.org_id AND jobs.analysis = lane.analysis AND next_attempt_at <= now
            ORDER BY next_attempt_at LIMIT free.slots FOR UPDATE SKIP LOCKED) AS one
        ORDER BY one.next_attempt_at, one.job_id) AS due;
    IF jobs_due IS NOT NULL THEN
        fit := fitting(free, orgs, names);
        SELECT array_agg(org_id), array_agg(name), array_agg(job_id) INTO orgs, names, jobs_due
        FROM unnest(orgs, names, jobs_due, fit) AS due (org_id, name, job_id, may) WHERE may;
        free.again := false = ANY (fit);
        free.claims := free.claims || start_attempts(at, claim, worker, lease_time, orgs, jobs_due);
        free := room_after(free, orgs, names);
    END IF;
    corrected := correct_due(lane_orgs, lane_names);
    free.again := free.slots > 0 AND corrected > 0 AND (coalesce(free.again, false) OR fit IS NULL OR cardinality(lane_orgs) >= free.slots);
    RETURN free;
END $$;

-- The next waiting jobs, dealt out in the order of turns. Tells whether it is worth looking again.
CREATE FUNCTION claim_waiting(free room, at bigint, now bigint, claim uuid, worker text, lease_time bigint) RETURNS room LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    clock record;
    candidates text[];
    full_ones text[] := full_orgs(free);
    lane_orgs text[];
    lane_names text[];
    turns bigint[];
    ranks bigint[];
    starts integer[];
    orgs text[];
    names text[];
    heads text[];
    jobs_taken text[];
    fit boolean[];
    lowest bigint;
    highest bigint;
    level bigint;
    wanted bigint;
BEGIN
    free.again := false;
    SELECT array_agg(DISTINCT org_id) INTO candidates
    FROM unnest(free.names, free.rooms) AS mine (name, room)
    CROSS JOIN LATERAL (
        SELECT org_id FROM lanes
        WHERE analysis = mine.name AND waiting > 0 AND org_id <> ALL (full_ones)
        ORDER BY virtual_start, served, org_id LIMIT free.slots) AS next
    WHERE coalesce(mine.room, free.slots) > 0;
    IF candidates IS NULL THEN
        RETURN free;
    END IF;
    free := hold_more(free, candidates);
    SELECT virtual_now, served INTO clock FROM lane_clock;

    -- An org that was held back is not behind the virtual clock: it goes on from the present, as one that was idle does.
    WITH mine AS (
        SELECT lane.org_id, max(lane.virtual_start) AS stood_at, max(lane.served) AS served,
            least(sum(least(lane.waiting, room.room, free.slots)),
                  free.org_limit - coalesce(max(busy.running), 0), free.slots) AS waiting
        FROM lanes AS lane
        JOIN unnest(free.names, free.rooms) AS room (name, room) ON room.name = lane.analysis
        LEFT JOIN unnest(free.orgs, free.org_counts) AS busy (org_id, running) ON busy.org_id = lane.org_id
        WHERE lane.org_id = ANY (candidates) AND lane.org_id = ANY (free.held) AND lane.waiting > 0 AND coalesce(room.room, free.slots) > 0
        GROUP BY lane.org_id)
    SELECT array_agg(org_id ORDER BY rank), array_agg(turn ORDER BY rank), array_agg(rank ORDER BY rank),
        array_agg(waiting ORDER BY rank), min(turn), max(turn + waiting), sum(waiting)
    INTO candidates, turns, ranks, starts, lowest, highest, wanted
    FROM (SELECT org_id, greatest(stood_at, clock.virtual_now) AS turn, waiting::integer AS waiting,
              row_number() OVER (ORDER BY greatest(stood_at, clock.virtual_now), stood_at, served, org_id) AS rank
          FROM mine WHERE waiting > 0) AS ordered;
    IF candidates IS NULL THEN
        RETURN free;
    END IF;
    IF wanted > free.slots THEN
        -- The highest turn that all get to have; what is left goes to the first ones of that turn.
        WHILE lowest < highest LOOP
            level := (lowest + highest + 1) / 2;
            SELECT sum(least(greatest(level - turn, 0), waiting)) INTO wanted FROM unnest(turns, starts) AS org (turn, waiting);
            IF wanted <= free.slots THEN lowest := level; ELSE highest := level - 1; END IF;
        END LOOP;
        WITH dealt AS (
            SELECT rank, turn, waiting, least(greatest(lowest - turn, 0), waiting) AS given
            FROM unnest(ranks, turns, starts) AS org (rank, turn, waiting)),
        more AS (
            SELECT rank FROM dealt WHERE turn <= lowest AND given < waiting ORDER BY rank
            LIMIT free.slots - (SELECT sum(given) FROM dealt))
        SELECT array_agg(given + (rank IN (SELECT rank FROM more))::integer ORDER BY rank) INTO starts FROM dealt;
    END IF;

    -- The next jobs of each org over all its lanes: urgent ones first, then as they came.
    WITH served AS (
        SELECT * FROM unnest(candidates, ranks, turns, starts) AS org (org_id, rank, turn, starts) WHERE starts > 0),
    lanes_of AS (
        SELECT served.*, lane.analysis, lane.expedite_head, lane.expedite_last, lane.default_head,
            lane.default_last,
            least(served.starts, coalesce(room.room, served.starts)) AS most
        FROM served JOIN lanes AS lane USING (org_id)
        JOIN unnest(free.names, free.rooms) AS room (name, room) ON room.name = lane.analysis
        WHERE lane.waiting > 0 AND coalesce(room.room, 1) > 0),
    waiting AS (
        SELECT lane.org_id, lane.analysis, lane.rank, lane.turn, class.number, job.queued_at, job.job_id
        FROM lanes_of AS lane
        CROSS JOIN LATERAL (VALUES
            (0, 'expedite', lane.expedite_head, lane.expedite_last),
            (1, 'default', lane.default_head, lane.default_last)) AS class (number, name, head, last)
        CROSS JOIN LATERAL (
            SELECT queued_at, job_id FROM jobs
            WHERE jobs.org_id = lane.org_id AND jobs.analysis = lane.analysis AND priority_class = class.name
              AND ticket > class.head AND started_at IS NULL AND finished_at IS NULL
            ORDER BY ticket LIMIT lane.most FOR UPDATE SKIP LOCKED) AS job
        WHERE class.head < class.last),
    in_turn AS (
        SELECT *, turn + row_number() OVER (PARTITION BY org_id ORDER BY number, queued_at, job_id) AS place FROM waiting)
    SELECT array_agg(org_id ORDER BY place, rank), array_agg(analysis ORDER BY place, rank), array_agg(job_id ORDER BY place, rank)
    INTO lane_orgs, lane_names, heads FROM in_turn;
    IF heads IS NULL THEN
        RETURN free;
    END IF;
    fit := fitting(free, lane_orgs, lane_names);
    SELECT array_agg(org_id), array_agg(name), array_agg(job_id) INTO orgs, names, jobs_taken
    FROM unnest(lane_orgs, lane_names, heads, fit) AS head (org_id, name, job_id, may) WHERE may;
    free.again := cardinality(jobs_taken) < least(cardinality(heads), free.slots);
    free.claims := free.claims || start_attempts(at, claim, worker, lease_time, orgs, jobs_taken);
    PERFORM leave_lanes(orgs, names);
    PERFORM advance_turns(orgs, candidates, turns);
    free := room_after(free, orgs, names);
    free.again := free.again AND free.slots > 0;
    RETURN free;
END $$;

-- Counts jobs out of their lanes, and moves the heads up to the first that still waits.
CREATE FUNCTION leave_lanes(org_ids text[], names text[]) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    gone record;
BEGIN
    FOR gone IN
        SELECT org_id, analysis, count(*) AS jobs FROM unnest(org_ids, names) AS left_ (org_id, analysis) GROUP BY org_id, analysis
    LOOP
        UPDATE lanes SET
            waiting = waiting - gone.jobs,
            expedite_head = head_of(org_id, analysis, 'expedite', expedite_head, expedite_last),
            default_head = head_of(org_id, analysis, 'default', default_head, default_last)
        WHERE org_id = gone.org_id AND analysis = gone.analysis;
    END LOOP;
    PERFORM count_waiting(array_agg(analysis), array_agg(-1::bigint)) FROM unnest(names) AS left_ (analysis);
END $$;

-- The ticket before the first waiting job of a lane and class.
CREATE FUNCTION head_of(org text, name text, class text, head bigint, last bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF head = last THEN
        RETURN head;
    END IF;
    RETURN coalesce((
        SELECT ticket - 1 FROM jobs
        WHERE jobs.org_id = org AND jobs.analysis = name AND jobs.priority_class = class AND jobs.ticket > head
          AND jobs.started_at IS NULL AND jobs.finished_at IS NULL
        ORDER BY jobs.ticket LIMIT 1), last);
END $$;

-- Orgs that were served move on by as many turns as they had; the clock follows, and counts who was served.
CREATE FUNCTION advance_turns(served_orgs text[], candidates text[], turns bigint[]) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    clock record;
BEGIN
    SELECT virtual_now, served INTO clock FROM lane_clock;
    WITH had AS (
        SELECT org_id, count(*) AS starts FROM unnest(served_orgs) AS one (org_id) GROUP BY org_id),
    ordered AS (
        SELECT org_id, turn, starts, row_number() OVER (ORDER BY place) AS place
        FROM unnest(candidates, turns) WITH ORDINALITY AS org (org_id, turn, place) JOIN had USING (org_id)),
    moved AS (
        UPDATE lanes SET virtual_start = ordered.turn + ordered.starts, served = clock.served + ordered.place
        FROM ordered WHERE lanes.org_id = ordered.org_id)
    UPDATE lane_clock SET virtual_now = greatest(virtual_now, (SELECT max(turn) FROM ordered)),
        served = served + (SELECT count(*) FROM ordered);
END $$;

-- What a claim was given whose answer was lost.
CREATE FUNCTION claimed_by(claim uuid) RETURNS SETOF claimed LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT lease.org_id, lease.job_id, lease.attempt, job.analysis, input.payload, job.attempt_started_at, lease.expires_at,
        job.timeout_seconds, job.progress_percent, job.retry_count, job.max_retries, job.trace_id, job.request_id,
        job.traceparent, job.tracestate
    FROM leases AS lease JOIN jobs AS job USING (org_id, job_id) JOIN job_inputs AS input USING (org_id, job_id)
    WHERE lease.claim_id = claim;
END $$;

-- Hands out as many jobs as there are free slots, here and in the whole deployment. Jobs that had started go first; what was
-- lost and is not swept yet has its slot kept, for a while. In the end a slot is free only if nothing may take it.
CREATE FUNCTION claim(
    at bigint, claim uuid, worker text, slots integer, known text[], lease_time bigint, most integer, limited text[],
    limits integer[], org_limit integer, asked_again boolean
) RETURNS SETOF claimed LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now bigint;
    free room;
    lost record;
BEGIN
    PERFORM 1 FROM lane_clock FOR UPDATE;
    now := moment(at);
    IF asked_again AND EXISTS (SELECT 1 FROM leases WHERE claim_id = claim) THEN
        RETURN QUERY SELECT * FROM claimed_by(claim);
        RETURN;
    END IF;
    free := room_for(now, slots, known, most, limited, limits, org_limit);
    IF free.slots > 0 THEN
        free := hold_lanes(free, now);
    END IF;
    free.again := true;
    WHILE free.again AND free.slots > 0 LOOP
        free := claim_due(free, at, now, claim, worker, lease_time);
    END LOOP;
    IF free.slots > 0 THEN
        -- The leases first, whatever the planner knows: OFFSET 0 keeps it from reading all jobs to find theirs.
        SELECT coalesce(array_agg(lease.org_id), '{}') AS orgs, coalesce(array_agg(job.analysis), '{}') AS names INTO lost
        FROM leases AS lease CROSS JOIN LATERAL (
            SELECT analysis, cancel_requested_at FROM jobs
            WHERE jobs.org_id = lease.org_id AND jobs.job_id = lease.job_id OFFSET 0) AS job
        WHERE lease.expires_at <= now AND lease.expires_at > now - lease_time AND job.cancel_requested_at IS NULL;
        IF cardinality(lost.orgs) > 0 THEN
            free := room_after(free, lost.orgs, lost.names);
        END IF;
    END IF;
    free.again := true;
    WHILE free.again AND free.slots > 0 LOOP
        free := claim_waiting(free, at, now, claim, worker, lease_time);
    END LOOP;
    RETURN QUERY SELECT * FROM unnest(free.claims);
END $$;

-- Locks leases in one order, for those that touch more of a job than its lease.
CREATE FUNCTION lock_leases(org_ids text[], job_ids text[]) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM 1 FROM unnest(org_ids, job_ids) AS mine (org_id, job_id)
    JOIN leases AS lease ON lease.org_id = mine.org_id AND lease.job_id = mine.job_id
    ORDER BY lease.job_id, lease.org_id FOR UPDATE OF lease;
END $$;

-- Extends the leases that are still held, and tells which jobs are wished to stop: NULL for a lease that is gone, else a sign
-- and the reason. A lease that has ended cannot be renewed, even if nobody took the job yet. Leases come in the order of their
-- keys, in which everybody locks them.
CREATE FUNCTION renew(at bigint, org_ids text[], job_ids text[], attempts integer[], lease_time bigint) RETURNS text[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now bigint := moment(at);
    answers text[] := array_fill(NULL::text, ARRAY[cardinality(org_ids)]);
    hit record;
BEGIN
    FOR hit IN
        WITH renewed AS (
            UPDATE leases SET expires_at = now + lease_time
            FROM unnest(org_ids, job_ids, attempts) WITH ORDINALITY AS mine (org_id, job_id, attempt, place)
            WHERE leases.org_id = mine.org_id AND leases.job_id = mine.job_id AND leases.attempt = mine.attempt
              AND leases.expires_at > now
            RETURNING leases.org_id, leases.job_id, mine.place)
        SELECT place, cancel_requested_at, cancel_reason FROM renewed JOIN jobs USING (org_id, job_id)
    LOOP
        answers[hit.place] := CASE WHEN hit.cancel_requested_at IS NULL THEN 'held' ELSE 'stop ' || coalesce(hit.cancel_reason, '') END;
    END LOOP;
    RETURN answers;
END $$;
