-- Who works, and the looks over many jobs that figures are made of.

-- A row per worker, written by itself every few seconds and removed when it stops. It belongs to no org. One that vanished
-- stays for a while, so that people can see which one it was. Times are this database's.
CREATE TABLE workers (
    worker_id     text COLLATE "C" PRIMARY KEY,
    host          text    NOT NULL,
    pid           integer NOT NULL,
    version       text    NOT NULL,
    analyses      text    NOT NULL,
    slots         integer NOT NULL CHECK (slots >= 0),
    busy          integer NOT NULL CHECK (busy >= 0),
    every_seconds float8  NOT NULL CHECK (every_seconds > 0),
    started_at    bigint  NOT NULL,
    stopping      boolean NOT NULL,
    seen_at       bigint  NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Keeps a report, and forgets those that were silent for longer than that. A worker that stops does not come back; its next
-- life has another id.
CREATE FUNCTION note_worker(
    at bigint, kept bigint, worker_id text, host text, pid integer, version text, analyses text, slots integer, busy integer,
    every_seconds float8, started_at bigint, stopping boolean
) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now bigint := moment(at);
BEGIN
    INSERT INTO workers AS known
    VALUES ($3, $4, $5, $6, $7, $8, $9, $10, $11, $12, now)
    ON CONFLICT (worker_id) DO UPDATE SET
        busy = excluded.busy, slots = excluded.slots, stopping = excluded.stopping, seen_at = excluded.seen_at
    WHERE known.stopping <= excluded.stopping;
    DELETE FROM workers WHERE seen_at < now - kept;
END $$;

CREATE FUNCTION forget_worker(gone text) RETURNS void LANGUAGE sql AS $$
    DELETE FROM workers WHERE worker_id = gone
$$;

-- Each with the jobs that it holds, and until when: a few rows, as many as run.
CREATE FUNCTION all_workers() RETURNS TABLE (
    worker_id text, host text, pid integer, version text, analyses text, slots integer, busy integer, every_seconds float8,
    started_at bigint, stopping boolean, seen_at bigint, held bigint, held_until bigint
) LANGUAGE sql STABLE AS $$
    SELECT worker.worker_id, worker.host, worker.pid, worker.version, worker.analyses, worker.slots, worker.busy,
        worker.every_seconds, worker.started_at, worker.stopping, worker.seen_at, coalesce(holding.jobs, 0), holding.until
    FROM workers AS worker
    LEFT JOIN (SELECT worker_id, count(*) AS jobs, max(expires_at) AS until FROM leases GROUP BY worker_id) AS holding
        USING (worker_id)
    ORDER BY worker.started_at, worker.worker_id
$$;

-- What figures are made of.
CREATE TYPE ended_job AS (
    org_id text, analysis text, status text, queued_at bigint, started_at bigint, finished_at bigint, error_code text, job_id text
);
CREATE TYPE queue_seen AS (org_id text, analysis text, waiting integer, oldest_at bigint);
CREATE TYPE job_underway AS (
    org_id text, job_id text, analysis text, queued_at bigint, started_at bigint, cancel_requested_at bigint,
    next_attempt_at bigint, lease_until bigint
);

-- The newest that ended since then: the ways to end, each in the order of its index, merged until there are enough. A job is
-- not updated after its end, so that the last update is the end.
CREATE FUNCTION read_ended(org text, since bigint, most integer) RETURNS SETOF ended_job LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT one.org_id, one.analysis, one.status, one.queued_at, one.started_at, one.finished_at, one.error_code,
            CASE one.status WHEN 'failed' THEN one.job_id END
        FROM (
            (SELECT job.org_id, job.analysis, job.status, job.queued_at, job.started_at, job.finished_at, job.error_code, job.job_id,
                 job.updated_at
             FROM jobs AS job
             WHERE job.org_id = org AND job.status = 'completed' AND job.updated_at >= since AND job.finished_at IS NOT NULL
             ORDER BY job.updated_at DESC LIMIT most)
            UNION ALL
            (SELECT job.org_id, job.analysis, job.status, job.queued_at, job.started_at, job.finished_at, job.error_code, job.job_id,
                 job.updated_at
             FROM jobs AS job
             WHERE job.org_id = org AND job.status = 'failed' AND job.updated_at >= since AND job.finished_at IS NOT NULL
             ORDER BY job.updated_at DESC LIMIT most)
            UNION ALL
            (SELECT job.org_id, job.analysis, job.status, job.queued_at, job.started_at, job.finished_at, job.error_code, job.job_id,
                 job.updated_at
             FROM jobs AS job
             WHERE job.org_id = org AND job.status = 'canceled' AND job.updated_at >= since AND job.finished_at IS NOT NULL
             ORDER BY job.updated_at DESC LIMIT most)
        ) AS one
        ORDER BY one.updated_at DESC LIMIT most;
END $$;

-- When the jobs were queued that wait now, of each queue and class so many at most: tickets have the order of time.
CREATE FUNCTION read_queued(org text, since bigint, most integer) RETURNS TABLE (queued_at bigint) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT one.queued_at
        FROM lanes AS lane
        CROSS JOIN LATERAL (VALUES ('expedite', lane.expedite_head), ('default', lane.default_head)) AS class (name, head)
        CROSS JOIN LATERAL (
            SELECT job.queued_at FROM jobs AS job
            WHERE job.org_id = org AND job.analysis = lane.analysis AND job.priority_class = class.name
              AND job.ticket > class.head AND job.started_at IS NULL AND job.finished_at IS NULL
            ORDER BY job.ticket DESC LIMIT most) AS one
        WHERE lane.org_id = org AND lane.waiting > 0 AND one.queued_at >= since
        ORDER BY one.queued_at DESC LIMIT most;
END $$;

-- What waits in each queue, with the oldest of it.
CREATE FUNCTION read_queues(org text, most integer) RETURNS SETOF queue_seen LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT lane.org_id, lane.analysis, lane.waiting, (
            SELECT min(first.queued_at)
            FROM (VALUES ('expedite', lane.expedite_head), ('default', lane.default_head)) AS class (name, head)
            CROSS JOIN LATERAL (
                SELECT job.queued_at FROM jobs AS job
                WHERE job.org_id = org AND job.analysis = lane.analysis AND job.priority_class = class.name
                  AND job.ticket > class.head AND job.started_at IS NULL AND job.finished_at IS NULL
                ORDER BY job.ticket LIMIT 1) AS first)
        FROM lanes AS lane WHERE lane.org_id = org AND lane.waiting > 0 LIMIT most;
END $$;

CREATE FUNCTION read_underway(org text, most integer) RETURNS SETOF job_underway LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT held.* FROM (
            SELECT lease.org_id, lease.job_id, job.analysis, job.queued_at, job.started_at, job.cancel_requested_at,
                job.next_attempt_at, lease.expires_at
            FROM leases AS lease CROSS JOIN LATERAL (
                SELECT * FROM jobs AS one WHERE one.org_id = org AND one.job_id = lease.job_id OFFSET 0) AS job
            WHERE lease.org_id = org LIMIT most) AS held
        UNION ALL SELECT free.* FROM (
            SELECT job.org_id, job.job_id, job.analysis, job.queued_at, job.started_at, job.cancel_requested_at,
                job.next_attempt_at, NULL::bigint
            FROM jobs AS job WHERE job.org_id = org AND job.next_attempt_at IS NOT NULL LIMIT most) AS free
        LIMIT most;
END $$;

-- The same over all orgs, for operators.
CREATE FUNCTION all_ended(since bigint, most integer) RETURNS SETOF ended_job LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT one.org_id, one.analysis, one.status, one.queued_at, one.started_at, one.finished_at, one.error_code,
            CASE one.status WHEN 'failed' THEN one.job_id END
        FROM jobs AS one WHERE one.finished_at >= since ORDER BY one.finished_at DESC LIMIT most;
END $$;

CREATE FUNCTION all_queued(since bigint, most integer) RETURNS TABLE (queued_at bigint) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT one.queued_at
        FROM (VALUES ('default'), ('expedite')) AS class (name)
        CROSS JOIN LATERAL (
            SELECT job.queued_at FROM jobs AS job
            WHERE job.status = 'queued' AND job.priority_class = class.name AND job.queued_at >= since
              AND job.started_at IS NULL AND job.finished_at IS NULL
            ORDER BY job.queued_at DESC LIMIT most) AS one
        ORDER BY one.queued_at DESC LIMIT most;
END $$;

CREATE FUNCTION all_queues(most integer) RETURNS SETOF queue_seen LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT lane.org_id, lane.analysis, lane.waiting, (
            SELECT min(first.queued_at)
            FROM (VALUES ('expedite', lane.expedite_head), ('default', lane.default_head)) AS class (name, head)
            CROSS JOIN LATERAL (
                SELECT job.queued_at FROM jobs AS job
                WHERE job.org_id = lane.org_id AND job.analysis = lane.analysis AND job.priority_class = class.name
                  AND job.ticket > class.head AND job.started_at IS NULL AND job.finished_at IS NULL
                ORDER BY job.ticket LIMIT 1) AS first)
        FROM lanes AS lane WHERE lane.waiting > 0 LIMIT most;
END $$;

CREATE FUNCTION all_underway(most integer) RETURNS SETOF job_underway LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT held.* FROM (
            SELECT lease.org_id, lease.job_id, job.analysis, job.queued_at, job.started_at, job.cancel_requested_at,
                job.next_attempt_at, lease.expires_at
            FROM leases AS lease CROSS JOIN LATERAL (
                SELECT * FROM jobs AS one WHERE one.org_id = lease.org_id AND one.job_id = lease.job_id OFFSET 0) AS job
            LIMIT most) AS held
        UNION ALL SELECT free.* FROM (
            SELECT job.org_id, job.job_id, job.analysis, job.queued_at, job.started_at, job.cancel_requested_at,
                job.next_attempt_at, NULL::bigint
            FROM jobs AS job WHERE job.next_attempt_at IS NOT NULL LIMIT most) AS free
        LIMIT most;
END $$;

SELECT plan_with(
    '{read_ended, read_queued, read_queues, read_underway, all_ended, all_queued, all_queues, all_underway}',
    'SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');
