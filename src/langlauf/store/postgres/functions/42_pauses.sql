-- Pauses of analyses. Claims and pauses lock the virtual clock first: a claim that starts after a pause was committed sees it,
-- and none starts a job later than that.

-- Counts the pauses in the row that every claim reads anyway.
CREATE OR REPLACE FUNCTION count_pauses() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lane_clock SET pauses = (SELECT count(*) FROM pauses);
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER pauses_are_counted AFTER INSERT OR DELETE ON pauses
FOR EACH STATEMENT EXECUTE FUNCTION count_pauses();

-- Pauses an analysis. Since when counts from the first of several requests, unless its time is over.
CREATE OR REPLACE FUNCTION pause_analysis(at bigint, org text, name text, until bigint, why text, who text) RETURNS SETOF pauses
LANGUAGE plpgsql AS $$
DECLARE
    now bigint;
BEGIN
    PERFORM 1 FROM lane_clock FOR UPDATE;
    now := moment(at);
    RETURN QUERY
    INSERT INTO pauses AS held (org_id, analysis, paused_at, paused_until, because, paused_by) VALUES (org, name, now, until, why, who)
    ON CONFLICT (org_id, analysis) DO UPDATE SET
        paused_at = CASE WHEN held.paused_until <= now THEN now ELSE held.paused_at END,
        paused_until = excluded.paused_until, because = excluded.because, paused_by = excluded.paused_by
    RETURNING *;
END $$;

-- Ends a pause; whether one held.
CREATE OR REPLACE FUNCTION resume_analysis(at bigint, org text, name text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    until bigint;
BEGIN
    PERFORM 1 FROM lane_clock FOR UPDATE;
    DELETE FROM pauses WHERE org_id = org AND analysis = name RETURNING paused_until INTO until;
    RETURN FOUND AND coalesce(until > moment(at), true);
END $$;

CREATE OR REPLACE FUNCTION all_pauses() RETURNS SETOF pauses LANGUAGE sql STABLE AS $$
    SELECT * FROM pauses ORDER BY analysis, org_id
$$;
