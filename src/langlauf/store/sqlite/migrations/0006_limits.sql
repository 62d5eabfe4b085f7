-- What claims and estimates look up without walking over what they cannot take, and without counting what waits.

-- A claim asks analysis by analysis: one that is at its limit, or that nobody knows, costs nothing however many wait. Of
-- orgs with the same turn the one goes first that was served longest ago: the clock counts, and lanes keep the count.
ALTER TABLE lane_clock ADD COLUMN served INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lanes ADD COLUMN served INTEGER NOT NULL DEFAULT 0;
DROP INDEX idx_lanes_turn;
CREATE INDEX idx_lanes_turn ON lanes (analysis, virtual_start, served, org_id) WHERE waiting > 0;

-- Jobs that had started and wait for their next attempt, by lane. due_at is when the first of a lane may go on, or earlier:
-- whoever looks and finds nothing corrects it. It is never later, so no job is overlooked.
ALTER TABLE lanes ADD COLUMN due_at INTEGER;
CREATE INDEX idx_lanes_due ON lanes (analysis, due_at, org_id) WHERE due_at IS NOT NULL;
CREATE INDEX idx_jobs_lane_due ON jobs (org_id, analysis, next_attempt_at) WHERE next_attempt_at IS NOT NULL;

INSERT INTO lanes (org_id, analysis, waiting, virtual_start, due_at)
SELECT org_id, analysis, 0, 0, min(next_attempt_at) FROM jobs WHERE next_attempt_at IS NOT NULL GROUP BY org_id, analysis
ON CONFLICT (org_id, analysis) DO UPDATE SET due_at = excluded.due_at;

CREATE TRIGGER jobs_wait_in_their_lane AFTER UPDATE OF next_attempt_at ON jobs
WHEN NEW.next_attempt_at IS NOT NULL
BEGIN
    INSERT INTO lanes (org_id, analysis, waiting, virtual_start, due_at)
    VALUES (NEW.org_id, NEW.analysis, 0, 0, NEW.next_attempt_at)
    ON CONFLICT (org_id, analysis) DO UPDATE SET due_at = min(coalesce(due_at, excluded.due_at), excluded.due_at);
END;

CREATE TRIGGER jobs_arrive_in_their_lane AFTER INSERT ON jobs
WHEN NEW.next_attempt_at IS NOT NULL
BEGIN
    INSERT INTO lanes (org_id, analysis, waiting, virtual_start, due_at)
    VALUES (NEW.org_id, NEW.analysis, 0, 0, NEW.next_attempt_at)
    ON CONFLICT (org_id, analysis) DO UPDATE SET due_at = min(coalesce(due_at, excluded.due_at), excluded.due_at);
END;

-- How many jobs wait, analysis by analysis: a sum over the lanes would grow with the number of orgs.
CREATE TABLE waiting_counts (
    analysis TEXT    PRIMARY KEY,
    waiting  INTEGER NOT NULL CHECK (waiting >= 0)
) STRICT, WITHOUT ROWID;

INSERT INTO waiting_counts (analysis, waiting) SELECT analysis, sum(waiting) FROM lanes GROUP BY analysis;

CREATE TRIGGER lanes_open_counted AFTER INSERT ON lanes
WHEN NEW.waiting > 0
BEGIN
    INSERT INTO waiting_counts (analysis, waiting) VALUES (NEW.analysis, NEW.waiting)
    ON CONFLICT (analysis) DO UPDATE SET waiting = waiting + excluded.waiting;
END;

CREATE TRIGGER lanes_change_counted AFTER UPDATE OF waiting ON lanes
WHEN NEW.waiting <> OLD.waiting
BEGIN
    INSERT INTO waiting_counts (analysis, waiting) VALUES (NEW.analysis, 0) ON CONFLICT DO NOTHING;
    UPDATE waiting_counts SET waiting = waiting + NEW.waiting - OLD.waiting WHERE analysis = NEW.analysis;
END;

-- The place of a waiting job among those of its org, analysis and class: the first one's ticket from its own is how many
-- are before it, without counting them.
ALTER TABLE jobs ADD COLUMN ticket INTEGER NOT NULL DEFAULT 0;

UPDATE jobs SET ticket = numbered.place FROM (
    SELECT org_id, job_id,
        row_number() OVER (PARTITION BY org_id, analysis, priority_class ORDER BY queued_at, job_id) AS place
    FROM jobs WHERE started_at IS NULL AND finished_at IS NULL) AS numbered
WHERE jobs.org_id = numbered.org_id AND jobs.job_id = numbered.job_id;

-- From where on the progress of an attempt tells its own pace, and when it rose last: what an earlier attempt had done, or
-- what a stored chunk brought, was not made in this one's time. No instant: not known yet.
ALTER TABLE jobs ADD COLUMN paced_percent INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN paced_at INTEGER;
ALTER TABLE jobs ADD COLUMN progress_at INTEGER;
