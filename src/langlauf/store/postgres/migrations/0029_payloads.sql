-- Payloads as bytes, to be sent on undecoded.

-- How large the payload of a snapshot is, and the payload itself where it is small; no row where it is not kept here.
CREATE FUNCTION read_payload_size(org text, result text, small integer)
RETURNS TABLE (size integer, payload text) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN QUERY
        SELECT octet_length(one.payload), CASE WHEN octet_length(one.payload) <= small THEN one.payload END
        FROM job_results AS one WHERE one.org_id = org AND one.result_id = result AND one.payload IS NOT NULL;
END $$;

CREATE FUNCTION read_payload_bytes(org text, result text) RETURNS bytea LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('langlauf.org_id', org, true);
    RETURN (SELECT convert_to(one.payload, 'UTF8') FROM job_results AS one WHERE one.org_id = org AND one.result_id = result);
END $$;

SELECT plan_with('{read_payload_size, read_payload_bytes}',
    'SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');
