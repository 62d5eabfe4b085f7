CREATE OR REPLACE FUNCTION record_schema() RETURNS void LANGUAGE sql AS $$
    DELETE FROM schema_made;
    INSERT INTO schema_made (kind, name, digest, server)
    SELECT kind, name, digest_of(definition), current_setting('server_version_num')::integer / 10000 FROM schema_objects;
$$;

-- Objects that differ from what the migration recorded. For another release of PostgreSQL, which may word definitions
-- differently, only names are compared.
CREATE OR REPLACE FUNCTION changed_objects() RETURNS TABLE (change text) LANGUAGE sql STABLE AS $$
    SELECT made.kind || ' ' || made.name || CASE WHEN there.name IS NULL THEN ' is missing' ELSE ' is changed' END
    FROM schema_made AS made LEFT JOIN schema_objects AS there USING (kind, name)
    WHERE there.name IS NULL
       OR (made.server = current_setting('server_version_num')::integer / 10000 AND made.digest <> digest_of(there.definition))
    UNION ALL
    SELECT 'nothing says what the migrations made' WHERE NOT EXISTS (SELECT 1 FROM schema_made)
    ORDER BY 1
$$;

-- The source of an unfinished copy, or NULL.
CREATE OR REPLACE FUNCTION copied_from() RETURNS text LANGUAGE sql STABLE AS $$ SELECT source FROM copying $$;

-- Release and digest of the installed functions.
CREATE OR REPLACE FUNCTION installed_functions() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT release || ' ' || digest FROM installed
$$;
