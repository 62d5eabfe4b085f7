-- Who may call: keys of orgs, and what signatures are made with.

-- A key is made and revoked, never removed: that there ever was one is what closes a store to callers without. `version`
-- numbers these changes over all keys, so that whoever remembers keys asks for the changes alone.
CREATE TABLE api_keys (
    key_id       TEXT    PRIMARY KEY,
    org_id       TEXT    NOT NULL CHECK (length(org_id) BETWEEN 1 AND 128),
    name         TEXT    NOT NULL,
    secret_hash  TEXT    NOT NULL CHECK (length(secret_hash) = 64),
    scopes       TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    last_used_at INTEGER,
    version      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX idx_api_keys_version ON api_keys (version);
CREATE INDEX idx_api_keys_org ON api_keys (org_id, created_at, key_id);

CREATE TRIGGER api_keys_stay BEFORE DELETE ON api_keys
BEGIN
    SELECT RAISE(ABORT, 'a key is revoked, never removed');
END;

CREATE TRIGGER api_keys_stay_what_they_are BEFORE UPDATE OF key_id, org_id, secret_hash, scopes, created_at, expires_at ON api_keys
BEGIN
    SELECT RAISE(ABORT, 'a key does not change: make another one');
END;

CREATE TRIGGER api_keys_stay_revoked BEFORE UPDATE OF revoked_at ON api_keys
WHEN OLD.revoked_at IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'a key that was revoked stays revoked');
END;

CREATE TABLE signing_secrets (
    purpose    TEXT    PRIMARY KEY,
    secret     BLOB    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Where whoever has an id may read what it names, the org is found by the id.
CREATE INDEX idx_jobs_id ON jobs (job_id);
CREATE INDEX idx_job_results_id ON job_results (result_id);
