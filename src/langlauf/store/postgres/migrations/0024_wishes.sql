-- Whom a job asked to be told of its end: a job that repeats it asks the same.
CREATE FUNCTION read_wishes(org text, job text) RETURNS TABLE (channel text, target text, lane text, language text)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT wish.channel, wish.target, wish.lane, wish.language FROM job_wishes AS wish
        WHERE wish.org_id = org AND wish.job_id = job ORDER BY wish.channel;
END $$;

SELECT plan_with('{read_wishes}', 'SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');
