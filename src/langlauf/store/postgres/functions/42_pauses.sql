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
