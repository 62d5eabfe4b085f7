-- The store of many machines: jobs, their log, their snapshots, and what leases, fairness and idempotency need.
--
-- Columns are the same as in the SQLite store, so that one can be copied to the other. Times are microseconds since 1970
-- in UTC, by this database's clock. Every key holds org_id, behind what tells rows apart sooner: an index compares less. Names
-- compare byte by byte, whatever the locale is. The
-- constraints repeat the invariants of the state machine. There are no foreign keys between the tables: nine checks per
-- job cost more than all else; each statement writes a job and its rows together, and `verify` looks for orphans.

CREATE TABLE jobs (
    job_id                text COLLATE "C" NOT NULL,
    org_id                text COLLATE "C" NOT NULL CHECK (length(org_id) BETWEEN 1 AND 128),
    analysis              text COLLATE "C" NOT NULL,
    status                text COLLATE "C" NOT NULL CHECK (status IN ('queued', 'running', 'partial', 'completed', 'failed', 'canceled')),
    priority_class        text COLLATE "C" NOT NULL CHECK (priority_class IN ('default', 'expedite')),
    request_payload_hash  text COLLATE "C" NOT NULL,
    request_payload_ref   text    NOT NULL,
    queued_at             bigint  NOT NULL,
    updated_at            bigint  NOT NULL,
    timeout_seconds       float8  NOT NULL CHECK (timeout_seconds > 0),
    max_retries           integer NOT NULL CHECK (max_retries >= 0),
    trace_id              text    NOT NULL,
    request_id            text    NOT NULL,
    requested_by_user_id  text,
    api_key_id            text,
    progress_percent      integer NOT NULL DEFAULT 0 CHECK (progress_percent BETWEEN 0 AND 100),
    step                  text,
    estimated_seconds     float8,
    partial_count         integer NOT NULL DEFAULT 0 CHECK (partial_count >= 0),
    error_count           integer NOT NULL DEFAULT 0 CHECK (error_count >= 0),
    result_id             text COLLATE "C",
    started_at            bigint,
    attempt_started_at    bigint,
    finished_at           bigint,
    cancel_requested_at   bigint,
    canceled_at           bigint,
    canceled_by           text    CHECK (canceled_by IN ('user', 'system', 'worker')),
    cancel_reason         text,
    failed_at             bigint,
    error_code            text,
    error_message         text,
    error_meta            text,
    retryable             boolean,
    retry_hint            text    CHECK (retry_hint IN ('retry_with_backoff', 'check_input_and_retry')),
    retry_count           integer NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
    last_retry_at         bigint,
    retry_reason          text,
    next_attempt_at       bigint,
    retry_of              text,
    attempt               integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    event_seq             integer NOT NULL DEFAULT 1 CHECK (event_seq >= 0),
    lost_count            integer NOT NULL DEFAULT 0 CHECK (lost_count >= 0),
    crash_count           integer NOT NULL DEFAULT 0 CHECK (crash_count >= 0),
    result_expired_at     bigint,
    events_expired_at     bigint,
    imported_at           bigint,
    ticket                bigint  NOT NULL DEFAULT 0,
    paced_percent         integer NOT NULL DEFAULT 0,
    paced_at              bigint,
    progress_at           bigint,
    traceparent           text,
    tracestate            text,
    PRIMARY KEY (job_id, org_id),
    CHECK ((finished_at IS NOT NULL) = (status IN ('completed', 'failed', 'canceled'))),
    CHECK ((progress_percent = 100) = (status = 'completed')),
    CHECK (status <> 'queued' OR (started_at IS NULL AND attempt = 0)),
    CHECK (status NOT IN ('running', 'partial') OR (started_at IS NOT NULL AND attempt_started_at IS NOT NULL)),
    CHECK (status <> 'partial' OR (partial_count >= 1 AND result_id IS NOT NULL)),
    CHECK (status <> 'completed' OR result_id IS NOT NULL),
    CHECK (status <> 'failed' OR (error_code IS NOT NULL AND error_message IS NOT NULL AND failed_at IS NOT NULL AND retryable IS NOT NULL)),
    CHECK (status <> 'canceled' OR (canceled_at IS NOT NULL AND canceled_by IS NOT NULL AND cancel_reason IS NOT NULL)),
    CHECK (next_attempt_at IS NULL OR status IN ('running', 'partial'))
);

