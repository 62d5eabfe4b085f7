-- Roles and rights. Two roles without login: langlauf_api reads rows of the org that is set, and langlauf_engine reads and
-- writes rows of all orgs. No other role has a right on a table: the program only calls functions that run as one of the two,
-- so a query that forgets the org returns nothing.
--
-- Both functions below are idempotent and run after every migration.
--
-- Tables: forced row-level security wherever there is an org, and rights.
CREATE OR REPLACE FUNCTION guard_tables() RETURNS void LANGUAGE plpgsql SET search_path = langlauf, pg_temp AS $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT class.oid::regclass AS name, relname, relkind, relrowsecurity AND relforcerowsecurity AS guarded,
            coalesce('security_invoker=true' = ANY (reloptions), false) AS for_its_reader,
            EXISTS (SELECT FROM pg_attribute WHERE attrelid = class.oid AND attname = 'org_id' AND NOT attisdropped) AS of_orgs
        FROM pg_class AS class WHERE relnamespace = 'langlauf'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S')
    LOOP
        IF one.relkind = 'S' THEN
            EXECUTE format('GRANT USAGE ON SEQUENCE %s TO langlauf_engine', one.name);
        ELSIF one.relkind IN ('v', 'm') THEN
            IF NOT one.for_its_reader THEN
                RAISE EXCEPTION 'the view % would show what its owner sees: make it WITH (security_invoker = true)', one.name;
            END IF;
            EXECUTE format('GRANT SELECT ON %s TO langlauf_api, langlauf_engine', one.name);
            -- Copies and imports insert through these views.
            EXECUTE format('GRANT INSERT ON %s TO langlauf_engine', one.name);
        ELSE
            EXECUTE format('GRANT SELECT %s ON %s TO langlauf_engine',
                CASE WHEN one.relname IN ('migrations', 'installed') THEN '' ELSE ', INSERT, UPDATE, DELETE' END, one.name);
            IF one.of_orgs AND one.relname <> 'api_keys' THEN
                EXECUTE format('GRANT SELECT ON %s TO langlauf_api', one.name);
            END IF;
            IF one.of_orgs AND NOT one.guarded THEN
                EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', one.name);
                EXECUTE format('CREATE POLICY own_org ON %s FOR SELECT TO langlauf_api
                    USING (org_id = current_setting(''langlauf.org_id'', true))', one.name);
                EXECUTE format('CREATE POLICY all_orgs ON %s TO langlauf_engine USING (true) WITH CHECK (true)', one.name);
            END IF;
        END IF;
    END LOOP;
END $$;

-- Functions: each runs as its owner with a fixed search_path, and only roles that are granted may call it. Reads belong to
-- langlauf_api, all others to langlauf_engine. Roles that may read the table of migrations are logins of the program and may
-- call all.
--
-- Two kinds run as their caller. Helpers, immutable or named here, touch no table and can be inlined. Tools of the migrating
-- login set a search_path of their own.
CREATE OR REPLACE FUNCTION guard_functions(reads text[]) RETURNS void LANGUAGE plpgsql SET search_path = langlauf, pg_temp AS $$
DECLARE
    logins CONSTANT text := (
        SELECT string_agg(DISTINCT quote_ident(rolname), ', ') FROM pg_class, aclexplode(relacl), pg_roles AS role
        WHERE pg_class.oid = 'langlauf.migrations'::regclass AND privilege_type = 'SELECT' AND role.oid = grantee
        AND rolname NOT IN ('langlauf_api', 'langlauf_engine'));
    one record;
BEGIN
    -- An owner needs CREATE on the schema at this moment.
    GRANT USAGE, CREATE ON SCHEMA langlauf TO langlauf_api, langlauf_engine;
    FOR one IN
        SELECT pg_proc.oid::regprocedure AS name, pg_get_userbyid(proowner) AS owner,
            CASE WHEN proname = ANY (reads) THEN 'langlauf_api' ELSE 'langlauf_engine' END AS role,
            provolatile = 'i' OR proname IN ('moment', 'time_text', 'json_string', 'feed_mark', 'new_event_id') AS helper,
            NOT prosecdef AND coalesce(array_to_string(proconfig, ' ') ~ '(^| )search_path=', false) AS tool
        FROM pg_proc WHERE pronamespace = 'langlauf'::regnamespace
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', one.name);
        IF NOT one.tool AND one.owner <> one.role THEN
            EXECUTE format('ALTER FUNCTION %s OWNER TO %I', one.name, one.role);
        END IF;
        IF one.helper THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO langlauf_api', one.name);
        ELSIF NOT one.tool THEN
            EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = langlauf, pg_temp', one.name);
        END IF;
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', one.name, concat_ws(', ', quote_ident(current_user), logins));
    END LOOP;
    REVOKE CREATE ON SCHEMA langlauf FROM langlauf_api, langlauf_engine;
END $$;
