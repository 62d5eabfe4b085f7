-- Takes away the functions, views, types and triggers of the schema, before they are made again. Functions that a view of others
-- is made of stay, and are replaced where they are.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT pg_proc.oid::regprocedure AS name FROM pg_proc
        WHERE pronamespace = 'langlauf'::regnamespace AND NOT EXISTS (
            SELECT FROM pg_depend JOIN pg_rewrite ON pg_rewrite.oid = objid JOIN pg_class ON pg_class.oid = ev_class
            WHERE refobjid = pg_proc.oid AND classid = 'pg_rewrite'::regclass AND relnamespace <> pronamespace)
    LOOP
        -- Views and triggers go with the functions that they are made of; so may a function that is next.
        EXECUTE format('DROP FUNCTION IF EXISTS %s CASCADE', one.name);
    END LOOP;
    FOR one IN SELECT oid::regclass AS name FROM pg_class WHERE relnamespace = 'langlauf'::regnamespace AND relkind = 'v' LOOP
        EXECUTE format('DROP VIEW IF EXISTS %s CASCADE', one.name);
    END LOOP;
    FOR one IN SELECT oid::regclass AS name FROM pg_class WHERE relnamespace = 'langlauf'::regnamespace AND relkind = 'c' LOOP
        EXECUTE format('DROP TYPE IF EXISTS %s CASCADE', one.name);
    END LOOP;
END $$;
