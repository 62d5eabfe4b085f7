-- A mark of each followed org that any change of its jobs changes, in one look: when its last job was accepted, when one of
-- each final state was last written, and how far those are that run. A job that waits for another attempt left those that
-- run, or comes back to them.
CREATE FUNCTION org_pulses(org_ids text[]) RETURNS TABLE (org_id text, mark text) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT followed.org_id, concat_ws('.',
            coalesce((SELECT input.queued_at FROM job_inputs AS input
                      WHERE input.org_id = followed.org_id AND input.queued_at > 0
                      ORDER BY input.queued_at DESC LIMIT 1), 0),
            (SELECT string_agg(coalesce((
                 SELECT job.updated_at FROM jobs AS job
                 WHERE job.org_id = followed.org_id AND job.status = state.name AND job.finished_at IS NOT NULL
                 ORDER BY job.updated_at DESC LIMIT 1), 0)::text, '.' ORDER BY state.name)
             FROM unnest('{canceled, completed, failed}'::text[]) AS state (name)),
            (SELECT count(*) || '.' || coalesce(sum(job.event_seq), 0)
             FROM leases AS lease CROSS JOIN LATERAL (
                 SELECT one.event_seq FROM jobs AS one
                 WHERE one.org_id = lease.org_id AND one.job_id = lease.job_id OFFSET 0) AS job
             WHERE lease.org_id = followed.org_id))
        FROM unnest(org_ids) AS followed (org_id);
END $$;

SELECT plan_with('{org_pulses}', 'SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');
