-- Which stores of the earlier system were taken over: each once, in the transaction that brought its records.

CREATE TABLE imports (
    file_name   TEXT    NOT NULL,
    sha256      TEXT    NOT NULL,
    imported_at INTEGER NOT NULL,
    jobs        INTEGER NOT NULL,
    PRIMARY KEY (file_name, sha256)
) STRICT, WITHOUT ROWID;
