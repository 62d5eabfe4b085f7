-- What some jobs were asked, for lists that say what each is about: no more than a glance.
CREATE FUNCTION read_inputs(org text, job_ids text[], largest integer) RETURNS TABLE (job_id text, payload text)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT one.job_id, one.payload FROM unnest(job_ids) AS wanted (job_id)
        CROSS JOIN LATERAL (
            SELECT input.job_id, input.payload FROM job_inputs AS input
            WHERE input.org_id = org AND input.job_id = wanted.job_id AND octet_length(input.payload) <= largest OFFSET 0) AS one;
END $$;

SELECT plan_with('{read_inputs}', 'SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');
