-- The store of one machine: jobs, their log, their snapshots, and what leases, fairness and idempotency need.
--
-- Times are microseconds since 1970 in UTC. Every key starts with org_id: nothing can be looked up without it.
-- The constraints repeat the invariants of the state machine, so that a bug becomes an error and not a strange row.

CREATE TABLE jobs (
    org_id                TEXT    NOT NULL CHECK (length(org_id) BETWEEN 1 AND 128),
    job_id                TEXT    NOT NULL,
    analysis              TEXT    NOT NULL,
    status                TEXT    NOT NULL CHECK (status IN ('queued', 'running', 'partial', 'completed', 'failed', 'canceled')),
    priority_class        TEXT    NOT NULL CHECK (priority_class IN ('default', 'expedite')),
    request_payload_hash  TEXT    NOT NULL,
    request_payload_ref   TEXT    NOT NULL,
    queued_at             INTEGER NOT NULL,
    updated_at            INTEGER NOT NULL,
    timeout_seconds       REAL    NOT NULL CHECK (timeout_seconds > 0),
    max_retries           INTEGER NOT NULL CHECK (max_retries >= 0),
    trace_id              TEXT    NOT NULL,
    request_id            TEXT    NOT NULL,
    requested_by_user_id  TEXT,
    api_key_id            TEXT,
    progress_percent      INTEGER NOT NULL DEFAULT 0 CHECK (progress_percent BETWEEN 0 AND 100),
    step                  TEXT,
    estimated_seconds     REAL,
    partial_count         INTEGER NOT NULL DEFAULT 0 CHECK (partial_count >= 0),
    error_count           INTEGER NOT NULL DEFAULT 0 CHECK (error_count >= 0),
    result_id             TEXT,
    started_at            INTEGER,
    attempt_started_at    INTEGER,
    finished_at           INTEGER,
    cancel_requested_at   INTEGER,
    canceled_at           INTEGER,
    canceled_by           TEXT    CHECK (canceled_by IN ('user', 'system', 'worker')),
    cancel_reason         TEXT,
    failed_at             INTEGER,
    error_code            TEXT,
    error_message         TEXT,
    error_meta            TEXT,
    retryable             INTEGER CHECK (retryable IN (0, 1)),
    retry_hint            TEXT    CHECK (retry_hint IN ('retry_with_backoff', 'check_input_and_retry')),
    retry_count           INTEGER NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
    last_retry_at         INTEGER,
    retry_reason          TEXT,
    next_attempt_at       INTEGER,
    retry_of              TEXT,
    attempt               INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    event_seq             INTEGER NOT NULL DEFAULT 1 CHECK (event_seq >= 0),
    lost_count            INTEGER NOT NULL DEFAULT 0 CHECK (lost_count >= 0),
    result_expired_at     INTEGER,
    events_expired_at     INTEGER,
    imported_at           INTEGER,
    PRIMARY KEY (org_id, job_id),
    CHECK ((finished_at IS NOT NULL) = (status IN ('completed', 'failed', 'canceled'))),
    CHECK ((progress_percent = 100) = (status = 'completed')),
    CHECK (status <> 'queued' OR (started_at IS NULL AND attempt = 0)),
    CHECK (status NOT IN ('running', 'partial') OR (started_at IS NOT NULL AND attempt_started_at IS NOT NULL)),
    CHECK (status <> 'partial' OR (partial_count >= 1 AND result_id IS NOT NULL)),
    CHECK (status <> 'completed' OR result_id IS NOT NULL),
    CHECK (status <> 'failed' OR (error_code IS NOT NULL AND error_message IS NOT NULL AND failed_at IS NOT NULL AND retryable IS NOT NULL)),
    CHECK (status <> 'canceled' OR (canceled_at IS NOT NULL AND canceled_by IS NOT NULL AND cancel_reason IS NOT NULL)),
    CHECK (next_attempt_at IS NULL OR status IN ('running', 'partial'))
) STRICT;

