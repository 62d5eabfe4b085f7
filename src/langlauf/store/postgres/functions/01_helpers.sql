CREATE OR REPLACE FUNCTION moment(at bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(at, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
$$;

-- How long an attempt may take at most, in microseconds: ten years where its limit is longer.
CREATE OR REPLACE FUNCTION attempt_time(timeout_seconds float8) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (least(timeout_seconds, 315360000) * 1000000)::bigint
$$;

-- RFC 3339 with microseconds.
CREATE OR REPLACE FUNCTION time_text(at bigint) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT to_char(timestamp 'epoch' + at * interval '1 microsecond', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

-- A text as a JSON string, or null.
CREATE OR REPLACE FUNCTION json_string(words text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce(to_json(words)::text, 'null')
$$;

-- A random number from 0 up to 1, for the delay of a retry; tests replace it.
CREATE OR REPLACE FUNCTION random_fraction() RETURNS float8 LANGUAGE sql VOLATILE AS $$
    SELECT random()
$$;

-- An id as a UUID; NULL for ids of other forms, which only imports bring.
CREATE OR REPLACE FUNCTION uuid_of(id text) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN id::uuid END
$$;

-- Details of an error, or NULL if jsonb cannot hold them: imported JSON must not fail the query for the other rows.
CREATE OR REPLACE FUNCTION details_of(words text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN words::jsonb - 'trace';
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;

-- The sentence of Langlauf in the details of an error, as a further member of an event; nothing where there is none.
CREATE OR REPLACE FUNCTION sentence_member(words text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN words LIKE '%"sentence":{%' THEN coalesce(',"sentence":' || (words::json -> 'sentence')::text, '') ELSE '' END
$$;

-- A state as the number that the index of ended jobs has of it.
CREATE OR REPLACE FUNCTION final_state_of(state text) RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE state WHEN 'completed' THEN 1 WHEN 'failed' THEN 2 WHEN 'canceled' THEN 3 ELSE 0 END::smallint
$$;

-- An instant as a timestamp of the legacy schema.
CREATE OR REPLACE FUNCTION timestamp_of(at bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT timestamptz 'epoch' + at * interval '1 microsecond'
$$;

CREATE OR REPLACE FUNCTION digest_of(words text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT encode(sha256(convert_to(words, 'UTF8')), 'hex')
$$;

-- Whether a text is JSON, whether or not jsonb can hold it.
CREATE OR REPLACE FUNCTION is_json(words text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM words::json;
    RETURN true;
EXCEPTION WHEN invalid_text_representation THEN
    RETURN false;
END $$;

-- Until when a snapshot is kept. A partial is not kept longer than the final that followed it: the job would show a result that
-- is gone.
CREATE OR REPLACE FUNCTION cutoff_of(kind text, status text, finals bigint, partials bigint, completed bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN kind = 'final' THEN finals WHEN status = 'completed' THEN completed ELSE partials END
$$;

-- The key of a record: its id if that is a UUID, else derived from it. The empty id sorts before all others.
CREATE OR REPLACE FUNCTION key_of(id text) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN id::uuid ELSE langlauf.key_of_name(id) END
$$;

CREATE OR REPLACE FUNCTION key_of_name(name text) RETURNS uuid LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    IF name = '' THEN
        RETURN '00000000-0000-0000-0000-000000000000';
    END IF;
    RETURN left(encode(sha256(convert_to(name, 'UTF8')), 'hex'), 32)::uuid;
END $$;

CREATE OR REPLACE FUNCTION hex_key(words text) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN words ~ '^[0-9a-f]{32}$' THEN words::uuid END
$$;

-- Derived ids are not stored: that of an event if the job's id is a UUID, and that of the message about a job's end.
CREATE OR REPLACE FUNCTION event_id_of(job text, seq integer) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN length(job) = 36 THEN lpad(to_hex(seq), 8, '0') || substr(job, 9) END
$$;

CREATE OR REPLACE FUNCTION message_id_of(job text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT substr(job, 1, 14) || '4' || substr(job, 16)
$$;

CREATE OR REPLACE FUNCTION new_event_id(job_name text) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN job_name IS NOT NULL THEN gen_random_uuid()::text END
$$;
