-- Sessions of browsers that were ended before their time. A session is signed and not stored; its end is, until it would have
-- come by itself. `number` rises with every end, so that a process asks for those past the last one that it knows: the row with
-- the highest number stays, whatever its age.
CREATE TABLE ended_sessions (
    session_id TEXT    PRIMARY KEY,
    expires_at INTEGER NOT NULL,
    number     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX idx_ended_sessions_number ON ended_sessions (number);