CREATE INDEX idx_jobs_org_status_updated ON jobs (org_id, status, updated_at DESC);
CREATE INDEX idx_jobs_status_priority_queued ON jobs (status, priority_class, queued_at);
CREATE UNIQUE INDEX idx_jobs_result_id ON jobs (result_id) WHERE result_id IS NOT NULL;
CREATE INDEX idx_jobs_retry_eligible ON jobs (next_attempt_at, retry_count, max_retries) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX idx_jobs_error_code ON jobs (error_code) WHERE error_code IS NOT NULL;
CREATE INDEX idx_jobs_org_queued ON jobs (org_id, queued_at DESC, job_id DESC);
-- The next three tell waiting, running and ended jobs by their times and not by their status: an index is rewritten at
-- every statement that sets one of its columns, and the status is set more often than the times.
CREATE INDEX idx_jobs_timeout_detection ON jobs (attempt_started_at)
    WHERE finished_at IS NULL AND attempt_started_at IS NOT NULL;
CREATE INDEX idx_jobs_lane_head ON jobs (org_id, analysis, priority_class DESC, queued_at, job_id)
    WHERE started_at IS NULL AND finished_at IS NULL;
CREATE INDEX idx_jobs_duplicates ON jobs (org_id, analysis, request_payload_hash) WHERE finished_at IS NULL;
CREATE INDEX idx_jobs_finished ON jobs (finished_at) WHERE finished_at IS NOT NULL;

CREATE TRIGGER jobs_are_born_queued BEFORE INSERT ON jobs
WHEN NEW.status <> 'queued' AND NEW.imported_at IS NULL
BEGIN
    SELECT RAISE(ABORT, 'illegal transition: a job starts as queued');
END;

CREATE TRIGGER jobs_change_legally BEFORE UPDATE OF status ON jobs
WHEN OLD.status <> NEW.status AND OLD.status || '>' || NEW.status NOT IN (
    'queued>running', 'queued>canceled', 'running>partial', 'running>completed', 'running>failed', 'running>canceled', 'partial>completed', 'partial>failed', 'partial>canceled'
)
BEGIN
    SELECT RAISE(ABORT, 'illegal transition');
END;

CREATE TRIGGER jobs_stay_ended BEFORE UPDATE OF
    status, progress_percent, partial_count, result_id, finished_at, error_code, canceled_at, attempt, event_seq, next_attempt_at
ON jobs
WHEN OLD.finished_at IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'a job that has ended does not change');
END;

-- The input is apart: a job's row is rewritten at every change, its input never.
CREATE TABLE job_inputs (
    org_id  TEXT NOT NULL,
    job_id  TEXT NOT NULL,
    payload TEXT NOT NULL,
    PRIMARY KEY (org_id, job_id),
    FOREIGN KEY (org_id, job_id) REFERENCES jobs (org_id, job_id) ON DELETE CASCADE
) STRICT;

