-- Who may do what. Two roles that nobody can log in as: langlauf_api reads the rows of the one org that is set, and
-- langlauf_engine reads and writes for all orgs. Nobody else has a right on any table: what the program does, it does through
-- functions that run as one of the two, so a statement of its own, whatever it forgets, gives nothing.
--
-- Both functions below only bring about what is not so yet. Whoever migrates calls them after the last step: what a later
-- step adds or replaces is guarded like everything else.
-- Tables: row-level security, forced on their owner too, wherever there is an org to tell rows apart by; and the rights.
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
            -- Rows that come from elsewhere come through the views of the records.
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

-- Functions: each runs as its owner with a path that nobody else can put anything on, and nobody may call it who was not let
-- in. Those named as reads are langlauf_api's, all others langlauf_engine's. Who may read the list of migrations is a login
-- of the program and may call them all.
--
-- Two kinds stay with their caller. Helpers touch no table and can be inlined that way: what is immutable, and some more by
-- name. Tools of whoever migrates bring a path of their own and do not ask for their owner's rights.
CREATE OR REPLACE FUNCTION guard_functions(reads text[]) RETURNS void LANGUAGE plpgsql SET search_path = langlauf, pg_temp AS $$
DECLARE
    logins CONSTANT text := (
        SELECT string_agg(DISTINCT quote_ident(rolname), ', ') FROM pg_class, aclexplode(relacl), pg_roles AS role
        WHERE pg_class.oid = 'langlauf.migrations'::regclass AND privilege_type = 'SELECT' AND role.oid = grantee
        AND rolname NOT IN ('langlauf_api', 'langlauf_engine'));
    one record;
BEGIN
    -- An owner must have the right to make functions where its functions are; it needs it for this moment alone.
    GRANT USAGE, CREATE ON SCHEMA langlauf TO langlauf_api, langlauf_engine;
    FOR one IN
        SELECT pg_proc.oid::regprocedure AS name, pg_get_userbyid(proowner) AS owner,
            CASE WHEN proname = ANY (reads) THEN 'langlauf_api' ELSE 'langlauf_engine' END AS role,
            provolatile = 'i' OR proname IN ('moment', 'time_text', 'said', 'feed_mark', 'new_event_id') AS helper,
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
