-- The roles of Langlauf, without login. They belong to the server: all its databases share them. May be run again at any time.
DO $roles$
DECLARE
    migrating CONSTANT text := {{login}};
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['langlauf_api', 'langlauf_engine'] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = wanted) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS', wanted);
        END IF;
        -- The migrating login makes them owners of its functions.
        IF NOT pg_catalog.pg_has_role(migrating, wanted, 'USAGE')
            OR current_setting('server_version_num')::integer >= 160000 AND NOT pg_catalog.pg_has_role(migrating, wanted, 'SET')
        THEN
            EXECUTE format('GRANT %I TO %I', wanted, migrating) || CASE
                WHEN current_setting('server_version_num')::integer >= 160000 THEN ' WITH INHERIT TRUE, SET TRUE' ELSE '' END;
        END IF;
    END LOOP;
END $roles$;