CREATE TABLE job_events (
    org_id       TEXT    NOT NULL,
    job_id       TEXT    NOT NULL,
    event_seq    INTEGER NOT NULL CHECK (event_seq >= 1),
    event_id     TEXT    NOT NULL,
    event_type   TEXT    NOT NULL,
    occurred_at  INTEGER NOT NULL,
    actor_type   TEXT    NOT NULL CHECK (actor_type IN ('system', 'worker', 'user')),
    payload_json TEXT    NOT NULL,
    trace_id     TEXT    NOT NULL,
    request_id   TEXT    NOT NULL,
    PRIMARY KEY (org_id, job_id, event_seq),
    FOREIGN KEY (org_id, job_id) REFERENCES jobs (org_id, job_id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_job_events_job_occurred ON job_events (job_id, occurred_at);
CREATE INDEX idx_job_events_type_occurred ON job_events (event_type, occurred_at);

CREATE TRIGGER job_events_are_appended BEFORE UPDATE ON job_events
BEGIN
    SELECT RAISE(ABORT, 'events are append-only');
END;

-- payload is the last column: listing snapshots reads none of it.
CREATE TABLE job_results (
    org_id             TEXT    NOT NULL,
    result_id          TEXT    NOT NULL,
    job_id             TEXT    NOT NULL,
    result_kind        TEXT    NOT NULL CHECK (result_kind IN ('partial', 'final')),
    result_seq         INTEGER NOT NULL CHECK (result_seq >= 1),
    schema_version     INTEGER NOT NULL,
    result_payload_ref TEXT    NOT NULL,
    created_at         INTEGER NOT NULL,
    summary_json       TEXT,
    removed_at         INTEGER,
    payload            TEXT,
    PRIMARY KEY (org_id, result_id),
    CHECK ((payload IS NULL) = (removed_at IS NOT NULL) OR result_payload_ref <> 'inline:'),
    FOREIGN KEY (org_id, job_id) REFERENCES jobs (org_id, job_id) ON DELETE CASCADE
) STRICT;

CREATE UNIQUE INDEX idx_job_results_job_seq ON job_results (org_id, job_id, result_seq);
CREATE UNIQUE INDEX idx_job_results_final ON job_results (org_id, job_id) WHERE result_kind = 'final';
CREATE INDEX idx_job_results_created ON job_results (created_at DESC);

CREATE TABLE notifications (
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
    PRIMARY KEY (org_id, notification_id),
    FOREIGN KEY (org_id, job_id) REFERENCES jobs (org_id, job_id) ON DELETE CASCADE
) STRICT;

CREATE UNIQUE INDEX idx_notifications_dedupe ON notifications (dedupe_key);
CREATE INDEX idx_notifications_job_channel ON notifications (org_id, job_id, channel);
CREATE INDEX idx_notifications_delivery_status ON notifications (delivery_status, scheduled_at);

CREATE TABLE job_chunks (
    org_id     TEXT    NOT NULL,
    job_id     TEXT    NOT NULL,
    chunk_key  TEXT    NOT NULL,
    payload    TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (org_id, job_id, chunk_key),
    FOREIGN KEY (org_id, job_id) REFERENCES jobs (org_id, job_id) ON DELETE CASCADE
) STRICT;

-- Who runs what until when. Heartbeats touch this narrow table alone.
CREATE TABLE leases (
    org_id      TEXT    NOT NULL,
    job_id      TEXT    NOT NULL,
    attempt     INTEGER NOT NULL,
    worker_id   TEXT    NOT NULL,
    expires_at  INTEGER NOT NULL,
    deadline_at INTEGER NOT NULL,
    PRIMARY KEY (org_id, job_id),
    FOREIGN KEY (org_id, job_id) REFERENCES jobs (org_id, job_id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency_keys (
    org_id          TEXT    NOT NULL,
    idempotency_key TEXT    NOT NULL,
    job_id          TEXT    NOT NULL,
    payload_hash    TEXT    NOT NULL,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (org_id, idempotency_key),
    FOREIGN KEY (org_id, job_id) REFERENCES jobs (org_id, job_id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX idx_idempotency_keys_job ON idempotency_keys (org_id, job_id);

-- Fair queueing: a lane is one org's waiting jobs of one analysis. The org with the lowest virtual start has the next turn;
-- all its lanes show the same one, so that a walk along the index meets the orgs in their order.
CREATE TABLE lanes (
    org_id        TEXT    NOT NULL,
    analysis      TEXT    NOT NULL,
    waiting       INTEGER NOT NULL CHECK (waiting >= 0),
    virtual_start INTEGER NOT NULL,
    PRIMARY KEY (org_id, analysis)
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_lanes_turn ON lanes (virtual_start, org_id, analysis) WHERE waiting > 0;

-- Where the virtual clock stands; an org that was idle joins from here.
CREATE TABLE lane_clock (
    only_row    INTEGER PRIMARY KEY CHECK (only_row = 1),
    virtual_now INTEGER NOT NULL
) STRICT;

INSERT INTO lane_clock (only_row, virtual_now) VALUES (1, 0);

-- What a run of an analysis took lately, for estimates.
CREATE TABLE pace (
    analysis     TEXT    PRIMARY KEY,
    runs         INTEGER NOT NULL,
    mean_seconds REAL    NOT NULL
) STRICT, WITHOUT ROWID;
