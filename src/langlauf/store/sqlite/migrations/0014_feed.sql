-- The feed: what goes out of an org's events, in the order of their commits, however many jobs they are of.
--
-- There is one writer at a time and the store's clock does not run back, so the time of an event is its place. Where the
-- clock has not moved since the last commit, what comes later gets a place behind it in `feed_at`: whoever read between the
-- two loses nothing. Rows that were brought from elsewhere have the places of their times.
ALTER TABLE job_events ADD COLUMN feed_at INTEGER;
ALTER TABLE job_events ADD COLUMN feed_mark INTEGER GENERATED ALWAYS AS (
    CASE WHEN event_type IN ('job.queued', 'job.running', 'job.partial', 'job.completed', 'job.failed', 'job.canceled')
        THEN coalesce(feed_at, occurred_at) END) VIRTUAL;
CREATE INDEX idx_job_events_feed ON job_events (org_id, feed_mark, job_id, event_seq) WHERE feed_mark IS NOT NULL;

-- Which store this is, and since when it has events of its own: a place that another store gave out says when, not where.
CREATE TABLE feed_home (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    life     TEXT    NOT NULL,
    began_at INTEGER NOT NULL
) STRICT;
INSERT INTO feed_home (only_row, life, began_at)
VALUES (1, lower(hex(randomblob(6))), CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER));
