-- Tables, indexes, and the types in which drivers send writes. Views, functions, triggers and rights are in `functions/`, which
-- is replaced as a whole whenever it changes.
--
-- Times are microseconds since 1970 in UTC, by this database's clock. Names compare byte by byte, in any locale. Constraints
-- repeat the invariants of the state machine. There are no foreign keys: their checks would cost more than all else; each
-- statement writes a job and its rows together, and `verify` looks for orphans.

-- One row per job with its lease; the view `jobs` shows it. A row is written at every step, so it is narrow: columns that are
-- always set come first, without padding, ids have 16 bytes, and the input is stored with the first event. `job` is the id
-- itself if it is a UUID; other ids, which imports bring, have a derived key and are stored in `job_name`.
CREATE TABLE job_rows (
    queued_at             bigint  NOT NULL,
    ticket                bigint  NOT NULL DEFAULT 0,
    timeout_seconds       float8  NOT NULL,
    event_seq             integer NOT NULL DEFAULT 1,
    attempt               integer NOT NULL DEFAULT 0,
    max_retries           integer NOT NULL,
    partial_count         integer NOT NULL DEFAULT 0,
    error_count           integer NOT NULL DEFAULT 0,
    retry_count           integer NOT NULL DEFAULT 0,
    lost_count            smallint NOT NULL DEFAULT 0,
    crash_count           smallint NOT NULL DEFAULT 0,
    progress_percent      smallint NOT NULL DEFAULT 0,
    paced_percent         smallint NOT NULL DEFAULT 0,
    -- what is left of an ended job: 1 its events, 2 a result, 3 both
    kept                  smallint NOT NULL DEFAULT 0,
    -- its final state: 1 completed, 2 failed, 3 canceled, 0 none yet. For an index, as partials change `status`
    final_state           smallint NOT NULL DEFAULT 0,
    job                   uuid    PRIMARY KEY,
    org_id                text COLLATE "C" NOT NULL,
    analysis              text COLLATE "C" NOT NULL,
    status                text COLLATE "C" NOT NULL,
    priority_class        text COLLATE "C" NOT NULL,
    payload_hash          bytea   NOT NULL,
    -- stored as a text only if it is no UUID
    trace                 uuid,
    request               uuid,
    -- the newest snapshot
    result                uuid,
    started_at            bigint,
    -- NULL of a completed job where it is started_at
    attempt_started_at    bigint,
    finished_at           bigint,
    -- NULL of an ended job: it is finished_at
    updated_at            bigint,
    estimated_seconds     float8,
    -- the lease: its worker, expiry, the deadline of the attempt, and its claim: a claim whose response was lost is retried
    -- under the same id
    lease_expires_at      bigint,
    deadline_at           bigint,
    worker_id             text,
    claim_id              uuid,
    next_attempt_at       bigint,
    -- of a completed job no longer shown, and mostly NULL
    paced_at              bigint,
    progress_at           bigint,
    partial_bytes         bigint,
    step                  text,
    job_name              text COLLATE "C",
    result_name           text COLLATE "C",
    trace_name            text,
    request_name          text,
    -- NULL if the input is in the database
    payload_ref           text,
    label                 text,
    requested_by_user_id  text,
    api_key_id            text,
    tool_client           text,
    cancel_requested_at   bigint,
    canceled_at           bigint,
    canceled_by           text,
    cancel_reason         text,
    failed_at             bigint,
    error_code            text,
    error_message         text,
    error_meta            text,
    retryable             boolean,
    retry_hint            text,
    last_retry_at         bigint,
    retry_reason          text,
    retry_of              text,
    based_on              text,
    result_expired_at     bigint,
    events_expired_at     bigint,
    imported_at           bigint,
    traceparent           text,
    tracestate            text,
    held_at               bigint,
    held_by               text,
    hold_reason           text,
    limit_reached         text,
    -- when the message about its end was read
    read_at               bigint,
    -- while it waits for run_at its ticket is that time with a minus sign
    run_at                bigint,
    start_by              bigint,
    schedule              text COLLATE "C",
    planned_at            bigint,
    -- the code of its latest attempt, whether another job may have its result, and whose result it has
    code                  bigint,
    reusable              integer CHECK (reusable = 1),
    reused_from           text,
    -- Few and short, as every statement parses them.
    CONSTRAINT jobs_state_check CHECK (CASE status
        WHEN 'queued' THEN attempt = 0 AND progress_percent < 100 AND final_state = 0
            AND num_nonnulls(started_at, finished_at, next_attempt_at, deadline_at, lease_expires_at, worker_id) = 0
        WHEN 'completed' THEN progress_percent = 100 AND final_state = 1 AND num_nonnulls(finished_at, result) = 2
            AND num_nonnulls(next_attempt_at, deadline_at, lease_expires_at, worker_id) = 0
        WHEN 'failed' THEN progress_percent < 100 AND final_state = 2
            AND num_nonnulls(finished_at, failed_at, error_code, error_message, retryable) = 5
            AND num_nonnulls(next_attempt_at, deadline_at, lease_expires_at, worker_id) = 0
        WHEN 'canceled' THEN progress_percent < 100 AND final_state = 3
            AND num_nonnulls(finished_at, canceled_at, canceled_by, cancel_reason) = 4
            AND num_nonnulls(next_attempt_at, deadline_at, lease_expires_at, worker_id) = 0
        ELSE (status = 'running' OR (status = 'partial' AND partial_count >= 1 AND result IS NOT NULL))
            AND progress_percent < 100 AND final_state = 0 AND finished_at IS NULL AND num_nonnulls(started_at, attempt_started_at) = 2
            AND (num_nonnulls(deadline_at, lease_expires_at, worker_id) = 0
                OR (num_nonnulls(deadline_at, lease_expires_at, worker_id) = 3 AND next_attempt_at IS NULL)) END),
    CONSTRAINT jobs_values_check CHECK (
        least(event_seq, attempt, max_retries, progress_percent, partial_count, error_count, retry_count, lost_count, crash_count) >= 0
        AND partial_bytes >= 0 AND timeout_seconds > 0 AND length(org_id) BETWEEN 1 AND 128
        AND priority_class IN ('default', 'expedite') AND canceled_by IN ('user', 'system', 'worker')
        AND retry_hint IN ('retry_with_backoff', 'check_input_and_retry') AND limit_reached IN ('events', 'partials'))
) WITH (fillfactor = 72, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 5000);

