-- The store's own clock: the time since the machine started plus a shift, one for all processes of that start. Wall
-- clocks are set by people and programs; this one never steps and never runs back.

CREATE TABLE clocks (
    boot_id TEXT    PRIMARY KEY,
    shift   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
