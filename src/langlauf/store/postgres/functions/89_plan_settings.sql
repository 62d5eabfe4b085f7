-- How functions are planned. They run the same statements over arrays of any length against tables of any size, and a plan is
-- made once, perhaps while the tables are empty: so no plan may scan a whole table or index. Functions in SQL are planned as usual.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT pg_proc.oid::regprocedure AS name, coalesce(
            kind.settings, 'enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on') AS settings
        FROM pg_proc JOIN pg_language ON pg_language.oid = prolang
        LEFT JOIN (VALUES
            -- Rows looked up by key. A bitmap scan needs a key to look for; an index scan does not.
            ('{lock_jobs, start_attempts, renew, record_progress, record_partials, record_checkpoints, written_or_unchanged,
               complete_jobs, write_ends, keep_attempts, views_of, note_key_uses, pulses, kept_payloads, may_retire, retire_results, retire_events,
               retire_jobs, remove_jobs, limits_reached}'::text[],
             'enable_bitmapscan = on SET enable_indexscan = off SET enable_indexonlyscan = off'),
            -- Joins of arrays: the only tables are the lanes of named orgs, and the counts of waiting jobs, which are few.
            ('{insert_jobs, refuse_full}',
             'enable_hashjoin = on SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on'),
            -- Scans in the order of an index; only rows with the same time are sorted.
            ('{read_messages, read_jobs, read_history, read_failures, read_held, read_completed, ended_page, newest_ended,
               read_feed, read_feed_mark, read_feed_end}',
             'enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on SET enable_sort = off')
            ) AS kind (names, settings) ON proname = ANY (kind.names)
        -- All others read the first rows in the order of an index, except those that read no table, or whole tables, and small parts
        -- of submissions, claims and ends, which keep the settings of their caller: setting them takes longer than many a statement.
        WHERE pronamespace = 'langlauf'::regnamespace AND lanname = 'plpgsql' AND proconfig IS NULL AND provolatile <> 'i'
          AND prorettype <> 'trigger'::regtype AND proname <> ALL (
            '{count_jobs, erase_jobs, erase_rows, feed_mark, full_orgs, within_limits, is_json, fail_lost, org_rows,
              recount_lanes, prune_codes, slots_after, unpaused, lost_and_unpaused, clear_foreign_marks,
              lock_lanes, join_lanes, start_lanes, may_start, insert_messages, update_lanes, update_paces, free_slots, timed_orgs,
              lock_first_lanes, claim_turns, deal_turns, next_in_turn, take_turns, head_of}')
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off
            SET plan_cache_mode = force_generic_plan SET %s', one.name, one.settings);
    END LOOP;
END $$;
