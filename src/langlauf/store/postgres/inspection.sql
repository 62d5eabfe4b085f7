-- Queries of `doctor`. Catalogs are open to every login; tables are read through functions.

-- name: server
SELECT current_setting('server_version_num')::integer, current_setting('fsync')::boolean,
    current_setting('full_page_writes')::boolean, pg_is_in_recovery(),
    current_setting('default_transaction_read_only')::boolean, pg_notification_queue_usage(),
    (SELECT count(*)::integer FROM pg_stat_activity WHERE backend_type = 'client backend'),
    current_setting('superuser_reserved_connections')::integer
        + coalesce(current_setting('reserved_connections', true), '0')::integer,
    current_setting('max_connections')::integer, pg_backend_pid()

-- name: session
SELECT (SELECT setting::integer FROM pg_settings WHERE name = 'statement_timeout'),
    (SELECT setting::integer FROM pg_settings WHERE name = 'lock_timeout'),
    (SELECT setting::integer FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'),
    current_setting('synchronous_commit'), current_setting('search_path')

-- name: hot_tables
SELECT relname::text, n_live_tup, n_dead_tup,
    extract(epoch FROM clock_timestamp() - greatest(last_autovacuum, last_vacuum))::float8
FROM pg_stat_user_tables WHERE schemaname = 'langlauf' ORDER BY n_dead_tup DESC, relname

-- name: holders
-- What holds back vacuum: sessions with a snapshot, lagging replicas, prepared transactions.
SELECT what, transactions, seconds FROM (
    SELECT format('session %s of %s (%s, %s)', pid, coalesce(usename, '?'), coalesce(nullif(application_name, ''), 'no name'),
               coalesce(state, 'state not shown')) AS what,
        greatest(coalesce(age(backend_xmin), 0), coalesce(age(backend_xid), 0)) AS transactions,
        coalesce(extract(epoch FROM clock_timestamp() - xact_start), 0)::float8 AS seconds
    FROM pg_stat_activity
    WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND pid <> pg_backend_pid()
      AND (datname = current_database() OR datname IS NULL)
    UNION ALL
    SELECT format('replication slot %s%s', slot_name, CASE WHEN active THEN '' ELSE ', which nobody reads' END),
        greatest(coalesce(age(xmin), 0), coalesce(age(catalog_xmin), 0)), 0
    FROM pg_replication_slots WHERE xmin IS NOT NULL OR catalog_xmin IS NOT NULL
    UNION ALL
    SELECT format('prepared transaction %s of %s', gid, owner), age(transaction),
        extract(epoch FROM clock_timestamp() - prepared)::float8
    FROM pg_prepared_xacts WHERE database = current_database()
) AS holder ORDER BY seconds DESC, transactions DESC LIMIT 5

-- name: missing_roles
SELECT wanted FROM unnest('{langlauf_api, langlauf_engine}'::text[]) AS wanted
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted)

-- name: boundless_roles
SELECT rolname::text FROM pg_roles WHERE rolname IN ('langlauf_api', 'langlauf_engine') AND (rolsuper OR rolbypassrls)

-- name: unguarded_tables
SELECT relname::text FROM pg_class AS class
WHERE relnamespace = to_regnamespace('langlauf') AND relkind IN ('r', 'p')
  AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = class.oid AND attname = 'org_id' AND NOT attisdropped)
  AND NOT (relrowsecurity AND relforcerowsecurity AND EXISTS (SELECT FROM pg_policy WHERE polrelid = class.oid))
ORDER BY relname

-- name: open_to_all
-- Rights of PUBLIC, and SECURITY DEFINER functions without a search_path of their own.
SELECT 'table ' || relname FROM pg_class, aclexplode(relacl)
WHERE relnamespace = to_regnamespace('langlauf') AND relkind IN ('r', 'p', 'v', 'm', 'S') AND grantee = 0
UNION
SELECT 'function ' || pg_proc.oid::regprocedure FROM pg_proc, aclexplode(coalesce(proacl, acldefault('f', proowner)))
WHERE pronamespace = to_regnamespace('langlauf') AND grantee = 0
UNION
SELECT 'schema langlauf' FROM pg_namespace, aclexplode(nspacl)
WHERE nspname = 'langlauf' AND grantee = 0
UNION
SELECT 'function ' || oid::regprocedure || ', which runs as its owner without a path of its own' FROM pg_proc
WHERE pronamespace = to_regnamespace('langlauf') AND prosecdef
  AND NOT coalesce(array_to_string(proconfig, ' ') ~ '(^| )search_path=', false)
ORDER BY 1

-- name: damages
SELECT 'the index ' || name.relname || ' is not valid' FROM pg_index AS made
JOIN pg_class AS name ON name.oid = made.indexrelid
WHERE name.relnamespace = to_regnamespace('langlauf') AND NOT (made.indisvalid AND made.indisready AND made.indislive)
UNION ALL
SELECT checksum_failures || ' pages of the database did not have their checksum' FROM pg_stat_database
WHERE datname = current_database() AND checksum_failures > 0
