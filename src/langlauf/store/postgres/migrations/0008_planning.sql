-- How functions are planned. They run the same statements over arrays of any length against tables of any size, and a plan is
-- made once: it must be right for a table that has grown since. So nothing may read a whole table or a whole index.

CREATE FUNCTION plan_with(names text[], settings text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    one regprocedure;
BEGIN
    FOR one IN SELECT oid FROM pg_proc WHERE pronamespace = 'langlauf'::regnamespace AND proname = ANY (names) LOOP
        EXECUTE format('ALTER FUNCTION %s SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off
            SET plan_cache_mode = force_generic_plan %s', one, settings);
    END LOOP;
END $$;

-- Locks in the order of keys.
SELECT plan_with('{lock_leases}', 'SET enable_bitmapscan = on SET enable_indexscan = off SET enable_indexonlyscan = off');
-- Rows that are named: each is looked up by its key. A bitmap needs a key to look for; a scan of an index does not.
SELECT plan_with(
    '{start_attempts, renew, record_progress, record_partials, record_checkpoints, record_completions, give_up_leases, written_or_held, write_ends, views_of}',
    'SET enable_bitmapscan = on SET enable_indexscan = off SET enable_indexonlyscan = off');
-- The first rows in the order of an index.
SELECT plan_with(
    '{submit, join_lanes, lock_orgs, lock_lanes, claim, claim_due, correct_due, claim_waiting, claimed_by, leave_lanes, head_of,
      advance_turns, room_for, hold_lanes, hold_more,
      cancel, ask_to_stop, decided, overdue, sweep, record, note_paces}',
    'SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');
-- Arrays among themselves: the only tables are that of lanes, by the names of orgs, and the counts of waiting jobs, which is small.
SELECT plan_with('{insert_jobs, refuse_full}', 'SET enable_hashjoin = on SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');
