-- The org of a job or a result by its id; two rows if the id is ambiguous.
-- query: owners(kind text, wanted text) RETURNS TABLE (org_id text, job_id text)
SELECT one.org_id, one.job_id FROM jobs AS one WHERE kind = 'job' AND one.job = key_of(wanted)
UNION ALL
SELECT one.org_id, one.job_id FROM job_results AS one WHERE kind <> 'job' AND one.result = key_of(wanted)
LIMIT 2;

-- Tables with rows of orgs, or of jobs, by the catalog.
CREATE OR REPLACE FUNCTION tables_of_orgs(column_too text) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT array_agg(relname::text ORDER BY relname) FROM pg_class AS class
    WHERE relnamespace = 'langlauf'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
      AND 2 = (SELECT count(*) FROM (VALUES ('org_id'), (column_too)) AS wanted (name)
               WHERE EXISTS (SELECT 1 FROM pg_attribute
                             WHERE attrelid = class.oid AND attname = wanted.name AND NOT attisdropped))
$$;

-- The rows of an org in each table.
CREATE OR REPLACE FUNCTION org_rows(org text) RETURNS TABLE (name text, rows bigint) LANGUAGE plpgsql STABLE AS $$
BEGIN
    FOREACH name IN ARRAY tables_of_orgs('org_id') LOOP
        EXECUTE format('SELECT count(*) FROM %I WHERE org_id = $1', name) INTO rows USING org;
        RETURN NEXT;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION org_held(org text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT count(*) FROM jobs WHERE org_id = org AND held_at IS NOT NULL
$$;

-- Jobs of an org that have not ended.
-- query: org_unended(org text, most integer) RETURNS TABLE (job_id text)
(SELECT job.job_id FROM jobs AS job WHERE job.org_id = org AND started_at IS NULL AND finished_at IS NULL LIMIT most)
UNION (SELECT job.job_id FROM jobs AS job WHERE job.org_id = org AND next_attempt_at IS NOT NULL LIMIT most)
UNION (SELECT job.job_id FROM jobs AS job WHERE job.deadline_at > 0 AND job.org_id = org)
LIMIT most;

-- Removes ended jobs of an org or, forced, running ones with their leases; later writes of their workers are refused.
CREATE OR REPLACE FUNCTION erase_jobs(org text, most integer, with_held boolean, forced boolean) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    ids uuid[];
    names text[];
BEGIN
    IF forced THEN
        ids := ARRAY(SELECT job FROM job_rows WHERE deadline_at > 0 AND org_id = org LIMIT most);
        PERFORM lock_jobs(ids);
        SELECT coalesce(array_agg(one.job), '{}'), array_agg(one.analysis) INTO ids, names FROM job_rows AS one
        WHERE one.job = ANY (ids) AND one.deadline_at IS NOT NULL AND one.org_id = org AND (with_held OR held_at IS NULL);
        IF names IS NOT NULL THEN
            PERFORM count_jobs(
                names, array_fill(0::bigint, ARRAY[cardinality(names)]), array_fill(-1::bigint, ARRAY[cardinality(names)]));
        END IF;
    ELSE
        ids := ARRAY(SELECT one.job FROM job_rows AS one
                     WHERE one.org_id = org AND finished_at IS NOT NULL AND (with_held OR held_at IS NULL)
                     LIMIT most FOR UPDATE SKIP LOCKED);
    END IF;
    RETURN remove_jobs(ids);
END $$;

-- Removes rows of an org from one table, except keys and lanes with waiting jobs.
CREATE OR REPLACE FUNCTION erase_rows(org text, name text, most integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    removed bigint;
BEGIN
    IF name = 'api_keys' OR NOT name = ANY (tables_of_orgs('org_id')) THEN
        RETURN 0;
    END IF;
    EXECUTE format('DELETE FROM %1$I WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM %1$I WHERE org_id = $1 %2$s LIMIT $2 FOR UPDATE SKIP LOCKED)) AND org_id = $1',
        name, CASE WHEN name = 'lanes' THEN 'AND waiting = 0 AND scheduled = 0' END) USING org, most;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;
