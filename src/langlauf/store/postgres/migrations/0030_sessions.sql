-- Sessions of browsers that were ended before their time. A session is signed and not stored; its end is, until it would have
-- come by itself. `number` rises with every end, so that a process asks for those past the last one that it knows: the row with
-- the highest number stays, whatever its age.
CREATE TABLE ended_sessions (
    session_id text COLLATE "C" PRIMARY KEY,
    expires_at bigint NOT NULL,
    number     bigint NOT NULL
);

CREATE UNIQUE INDEX idx_ended_sessions_number ON ended_sessions (number);

-- Notes the end of a session, and forgets those that are over by themselves. One transaction at a time: numbers are committed
-- in their order, so a reader past one that it has seen misses nothing.
CREATE FUNCTION end_session(at bigint, ended text, ends_at bigint) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM pg_advisory_xact_lock('langlauf.ended_sessions'::regclass::bigint);
    DELETE FROM ended_sessions WHERE expires_at <= moment(at) AND number < (SELECT max(number) FROM ended_sessions);
    INSERT INTO ended_sessions (session_id, expires_at, number)
    VALUES (ended, ends_at, (SELECT coalesce(max(number), 0) + 1 FROM ended_sessions))
    ON CONFLICT (session_id) DO NOTHING;
END $$;

CREATE FUNCTION session_ends(past bigint) RETURNS SETOF ended_sessions LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT * FROM ended_sessions WHERE number > past ORDER BY number;
END $$;

SELECT plan_with('{end_session, session_ends}', 'SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');
