-- Who works: a row per worker, written by itself every few seconds and removed when it stops. It belongs to no org. One that
-- vanished stays for a while, so that people can see which one it was.

CREATE TABLE workers (
    worker_id     TEXT    PRIMARY KEY,
    host          TEXT    NOT NULL,
    pid           INTEGER NOT NULL,
    version       TEXT    NOT NULL,
    analyses      TEXT    NOT NULL,
    slots         INTEGER NOT NULL CHECK (slots >= 0),
    busy          INTEGER NOT NULL CHECK (busy >= 0),
    every_seconds REAL    NOT NULL CHECK (every_seconds > 0),
    started_at    INTEGER NOT NULL,
    stopping      INTEGER NOT NULL CHECK (stopping IN (0, 1)),
    seen_at       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
