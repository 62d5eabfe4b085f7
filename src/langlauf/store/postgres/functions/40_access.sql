-- The next version of the keys, locked until the transaction ends: versions are committed in order, so a reader misses none.
CREATE OR REPLACE FUNCTION next_key_version() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock('langlauf.api_keys'::regclass::bigint);
    RETURN (SELECT coalesce(max(version), 0) + 1 FROM api_keys);
END $$;

-- Creates a key unless its id exists; then no row is returned, and the caller draws another id. A retry with the same key
-- returns it.
CREATE OR REPLACE FUNCTION create_key(
    at bigint, new_id text, org text, new_name text, new_hash text, new_scopes text, ends_at bigint
) RETURNS SETOF key_views LANGUAGE plpgsql AS $$
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

-- Revokes a key unless it is revoked. With an org, only a key of that org.
CREATE OR REPLACE FUNCTION revoke_key(at bigint, old_id text, org text) RETURNS SETOF key_views LANGUAGE plpgsql AS $$
DECLARE
    new_version bigint := next_key_version();
BEGIN
    UPDATE api_keys SET revoked_at = moment(at), version = new_version
    WHERE key_id = old_id AND (org IS NULL OR org_id = org) AND revoked_at IS NULL;
    RETURN QUERY SELECT one.* FROM key_views AS one WHERE one.key_id = old_id AND (org IS NULL OR one.org_id = org);
END $$;

-- Records the last use of keys. Rows are locked in one order, which prevents deadlocks.
CREATE OR REPLACE FUNCTION note_key_uses(ids text[], times bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM api_keys WHERE key_id = ANY (ids) ORDER BY key_id FOR NO KEY UPDATE;
    UPDATE api_keys SET last_used_at = used.used_at
    FROM unnest(ids, times) AS used (key_id, used_at)
    WHERE api_keys.key_id = used.key_id AND (api_keys.last_used_at IS NULL OR api_keys.last_used_at < used.used_at);
END $$;

-- The keys of an org, or of all, oldest first.
-- query: list_keys(org text) RETURNS SETOF key_views
SELECT one.* FROM key_views AS one WHERE org IS NULL OR one.org_id = org ORDER BY one.org_id, one.created_at, one.key_id;

-- Keys created or revoked after a version, with their hashes.
-- query: key_changes(past bigint) RETURNS TABLE (key key_views, secret_hash text, version bigint)
SELECT one, kept.secret_hash, kept.version
FROM api_keys AS kept JOIN key_views AS one ON one.key_id = kept.key_id
WHERE kept.version > past ORDER BY kept.version;

-- The secret of a purpose; the first one stored wins.
CREATE OR REPLACE FUNCTION keep_secret(at bigint, wanted text, brought bytea) RETURNS bytea LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signing_secrets (purpose, secret, created_at) VALUES (wanted, brought, moment(at)) ON CONFLICT DO NOTHING;
    RETURN (SELECT secret FROM signing_secrets WHERE purpose = wanted);
END $$;

-- A stored secret, without creating one.
CREATE OR REPLACE FUNCTION kept_secret(wanted text) RETURNS bytea LANGUAGE sql STABLE AS $$
    SELECT secret FROM signing_secrets WHERE purpose = wanted
$$;

-- The org of a job or a result by its id; two rows if the id is ambiguous.
-- query: owners(kind text, wanted text) RETURNS TABLE (org_id text, job_id text)
SELECT one.org_id, one.job_id FROM jobs AS one WHERE kind = 'job' AND one.job = key_of(wanted)
UNION ALL
SELECT one.org_id, one.job_id FROM job_results AS one WHERE kind <> 'job' AND one.result = key_of(wanted)
LIMIT 2;

-- Records the end of a session, and removes expired ones. A lock keeps numbers committed in order, so a reader misses none.
CREATE OR REPLACE FUNCTION end_session(at bigint, ended text, ends_at bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock('langlauf.ended_sessions'::regclass::bigint);
    DELETE FROM ended_sessions WHERE expires_at <= moment(at) AND number < (SELECT max(number) FROM ended_sessions);
    INSERT INTO ended_sessions (session_id, expires_at, number)
    VALUES (ended, ends_at, (SELECT coalesce(max(number), 0) + 1 FROM ended_sessions))
    ON CONFLICT (session_id) DO NOTHING;
END $$;

-- query: session_ends(past bigint) RETURNS SETOF ended_sessions
SELECT * FROM ended_sessions WHERE number > past ORDER BY number;

-- Revokes all keys of an org and removes their names. They stay, because the existence of a key is what requires one.
CREATE OR REPLACE FUNCTION forget_keys(at bigint, org text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    one text;
BEGIN
    FOR one IN SELECT key_id FROM api_keys WHERE org_id = org AND revoked_at IS NULL LOOP
        PERFORM revoke_key(at, one, org);
    END LOOP;
    UPDATE api_keys SET name = '', last_used_at = NULL WHERE org_id = org AND (name <> '' OR last_used_at IS NOT NULL);
    RETURN (SELECT count(*) FROM api_keys WHERE org_id = org);
END $$;
