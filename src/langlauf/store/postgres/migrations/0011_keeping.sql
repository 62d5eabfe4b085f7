-- Keeping a store: removing what is old, telling what its schema is, and rebuilding what is counted.

-- What the schema is: every object with its definition, in words that the database itself chooses.
CREATE VIEW schema_objects AS
WITH mine AS (SELECT 'langlauf'::regnamespace AS schema)
SELECT CASE relkind WHEN 'v' THEN 'view' WHEN 'c' THEN 'type' ELSE 'table' END AS kind, relname::text AS name,
    concat_ws(' ', relkind, relpersistence, relrowsecurity, relforcerowsecurity, reloptions,
        CASE relkind WHEN 'v' THEN pg_get_viewdef(oid) END) AS definition
FROM pg_class, mine WHERE relnamespace = schema AND relkind IN ('r', 'p', 'v', 'c')
UNION ALL
SELECT 'column', relname || '.' || attname, concat_ws(' ', format_type(atttypid, atttypmod), attnotnull,
    (SELECT collname FROM pg_collation WHERE pg_collation.oid = attcollation), pg_get_expr(adbin, adrelid))
FROM mine JOIN pg_class ON relnamespace = schema JOIN pg_attribute ON attrelid = pg_class.oid
LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE relkind IN ('r', 'p', 'c') AND attnum > 0 AND NOT attisdropped
UNION ALL
SELECT 'constraint', relname || '.' || conname, pg_get_constraintdef(pg_constraint.oid)
FROM mine JOIN pg_constraint ON connamespace = schema JOIN pg_class ON pg_class.oid = conrelid
UNION ALL
SELECT 'index', relname::text, pg_get_indexdef(pg_class.oid)
FROM pg_class, mine WHERE relnamespace = schema AND relkind IN ('i', 'I')
UNION ALL
SELECT 'trigger', relname || '.' || tgname, tgenabled::text || ' ' || pg_get_triggerdef(pg_trigger.oid)
FROM mine JOIN pg_class ON relnamespace = schema JOIN pg_trigger ON tgrelid = pg_class.oid WHERE NOT tgisinternal
UNION ALL
SELECT 'function', pg_proc.oid::regprocedure::text, concat_ws(' ', lanname, prosecdef, provolatile, proisstrict, proconfig,
    pg_get_function_arguments(pg_proc.oid), pg_get_function_result(pg_proc.oid), prosrc)
FROM mine JOIN pg_proc ON pronamespace = schema JOIN pg_language ON pg_language.oid = prolang
UNION ALL
SELECT 'policy', relname || '.' || polname, concat_ws(' ', polcmd, polpermissive, polroles::regrole[],
    pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))
FROM mine JOIN pg_class ON relnamespace = schema JOIN pg_policy ON polrelid = pg_class.oid;

-- The same as it was when the last migration was done, for `verify`: what nobody meant to change is told.
CREATE TABLE schema_made (
    kind   text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    digest text    NOT NULL,
    server integer NOT NULL,
    PRIMARY KEY (kind, name)
);

CREATE FUNCTION digest_of(words text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT encode(sha256(convert_to(words, 'UTF8')), 'hex')
$$;

CREATE FUNCTION note_schema() RETURNS void LANGUAGE sql AS $$
    DELETE FROM schema_made;
    INSERT INTO schema_made (kind, name, digest, server)
    SELECT kind, name, digest_of(definition), current_setting('server_version_num')::integer / 10000 FROM schema_objects;
$$;

-- Whether a text is JSON. The text alone decides, not what it could be stored as.
CREATE FUNCTION is_json(words text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM words::json;
    RETURN true;
EXCEPTION WHEN invalid_text_representation THEN
    RETURN false;
END $$;
