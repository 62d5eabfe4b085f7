-- Stores a worker's report, and removes reports silent for longer than `kept`. A stopped worker does not come back under the
-- same id.
CREATE OR REPLACE FUNCTION save_worker_report(
    at bigint, kept bigint, worker_id text, host text, pid integer, version text, analyses text, slots integer, busy integer,
    every_seconds float8, started_at bigint, stopping boolean
) RETURNS void LANGUAGE plpgsql AS $$
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

-- Stores which code a worker runs, and that it was seen now.
CREATE OR REPLACE FUNCTION save_codes(
    at bigint, keys bigint[], analyses text[], versions text[], hashes text[], packages text[], langlaufs text[], pythons text[], hosts text[]
) RETURNS void LANGUAGE sql AS $$
    INSERT INTO codes
    SELECT *, moment(at) FROM unnest(keys, analyses, versions, hashes, packages, langlaufs, pythons, hosts) AS one (key) ORDER BY key
    ON CONFLICT (code) DO UPDATE SET seen_at = excluded.seen_at
$$;

CREATE OR REPLACE FUNCTION find_code(key bigint) RETURNS SETOF codes LANGUAGE sql STABLE AS $$
    SELECT * FROM codes WHERE code = key
$$;

CREATE OR REPLACE FUNCTION remove_worker(gone text) RETURNS void LANGUAGE sql AS $$
    DELETE FROM workers WHERE worker_id = gone
$$;

-- Workers with the number of their leases and the latest expiry.
CREATE OR REPLACE FUNCTION all_workers() RETURNS TABLE (
    worker_id text, host text, pid integer, version text, analyses text, slots integer, busy integer, every_seconds float8,
    started_at bigint, stopping boolean, seen_at bigint, held bigint, held_until bigint
) LANGUAGE sql STABLE AS $$
    SELECT worker.worker_id, worker.host, worker.pid, worker.version, worker.analyses, worker.slots, worker.busy,
        worker.every_seconds, worker.started_at, worker.stopping, worker.seen_at, coalesce(holding.jobs, 0), holding.until
    FROM workers AS worker
    LEFT JOIN (SELECT worker_id, count(*) AS jobs, max(lease_expires_at) AS until FROM jobs WHERE deadline_at > 0 GROUP BY worker_id) AS holding
        USING (worker_id)
    ORDER BY worker.started_at, worker.worker_id
$$;

-- The latest success of any host counts.
CREATE OR REPLACE FUNCTION record_duty(at bigint, duty text, host text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO duties AS known VALUES (duty, moment(at), host)
    ON CONFLICT (name) DO UPDATE SET succeeded_at = excluded.succeeded_at, host = excluded.host
    WHERE known.succeeded_at <= excluded.succeeded_at
$$;

CREATE OR REPLACE FUNCTION all_duties() RETURNS SETOF duties LANGUAGE sql STABLE AS $$
    SELECT * FROM duties ORDER BY name
$$;
