-- When each duty of upkeep last did what it is for, and where: a row per duty, written now and then. It belongs to no org, and
-- nothing but people depends on it.

CREATE TABLE duties (
    name         TEXT    PRIMARY KEY,
    succeeded_at INTEGER NOT NULL,
    host         TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
