-- Keys of orgs, what signatures are made with, and what is looked at over all orgs.

-- A key as its org's admins see it: without its hash.
CREATE VIEW key_views WITH (security_invoker = true) AS
SELECT key_id, org_id, name, scopes, created_at, expires_at, revoked_at, last_used_at FROM api_keys;

-- The next version of the keys. Whoever asks keeps the turn until its transaction ends: versions are committed in their
-- order, so whoever reads past one that it has seen misses nothing.
CREATE FUNCTION next_key_version() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock('langlauf.api_keys'::regclass::bigint);
    RETURN (SELECT coalesce(max(version), 0) + 1 FROM api_keys);
END $$;

-- Keeps a key unless its id is taken: then nothing comes back, and the caller draws another one. Whoever asks again because
-- the answer was lost brings the same key, and gets it.
CREATE FUNCTION create_key(
    at bigint, new_id text, org text, new_name text, new_hash text, new_scopes text, ends_at bigint
) RETURNS SETOF key_views LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    new_version bigint := next_key_version();
BEGIN
    INSERT INTO api_keys (key_id, org_id, name, secret_hash, scopes, created_at, expires_at, version)
    VALUES (new_id, org, new_name, new_hash, new_scopes, moment(at), ends_at, new_version)
    ON CONFLICT (key_id) DO NOTHING;
    RETURN QUERY
        SELECT one.* FROM key_views AS one JOIN api_keys AS kept USING (key_id)
        WHERE kept.key_id = new_id AND kept.org_id = org AND kept.secret_hash = new_hash;
END $$;

-- Ends a key unless it has ended. With an org, only a key of that org.
CREATE FUNCTION revoke_key(at bigint, old_id text, org text) RETURNS SETOF key_views LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    new_version bigint := next_key_version();
BEGIN
    UPDATE api_keys SET revoked_at = moment(at), version = new_version
    WHERE key_id = old_id AND (org IS NULL OR org_id = org) AND revoked_at IS NULL;
    RETURN QUERY SELECT one.* FROM key_views AS one WHERE one.key_id = old_id AND (org IS NULL OR one.org_id = org);
END $$;

-- Remembers the newest use of each. Rows are locked in one order, so that hosts do not wait for each other in a circle.
CREATE FUNCTION note_key_uses(ids text[], times bigint[]) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM 1 FROM api_keys WHERE key_id = ANY (ids) ORDER BY key_id FOR NO KEY UPDATE;
    UPDATE api_keys SET last_used_at = used.used_at
    FROM unnest(ids, times) AS used (key_id, used_at)
    WHERE api_keys.key_id = used.key_id AND (api_keys.last_used_at IS NULL OR api_keys.last_used_at < used.used_at);
END $$;

-- The keys of an org, or of all, oldest first.
CREATE FUNCTION list_keys(org text) RETURNS SETOF key_views LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    IF org IS NULL THEN
        RETURN QUERY SELECT one.* FROM key_views AS one ORDER BY one.org_id, one.created_at, one.key_id;
    ELSE
        RETURN QUERY SELECT one.* FROM key_views AS one WHERE one.org_id = org ORDER BY one.created_at, one.key_id;
    END IF;
END $$;

-- What was made or revoked past a version, with the hash that the key's text must have.
CREATE FUNCTION key_changes(past bigint) RETURNS TABLE (key key_views, secret_hash text, version bigint) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT one, kept.secret_hash, kept.version
        FROM api_keys AS kept JOIN key_views AS one ON one.key_id = kept.key_id
        WHERE kept.version > past ORDER BY kept.version;
END $$;

-- The secret of a purpose, which is the first one anybody brought.
CREATE FUNCTION keep_secret(at bigint, wanted text, brought bytea) RETURNS bytea LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO signing_secrets (purpose, secret, created_at) VALUES (wanted, brought, moment(at)) ON CONFLICT DO NOTHING;
    RETURN (SELECT secret FROM signing_secrets WHERE purpose = wanted);
END $$;