-- An update that changes no indexed column is HOT. So no index has a column, nor a condition on one, that heartbeats, progress
-- and partials change. An index holds a job only while it is needed: a job is in four of them at any time. Conditions keep the
-- planner from using an index of orgs for lookups by key while the table is empty.
CREATE INDEX idx_jobs_org_queued ON job_rows (org_id, queued_at) INCLUDE (kept) WHERE queued_at > 0;
CREATE INDEX idx_jobs_lane_head ON job_rows (org_id, analysis, priority_class, ticket)
    WHERE started_at IS NULL AND finished_at IS NULL;
CREATE INDEX idx_jobs_duplicates ON job_rows (substr(payload_hash, 1, 8)) WHERE finished_at IS NULL;
-- A retry was decided after its last attempt began; a lost or released job was not.
CREATE INDEX idx_jobs_lane_due ON job_rows (
    org_id, analysis, (coalesce(last_retry_at >= attempt_started_at, false)::integer), next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX idx_jobs_timeout_detection ON job_rows (deadline_at) WHERE deadline_at IS NOT NULL;
CREATE INDEX idx_jobs_org_status_updated ON job_rows (org_id, final_state, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX idx_jobs_finished ON job_rows (kept, finished_at) WHERE finished_at IS NOT NULL;
-- These hold few jobs.
CREATE INDEX idx_jobs_failed ON job_rows (org_id, queued_at) WHERE failed_at IS NOT NULL;
CREATE INDEX idx_jobs_retry_eligible ON job_rows (next_attempt_at, retry_count, max_retries) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX idx_jobs_error_code ON job_rows (error_code) WHERE error_code IS NOT NULL;
CREATE INDEX idx_jobs_retry_of ON job_rows (retry_of COLLATE "C", org_id, queued_at) WHERE retry_of IS NOT NULL;
CREATE INDEX idx_jobs_based_on ON job_rows (based_on COLLATE "C", org_id, queued_at) WHERE based_on IS NOT NULL;
CREATE INDEX idx_jobs_held ON job_rows (org_id, held_at) WHERE held_at IS NOT NULL;
CREATE INDEX idx_jobs_start_by ON job_rows (start_by) WHERE start_by > 0 AND started_at IS NULL AND finished_at IS NULL;
CREATE INDEX idx_jobs_reusable ON job_rows (substr(payload_hash, 1, 8), finished_at) WHERE reusable = 1 AND final_state = 1;
CREATE INDEX idx_jobs_schedule ON job_rows (org_id, schedule, planned_at) WHERE schedule IS NOT NULL;
CREATE INDEX idx_jobs_named ON job_rows (job) WHERE job_name IS NOT NULL;

-- The rows of job_events. Values derived from the job are NULL: event_id if it is derived from the job's id, trace_id and
-- request_id if they are the job's, the actor if it is the worker, and the payload if it only repeats the job. feed_mark is the
-- place in the feed. The first row also has the job's input, as the job's row is rewritten often; it has no type if retention
-- removed the event.
CREATE TABLE event_rows (
    occurred_at  bigint  NOT NULL,
    feed_mark    bigint,
    event_seq    integer NOT NULL CHECK (event_seq >= 1),
    job          uuid    NOT NULL,
    org_id       text COLLATE "C" NOT NULL,
    event_type   text,
    actor_type   text    CHECK (actor_type IN ('system', 'worker', 'user')),
    payload_json text,
    event_id     text,
    trace_id     text,
    request_id   text,
    input        text,
    PRIMARY KEY (job, event_seq)
) WITH (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 50000);

-- Marks are few: events of one batch share one.
CREATE INDEX idx_job_events_feed ON event_rows (org_id, feed_mark) WHERE feed_mark IS NOT NULL;
CREATE INDEX idx_job_events_feed_before ON event_rows (org_id, occurred_at, job, event_seq)
    WHERE feed_mark IS NULL
    AND event_type IN ('job.queued', 'job.running', 'job.partial', 'job.completed', 'job.failed', 'job.canceled');
-- Rows are stored in the order of time, so a BRIN index finds them at no cost for writers.
CREATE INDEX idx_job_events_type_occurred ON event_rows USING brin (event_type, occurred_at) WITH (pages_per_range = 32, autosummarize = on);

-- The rows of job_results. payload_ref is NULL if the payload is in the database.
CREATE TABLE result_rows (
    created_at         bigint  NOT NULL,
    job                uuid    NOT NULL,
    result             uuid    NOT NULL,
    result_seq         integer NOT NULL CHECK (result_seq >= 1),
    schema_version     integer NOT NULL,
    org_id             text COLLATE "C" NOT NULL,
    result_kind        text    NOT NULL CHECK (result_kind IN ('partial', 'final')),
    summary_json       text,
    removed_at         bigint,
    result_name        text COLLATE "C",
    payload_ref        text,
    payload            text,
    -- what an analysis wants people to see of it, as JSON
    views              text,
    -- the schema as the earlier system named it, where that is a text
    schema_text        text,
    CONSTRAINT idx_job_results_job_seq PRIMARY KEY (job, result_seq),
    CHECK ((payload IS NULL) = (removed_at IS NOT NULL) OR payload_ref IS NOT NULL),
    CONSTRAINT job_results_views_check CHECK (views IS NULL OR removed_at IS NULL)
) WITH (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 50000);

CREATE UNIQUE INDEX idx_job_results_id ON result_rows (result);
CREATE UNIQUE INDEX idx_job_results_final ON result_rows (job) WHERE result_kind = 'final';
CREATE INDEX idx_job_results_created ON result_rows USING brin (created_at) WITH (pages_per_range = 32, autosummarize = on);

-- Outgoing messages, and in-app messages that an import brought; those about a job's end are derived from the job. A message
-- goes to an endpoint or to the address that its job named. Messages of one lane wait for each other. Tries are counted from
-- `tries_from` on.
CREATE TABLE outbox (
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
    read_at         bigint,
    endpoint_id     text COLLATE "C",
    target          text,
    lane            text COLLATE "C",
    claimed_until   bigint,
    tries_from      integer NOT NULL DEFAULT 0,
    PRIMARY KEY (notification_id, org_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 5000);

CREATE UNIQUE INDEX idx_notifications_dedupe ON outbox (dedupe_key);
CREATE INDEX idx_notifications_job_channel ON outbox (job_id, channel);
CREATE INDEX idx_notifications_delivery_status ON outbox (delivery_status, scheduled_at) WHERE channel <> 'in_app';
CREATE INDEX idx_notifications_inbox ON outbox (org_id, created_at, notification_id, read_at) WHERE channel = 'in_app';
-- Messages to send by lane and time, and messages in flight.
CREATE INDEX idx_notifications_due ON outbox (org_id, lane, scheduled_at)
    WHERE delivery_status = 'pending' AND channel <> 'in_app' AND lane IS NOT NULL;
CREATE INDEX idx_notifications_claimed ON outbox (org_id, lane, claimed_until) WHERE claimed_until IS NOT NULL;
CREATE INDEX idx_notifications_endpoint ON outbox (org_id, endpoint_id, created_at, notification_id)
    WHERE endpoint_id IS NOT NULL;
CREATE INDEX idx_notifications_sent_out ON outbox (org_id, created_at, notification_id) WHERE channel <> 'in_app';
CREATE INDEX idx_notifications_outcome ON outbox (org_id, delivery_status, created_at, notification_id)
    WHERE channel <> 'in_app';

CREATE TABLE job_chunks (
    org_id     text COLLATE "C" NOT NULL,
    job_id     text COLLATE "C" NOT NULL,
    chunk_key  text COLLATE "C" NOT NULL,
    payload    text   NOT NULL,
    created_at bigint NOT NULL,
    -- how many chunks the job was known to have, where it is one of a map
    total      integer,
    PRIMARY KEY (job_id, chunk_key)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 5000);

CREATE TABLE idempotency_keys (
    org_id          text COLLATE "C" NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL,
    job_id          text COLLATE "C" NOT NULL,
    payload_hash    text   NOT NULL,
    created_at      bigint NOT NULL,
    PRIMARY KEY (idempotency_key, org_id)
) WITH (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000, autovacuum_vacuum_cost_delay = 0);

CREATE UNIQUE INDEX idx_idempotency_keys_job ON idempotency_keys (job_id);

-- Fair queueing: a lane is the jobs of one org and analysis. The org with the lowest virtual start is next, then the one served
-- longest ago; all its lanes have the same. due_at is when the first of its started jobs may continue, or earlier; back_at the
-- same of lost and released jobs, which cost no turn. Waiting jobs of a class have tickets above its head and up to its last,
-- so a scan skips dead index entries.
CREATE TABLE lanes (
    org_id        text COLLATE "C" NOT NULL,
    analysis      text COLLATE "C" NOT NULL,
    waiting       integer NOT NULL CHECK (waiting >= 0),
    virtual_start bigint  NOT NULL,
    served        bigint  NOT NULL DEFAULT 0,
    due_at        bigint,
    back_at       bigint,
    -- jobs that wait for their time are not in line: how many, and when the first may enter it, or earlier
    scheduled     integer NOT NULL DEFAULT 0 CHECK (scheduled >= 0),
    next_run_at   bigint,
    expedite_head bigint  NOT NULL DEFAULT 0,
    expedite_last bigint  NOT NULL DEFAULT 0,
    default_head  bigint  NOT NULL DEFAULT 0,
    default_last  bigint  NOT NULL DEFAULT 0,
    PRIMARY KEY (org_id, analysis)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX idx_lanes_turn ON lanes (analysis, virtual_start, served, org_id) WHERE waiting > 0;
CREATE INDEX idx_lanes_due ON lanes (analysis, due_at, org_id) WHERE due_at IS NOT NULL;
CREATE INDEX idx_lanes_run ON lanes (next_run_at) WHERE next_run_at IS NOT NULL;
CREATE INDEX idx_lanes_back ON lanes (analysis, back_at, org_id) WHERE back_at IS NOT NULL;

-- The virtual clock, at which an idle org joins. Claims serialise by locking this row.
CREATE TABLE lane_clock (
    only_row    integer PRIMARY KEY CHECK (only_row = 1),
    virtual_now bigint  NOT NULL,
    served      bigint  NOT NULL DEFAULT 0,
    -- before this instant no counted lease can have expired
    look_at     bigint,
    -- how many rows `pauses` has: a claim reads them only where there are any
    pauses      bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

INSERT INTO lane_clock (only_row, virtual_now) VALUES (1, 0);

-- Which code ran jobs, and on what: written by a worker before its first claim. The key is made from the columns up to host.
-- seen_at is when a worker last said that it runs it, or retention found a job that names it.
CREATE TABLE codes (
    code      bigint PRIMARY KEY,
    analysis  text COLLATE "C" NOT NULL,
    version   text NOT NULL,
    code_hash text NOT NULL,
    package   text,
    langlauf  text NOT NULL,
    python    text NOT NULL,
    host      text NOT NULL,
    seen_at   bigint NOT NULL DEFAULT 0
);

-- Analyses of which nothing starts: for one org, or for all where org_id is empty. One whose time is over counts no more.
CREATE TABLE pauses (
    org_id       text COLLATE "C" NOT NULL CHECK (length(org_id) <= 128),
    analysis     text COLLATE "C" NOT NULL,
    paused_at    bigint NOT NULL,
    paused_until bigint CHECK (paused_until > paused_at),
    because      text   NOT NULL,
    paused_by    text,
    PRIMARY KEY (org_id, analysis)
);

-- Waiting and leased jobs by analysis, as the sum of shards: a connection writes to its own, so hosts do not block each other.
-- A single shard may be negative.
CREATE TABLE waiting_counts (
    analysis text COLLATE "C" NOT NULL,
    shard    integer NOT NULL,
    waiting  bigint  NOT NULL,
    leased   bigint  NOT NULL DEFAULT 0,
    scheduled bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (analysis, shard)
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

-- Schedules: when an analysis runs again and again. A process that fires a due one claims it for a moment; the planned time is in
-- the idempotency key of the job, so that one job comes of it, whichever process fires.
CREATE TABLE schedules (
    org_id        text COLLATE "C" NOT NULL CHECK (length(org_id) BETWEEN 1 AND 128),
    name          text COLLATE "C" NOT NULL,
    analysis      text COLLATE "C" NOT NULL,
    input         text    NOT NULL,
    cron          text,
    every_seconds float8  CHECK (every_seconds >= 1),
    zone          text    NOT NULL,
    overlap       text    NOT NULL CHECK (overlap IN ('skip', 'queue')),
    missed        text    NOT NULL CHECK (missed IN ('once', 'none', 'all')),
    paused        boolean NOT NULL,
    notify        text,
    source        text    NOT NULL CHECK (source IN ('api', 'code')),
    created_at    bigint  NOT NULL,
    updated_at    bigint  NOT NULL,
    next_run_at   bigint,
    last_run_at   bigint,
    last_outcome  text,
    last_job_id   text,
    claimed_until bigint,
    PRIMARY KEY (org_id, name),
    CHECK ((cron IS NULL) <> (every_seconds IS NULL)),
    CHECK (NOT paused OR next_run_at IS NULL)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX idx_schedules_due ON schedules (analysis, next_run_at) WHERE next_run_at IS NOT NULL;

-- The mean duration of recent runs, for estimates.
CREATE TABLE pace (
    analysis     text COLLATE "C" PRIMARY KEY,
    runs         bigint NOT NULL,
    mean_seconds float8 NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

-- Outcomes of batches in which attempts ended without a result, which the job does not show: a batch whose response was lost is
-- retried under the same id.
CREATE TABLE batches (
    batch_id uuid   PRIMARY KEY,
    made_at  bigint NOT NULL,
    answers  text[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX idx_batches_made ON batches (made_at);

-- Imported stores, each once.
CREATE TABLE imports (
    file_name   text   NOT NULL,
    sha256      text   NOT NULL,
    imported_at bigint NOT NULL,
    jobs        integer NOT NULL,
    PRIMARY KEY (file_name, sha256)
);

-- API keys. A key is created and revoked, never removed. `version` numbers these changes over all keys.
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

-- Sessions that were ended early. A session is signed and not stored; its end is stored until it expires. `number` rises, so
-- that a process reads only new ones: the row with the highest number stays.
CREATE TABLE ended_sessions (
    session_id text COLLATE "C" PRIMARY KEY,
    expires_at bigint NOT NULL,
    number     bigint NOT NULL
);

CREATE UNIQUE INDEX idx_ended_sessions_number ON ended_sessions (number);

-- The secret of an endpoint is derived from the store's secret, its id and `version`.
CREATE TABLE webhook_endpoints (
    org_id          text COLLATE "C" NOT NULL CHECK (length(org_id) BETWEEN 1 AND 128),
    endpoint_id     text COLLATE "C" NOT NULL,
    url             text    NOT NULL,
    name            text    NOT NULL,
    -- words, each between commas
    subjects        text    NOT NULL,
    created_at      bigint  NOT NULL,
    version         integer NOT NULL CHECK (version >= 1),
    former_until    bigint,
    disabled_at     bigint,
    disabled_reason text,
    PRIMARY KEY (endpoint_id, org_id),
    UNIQUE (org_id, url),
    CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL))
);

-- Subscriptions of a submission.
CREATE TABLE job_wishes (
    org_id   text COLLATE "C" NOT NULL,
    job_id   text COLLATE "C" NOT NULL,
    channel  text NOT NULL CHECK (channel IN ('email', 'webhook')),
    target   text NOT NULL,
    lane     text COLLATE "C" NOT NULL,
    language text,
    PRIMARY KEY (job_id, channel, org_id)
);

-- Lanes whose last attempt failed.
CREATE TABLE delivery_lanes (
    org_id        text COLLATE "C" NOT NULL,
    lane          text COLLATE "C" NOT NULL,
    failures      integer NOT NULL CHECK (failures >= 1),
    failing_since bigint  NOT NULL,
    paused_until  bigint,
    PRIMARY KEY (org_id, lane)
);

-- The log of deliveries: every attempt that ended.
CREATE TABLE delivery_attempts (
    org_id          text COLLATE "C" NOT NULL,
    notification_id text COLLATE "C" NOT NULL,
    attempt         integer NOT NULL CHECK (attempt >= 1),
    job_id          text COLLATE "C" NOT NULL,
    at              bigint  NOT NULL,
    seconds         float8  NOT NULL,
    status          text    NOT NULL,
    status_code     integer,
    error           text,
    reply           text,
    PRIMARY KEY (notification_id, attempt, org_id)
);

CREATE INDEX idx_delivery_attempts_job ON delivery_attempts (job_id, org_id);

-- Addresses of an org that may be mailed, or have unsubscribed.
CREATE TABLE mail_marks (
    org_id  text COLLATE "C" NOT NULL CHECK (length(org_id) BETWEEN 1 AND 128),
    address text COLLATE "C" NOT NULL CHECK (address = lower(address)),
    mark    text COLLATE "C" NOT NULL CHECK (mark IN ('allowed', 'unsubscribed')),
    at      bigint NOT NULL,
    PRIMARY KEY (org_id, address, mark)
);

-- Recent mails, for the rate limits.
CREATE TABLE mail_admissions (
    org_id          text COLLATE "C" NOT NULL,
    notification_id text COLLATE "C" NOT NULL,
    attempt         integer NOT NULL,
    address         text COLLATE "C" NOT NULL,
    at              bigint  NOT NULL,
    PRIMARY KEY (org_id, notification_id, attempt)
);

CREATE INDEX idx_mail_admissions_org ON mail_admissions (org_id, at);
CREATE INDEX idx_mail_admissions_address ON mail_admissions (org_id, address, at);

CREATE TABLE inbox_marks (
    org_id     text COLLATE "C" PRIMARY KEY CHECK (length(org_id) BETWEEN 1 AND 128),
    read_until bigint NOT NULL
);

-- Reports of workers, of no org. One that is lost stays for a while, so that operators can see it.
CREATE TABLE workers (
    worker_id     text COLLATE "C" PRIMARY KEY,
    host          text    NOT NULL,
    pid           integer NOT NULL,
    version       text    NOT NULL,
    analyses      text    NOT NULL,
    slots         integer NOT NULL CHECK (slots >= 0),
    busy          integer NOT NULL CHECK (busy >= 0),
    every_seconds float8  NOT NULL CHECK (every_seconds > 0),
    started_at    bigint  NOT NULL,
    stopping      boolean NOT NULL,
    seen_at       bigint  NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- When each maintenance duty last succeeded, and where, for operators.
CREATE TABLE duties (
    name         text COLLATE "C" PRIMARY KEY,
    succeeded_at bigint NOT NULL,
    host         text   NOT NULL
) WITH (fillfactor = 50);

-- The progress of a copy into this store, which is not served meanwhile.
CREATE TABLE copying (
    only_row   integer PRIMARY KEY CHECK (only_row = 1),
    source     text NOT NULL,
    table_name text NOT NULL,
    position   text
);

-- The database that counted the feed marks: one restored from a dump counts its transactions anew.
CREATE TABLE feed_home (
    only_row integer PRIMARY KEY CHECK (only_row = 1),
    home     text NOT NULL
);

-- The schema after the last migration, for `verify`.
CREATE TABLE schema_made (
    kind   text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    digest text    NOT NULL,
    server integer NOT NULL,
    PRIMARY KEY (kind, name)
);

-- The installed functions: the digest of their text, and their release.
CREATE TABLE installed (
    only_row integer PRIMARY KEY CHECK (only_row = 1),
    digest   text NOT NULL,
    release  text NOT NULL
);

-- Writes as drivers send them: a batch is an array of one of these types, which the database reads several times as fast as an
-- array per field. Drivers name the fields that they set; the others are NULL, also those that a later version adds.

-- A submission.
CREATE TYPE new_job AS (
    org_id                text,
    job                   uuid,
    job_name              text,
    analysis              text,
    priority_class        text,
    payload_hash          bytea,
    payload_ref           text,
    input                 text,
    timeout_seconds       float8,
    max_retries           integer,
    trace                 uuid,
    trace_name            text,
    request               uuid,
    request_name          text,
    requested_by_user_id  text,
    api_key_id            text,
    tool_client           text,
    estimated_seconds     float8,
    retry_of              text,
    based_on              text,
    traceparent           text,
    tracestate            text,
    label                 text,
    run_at                bigint,
    start_by              bigint,
    schedule              text,
    planned_at            bigint,
    idempotency_key       text,
    refuse_duplicate      boolean,
    -- the job whose chunks it starts with
    resume_from           text,
    -- the limits of the queue
    most_of_org           bigint,
    most_of_all           bigint,
    most_of_analysis      bigint,
    -- whether others may have its result; and of which version and age it may have another's, under which id
    reusable              integer,
    reuse_version         text,
    reuse_age             bigint,
    reuse_result          uuid
);

-- A subscription of a submission, which is named by its place in the batch.
CREATE TYPE new_subscription AS (
    place    integer,
    channel  text,
    target   text,
    lane     text,
    language text
);

-- What a worker asks for: as many jobs as it has free slots, of analyses that it knows, within the limits of the deployment. `claim`
-- is the id under which a retry finds what it was given.
CREATE TYPE claim_request AS (
    claim       uuid,
    worker      text,
    slots       integer,
    known       text[],
    lease_time  bigint,
    most        integer,
    -- analyses with a limit of their own, and the limit of each org
    limited     text[],
    limits      integer[],
    org_limit   integer,
    -- the code that the worker runs, by analysis
    coded       text[],
    codes       bigint[]
);

-- A write of an attempt: progress, partial, checkpoint, or its end. Which fields are set depends on the kind.
CREATE TYPE attempt_write AS (
    place        integer,
    org_id       text,
    job          uuid,
    job_name     text,
    attempt      integer,
    -- progress, partial, checkpoint, completed, failed, retry, lost, released or canceled; crashed is decided before it is written
    kind         text,
    percent      integer,
    step         text,
    replayed     boolean,
    -- the number of the last event that is no end, and the bytes of this and of all partials
    news_end     integer,
    size         bigint,
    most_bytes   bigint,
    chunk_key    text,
    total        integer,
    result       uuid,
    result_name  text,
    payload      text,
    payload_ref  text,
    summary      text,
    views        text,
    -- of an end; NULL is the worker
    actor        text,
    code         text,
    message      text,
    meta         text,
    retryable    boolean,
    hint         text,
    delay        bigint,
    timed_out    boolean,
    -- of the timeout event
    threshold    text,
    lost         integer,
    crashed      integer,
    crash        text,
    own          boolean,
    canceled_by  text,
    reason       text,
    -- whether it need not hold its lease, and whether it has none
    unfenced     boolean,
    unleased     boolean
);
