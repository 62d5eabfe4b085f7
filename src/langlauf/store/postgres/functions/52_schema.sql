CREATE OR REPLACE FUNCTION note_schema() RETURNS void LANGUAGE sql AS $$
    DELETE FROM schema_made;
    INSERT INTO schema_made (kind, name, digest, server)
    SELECT kind, name, digest_of(definition), current_setting('server_version_num')::integer / 10000 FROM schema_objects;
$$;

-- What `doctor` asks. Whoever runs the program may call it all, also a login that owns nothing.
-- What of the schema is not as the migrations noted it. Another release of PostgreSQL may word a definition differently: then
-- only the names are compared.
CREATE OR REPLACE FUNCTION changed_objects() RETURNS TABLE (change text) LANGUAGE sql STABLE AS $$
    SELECT made.kind || ' ' || made.name || CASE WHEN there.name IS NULL THEN ' is missing' ELSE ' is changed' END
    FROM schema_made AS made LEFT JOIN schema_objects AS there USING (kind, name)
    WHERE there.name IS NULL
       OR (made.server = current_setting('server_version_num')::integer / 10000 AND made.digest <> digest_of(there.definition))
    UNION ALL
    SELECT 'nothing says what the migrations made' WHERE NOT EXISTS (SELECT 1 FROM schema_made)
    ORDER BY 1
$$;

-- From where a copy is under way, if one is.
CREATE OR REPLACE FUNCTION copied_from() RETURNS text LANGUAGE sql STABLE AS $$ SELECT source FROM copying $$;

-- Which functions are installed: their release and their digest.
CREATE OR REPLACE FUNCTION installed_functions() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT release || ' ' || digest FROM installed
$$;
