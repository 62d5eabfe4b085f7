-- Telling the world outside: endpoints of orgs, what single jobs wish to be told, and the outbox.

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

-- What a submission asked to be told, and where.
CREATE TABLE job_wishes (
    org_id   TEXT NOT NULL,
    job_id   TEXT NOT NULL,
    channel  TEXT NOT NULL CHECK (channel IN ('email', 'webhook')),
    target   TEXT NOT NULL,
    lane     TEXT NOT NULL,
    language TEXT,
    PRIMARY KEY (org_id, job_id, channel),
    FOREIGN KEY (org_id, job_id) REFERENCES jobs (org_id, job_id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- A message knows where it goes: to an endpoint, or to the address that its job named. Messages of one lane of an org wait
-- for each other. Whoever sends one has claimed it until then. Tries are counted from `tries_from` on.
ALTER TABLE notifications ADD COLUMN endpoint_id TEXT;
ALTER TABLE notifications ADD COLUMN target TEXT;
ALTER TABLE notifications ADD COLUMN lane TEXT;
ALTER TABLE notifications ADD COLUMN claimed_until INTEGER;
ALTER TABLE notifications ADD COLUMN tries_from INTEGER NOT NULL DEFAULT 0;

-- What is to be sent, lane by lane, in the order of time; and what is being sent.
CREATE INDEX idx_notifications_due ON notifications (org_id, lane, scheduled_at)
    WHERE delivery_status = 'pending' AND channel <> 'in_app' AND lane IS NOT NULL;
CREATE INDEX idx_notifications_claimed ON notifications (org_id, lane, claimed_until) WHERE claimed_until IS NOT NULL;
CREATE INDEX idx_notifications_endpoint ON notifications (org_id, endpoint_id, created_at DESC, notification_id DESC)
    WHERE endpoint_id IS NOT NULL;
CREATE INDEX idx_notifications_sent_out ON notifications (org_id, created_at DESC, notification_id DESC)
    WHERE channel <> 'in_app';

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
    FOREIGN KEY (org_id, notification_id) REFERENCES notifications (org_id, notification_id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- The outbox fills itself: whoever writes an event, by whatever way, leaves the messages about it in the same transaction.
-- Events of a store of the earlier system are old news.
CREATE TRIGGER job_events_go_out AFTER INSERT ON job_events
-- Most events interest nobody: that is seen at a glance.
WHEN NEW.event_type IN ('job.queued', 'job.running', 'job.partial', 'job.completed', 'job.failed', 'job.canceled') AND (
    EXISTS (SELECT 1 FROM webhook_endpoints WHERE org_id = NEW.org_id)
    OR (NEW.event_type IN ('job.completed', 'job.failed', 'job.canceled')
        AND EXISTS (SELECT 1 FROM job_wishes WHERE org_id = NEW.org_id AND job_id = NEW.job_id)))
BEGIN
    INSERT INTO notifications (
        org_id, notification_id, job_id, channel, template_key, delivery_status, attempt_count, dedupe_key, scheduled_at,
        created_at, payload_json, endpoint_id, target, lane)
    SELECT NEW.org_id,
        lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-'
            || substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))),
        NEW.job_id, receiver.channel, 'async.job.' || told.subject, 'pending', 0,
        NEW.job_id || ':' || receiver.channel || ':async.job.' || told.subject || receiver.mark
            || CASE WHEN told.subject IN ('completed', 'failed', 'canceled') THEN '' ELSE ':' || NEW.event_seq END,
        NEW.occurred_at, NEW.occurred_at,
        json_object('job_id', NEW.job_id, 'status', told.status, 'event_seq', NEW.event_seq, 'event_id', NEW.event_id,
            'trace_id', NEW.trace_id, 'result_id', coalesce(NEW.payload_json ->> 'result_id', CASE told.subject WHEN 'failed' THEN
                (SELECT result_id FROM jobs WHERE jobs.org_id = NEW.org_id AND jobs.job_id = NEW.job_id) END),
            'language', receiver.language),
        receiver.endpoint_id, receiver.target, receiver.lane
    FROM (SELECT CASE NEW.event_type WHEN 'job.running' THEN 'started' ELSE substr(NEW.event_type, 5) END AS subject,
                 substr(NEW.event_type, 5) AS status) AS told
    CROSS JOIN (
        SELECT 'webhook' AS channel, endpoint_id, NULL AS target, endpoint_id AS lane, ':' || endpoint_id AS mark,
            NULL AS language, subjects
        FROM webhook_endpoints WHERE org_id = NEW.org_id AND disabled_at IS NULL
        UNION ALL
        SELECT wish.channel, NULL, wish.target, wish.lane, CASE wish.channel WHEN 'webhook' THEN ':job' ELSE '' END,
            wish.language, CASE wish.channel WHEN 'webhook' THEN ',completed,failed,canceled,' ELSE ',completed,failed,' END
        FROM job_wishes AS wish
        WHERE wish.org_id = NEW.org_id AND wish.job_id = NEW.job_id
          -- An endpoint that hears of it anyway is not told twice.
          AND NOT EXISTS (SELECT 1 FROM webhook_endpoints AS known
                          WHERE wish.channel = 'webhook' AND known.org_id = wish.org_id AND known.url = wish.target
                            AND known.disabled_at IS NULL
                            AND instr(known.subjects, ',' || substr(NEW.event_type, 5) || ',') > 0)) AS receiver
    WHERE instr(receiver.subjects, ',' || told.subject || ',') > 0
      AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.org_id = NEW.org_id AND jobs.job_id = NEW.job_id
                        AND jobs.imported_at >= NEW.occurred_at);
END;
