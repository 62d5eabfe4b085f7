-- Drops the functions, views, types and triggers of the schema before they are created again. The types of migrations stay, and
-- functions used by views of others stay and are replaced. All are listed before the first is dropped, as a drop cascades to views and triggers.
DO $$
DECLARE
    one text;
BEGIN
    FOREACH one IN ARRAY ARRAY(
        SELECT 'FUNCTION IF EXISTS ' || pg_proc.oid::regprocedure FROM pg_proc
        WHERE pronamespace = 'langlauf'::regnamespace AND NOT EXISTS (
            SELECT FROM pg_depend JOIN pg_rewrite ON pg_rewrite.oid = objid JOIN pg_class ON pg_class.oid = ev_class
            WHERE refobjid = pg_proc.oid AND classid = 'pg_rewrite'::regclass AND relnamespace <> pronamespace)
        UNION ALL
        SELECT CASE relkind WHEN 'v' THEN 'VIEW IF EXISTS ' ELSE 'TYPE IF EXISTS ' END || oid::regclass FROM pg_class
        WHERE relnamespace = 'langlauf'::regnamespace AND relkind IN ('v', 'c')
          AND relname NOT IN ('new_job', 'new_subscription', 'claim_request', 'attempt_write'))
    LOOP
        EXECUTE 'DROP ' || one || ' CASCADE';
    END LOOP;
END $$;
