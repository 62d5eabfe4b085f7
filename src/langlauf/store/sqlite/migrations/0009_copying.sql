-- While all of another store is being copied into this one, a row says from where and how far; nobody serves it then.
CREATE TABLE copying (
    only_row   INTEGER PRIMARY KEY CHECK (only_row = 1),
    source     TEXT    NOT NULL,
    table_name TEXT    NOT NULL,
    position   TEXT
) STRICT;

-- Jobs that are copied come in the state that they are in.
DROP TRIGGER jobs_are_born_queued;
CREATE TRIGGER jobs_are_born_queued BEFORE INSERT ON jobs
WHEN NEW.status <> 'queued' AND NEW.imported_at IS NULL AND NOT EXISTS (SELECT 1 FROM copying)
BEGIN
    SELECT RAISE(ABORT, 'illegal transition: a job starts as queued');
END;
