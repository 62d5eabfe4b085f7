-- What of keys and workers SQLite says in other words; the rest is in `admin.sql` for both.

-- Records the last use of keys. Rows are locked in one order, which prevents deadlocks.
CREATE OR REPLACE FUNCTION note_key_uses(ids text[], times bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM api_keys WHERE key_id = ANY (ids) ORDER BY key_id FOR NO KEY UPDATE;
    UPDATE api_keys SET last_used_at = used.used_at
    FROM unnest(ids, times) AS used (key_id, used_at)
    WHERE api_keys.key_id = used.key_id AND (api_keys.last_used_at IS NULL OR api_keys.last_used_at < used.used_at);
END $$;

-- The org of a job or a result by its id; two rows if the id is ambiguous.
-- query: owners(kind text, wanted text) RETURNS TABLE (org_id text, job_id text)
SELECT one.org_id, one.job_id FROM jobs AS one WHERE kind = 'job' AND one.job = key_of(wanted)
UNION ALL
SELECT one.org_id, one.job_id FROM job_results AS one WHERE kind <> 'job' AND one.result = key_of(wanted)
LIMIT 2;

-- Stores which code a worker runs, and that it was seen now.
CREATE OR REPLACE FUNCTION save_codes(
    at bigint, keys bigint[], analyses text[], versions text[], hashes text[], packages text[], langlaufs text[], pythons text[], hosts text[]
) RETURNS void LANGUAGE sql AS $$
    INSERT INTO codes
    SELECT *, moment(at) FROM unnest(keys, analyses, versions, hashes, packages, langlaufs, pythons, hosts) AS one (key) ORDER BY key
    ON CONFLICT (code) DO UPDATE SET seen_at = excluded.seen_at
$$;
