-- Who may be written to by e-mail, and how often.

-- What an org knows of an address: that it is on the list of those who may be written to, or that it has unsubscribed.
CREATE TABLE mail_marks (
    org_id  TEXT    NOT NULL CHECK (length(org_id) BETWEEN 1 AND 128),
    address TEXT    NOT NULL CHECK (address = lower(address)),
    mark    TEXT    NOT NULL CHECK (mark IN ('allowed', 'unsubscribed')),
    at      INTEGER NOT NULL,
    PRIMARY KEY (org_id, address, mark)
) STRICT, WITHOUT ROWID;

-- The mails that were let out lately, for the rates: a row for each, forgotten when the longest rate no longer looks at it.
CREATE TABLE mail_admissions (
    org_id          TEXT    NOT NULL,
    notification_id TEXT    NOT NULL,
    attempt         INTEGER NOT NULL,
    address         TEXT    NOT NULL,
    at              INTEGER NOT NULL,
    PRIMARY KEY (org_id, notification_id, attempt)
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_mail_admissions_org ON mail_admissions (org_id, at);
CREATE INDEX idx_mail_admissions_address ON mail_admissions (org_id, address, at);
