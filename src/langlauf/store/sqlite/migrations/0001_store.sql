-- The store of one machine. Tables whose names end in _rows are narrow and have integer keys; the views at the end show their
-- records under the names and with the columns that people and tools know: jobs, job_events, job_results, notifications.
--
-- Times are microseconds since 1970 in UTC. Constraints repeat the invariants of the state machine, so that a bug becomes an
-- error and not a strange row. There are no foreign keys from events and results to jobs: a trigger takes them along, and
-- `verify` looks for orphans.

CREATE TABLE orgs (
    org     INTEGER PRIMARY KEY,
    org_id  TEXT    NOT NULL UNIQUE CHECK (length(org_id) BETWEEN 1 AND 128),
    -- another one whenever any of its jobs has changed
    version INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Analysis 0 has the jobs of the earlier system that a command imported without knowing the application. Runs and their mean
-- are for estimates; the counts are over all orgs.
CREATE TABLE analyses (
    analysis     INTEGER PRIMARY KEY,
    name         TEXT    NOT NULL UNIQUE,
    waiting      INTEGER NOT NULL DEFAULT 0 CHECK (waiting >= 0),
    scheduled    INTEGER NOT NULL DEFAULT 0 CHECK (scheduled >= 0),
    running      INTEGER NOT NULL DEFAULT 0 CHECK (running >= 0),
    runs         INTEGER NOT NULL DEFAULT 0,
    mean_seconds REAL
) STRICT;

INSERT INTO analyses (analysis, name) VALUES (0, '(default)');

-- One row per job, with its input while that is small, and its lease while a worker runs it.
CREATE TABLE job_rows (
    job                  INTEGER PRIMARY KEY,
    org                  INTEGER NOT NULL,
    analysis             INTEGER NOT NULL,
    job_id               TEXT    NOT NULL,
    status               TEXT    NOT NULL,
    expedite             INTEGER NOT NULL CHECK (expedite IN (0, 1)),
    ticket               INTEGER NOT NULL,
    queued_at            INTEGER NOT NULL,
    updated_at           INTEGER NOT NULL,
    event_seq            INTEGER NOT NULL DEFAULT 1 CHECK (event_seq >= 0),
    attempt              INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    progress_percent     INTEGER NOT NULL DEFAULT 0 CHECK (progress_percent BETWEEN 0 AND 100),
    partial_count        INTEGER NOT NULL DEFAULT 0 CHECK (partial_count >= 0),
    -- the lease: who runs it, until when unless it is renewed, and when the attempt is out of time
    worker_id            TEXT,
    lease_expires_at     INTEGER,
    deadline_at          INTEGER,
    started_at           INTEGER,
    attempt_started_at   INTEGER,
    finished_at          INTEGER,
    -- 1: its events are there, 2: its results are there, 3: both; set at its end
    kept                 INTEGER NOT NULL DEFAULT 3 CHECK (kept BETWEEN 0 AND 3),
    next_attempt_at      INTEGER,
    payload_hash         BLOB    NOT NULL,
    payload_ref          TEXT,
    timeout_seconds      REAL    NOT NULL CHECK (timeout_seconds > 0),
    max_retries          INTEGER NOT NULL CHECK (max_retries >= 0),
    trace_id             TEXT    NOT NULL,
    request_id           TEXT    NOT NULL,
    step                 TEXT,
    estimated_seconds    REAL,
    paced_percent        INTEGER NOT NULL DEFAULT 0,
    paced_at             INTEGER,
    progress_at          INTEGER,
    result_id            TEXT,
    error_count          INTEGER NOT NULL DEFAULT 0 CHECK (error_count >= 0),
    retry_count          INTEGER NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
    lost_count           INTEGER NOT NULL DEFAULT 0 CHECK (lost_count >= 0),
    crash_count          INTEGER NOT NULL DEFAULT 0 CHECK (crash_count >= 0),
    label                TEXT,
    requested_by_user_id TEXT,
    api_key_id           TEXT,
    tool_client          TEXT,
    cancel_requested_at  INTEGER,
    canceled_at          INTEGER,
    canceled_by          TEXT    CHECK (canceled_by = 'user' OR canceled_by = 'system' OR canceled_by = 'worker'),
    cancel_reason        TEXT,
    failed_at            INTEGER,
    error_code           TEXT,
    error_message        TEXT,
    error_meta           TEXT,
    retryable            INTEGER CHECK (retryable IN (0, 1)),
    retry_hint           TEXT    CHECK (retry_hint IN ('retry_with_backoff', 'check_input_and_retry')),
    last_retry_at        INTEGER,
    retry_reason         TEXT,
    retry_of             TEXT,
    based_on             TEXT,
    result_expired_at    INTEGER,
    events_expired_at    INTEGER,
    imported_at          INTEGER,
    traceparent          TEXT,
    tracestate           TEXT,
    held_at              INTEGER,
    held_by              TEXT,
    hold_reason          TEXT,
    partial_bytes        INTEGER NOT NULL DEFAULT 0 CHECK (partial_bytes >= 0),
    limit_reached        TEXT    CHECK (limit_reached IN ('events', 'partials')),
    -- when somebody had seen the message about its end
    read_at              INTEGER,
    -- while it waits for run_at its ticket is that time with a minus sign
    run_at               INTEGER,
    start_by             INTEGER,
    schedule             TEXT,
    planned_at           INTEGER,
    -- the code of its latest attempt, whether another job may have its result, and whose result it has
    code                 INTEGER,
    reusable             INTEGER CHECK (reusable = 1),
    reused_from          TEXT,
    -- NULL where it is in inputs
    input                TEXT,
    -- What is so in each state. A change from one to another is guarded by the statement that makes it: a trigger that looks at
    -- each of them costs a tenth of all writing. There is no IN with more than two values: SQLite makes a table for it, per row.
    CHECK (CASE status
        WHEN 'queued' THEN attempt = 0 AND started_at IS NULL AND finished_at IS NULL
        WHEN 'running' THEN started_at IS NOT NULL AND attempt_started_at IS NOT NULL AND finished_at IS NULL
        WHEN 'partial' THEN started_at IS NOT NULL AND attempt_started_at IS NOT NULL AND finished_at IS NULL
            AND partial_count >= 1 AND result_id IS NOT NULL
        WHEN 'completed' THEN finished_at IS NOT NULL AND result_id IS NOT NULL
        WHEN 'failed' THEN finished_at IS NOT NULL AND failed_at IS NOT NULL AND error_code IS NOT NULL
            AND error_message IS NOT NULL AND retryable IS NOT NULL
        WHEN 'canceled' THEN finished_at IS NOT NULL AND canceled_at IS NOT NULL AND canceled_by IS NOT NULL
            AND cancel_reason IS NOT NULL
        ELSE 0 END),
    -- It runs before it completes or fails, where that is known.
    CHECK (attempt >= 1 OR status = 'queued' OR status = 'canceled' OR imported_at IS NOT NULL),
    CHECK ((progress_percent = 100) = (status = 'completed')),
    CHECK (next_attempt_at IS NULL OR (lease_expires_at IS NULL AND status IN ('running', 'partial'))),
    CHECK (lease_expires_at IS NULL OR status IN ('running', 'partial')),
    CHECK ((lease_expires_at IS NULL) = (deadline_at IS NULL) AND (lease_expires_at IS NULL) = (worker_id IS NULL))
) STRICT;

-- An index holds a job only while, or once, it is asked for it: SQLite writes an entry at every statement that sets one of its
-- columns or of its condition. None of them has a column that heartbeats and progress set.
CREATE UNIQUE INDEX idx_jobs_id ON job_rows (job_id);
CREATE INDEX idx_jobs_org_queued ON job_rows (org, queued_at);
CREATE INDEX idx_jobs_lane_head ON job_rows (org, analysis, expedite DESC, ticket) WHERE started_at IS NULL AND finished_at IS NULL;
CREATE INDEX idx_jobs_lane_due ON job_rows (org, analysis, next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX idx_jobs_timeout_detection ON job_rows (deadline_at) WHERE deadline_at IS NOT NULL;
CREATE INDEX idx_jobs_duplicates ON job_rows (substr(payload_hash, 1, 8)) WHERE finished_at IS NULL;
CREATE INDEX idx_jobs_org_status_updated ON job_rows (org, status, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX idx_jobs_finished ON job_rows (kept, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX idx_jobs_history ON job_rows (org, queued_at)
    WHERE finished_at IS NOT NULL AND result_id IS NOT NULL AND result_expired_at IS NULL;
-- These hold few jobs, or none.
CREATE INDEX idx_jobs_failed ON job_rows (org, queued_at) WHERE failed_at IS NOT NULL;
CREATE INDEX idx_jobs_error_code ON job_rows (error_code) WHERE error_code IS NOT NULL;
CREATE INDEX idx_jobs_retry_of ON job_rows (org, retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX idx_jobs_based_on ON job_rows (org, based_on) WHERE based_on IS NOT NULL;
CREATE INDEX idx_jobs_held ON job_rows (org, held_at) WHERE held_at IS NOT NULL;
CREATE INDEX idx_jobs_start_by ON job_rows (start_by) WHERE start_by IS NOT NULL AND started_at IS NULL AND finished_at IS NULL;
CREATE INDEX idx_jobs_reusable ON job_rows (substr(payload_hash, 1, 8), finished_at) WHERE reusable = 1 AND status = 'completed';
CREATE INDEX idx_jobs_schedule ON job_rows (org, schedule, planned_at) WHERE schedule IS NOT NULL;
CREATE INDEX idx_jobs_unnamed ON job_rows (org, ticket) WHERE analysis = 0;

-- Inputs that are too large for a row that is rewritten at every change.
CREATE TABLE inputs (
    job   INTEGER PRIMARY KEY,
    input TEXT    NOT NULL
) STRICT;

-- trace_id and request_id are NULL where they are the job's, event_id where it follows from the job's id and the number.
-- feed_at is the place in the org's feed of what goes out: no two of an org have the same, and later commits have later ones.
CREATE TABLE event_rows (
    job          INTEGER NOT NULL,
    event_seq    INTEGER NOT NULL CHECK (event_seq >= 1),
    org          INTEGER NOT NULL,
    event_type   TEXT    NOT NULL,
    occurred_at  INTEGER NOT NULL,
    feed_at      INTEGER,
    actor_type   TEXT    NOT NULL CHECK (actor_type = 'worker' OR actor_type = 'system' OR actor_type = 'user'),
    payload_json TEXT    NOT NULL,
    event_id     TEXT,
    trace_id     TEXT,
    request_id   TEXT,
    PRIMARY KEY (job, event_seq)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX idx_job_events_feed ON event_rows (org, feed_at) WHERE feed_at IS NOT NULL;

CREATE TRIGGER job_events_are_appended BEFORE UPDATE ON event_rows
-- A copy gives places in the feed at its end, when it knows the order.
WHEN OLD.feed_at IS NOT NULL OR NOT EXISTS (SELECT 1 FROM copying)
BEGIN
    SELECT RAISE(ABORT, 'events are append-only');
END;

-- payload is behind all else: listing snapshots reads none of it. schema_text is the schema as the earlier system named it.
CREATE TABLE result_rows (
    result         INTEGER PRIMARY KEY,
    job            INTEGER NOT NULL,
    result_seq     INTEGER NOT NULL CHECK (result_seq >= 1),
    org            INTEGER NOT NULL,
    result_id      TEXT    NOT NULL,
    result_kind    TEXT    NOT NULL CHECK (result_kind IN ('partial', 'final')),
    schema_version INTEGER NOT NULL,
    payload_ref    TEXT,
    created_at     INTEGER NOT NULL,
    summary_json   TEXT,
    removed_at     INTEGER,
    schema_text    TEXT,
    payload        TEXT,
    views          TEXT    CHECK (views IS NULL OR removed_at IS NULL),
    CHECK ((payload IS NULL) = (removed_at IS NOT NULL) OR payload_ref IS NOT NULL)
) STRICT;

CREATE UNIQUE INDEX idx_job_results_id ON result_rows (result_id);
CREATE UNIQUE INDEX idx_job_results_job_seq ON result_rows (job, result_seq);
CREATE UNIQUE INDEX idx_job_results_final ON result_rows (job) WHERE result_kind = 'final';
CREATE INDEX idx_job_results_removed ON result_rows (job) WHERE removed_at IS NOT NULL;

CREATE TABLE chunk_rows (
    chunk      INTEGER PRIMARY KEY,
    job        INTEGER NOT NULL,
    org        INTEGER NOT NULL,
    chunk_key  TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    payload    TEXT    NOT NULL,
    -- how many chunks the job was known to have, where it is one of a map
    total      INTEGER
) STRICT;

CREATE UNIQUE INDEX idx_job_chunks_key ON chunk_rows (job, chunk_key);

CREATE TABLE key_rows (
    org             INTEGER NOT NULL,
    idempotency_key TEXT    NOT NULL,
    job             INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (org, idempotency_key)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX idx_idempotency_keys_job ON key_rows (job);

-- What belongs to a job goes with it.
CREATE TRIGGER jobs_take_theirs_along AFTER DELETE ON job_rows
BEGIN
    DELETE FROM inputs WHERE job = OLD.job;
    DELETE FROM event_rows WHERE job = OLD.job;
    DELETE FROM result_rows WHERE job = OLD.job;
    DELETE FROM chunk_rows WHERE job = OLD.job;
    DELETE FROM key_rows WHERE job = OLD.job;
    DELETE FROM job_wishes WHERE job_id = OLD.job_id;
    DELETE FROM outbox WHERE job_id = OLD.job_id;
END;

-- Fair queueing: a lane is one org's jobs of one analysis. The org with the lowest virtual start has the next turn, of those with
-- the same the one that was served longest ago; all lanes of an org show the same. due_at is when the first of its jobs that had
-- started may continue, or earlier: a claim that finds nothing corrects it. It is never later, so that no job is missed. The same
-- holds of next_run_at and the jobs that wait for their time: they are not in line, and scheduled counts them.
CREATE TABLE lane_rows (
    org           INTEGER NOT NULL,
    analysis      INTEGER NOT NULL,
    waiting       INTEGER NOT NULL DEFAULT 0 CHECK (waiting >= 0),
    virtual_start INTEGER NOT NULL DEFAULT 0,
    served        INTEGER NOT NULL DEFAULT 0,
    due_at        INTEGER,
    scheduled     INTEGER NOT NULL DEFAULT 0 CHECK (scheduled >= 0),
    next_run_at   INTEGER,
    PRIMARY KEY (org, analysis)
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_lanes_turn ON lane_rows (analysis, virtual_start, served, org) WHERE waiting > 0;
CREATE INDEX idx_lanes_due ON lane_rows (analysis, due_at, org) WHERE due_at IS NOT NULL;
CREATE INDEX idx_lanes_run ON lane_rows (next_run_at) WHERE next_run_at IS NOT NULL;

-- Where the virtual clock stands, and how many turns it has given; an org that was idle joins from here.
CREATE TABLE lane_clock (
    only_row    INTEGER PRIMARY KEY CHECK (only_row = 1),
    virtual_now INTEGER NOT NULL,
    served      INTEGER NOT NULL DEFAULT 0
) STRICT;

INSERT INTO lane_clock (only_row, virtual_now) VALUES (1, 0);

-- Which code ran jobs, and on what: written by a worker before its first claim. The key is made from the columns up to host.
-- seen_at is when a worker last said that it runs it, or retention found a job that names it.
CREATE TABLE codes (
    code      INTEGER PRIMARY KEY,
    analysis  TEXT    NOT NULL,
    version   TEXT    NOT NULL,
    code_hash TEXT    NOT NULL,
    package   TEXT,
    langlauf  TEXT    NOT NULL,
    python    TEXT    NOT NULL,
    host      TEXT    NOT NULL,
    seen_at   INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Analyses of which nothing starts: for one org, or for all where org_id is empty. One whose time is over counts no more.
CREATE TABLE pauses (
    org_id       TEXT    NOT NULL CHECK (length(org_id) <= 128),
    analysis     TEXT    NOT NULL,
    paused_at    INTEGER NOT NULL,
    paused_until INTEGER CHECK (paused_until > paused_at),
    because      TEXT    NOT NULL,
    paused_by    TEXT,
    PRIMARY KEY (org_id, analysis)
) STRICT, WITHOUT ROWID;

-- Which store this is, and since when it has events of its own: a place that another store gave out says when, not where.
CREATE TABLE feed_home (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    life     TEXT    NOT NULL,
    began_at INTEGER NOT NULL
) STRICT;

INSERT INTO feed_home (only_row, life, began_at)
VALUES (1, lower(hex(randomblob(6))), CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER));

-- Outgoing messages, and in-app messages of an earlier system. In-app messages about the end of a job are not stored: they are
-- derived from the job. A message knows where it goes: to an endpoint, or to the address that its job named. Messages of one
-- lane of an org wait for each other. A sender claims a message until `claimed_until`. Tries count from `tries_from` on.
CREATE TABLE outbox (
    org_id          TEXT    NOT NULL,
    notification_id TEXT    NOT NULL,
    job_id          TEXT    NOT NULL,
    channel         TEXT    NOT NULL CHECK (channel IN ('in_app', 'email', 'webhook')),
    template_key    TEXT    NOT NULL,
    delivery_status TEXT    NOT NULL CHECK (delivery_status IN ('pending', 'sent', 'failed', 'suppressed')),
    attempt_count   INTEGER NOT NULL DEFAULT 0 CHECK (attempt_count >= 0),
    last_error      TEXT,
    dedupe_key      TEXT    NOT NULL,
    scheduled_at    INTEGER NOT NULL,
    sent_at         INTEGER,
    created_at      INTEGER NOT NULL,
    payload_json    TEXT    NOT NULL,
    read_at         INTEGER,
    endpoint_id     TEXT,
    target          TEXT,
    lane            TEXT,
    claimed_until   INTEGER,
    tries_from      INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (org_id, notification_id)
) STRICT;

CREATE UNIQUE INDEX idx_notifications_dedupe ON outbox (dedupe_key);
CREATE INDEX idx_notifications_job_channel ON outbox (job_id, channel);
CREATE INDEX idx_notifications_delivery_status ON outbox (delivery_status, scheduled_at);
CREATE INDEX idx_notifications_inbox ON outbox (org_id, created_at DESC, notification_id DESC, read_at) WHERE channel = 'in_app';
-- What is to be sent, lane by lane, in the order of time; and what is being sent.
CREATE INDEX idx_notifications_due ON outbox (org_id, lane, scheduled_at)
    WHERE delivery_status = 'pending' AND channel <> 'in_app' AND lane IS NOT NULL;
CREATE INDEX idx_notifications_claimed ON outbox (org_id, lane, claimed_until) WHERE claimed_until IS NOT NULL;
CREATE INDEX idx_notifications_endpoint ON outbox (org_id, endpoint_id, created_at DESC, notification_id DESC)
    WHERE endpoint_id IS NOT NULL;
CREATE INDEX idx_notifications_sent_out ON outbox (org_id, created_at DESC, notification_id DESC) WHERE channel <> 'in_app';

-- Up to when all messages of an org were seen: one row, however many there are.
CREATE TABLE inbox_marks (
    org_id     TEXT    PRIMARY KEY NOT NULL CHECK (length(org_id) BETWEEN 1 AND 128),
    read_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Its secret is made from this store's own secret, its id and `version`, so that none is kept here.
CREATE TABLE webhook_endpoints (
    org_id          TEXT    NOT NULL CHECK (length(org_id) BETWEEN 1 AND 128),
    endpoint_id     TEXT    NOT NULL,
    url             TEXT    NOT NULL,
    name            TEXT    NOT NULL,
    -- words with a comma before and after each
    subjects        TEXT    NOT NULL,
    created_at      INTEGER NOT NULL,
    version         INTEGER NOT NULL CHECK (version >= 1),
    former_until    INTEGER,
    disabled_at     INTEGER,
    disabled_reason TEXT,
    PRIMARY KEY (org_id, endpoint_id),
    UNIQUE (org_id, url),
    CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL))
) STRICT, WITHOUT ROWID;

-- The subscriptions of a job: channel and receiver.
CREATE TABLE job_wishes (
    org_id   TEXT NOT NULL,
    job_id   TEXT NOT NULL,
    channel  TEXT NOT NULL CHECK (channel IN ('email', 'webhook')),
    target   TEXT NOT NULL,
    lane     TEXT NOT NULL,
    language TEXT,
    PRIMARY KEY (job_id, channel)
) STRICT, WITHOUT ROWID;

-- Lanes where the last attempt failed. A lane that is well has no row.
CREATE TABLE delivery_lanes (
    org_id        TEXT    NOT NULL,
    lane          TEXT    NOT NULL,
    failures      INTEGER NOT NULL CHECK (failures >= 1),
    failing_since INTEGER NOT NULL,
    paused_until  INTEGER,
    PRIMARY KEY (org_id, lane)
) STRICT, WITHOUT ROWID;

-- The log of deliveries: every attempt that was brought to an end.
CREATE TABLE delivery_attempts (
    org_id          TEXT    NOT NULL,
    notification_id TEXT    NOT NULL,
    attempt         INTEGER NOT NULL CHECK (attempt >= 1),
    job_id          TEXT    NOT NULL,
    at              INTEGER NOT NULL,
    seconds         REAL    NOT NULL,
    status          TEXT    NOT NULL,
    status_code     INTEGER,
    error           TEXT,
    reply           TEXT,
    PRIMARY KEY (org_id, notification_id, attempt),
    FOREIGN KEY (org_id, notification_id) REFERENCES outbox (org_id, notification_id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

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

-- Schedules: when an analysis runs again and again. A process that fires a due one claims it for a moment; the planned time is in
-- the idempotency key of the job, so that one job comes of it, whichever process fires.
CREATE TABLE schedules (
    org_id        TEXT    NOT NULL CHECK (length(org_id) BETWEEN 1 AND 128),
    name          TEXT    NOT NULL,
    analysis      TEXT    NOT NULL,
    input         TEXT    NOT NULL,
    cron          TEXT,
    every_seconds REAL    CHECK (every_seconds >= 1),
    zone          TEXT    NOT NULL,
    overlap       TEXT    NOT NULL CHECK (overlap IN ('skip', 'queue')),
    missed        TEXT    NOT NULL CHECK (missed IN ('once', 'none', 'all')),
    paused        INTEGER NOT NULL CHECK (paused IN (0, 1)),
    notify        TEXT,
    source        TEXT    NOT NULL CHECK (source IN ('api', 'code')),
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    next_run_at   INTEGER,
    last_run_at   INTEGER,
    last_outcome  TEXT,
    last_job_id   TEXT,
    claimed_until INTEGER,
    PRIMARY KEY (org_id, name),
    CHECK ((cron IS NULL) <> (every_seconds IS NULL)),
    CHECK (paused = 0 OR next_run_at IS NULL)
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_schedules_due ON schedules (analysis, next_run_at) WHERE next_run_at IS NOT NULL;

-- Who may call: keys of orgs, and what signatures are made with.

-- A key is made and revoked, never removed: that there ever was one is what closes a store to callers without. `version`
-- numbers these changes over all keys, so that a cache of keys reads the changes alone.
CREATE TABLE api_keys (
    key_id       TEXT    PRIMARY KEY,
    org_id       TEXT    NOT NULL CHECK (length(org_id) BETWEEN 1 AND 128),
    name         TEXT    NOT NULL,
    secret_hash  TEXT    NOT NULL CHECK (length(secret_hash) = 64),
    scopes       TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    last_used_at INTEGER,
    version      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX idx_api_keys_version ON api_keys (version);
CREATE INDEX idx_api_keys_org ON api_keys (org_id, created_at, key_id);

CREATE TRIGGER api_keys_stay BEFORE DELETE ON api_keys
BEGIN
    SELECT RAISE(ABORT, 'a key is revoked, never removed');
END;

CREATE TRIGGER api_keys_stay_what_they_are BEFORE UPDATE OF key_id, org_id, secret_hash, scopes, created_at, expires_at ON api_keys
BEGIN
    SELECT RAISE(ABORT, 'a key does not change: make another one');
END;

CREATE TRIGGER api_keys_stay_revoked BEFORE UPDATE OF revoked_at ON api_keys
WHEN OLD.revoked_at IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'a key that was revoked stays revoked');
END;

CREATE TABLE signing_secrets (
    purpose    TEXT    PRIMARY KEY,
    secret     BLOB    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Sessions of browsers that were ended before their time. A session is signed and not stored; its end is, until it would have
-- come by itself. `number` rises with every end, so that a process asks for those past the last one that it knows: the row with
-- the highest number stays, whatever its age.
CREATE TABLE ended_sessions (
    session_id TEXT    PRIMARY KEY,
    expires_at INTEGER NOT NULL,
    number     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX idx_ended_sessions_number ON ended_sessions (number);

-- Which stores of the earlier system were taken over: each once, in the transaction that brought its records.

CREATE TABLE imports (
    file_name   TEXT    NOT NULL,
    sha256      TEXT    NOT NULL,
    imported_at INTEGER NOT NULL,
    jobs        INTEGER NOT NULL,
    PRIMARY KEY (file_name, sha256)
) STRICT, WITHOUT ROWID;

-- The store's own clock: the time since the machine started plus a shift, one for all processes of that start. Wall
-- clocks are set by people and programs; this one never steps and never runs back.

CREATE TABLE clocks (
    boot_id TEXT    PRIMARY KEY,
    shift   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- While another store is being copied into this one, a row says from where and how far; it is not served then.
CREATE TABLE copying (
    only_row   INTEGER PRIMARY KEY CHECK (only_row = 1),
    source     TEXT    NOT NULL,
    table_name TEXT    NOT NULL,
    position   TEXT
) STRICT;

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

-- When each maintenance duty last succeeded, and where: a row per duty, written now and then. It belongs to no org, and
-- nothing but people depends on it.

CREATE TABLE duties (
    name         TEXT    PRIMARY KEY,
    succeeded_at INTEGER NOT NULL,
    host         TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- The records, as people and tools know them.

CREATE VIEW jobs AS
SELECT job.job_id, org.org_id, analysis.name AS analysis, job.label, job.status,
    CASE job.expedite WHEN 1 THEN 'expedite' ELSE 'default' END AS priority_class,
    lower(hex(job.payload_hash)) AS request_payload_hash, coalesce(job.payload_ref, 'inline:') AS request_payload_ref,
    job.queued_at, job.updated_at, job.timeout_seconds, job.max_retries, job.trace_id, job.request_id,
    job.requested_by_user_id, job.api_key_id, job.tool_client, job.progress_percent, job.step, job.estimated_seconds,
    job.partial_count, job.error_count, job.result_id, job.started_at, job.attempt_started_at, job.finished_at, job.cancel_requested_at,
    job.canceled_at, job.canceled_by, job.cancel_reason, job.failed_at, job.error_code, job.error_message, job.error_meta,
    job.retryable, job.retry_hint, job.retry_count, job.last_retry_at, job.retry_reason, job.next_attempt_at, job.retry_of,
    job.based_on, job.attempt, job.event_seq, job.lost_count, job.crash_count, job.result_expired_at, job.events_expired_at,
    job.imported_at, job.ticket, job.paced_percent, job.paced_at, job.progress_at, job.traceparent, job.tracestate,
    job.held_at, job.held_by, job.hold_reason, job.partial_bytes, job.limit_reached, job.read_at,
    job.run_at, job.start_by, job.schedule, job.planned_at, job.code, job.reusable, job.reused_from,
    job.job AS row, job.org, job.worker_id, job.lease_expires_at, job.deadline_at, job.kept
FROM job_rows AS job JOIN orgs AS org ON org.org = job.org JOIN analyses AS analysis ON analysis.analysis = job.analysis;

CREATE VIEW job_inputs AS
SELECT org.org_id, job.job_id, job.queued_at,
    coalesce(job.input, (SELECT large.input FROM inputs AS large WHERE large.job = job.job)) AS payload, job.job AS row
FROM job_rows AS job JOIN orgs AS org ON org.org = job.org;

CREATE VIEW leases AS
SELECT org.org_id, job.job_id, job.attempt, job.worker_id, job.lease_expires_at AS expires_at, job.deadline_at,
    job.job AS row
FROM job_rows AS job JOIN orgs AS org ON org.org = job.org WHERE job.deadline_at IS NOT NULL;

CREATE VIEW job_events AS
SELECT org.org_id, job.job_id, event.event_seq,
    coalesce(event.event_id, printf('%08x', event.event_seq) || substr(job.job_id, 9)) AS event_id,
    event.event_type, event.occurred_at, event.actor_type, event.payload_json,
    coalesce(event.trace_id, job.trace_id) AS trace_id, coalesce(event.request_id, job.request_id) AS request_id,
    event.feed_at, event.job AS row
FROM event_rows AS event JOIN job_rows AS job ON job.job = event.job JOIN orgs AS org ON org.org = event.org;

CREATE VIEW job_results AS
SELECT org.org_id, result.result_id, job.job_id, result.result_kind, result.result_seq, result.schema_version,
    coalesce(result.payload_ref, 'inline:') AS result_payload_ref, result.created_at, result.summary_json, result.removed_at,
    result.payload, result.views, result.schema_text, result.result AS row
FROM result_rows AS result JOIN job_rows AS job ON job.job = result.job JOIN orgs AS org ON org.org = result.org;

CREATE VIEW job_chunks AS
SELECT org.org_id, job.job_id, chunk.chunk_key, chunk.payload, chunk.created_at, chunk.total, chunk.chunk AS row
FROM chunk_rows AS chunk JOIN job_rows AS job ON job.job = chunk.job JOIN orgs AS org ON org.org = chunk.org;

CREATE VIEW idempotency_keys AS
SELECT org.org_id, used.idempotency_key, job.job_id, lower(hex(job.payload_hash)) AS payload_hash, used.created_at,
    used.job AS row
FROM key_rows AS used JOIN job_rows AS job ON job.job = used.job JOIN orgs AS org ON org.org = used.org;

-- In-app messages about the end of a job: their id is the job's, with 4 as the version of the UUID.
CREATE VIEW messages AS
SELECT org.org_id, substr(job.job_id, 1, 14) || '4' || substr(job.job_id, 16) AS notification_id, job.job_id,
    'in_app' AS channel, 'async.job.' || job.status AS template_key, 'pending' AS delivery_status, 0 AS attempt_count,
    NULL AS last_error, job.job_id || ':in_app:async.job.' || job.status AS dedupe_key, job.finished_at AS scheduled_at,
    NULL AS sent_at, job.finished_at AS created_at,
    json_object('job_id', job.job_id, 'status', job.status, 'result_id', job.result_id,
        'progress_percent', job.progress_percent, 'error_code', job.error_code, 'retry_hint', job.retry_hint, 'finished_at',
        strftime('%Y-%m-%dT%H:%M:%S', job.finished_at / 1000000, 'unixepoch') || printf('.%06dZ', job.finished_at % 1000000))
        AS payload_json,
    job.read_at, NULL AS endpoint_id, NULL AS target, NULL AS lane, NULL AS claimed_until, 0 AS tries_from
FROM job_rows AS job JOIN orgs AS org ON org.org = job.org
WHERE job.status IN ('completed', 'failed') AND (job.imported_at IS NULL OR job.imported_at < job.finished_at);

CREATE VIEW notifications AS
SELECT org_id, notification_id, job_id, channel, template_key, delivery_status, attempt_count, last_error, dedupe_key, scheduled_at,
    sent_at, created_at, payload_json, read_at, endpoint_id, target, lane, claimed_until, tries_from
FROM outbox
UNION ALL SELECT * FROM messages;

CREATE VIEW lanes AS
SELECT org.org_id, analysis.name AS analysis, lane.waiting, lane.virtual_start, lane.served, lane.due_at, lane.scheduled,
    lane.next_run_at
FROM lane_rows AS lane JOIN orgs AS org ON org.org = lane.org JOIN analyses AS analysis ON analysis.analysis = lane.analysis;

CREATE VIEW pace AS SELECT name AS analysis, runs, mean_seconds FROM analyses WHERE mean_seconds IS NOT NULL;
CREATE VIEW waiting_counts AS SELECT name AS analysis, waiting, scheduled FROM analyses;

-- What is brought from elsewhere, by a copy or an import, is written to the records above as it was there. Counts and lanes are
-- made afterwards, from all of it. A record of a job that is not there is refused.

CREATE TRIGGER jobs_are_brought INSTEAD OF INSERT ON jobs
BEGIN
    INSERT INTO orgs (org_id) SELECT NEW.org_id WHERE NOT EXISTS (SELECT 1 FROM orgs WHERE org_id = NEW.org_id);
    INSERT INTO analyses (name) SELECT NEW.analysis WHERE NOT EXISTS (SELECT 1 FROM analyses WHERE name = NEW.analysis);
    INSERT INTO job_rows (org, analysis, job_id, status, expedite, ticket, queued_at, updated_at, event_seq, attempt,
        progress_percent, partial_count, worker_id, lease_expires_at, deadline_at, started_at, attempt_started_at, finished_at,
        kept, next_attempt_at, payload_hash, payload_ref, timeout_seconds, max_retries, trace_id, request_id, step,
        estimated_seconds, paced_percent, paced_at, progress_at, result_id, error_count, retry_count, lost_count, crash_count,
        label, requested_by_user_id, api_key_id, tool_client, cancel_requested_at, canceled_at, canceled_by, cancel_reason, failed_at, error_code,
        error_message, error_meta, retryable, retry_hint, last_retry_at, retry_reason, retry_of, based_on, result_expired_at,
        events_expired_at, imported_at, traceparent, tracestate, held_at, held_by, hold_reason, partial_bytes, limit_reached,
        read_at, run_at, start_by, schedule, planned_at, code, reusable, reused_from)
    VALUES ((SELECT org FROM orgs WHERE org_id = NEW.org_id), (SELECT analysis FROM analyses WHERE name = NEW.analysis),
        NEW.job_id, NEW.status, CASE NEW.priority_class WHEN 'expedite' THEN 1 WHEN 'default' THEN 0 END, coalesce(NEW.ticket, 0),
        NEW.queued_at, NEW.updated_at, coalesce(NEW.event_seq, 1), coalesce(NEW.attempt, 0), coalesce(NEW.progress_percent, 0),
        coalesce(NEW.partial_count, 0), NEW.worker_id, NEW.lease_expires_at, NEW.deadline_at, NEW.started_at,
        NEW.attempt_started_at, NEW.finished_at, 3 - (NEW.events_expired_at IS NOT NULL) - 2 * (NEW.result_expired_at IS NOT NULL),
        NEW.next_attempt_at, unhex(NEW.request_payload_hash), nullif(NEW.request_payload_ref, 'inline:'), NEW.timeout_seconds,
        NEW.max_retries, NEW.trace_id, NEW.request_id, NEW.step, NEW.estimated_seconds, coalesce(NEW.paced_percent, 0),
        NEW.paced_at, NEW.progress_at, NEW.result_id, coalesce(NEW.error_count, 0), coalesce(NEW.retry_count, 0),
        coalesce(NEW.lost_count, 0), coalesce(NEW.crash_count, 0), NEW.label, NEW.requested_by_user_id, NEW.api_key_id,
        NEW.tool_client, NEW.cancel_requested_at, NEW.canceled_at, NEW.canceled_by, NEW.cancel_reason, NEW.failed_at, NEW.error_code,
        NEW.error_message, NEW.error_meta, NEW.retryable, NEW.retry_hint, NEW.last_retry_at, NEW.retry_reason, NEW.retry_of,
        NEW.based_on, NEW.result_expired_at, NEW.events_expired_at, NEW.imported_at, NEW.traceparent, NEW.tracestate, NEW.held_at,
        NEW.held_by, NEW.hold_reason, coalesce(NEW.partial_bytes, 0), NEW.limit_reached, NEW.read_at,
        NEW.run_at, NEW.start_by, NEW.schedule, NEW.planned_at, NEW.code, NEW.reusable, NEW.reused_from);
END;

CREATE TRIGGER job_inputs_are_brought INSTEAD OF INSERT ON job_inputs
BEGIN
    SELECT RAISE(ABORT, 'an input without its job') WHERE NOT EXISTS (
        SELECT 1 FROM jobs WHERE org_id = NEW.org_id AND job_id = NEW.job_id);
    UPDATE job_rows SET input = NEW.payload WHERE job_id = NEW.job_id AND length(NEW.payload) <= 1000;
    INSERT INTO inputs (job, input)
    SELECT job, NEW.payload FROM job_rows WHERE job_id = NEW.job_id AND length(NEW.payload) > 1000;
END;

CREATE TRIGGER leases_are_brought INSTEAD OF INSERT ON leases
BEGIN
    SELECT RAISE(ABORT, 'a lease without the attempt of its job') WHERE NOT EXISTS (
        SELECT 1 FROM jobs WHERE org_id = NEW.org_id AND job_id = NEW.job_id AND attempt = NEW.attempt);
    UPDATE job_rows SET worker_id = NEW.worker_id, lease_expires_at = NEW.expires_at, deadline_at = NEW.deadline_at
    WHERE job_id = NEW.job_id;
END;

-- What goes out gets a place in its org's feed behind all that is there. A copy leaves that for its end: it knows the order then.
CREATE TRIGGER job_events_are_brought INSTEAD OF INSERT ON job_events
BEGIN
    INSERT INTO event_rows (job, event_seq, org, event_type, occurred_at, feed_at, actor_type, payload_json, event_id,
        trace_id, request_id)
    SELECT job.job, NEW.event_seq, org.org, NEW.event_type, NEW.occurred_at,
        CASE WHEN NEW.feed_at IS NOT NULL OR EXISTS (SELECT 1 FROM copying) OR NEW.event_type NOT IN (
                'job.queued', 'job.running', 'job.partial', 'job.completed', 'job.failed', 'job.canceled') THEN NEW.feed_at
            ELSE max(NEW.occurred_at, coalesce((
                SELECT last.feed_at + 1 FROM event_rows AS last INDEXED BY idx_job_events_feed
                WHERE last.org = org.org AND last.feed_at IS NOT NULL ORDER BY last.feed_at DESC LIMIT 1), 0)) END,
        NEW.actor_type, NEW.payload_json, nullif(NEW.event_id, printf('%08x', NEW.event_seq) || substr(NEW.job_id, 9)),
        nullif(NEW.trace_id, job.trace_id), nullif(NEW.request_id, job.request_id)
    FROM (SELECT 1) LEFT JOIN orgs AS org ON org.org_id = NEW.org_id
        LEFT JOIN job_rows AS job ON job.job_id = NEW.job_id AND job.org = org.org;
END;

CREATE TRIGGER job_results_are_brought INSTEAD OF INSERT ON job_results
BEGIN
    INSERT INTO result_rows (job, result_seq, org, result_id, result_kind, schema_version, payload_ref, created_at,
        summary_json, removed_at, schema_text, payload, views)
    SELECT job.job, NEW.result_seq, org.org, NEW.result_id, NEW.result_kind, NEW.schema_version,
        nullif(NEW.result_payload_ref, 'inline:'), NEW.created_at, NEW.summary_json, NEW.removed_at, NEW.schema_text,
        NEW.payload, NEW.views
    FROM (SELECT 1) LEFT JOIN orgs AS org ON org.org_id = NEW.org_id
        LEFT JOIN job_rows AS job ON job.job_id = NEW.job_id AND job.org = org.org;
END;

CREATE TRIGGER job_chunks_are_brought INSTEAD OF INSERT ON job_chunks
BEGIN
    INSERT INTO chunk_rows (job, org, chunk_key, created_at, payload, total)
    SELECT job.job, org.org, NEW.chunk_key, NEW.created_at, NEW.payload, NEW.total
    FROM (SELECT 1) LEFT JOIN orgs AS org ON org.org_id = NEW.org_id
        LEFT JOIN job_rows AS job ON job.job_id = NEW.job_id AND job.org = org.org;
END;

CREATE TRIGGER idempotency_keys_are_brought INSTEAD OF INSERT ON idempotency_keys
BEGIN
    INSERT INTO key_rows (org, idempotency_key, job, created_at)
    SELECT org.org, NEW.idempotency_key, job.job, NEW.created_at
    FROM (SELECT 1) LEFT JOIN orgs AS org ON org.org_id = NEW.org_id
        LEFT JOIN job_rows AS job ON job.job_id = NEW.job_id AND job.org = org.org;
END;

-- What follows from its job is not kept a second time.
CREATE TRIGGER notifications_are_brought INSTEAD OF INSERT ON notifications
WHEN NOT EXISTS (SELECT 1 FROM messages WHERE notification_id = NEW.notification_id AND job_id = NEW.job_id)
BEGIN
    INSERT INTO outbox (org_id, notification_id, job_id, channel, template_key, delivery_status, attempt_count, last_error,
        dedupe_key, scheduled_at, sent_at, created_at, payload_json, read_at, endpoint_id, target, lane, claimed_until, tries_from)
    VALUES (NEW.org_id, NEW.notification_id, NEW.job_id, NEW.channel, NEW.template_key, NEW.delivery_status,
        coalesce(NEW.attempt_count, 0), NEW.last_error, NEW.dedupe_key, NEW.scheduled_at, NEW.sent_at, NEW.created_at,
        NEW.payload_json, NEW.read_at, NEW.endpoint_id, NEW.target, NEW.lane, NEW.claimed_until, coalesce(NEW.tries_from, 0));
END;

CREATE TRIGGER pace_is_brought INSTEAD OF INSERT ON pace
BEGIN
    INSERT INTO analyses (name, runs, mean_seconds) VALUES (NEW.analysis, NEW.runs, NEW.mean_seconds)
    ON CONFLICT (name) DO UPDATE SET runs = excluded.runs, mean_seconds = excluded.mean_seconds;
END;
