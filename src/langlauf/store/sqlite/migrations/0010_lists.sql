-- What the lists of the pages look up. Each index holds a job only from its end on, or only if it ended badly: a job that is
-- rewritten while it works costs nothing more.

-- Failed jobs, newest first: the list of them, and what groups them by cause.
CREATE INDEX idx_jobs_failed ON jobs (org_id, queued_at DESC, job_id DESC) WHERE failed_at IS NOT NULL;
-- Which jobs were run again by somebody.
CREATE INDEX idx_jobs_retry_of ON jobs (org_id, retry_of) WHERE retry_of IS NOT NULL;
-- Ended jobs whose result is still there, newest first: counted without a look at the jobs.
CREATE INDEX idx_jobs_history ON jobs (org_id, queued_at DESC, job_id DESC)
    WHERE finished_at IS NOT NULL AND result_id IS NOT NULL AND result_expired_at IS NULL;

-- The inbox: when a message was seen, or up to when all of an org's were. All at once is one row, however many there are.
ALTER TABLE notifications ADD COLUMN read_at INTEGER;
CREATE INDEX idx_notifications_inbox ON notifications (org_id, created_at DESC, notification_id DESC, read_at)
    WHERE channel = 'in_app';
CREATE TABLE inbox_marks (
    org_id     TEXT    PRIMARY KEY NOT NULL CHECK (length(org_id) BETWEEN 1 AND 128),
    read_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