-- Every version of a row is entered anew in every index that has room for it, and a job has four versions or more. So an
-- index holds a job only while, or once, it is asked for it; what never changes is found through job_inputs, which has one
-- version. On a table that is still empty the planner would as soon look a job up by its org alone, and keep to that while
-- the table grows: conditions keep indexes away from questions that do not name them.
CREATE INDEX idx_jobs_status_priority_queued ON jobs (status, priority_class, queued_at)
    WHERE started_at IS NULL AND finished_at IS NULL;
CREATE INDEX idx_jobs_lane_head ON jobs (org_id, analysis, priority_class, ticket)
    WHERE started_at IS NULL AND finished_at IS NULL;
CREATE INDEX idx_jobs_duplicates ON jobs (request_payload_hash, org_id, analysis) WHERE finished_at IS NULL;
CREATE INDEX idx_jobs_lane_due ON jobs (org_id, analysis, next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX idx_jobs_retry_eligible ON jobs (next_attempt_at, retry_count, max_retries) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX idx_jobs_org_status_updated ON jobs (org_id, status, updated_at DESC) WHERE finished_at IS NOT NULL;
CREATE INDEX idx_jobs_finished ON jobs (finished_at, job_id, org_id) WHERE finished_at IS NOT NULL;
CREATE UNIQUE INDEX idx_jobs_result_id ON jobs (result_id) WHERE result_id IS NOT NULL AND finished_at IS NOT NULL;
CREATE INDEX idx_jobs_error_code ON jobs (error_code) WHERE error_code IS NOT NULL;

-- The input is apart: a job's row is rewritten at every change, its input never. Lists walk along these rows.
CREATE TABLE job_inputs (
    org_id    text COLLATE "C" NOT NULL,
    job_id    text COLLATE "C" NOT NULL,
    queued_at bigint NOT NULL,
    payload   text   NOT NULL,
    PRIMARY KEY (job_id, org_id)
);

CREATE INDEX idx_job_inputs_org_queued ON job_inputs (org_id, queued_at, job_id) WHERE queued_at > 0;

CREATE TABLE job_events (
    org_id       text COLLATE "C" NOT NULL,
    job_id       text COLLATE "C" NOT NULL,
    event_seq    integer NOT NULL CHECK (event_seq >= 1),
    event_id     text    NOT NULL DEFAULT gen_random_uuid(),
    event_type   text    NOT NULL,
    occurred_at  bigint  NOT NULL,
    actor_type   text    NOT NULL CHECK (actor_type IN ('system', 'worker', 'user')),
    payload_json text    NOT NULL,
    trace_id     text    NOT NULL,
    request_id   text    NOT NULL,
    PRIMARY KEY (job_id, event_seq, org_id)
);

-- Rows lie in the order of their times, so a summary of each stretch finds them, and costs a writer nothing.
CREATE INDEX idx_job_events_job_occurred ON job_events USING brin (job_id, occurred_at) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX idx_job_events_type_occurred ON job_events USING brin (event_type, occurred_at) WITH (pages_per_range = 32, autosummarize = on);

CREATE TABLE job_results (
    org_id             text COLLATE "C" NOT NULL,
    result_id          text COLLATE "C" NOT NULL,
    job_id             text COLLATE "C" NOT NULL,
    result_kind        text    NOT NULL CHECK (result_kind IN ('partial', 'final')),
    result_seq         integer NOT NULL CHECK (result_seq >= 1),
    schema_version     integer NOT NULL,
    result_payload_ref text    NOT NULL,
    created_at         bigint  NOT NULL,
    summary_json       text,
    removed_at         bigint,
    payload            text,
    CONSTRAINT idx_job_results_job_seq PRIMARY KEY (job_id, result_seq, org_id),
    CHECK ((payload IS NULL) = (removed_at IS NOT NULL) OR result_payload_ref <> 'inline:')
);

CREATE UNIQUE INDEX idx_job_results_id ON job_results (result_id, org_id);
CREATE UNIQUE INDEX idx_job_results_final ON job_results (job_id, org_id) WHERE result_kind = 'final';
CREATE INDEX idx_job_results_created ON job_results USING brin (created_at) WITH (pages_per_range = 32, autosummarize = on);

CREATE TABLE notifications (
    org_id          text COLLATE "C" NOT NULL,
    notification_id text COLLATE "C" NOT NULL DEFAULT gen_random_uuid(),
    job_id          text COLLATE "C" NOT NULL,
    channel         text    NOT NULL CHECK (channel IN ('in_app', 'email', 'webhook')),
    template_key    text    NOT NULL,
    delivery_status text    NOT NULL CHECK (delivery_status IN ('pending', 'sent', 'failed', 'suppressed')),
    attempt_count   integer NOT NULL DEFAULT 0 CHECK (attempt_count >= 0),
    last_error      text,
    dedupe_key      text COLLATE "C" NOT NULL,
    scheduled_at    bigint  NOT NULL,
    sent_at         bigint,
    created_at      bigint  NOT NULL,
    payload_json    text    NOT NULL,
    PRIMARY KEY (notification_id, org_id)
);

CREATE UNIQUE INDEX idx_notifications_dedupe ON notifications (dedupe_key);
CREATE INDEX idx_notifications_job_channel ON notifications (job_id, channel, org_id);
CREATE INDEX idx_notifications_delivery_status ON notifications (delivery_status, scheduled_at) WHERE channel <> 'in_app';

CREATE TABLE job_chunks (
    org_id     text COLLATE "C" NOT NULL,
    job_id     text COLLATE "C" NOT NULL,
    chunk_key  text COLLATE "C" NOT NULL,
    payload    text   NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (job_id, chunk_key, org_id)
);

-- Who runs what until when. Heartbeats touch this narrow table alone. claim_id is that of the claim that made the lease: a
-- claim whose answer was lost is asked again under the same id, and finds what it was given.
CREATE TABLE leases (
    org_id      text COLLATE "C" NOT NULL,
    job_id      text COLLATE "C" NOT NULL,
    attempt     integer NOT NULL,
    worker_id   text    NOT NULL,
    expires_at  bigint  NOT NULL,
    deadline_at bigint  NOT NULL,
    claim_id    uuid,
    PRIMARY KEY (job_id, org_id)
) WITH (fillfactor = 50);

-- A heartbeat changes no column of an index, so that it is cheap.
CREATE INDEX idx_jobs_timeout_detection ON leases (deadline_at);

CREATE TABLE idempotency_keys (
    org_id          text COLLATE "C" NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL,
    job_id          text COLLATE "C" NOT NULL,
    payload_hash    text   NOT NULL,
    created_at      bigint NOT NULL,
    PRIMARY KEY (idempotency_key, org_id)
);

CREATE UNIQUE INDEX idx_idempotency_keys_job ON idempotency_keys (job_id, org_id);

-- Fair queueing: a lane is one org's jobs of one analysis. The org with the lowest virtual start has the next turn, then who
-- was served longest ago; all its lanes show the same. due_at is when the first of its jobs that had started may go on, or
-- earlier. The waiting jobs of a class have tickets above its head and up to its last: what was taken before is not walked
-- over, however long its dead entries stay in the index.
CREATE TABLE lanes (
    org_id        text COLLATE "C" NOT NULL,
    analysis      text COLLATE "C" NOT NULL,
    waiting       integer NOT NULL CHECK (waiting >= 0),
    virtual_start bigint  NOT NULL,
    served        bigint  NOT NULL DEFAULT 0,
    due_at        bigint,
    expedite_head bigint  NOT NULL DEFAULT 0,
    expedite_last bigint  NOT NULL DEFAULT 0,
    default_head  bigint  NOT NULL DEFAULT 0,
    default_last  bigint  NOT NULL DEFAULT 0,
    PRIMARY KEY (org_id, analysis)
) WITH (fillfactor = 50);

CREATE INDEX idx_lanes_turn ON lanes (analysis, virtual_start, served, org_id) WHERE waiting > 0;
CREATE INDEX idx_lanes_due ON lanes (analysis, due_at, org_id) WHERE due_at IS NOT NULL;

-- Where the virtual clock stands; an org that was idle joins from here. Claims take turns by locking this row.
CREATE TABLE lane_clock (
    only_row    integer PRIMARY KEY CHECK (only_row = 1),
    virtual_now bigint  NOT NULL,
    served      bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 10);

INSERT INTO lane_clock (only_row, virtual_now) VALUES (1, 0);

-- How many jobs wait, analysis by analysis. Each count is the sum of its shards: a connection writes to its own one, so that
-- hosts do not wait for each other. A single shard may be below nothing.
CREATE TABLE waiting_counts (
    analysis text COLLATE "C" NOT NULL,
    shard    integer NOT NULL,
    waiting  bigint  NOT NULL,
    PRIMARY KEY (analysis, shard)
) WITH (fillfactor = 10);

-- What a run of an analysis took lately, for estimates.
CREATE TABLE pace (
    analysis     text COLLATE "C" PRIMARY KEY,
    runs         bigint NOT NULL,
    mean_seconds float8 NOT NULL
) WITH (fillfactor = 10);

-- Which batches of writes were committed, with their answers. A batch whose answer was lost is sent again under the same id
-- and gets the answers it missed, instead of being carried out twice.
CREATE TABLE batches (
    batch_id uuid   PRIMARY KEY,
    made_at  bigint NOT NULL,
    answers  text[] NOT NULL
);

CREATE INDEX idx_batches_made ON batches (made_at);

-- Which stores of the earlier system were taken over: each once, in the transaction that brought its records.
CREATE TABLE imports (
    file_name   text   NOT NULL,
    sha256      text   NOT NULL,
    imported_at bigint NOT NULL,
    jobs        integer NOT NULL,
    PRIMARY KEY (file_name, sha256)
);

-- Who may call: keys of orgs. A key is made and revoked, never removed. `version` numbers these changes over all keys.
CREATE TABLE api_keys (
    key_id       text COLLATE "C" PRIMARY KEY,
    org_id       text COLLATE "C" NOT NULL CHECK (length(org_id) BETWEEN 1 AND 128),
    name         text   NOT NULL,
    secret_hash  text   NOT NULL CHECK (length(secret_hash) = 64),
    scopes       text   NOT NULL,
    created_at   bigint NOT NULL,
    expires_at   bigint,
    revoked_at   bigint,
    last_used_at bigint,
    version      bigint NOT NULL
);

CREATE UNIQUE INDEX idx_api_keys_version ON api_keys (version);
CREATE INDEX idx_api_keys_org ON api_keys (org_id, created_at, key_id);

CREATE TABLE signing_secrets (
    purpose    text COLLATE "C" PRIMARY KEY,
    secret     bytea  NOT NULL,
    created_at bigint NOT NULL
);

-- A job with what is not in its row: until when a worker holds it. Whoever reads it sees what it may see of the tables.
CREATE VIEW job_views WITH (security_invoker = true) AS
SELECT job.*, lease.expires_at AS lease_expires_at FROM jobs AS job LEFT JOIN leases AS lease USING (org_id, job_id);
