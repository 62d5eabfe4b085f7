-- How often the process that ran a job died: counted apart from lost workers, for nobody else can have killed it.

ALTER TABLE jobs ADD COLUMN crash_count INTEGER NOT NULL DEFAULT 0 CHECK (crash_count >= 0);
