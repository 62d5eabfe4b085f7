-- Telling the world outside: endpoints of orgs, what single jobs wish to be told, and the outbox.

-- Its secret is made from this store's own secret, its id and `version`, so that none is kept here.
CREATE TABLE webhook_endpoints (
    org_id          text COLLATE "C" NOT NULL CHECK (length(org_id) BETWEEN 1 AND 128),
    endpoint_id     text COLLATE "C" NOT NULL,
    url             text    NOT NULL,
    name            text    NOT NULL,
    -- words with a comma before and after each
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

-- What a submission asked to be told, and where.
CREATE TABLE job_wishes (
    org_id   text COLLATE "C" NOT NULL,
    job_id   text COLLATE "C" NOT NULL,
    channel  text NOT NULL CHECK (channel IN ('email', 'webhook')),
    target   text NOT NULL,
    lane     text COLLATE "C" NOT NULL,
    language text,
    PRIMARY KEY (job_id, channel, org_id)
);

-- A message knows where it goes: to an endpoint, or to the address that its job named. Messages of one lane of an org wait
-- for each other. Whoever sends one has claimed it until then. Tries are counted from `tries_from` on.
ALTER TABLE notifications
    ADD COLUMN endpoint_id text COLLATE "C",
    ADD COLUMN target text,
    ADD COLUMN lane text COLLATE "C",
    ADD COLUMN claimed_until bigint,
    ADD COLUMN tries_from integer NOT NULL DEFAULT 0;

-- What is to be sent, lane by lane, in the order of time; and what is being sent.
CREATE INDEX idx_notifications_due ON notifications (org_id, lane, scheduled_at)
    WHERE delivery_status = 'pending' AND channel <> 'in_app';
CREATE INDEX idx_notifications_claimed ON notifications (org_id, lane, claimed_until) WHERE claimed_until IS NOT NULL;
CREATE INDEX idx_notifications_endpoint ON notifications (org_id, endpoint_id, created_at, notification_id)
    WHERE endpoint_id IS NOT NULL;
CREATE INDEX idx_notifications_sent_out ON notifications (org_id, created_at, notification_id) WHERE channel <> 'in_app';

-- Lanes where the last attempt failed. A lane that is well has no row.
CREATE TABLE delivery_lanes (
    org_id        text COLLATE "C" NOT NULL,
    lane          text COLLATE "C" NOT NULL,
    failures      integer NOT NULL CHECK (failures >= 1),
    failing_since bigint  NOT NULL,
    paused_until  bigint,
    PRIMARY KEY (org_id, lane)
);

-- The log of deliveries: every attempt that was brought to an end.
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
