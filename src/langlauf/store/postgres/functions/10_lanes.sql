-- Lanes: which jobs wait, whose turn it is, and how many wait and run in all.

-- Adds to the counts of jobs in line and of those that wait for their time, in the shard of this connection.
CREATE OR REPLACE FUNCTION count_scheduled(names text[], waits bigint[], times bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO waiting_counts AS mine (analysis, shard, waiting, scheduled)
    SELECT name, pg_backend_pid() % 32, sum(wait), sum(scheduled) FROM unnest(names, waits, times) AS new (name, wait, scheduled)
    GROUP BY name HAVING sum(wait) <> 0 OR sum(scheduled) <> 0 ORDER BY name
    ON CONFLICT (analysis, shard) DO UPDATE SET waiting = mine.waiting + excluded.waiting, scheduled = mine.scheduled + excluded.scheduled;
END $$;

-- Adds to the counts of waiting and leased jobs, in the shard of this connection.
CREATE OR REPLACE FUNCTION count_jobs(names text[], waits bigint[], leases bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO waiting_counts AS mine (analysis, shard, waiting, leased)
    SELECT name, pg_backend_pid() % 32, sum(wait), sum(lease) FROM unnest(names, waits, leases) AS new (name, wait, lease)
    GROUP BY name HAVING sum(wait) <> 0 OR sum(lease) <> 0 ORDER BY name
    ON CONFLICT (analysis, shard) DO UPDATE SET waiting = mine.waiting + excluded.waiting, leased = mine.leased + excluded.leased;
END $$;

-- Locks all lanes of orgs in one order, which prevents deadlocks. Repeats if lanes were added while it waited.
CREATE OR REPLACE FUNCTION lock_orgs(org_ids text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    locked bigint;
BEGIN
    LOOP
        PERFORM 1 FROM lanes WHERE org_id = ANY (org_ids) ORDER BY org_id, analysis FOR UPDATE;
        GET DIAGNOSTICS locked = ROW_COUNT;
        EXIT WHEN locked = (SELECT count(*) FROM lanes WHERE org_id = ANY (org_ids));
    END LOOP;
END $$;

-- The same where named lanes must be among them: creates those that are missing or were removed meanwhile.
CREATE OR REPLACE FUNCTION lock_lanes(org_ids text[], analyses text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    locked bigint;
BEGIN
    LOOP
        PERFORM 1 FROM lanes WHERE org_id = ANY (org_ids) ORDER BY org_id, analysis FOR UPDATE;
        GET DIAGNOSTICS locked = ROW_COUNT;
        EXIT WHEN locked = (SELECT count(*) FROM lanes WHERE org_id = ANY (org_ids)) AND NOT EXISTS (
            SELECT 1 FROM unnest(org_ids, analyses) AS named (org_id, analysis)
            WHERE NOT EXISTS (SELECT 1 FROM lanes WHERE lanes.org_id = named.org_id AND lanes.analysis = named.analysis));
        INSERT INTO lanes (org_id, analysis, waiting, virtual_start)
        SELECT DISTINCT org_id, analysis, 0, 0 FROM unnest(org_ids, analyses) AS named (org_id, analysis)
        ORDER BY org_id, analysis
        ON CONFLICT DO NOTHING;
    END LOOP;
END $$;

-- Adds accepted jobs to their lanes. An org with waiting jobs keeps its turn; another joins at the virtual clock. All lanes of
-- an org have the same turn. Jobs with a negative ticket wait for their time, and are not in line.
CREATE OR REPLACE FUNCTION join_lanes(org_ids text[], names text[], classes text[], answers text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF array_to_string(answers, ',') LIKE '% -%' THEN
        WITH later AS (
            SELECT org_id, analysis, count(*) AS jobs, min(-split_part(answer, ' ', 3)::bigint) AS run_at
            FROM unnest(org_ids, names, answers) AS wish (org_id, analysis, answer)
            WHERE answer LIKE 'accepted % -%' GROUP BY org_id, analysis)
        UPDATE lanes SET scheduled = scheduled + later.jobs, next_run_at = least(lanes.next_run_at, later.run_at)
        FROM later WHERE lanes.org_id = later.org_id AND lanes.analysis = later.analysis;
        PERFORM count_scheduled(array_agg(name), array_agg(0::bigint), array_agg(1::bigint))
        FROM unnest(names, answers) AS wish (name, answer) WHERE answer LIKE 'accepted % -%' HAVING count(*) > 0;
    END IF;
    WITH new AS (
        SELECT org_id, analysis, count(*) AS jobs, count(*) FILTER (WHERE class = 'expedite') AS urgent
        FROM unnest(org_ids, names, classes, answers) AS wish (org_id, analysis, class, answer)
        WHERE answer LIKE 'accepted %' AND answer NOT LIKE '% -%' GROUP BY org_id, analysis),
    turns AS (
        SELECT org_id, coalesce(max(virtual_start) FILTER (WHERE waiting > 0), greatest((SELECT virtual_now FROM lane_clock), max(virtual_start))) AS turn,
            max(served) AS served
        FROM lanes WHERE org_id IN (SELECT org_id FROM new) GROUP BY org_id),
    joined AS (
        UPDATE lanes SET
            waiting = waiting + new.jobs,
            expedite_last = expedite_last + new.urgent,
            default_last = default_last + new.jobs - new.urgent,
            virtual_start = turns.turn, served = turns.served
        FROM new JOIN turns USING (org_id)
        WHERE lanes.org_id = new.org_id AND lanes.analysis = new.analysis)
    INSERT INTO waiting_counts AS mine (analysis, shard, waiting)
    SELECT analysis, pg_backend_pid() % 32, sum(jobs) FROM new GROUP BY analysis ORDER BY analysis
    ON CONFLICT (analysis, shard) DO UPDATE SET waiting = mine.waiting + excluded.waiting;
END $$;

-- Counts jobs that started with their submission, where none waited: each org joins at the virtual clock or stands where it stood,
-- pays a turn for each, and its lanes are empty behind them, as after `join_lanes` and `take_turns`. The clock is locked.
CREATE OR REPLACE FUNCTION start_lanes(
    org_ids text[], names text[], classes text[], answers text[], clock bigint, last_served bigint, leased_until bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH new AS (
        SELECT org_id, analysis, count(*) AS jobs, count(*) FILTER (WHERE class = 'expedite') AS urgent
        FROM unnest(org_ids, names, classes, answers) AS wish (org_id, analysis, class, answer)
        WHERE answer LIKE 'started %' GROUP BY org_id, analysis),
    turns AS MATERIALIZED (
        SELECT org_id, stood_at, row_number() OVER (ORDER BY stood_at, served, org_id) AS place,
            (SELECT sum(jobs) FROM new WHERE new.org_id = stood.org_id) AS starts
        FROM (SELECT org_id, max(served) AS served,
                  coalesce(max(virtual_start) FILTER (WHERE waiting > 0), greatest(clock, max(virtual_start))) AS stood_at
              FROM lanes WHERE org_id IN (SELECT org_id FROM new) GROUP BY org_id) AS stood),
    passed AS (
        UPDATE lanes SET
            virtual_start = greatest(turns.stood_at, clock) + turns.starts,
            served = last_served + turns.place,
            expedite_last = lanes.expedite_last + coalesce(new.urgent, 0),
            expedite_head = CASE WHEN new.jobs > 0 THEN lanes.expedite_last + new.urgent ELSE lanes.expedite_head END,
            default_last = lanes.default_last + coalesce(new.jobs - new.urgent, 0),
            default_head = CASE WHEN new.jobs > 0 THEN lanes.default_last + new.jobs - new.urgent ELSE lanes.default_head END
        FROM turns JOIN lanes AS mine USING (org_id) LEFT JOIN new ON new.org_id = mine.org_id AND new.analysis = mine.analysis
        WHERE lanes.org_id = mine.org_id AND lanes.analysis = mine.analysis),
    counted AS (
        INSERT INTO waiting_counts AS mine (analysis, shard, waiting, leased)
        SELECT analysis, pg_backend_pid() % 32, 0, sum(jobs) FROM new GROUP BY analysis ORDER BY analysis
        ON CONFLICT (analysis, shard) DO UPDATE SET leased = mine.leased + excluded.leased)
    UPDATE lane_clock SET virtual_now = greatest(clock, turn.stood_at), served = last_served + turn.orgs, look_at = least(look_at, leased_until)
    FROM (SELECT max(stood_at) AS stood_at, count(*) AS orgs FROM turns) AS turn;
END $$;

-- Removes waiting jobs from their lanes, and moves the heads up to the first that still waits.
CREATE OR REPLACE FUNCTION leave_lanes(org_ids text[], names text[]) RETURNS void LANGUAGE plpgsql AS $$
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
END $$;

-- Lets jobs of locked orgs into the line whose time has come, in the order of their times; the rest is left to the next call.
CREATE OR REPLACE FUNCTION enter_line(now bigint, org_ids text[], most integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    lane_orgs text[];
    lane_names text[];
    classes text[];
    ids uuid[];
BEGIN
    SELECT array_agg(org_id), array_agg(analysis) INTO lane_orgs, lane_names
    FROM lanes WHERE org_id = ANY (org_ids) AND next_run_at <= now;
    IF lane_orgs IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(one.job), array_agg(lane.org_id), array_agg(lane.analysis), array_agg(class.name) INTO ids, org_ids, lane_names, classes
    FROM unnest(lane_orgs, lane_names) AS lane (org_id, analysis)
    CROSS JOIN (VALUES ('expedite'), ('default')) AS class (name)
    CROSS JOIN LATERAL (
        SELECT job FROM job_rows AS jobs
        WHERE jobs.org_id = lane.org_id AND jobs.analysis = lane.analysis AND jobs.priority_class = class.name
          AND jobs.ticket BETWEEN -now AND -1 AND jobs.started_at IS NULL AND jobs.finished_at IS NULL
        ORDER BY jobs.ticket DESC LIMIT most FOR NO KEY UPDATE SKIP LOCKED) AS one;
    IF ids IS NOT NULL THEN
        WITH numbered AS MATERIALIZED (
            SELECT due.job, CASE due.class WHEN 'expedite' THEN lane.expedite_last ELSE lane.default_last END
                + row_number() OVER (PARTITION BY due.org_id, due.analysis, due.class ORDER BY jobs.ticket DESC, due.job) AS ticket
            FROM unnest(ids, org_ids, lane_names, classes) AS due (job, org_id, analysis, class)
            JOIN lanes AS lane ON lane.org_id = due.org_id AND lane.analysis = due.analysis
            JOIN job_rows AS jobs ON jobs.job = due.job)
        UPDATE job_rows AS jobs SET ticket = numbered.ticket FROM numbered
        WHERE jobs.job = numbered.job AND jobs.ticket < 0 AND jobs.status = 'queued';
        PERFORM join_lanes(org_ids, lane_names, classes, array_fill('accepted'::text || ' 0 0', ARRAY[cardinality(ids)]));
        UPDATE lanes SET scheduled = scheduled - entered.jobs
        FROM (SELECT org_id, analysis, count(*) AS jobs FROM unnest(org_ids, lane_names) AS due (org_id, analysis)
              GROUP BY org_id, analysis) AS entered
        WHERE lanes.org_id = entered.org_id AND lanes.analysis = entered.analysis;
        PERFORM count_scheduled(lane_names, array_fill(0::bigint, ARRAY[cardinality(ids)]), array_fill(-1::bigint, ARRAY[cardinality(ids)]));
    END IF;
    PERFORM correct_next_run(lane_orgs);
END $$;

-- Updates when the first job of each lane of these orgs that waits for its time has it.
CREATE OR REPLACE FUNCTION correct_next_run(org_ids text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lanes SET next_run_at = (
        SELECT min(first.run_at) FROM (VALUES ('expedite'), ('default')) AS class (name)
        CROSS JOIN LATERAL (
            SELECT -jobs.ticket AS run_at FROM job_rows AS jobs
            WHERE jobs.org_id = lanes.org_id AND jobs.analysis = lanes.analysis AND jobs.priority_class = class.name
              AND jobs.ticket < 0 AND jobs.started_at IS NULL AND jobs.finished_at IS NULL
            ORDER BY jobs.ticket DESC LIMIT 1) AS first)
    WHERE org_id = ANY (org_ids) AND next_run_at IS NOT NULL;
END $$;

-- The ticket before the first waiting job of a lane and class.
CREATE OR REPLACE FUNCTION head_of(org text, name text, class text, head bigint, last bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF head = last THEN
        RETURN head;
    END IF;
    RETURN coalesce((
        SELECT ticket - 1 FROM job_rows AS jobs
        WHERE jobs.org_id = org AND jobs.analysis = name AND jobs.priority_class = class AND jobs.ticket > head
          AND jobs.started_at IS NULL AND jobs.finished_at IS NULL
        ORDER BY jobs.ticket LIMIT 1), last);
END $$;

-- Updates when the first started job of each lane is due, and the first that was lost or released; returns how many lanes
-- changed.
CREATE OR REPLACE FUNCTION correct_due(lane_orgs text[], lane_names text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    corrected bigint;
BEGIN
    UPDATE lanes SET due_at = least(first.back_at, first.due_at), back_at = first.back_at
    FROM (
        SELECT DISTINCT lane.org_id, lane.analysis,
            (SELECT next_attempt_at FROM job_rows AS jobs
             WHERE jobs.org_id = lane.org_id AND jobs.analysis = lane.analysis AND next_attempt_at IS NOT NULL
               AND coalesce(last_retry_at >= attempt_started_at, false)::integer = 0
             ORDER BY next_attempt_at LIMIT 1) AS back_at,
            (SELECT next_attempt_at FROM job_rows AS jobs
             WHERE jobs.org_id = lane.org_id AND jobs.analysis = lane.analysis AND next_attempt_at IS NOT NULL
               AND coalesce(last_retry_at >= attempt_started_at, false)::integer = 1
             ORDER BY next_attempt_at LIMIT 1) AS due_at
        FROM unnest(lane_orgs, lane_names) AS lane (org_id, analysis)) AS first
    WHERE lanes.org_id = first.org_id AND lanes.analysis = first.analysis
      AND (lanes.due_at IS DISTINCT FROM least(first.back_at, first.due_at) OR lanes.back_at IS DISTINCT FROM first.back_at);
    GET DIAGNOSTICS corrected = ROW_COUNT;
    RETURN corrected;
END $$;

-- Advances served orgs by the number of jobs they started, removes those jobs from their lanes, counts them as leased, and
-- advances the clock.
CREATE OR REPLACE FUNCTION take_turns(orgs text[], names text[], waited bigint[], candidates text[], turns bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH had AS (SELECT org_id, count(*) AS starts FROM unnest(orgs) AS one (org_id) GROUP BY org_id),
    ordered AS MATERIALIZED (
        SELECT org_id, turn, starts, row_number() OVER (ORDER BY place) AS place
        FROM unnest(candidates, turns) WITH ORDINALITY AS org (org_id, turn, place) JOIN had USING (org_id)),
    moved AS (
        UPDATE lanes SET
            virtual_start = ordered.turn + ordered.starts,
            served = (SELECT served FROM lane_clock) + ordered.place,
            waiting = waiting + coalesce((
                SELECT sum(change) FROM unnest(orgs, names, waited) AS gone (org_id, analysis, change)
                WHERE gone.org_id = lanes.org_id AND gone.analysis = lanes.analysis), 0),
            expedite_head = head_of(lanes.org_id, analysis, 'expedite', expedite_head, expedite_last),
            default_head = head_of(lanes.org_id, analysis, 'default', default_head, default_last)
        FROM ordered WHERE lanes.org_id = ordered.org_id),
    counted AS (
        INSERT INTO waiting_counts AS mine (analysis, shard, waiting, leased)
        SELECT name, pg_backend_pid() % 32, sum(wait), count(*) FROM unnest(names, waited) AS one (name, wait)
        GROUP BY name ORDER BY name
        ON CONFLICT (analysis, shard) DO UPDATE SET waiting = mine.waiting + excluded.waiting, leased = mine.leased + excluded.leased)
    UPDATE lane_clock SET virtual_now = greatest(virtual_now, (SELECT max(turn) FROM ordered)),
        served = served + (SELECT count(*) FROM ordered);
END $$;

-- Rebuilds lanes from their jobs, for copies and imports. A lane without waiting jobs joins at the virtual clock.
CREATE OR REPLACE FUNCTION recount_lanes(org_ids text[], names text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    clock bigint := (SELECT virtual_now FROM lane_clock);
    analyses text[];
    changes bigint[];
    times bigint[];
BEGIN
    PERFORM lock_lanes(org_ids, names);
    WITH named AS (SELECT DISTINCT * FROM unnest(org_ids, names) AS lane (org_id, analysis)),
    turns AS (
        SELECT org_id, coalesce(max(virtual_start) FILTER (WHERE waiting > 0), greatest(clock, max(virtual_start))) AS turn,
            max(served) AS served
        FROM lanes WHERE org_id = ANY (org_ids) GROUP BY org_id),
    counted AS (
        SELECT org_id, analysis, count(*) FILTER (WHERE waits) AS waiting, min(next_attempt_at) AS due_at,
            count(*) FILTER (WHERE scheduled) AS scheduled, min(-ticket) FILTER (WHERE scheduled) AS next_run_at,
            min(next_attempt_at) FILTER (WHERE NOT coalesce(last_retry_at >= attempt_started_at, false)) AS back_at,
            min(ticket) FILTER (WHERE waits AND urgent) AS urgent_first, max(ticket) FILTER (WHERE waits AND urgent) AS urgent_last,
            min(ticket) FILTER (WHERE waits AND NOT urgent) AS first, max(ticket) FILTER (WHERE waits AND NOT urgent) AS last
        FROM (SELECT *, started_at IS NULL AND ticket >= 0 AS waits, started_at IS NULL AND ticket < 0 AS scheduled, priority_class = 'expedite' AS urgent FROM job_rows WHERE finished_at IS NULL) AS job
        WHERE (org_id, analysis) IN (SELECT org_id, analysis FROM named) GROUP BY org_id, analysis),
    before AS (SELECT lanes.* FROM lanes JOIN named USING (org_id, analysis)),
    recounted AS (
        UPDATE lanes SET
            waiting = coalesce(counted.waiting, 0),
            scheduled = coalesce(counted.scheduled, 0), next_run_at = counted.next_run_at,
            due_at = counted.due_at, back_at = counted.back_at,
            expedite_last = greatest(lanes.expedite_last, counted.urgent_last),
            expedite_head = coalesce(counted.urgent_first - 1, greatest(lanes.expedite_last, counted.urgent_last)),
            default_last = greatest(lanes.default_last, counted.last),
            default_head = coalesce(counted.first - 1, greatest(lanes.default_last, counted.last)),
            virtual_start = turns.turn, served = turns.served
        FROM named JOIN turns USING (org_id) LEFT JOIN counted USING (org_id, analysis)
        WHERE lanes.org_id = named.org_id AND lanes.analysis = named.analysis
        RETURNING lanes.org_id, lanes.analysis, lanes.waiting, lanes.scheduled)
    SELECT array_agg(recounted.analysis), array_agg((recounted.waiting - before.waiting)::bigint),
        array_agg((recounted.scheduled - before.scheduled)::bigint)
    INTO analyses, changes, times
    FROM recounted JOIN before USING (org_id, analysis);
    IF analyses IS NOT NULL THEN
        PERFORM count_scheduled(analyses, changes, times);
    END IF;
END $$;

-- Recounts leased jobs, for copies that bring leases; the next claim counts them one by one.
CREATE OR REPLACE FUNCTION recount_leases() RETURNS void LANGUAGE sql AS $$
    UPDATE waiting_counts SET leased = 0 WHERE leased <> 0;
    SELECT count_jobs(array_agg(analysis), array_agg(0::bigint), array_agg(1::bigint)) FROM job_rows WHERE deadline_at > 0 HAVING count(*) > 0;
    UPDATE lane_clock SET look_at = (SELECT min(lease_expires_at) FROM job_rows WHERE deadline_at > 0);
$$;

-- Removes empty lanes behind the virtual clock, whose org would join at the clock anyway, and outcomes of batches that can no
-- longer be retried.
CREATE OR REPLACE FUNCTION tidy(at bigint) RETURNS void LANGUAGE sql AS $$
    DELETE FROM lanes USING (
        SELECT org_id, analysis FROM lanes
        WHERE waiting = 0 AND scheduled = 0 AND due_at IS NULL AND back_at IS NULL AND virtual_start <= (SELECT virtual_now FROM lane_clock)
        ORDER BY org_id, analysis FOR UPDATE SKIP LOCKED) AS empty
    WHERE lanes.org_id = empty.org_id AND lanes.analysis = empty.analysis;
    DELETE FROM batches WHERE made_at < moment(at) - 3600000000;
$$;