-- Whose a job is, or a result, by its id alone; two where an id alone does not say which.
CREATE FUNCTION owners(kind text, wanted text) RETURNS TABLE (org_id text, job_id text) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    IF kind = 'job' THEN
        RETURN QUERY SELECT one.org_id, one.job_id FROM jobs AS one WHERE one.job_id = wanted LIMIT 2;
    ELSE
        RETURN QUERY SELECT one.org_id, one.job_id FROM job_results AS one WHERE one.result_id = wanted LIMIT 2;
    END IF;
END $$;

-- How many jobs wait and run. A lease that has ended does not count.
CREATE FUNCTION depth(at bigint) RETURNS TABLE (waiting bigint, running bigint) LANGUAGE sql STABLE AS $$
    SELECT (SELECT coalesce(sum(waiting), 0)::bigint FROM waiting_counts),
           (SELECT count(*) FROM leases WHERE expires_at > (SELECT moment(at)))
$$;

CREATE FUNCTION paces() RETURNS TABLE (analysis text, mean_seconds float8) LANGUAGE sql STABLE AS $$
    SELECT analysis, mean_seconds FROM pace
$$;

-- What waits in a lane, and what runs, as far as estimates need it.
CREATE TYPE lane_load AS (org_id text, analysis text, waiting integer, virtual_start bigint);
CREATE TYPE run_load AS (
    org_id text, analysis text, started_at bigint, percent integer, paced_percent integer, paced_at bigint, progress_at bigint
);

-- All that waits and runs over all orgs, at one moment: as many rows as lanes that wait and jobs that run.
CREATE FUNCTION load(at bigint) RETURNS TABLE (seen_at bigint, virtual_now bigint, lanes lane_load[], runs run_load[])
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    now bigint := moment(at);
BEGIN
    RETURN QUERY
        SELECT now, clock.virtual_now,
            ARRAY(SELECT ROW(lane.org_id, lane.analysis, lane.waiting, greatest(lane.virtual_start, clock.virtual_now))::lane_load
                  FROM lanes AS lane WHERE lane.waiting > 0),
            ARRAY(SELECT ROW(lease.org_id, job.analysis, job.attempt_started_at, job.progress_percent, job.paced_percent,
                             job.paced_at, job.progress_at)::run_load
                  FROM leases AS lease CROSS JOIN LATERAL (
                      SELECT * FROM jobs WHERE jobs.org_id = lease.org_id AND jobs.job_id = lease.job_id OFFSET 0) AS job
                  WHERE lease.expires_at > now)
        FROM lane_clock AS clock;
END $$;

-- How followed jobs of all orgs are doing, in one look.
CREATE FUNCTION pulses(org_ids text[], job_ids text[]) RETURNS TABLE (
    org_id text, job_id text, event_seq integer, result_expired boolean, events_expired boolean, lease_expires_at bigint
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT job.org_id, job.job_id, job.event_seq, job.result_expired_at IS NOT NULL, job.events_expired_at IS NOT NULL,
            job.lease_expires_at
        FROM unnest(org_ids, job_ids) AS followed (org_id, job_id)
        JOIN job_views AS job ON job.org_id = followed.org_id AND job.job_id = followed.job_id;
END $$;

-- What snapshots of these jobs name outside of the database, and whether no more will come.
CREATE FUNCTION kept_payloads(org_ids text[], job_ids text[]) RETURNS TABLE (org_id text, job_id text, ended boolean, refs text[])
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT job.org_id, job.job_id, job.finished_at IS NOT NULL, ARRAY(
            SELECT shown.result_payload_ref FROM job_results AS shown
            WHERE shown.org_id = job.org_id AND shown.job_id = job.job_id AND shown.removed_at IS NULL
              AND shown.result_payload_ref <> 'inline:')
        FROM unnest(org_ids, job_ids) AS asked (org_id, job_id)
        JOIN jobs AS job ON job.org_id = asked.org_id AND job.job_id = asked.job_id;
END $$;

-- Which schema this is: the number of its last migration.
CREATE FUNCTION schema_number() RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT coalesce(max(number), 0) FROM migrations
$$;

SELECT plan_with('{note_key_uses, pulses, kept_payloads}',
    'SET enable_bitmapscan = on SET enable_indexscan = off SET enable_indexonlyscan = off');
SELECT plan_with('{next_key_version, create_key, revoke_key, list_keys, key_changes, keep_secret, owners, load}',
    'SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');
