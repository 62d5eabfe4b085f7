-- How tables are kept. Rows that are rewritten all the time leave dead ones behind: those are cleared away after a number of
-- them, not after a share of a table that may hold years of jobs, and without pauses. Tables that only grow are looked after
-- by what was added, so that their summaries and visibility stay true.

DO $$
DECLARE
    one text;
BEGIN
    FOREACH one IN ARRAY '{jobs, leases, lanes, lane_clock, waiting_counts, pace, batches, job_chunks, notifications}'::text[] LOOP
        EXECUTE format('ALTER TABLE %I SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
            autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 5000)', one);
    END LOOP;
    FOREACH one IN ARRAY '{job_inputs, job_events, job_results, idempotency_keys}'::text[] LOOP
        EXECUTE format('ALTER TABLE %I SET (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
            autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000, autovacuum_vacuum_cost_delay = 0,
            autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 50000)', one);
    END LOOP;
END $$;

-- A few rows, rewritten at every claim: a page of dead ones is already much to walk over.
ALTER TABLE lane_clock SET (autovacuum_vacuum_threshold = 500);
ALTER TABLE waiting_counts SET (autovacuum_vacuum_threshold = 500);
ALTER TABLE pace SET (autovacuum_vacuum_threshold = 500);
