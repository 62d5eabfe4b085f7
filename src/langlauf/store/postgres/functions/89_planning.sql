-- How functions are planned. They run the same statements over arrays of any length against tables of any size, and a plan is
-- made once: it must be right for a table that has grown since. So nothing may read a whole table or a whole index.

-- Rows that are named: each is looked up by its key. A bitmap needs a key to look for; a scan of an index does not.
SELECT plan_with(
    '{lock_jobs, start_attempts, renew, record_progress, record_partials, record_checkpoints, written_or_held, write_ends,
      views_of, note_key_uses, pulses, kept_payloads, may_retire, retire_results, retire_events, retire_jobs,
      remove_jobs, limits_of}',
    'SET enable_bitmapscan = on SET enable_indexscan = off SET enable_indexonlyscan = off');
-- The first rows in the order of an index.
SELECT plan_with(
    '{submit, claim_back, claim_turns, turns_wanted, retries_due, deal_turns, next_in_turn, note_lanes, tell_outside, join_lanes,
      lock_orgs, lock_lanes, claim, correct_due, claimed_by, leave_lanes, head_of, take_turns, room_for, hold_lanes,
      hold_more, cancel, ask_to_stop, decided, overdue, sweep, record, note_paces, read_job, read_status,
      read_payload, read_events, read_log, read_results, read_result, read_notifications,
      read_ranks, read_chunk, read_chunks, next_key_version, create_key, revoke_key, list_keys, key_changes,
      keep_secret, owners, load, delivers, retirable_results, retirable_events, retirable_jobs, read_started,
      read_counts, read_few, read_inbox, read_unread, mark_read, read_ended, read_queued, read_queues,
      read_underway, all_ended, all_queued, all_queues, all_underway, read_views, org_pulses, read_inputs,
      add_endpoint, give_up_waiting, change_endpoint, remove_endpoint, lanes_with_room, claim_deliveries,
      finish_delivery, hasten_lane, replay, delivery_figures, read_endpoints, read_deliveries, read_delivery,
      read_delivery_attempts, hold_result, org_unended, kept_beyond, newest_blobs, delivery_state,
      read_wishes, add_mail_mark, remove_mail_mark, read_mail_marks, admit_mail, read_payload_size,
      read_payload_bytes, end_session, session_ends}',
    'SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');
-- Arrays among themselves: the only tables are that of lanes, by the names of orgs, and the counts of waiting jobs, which is small.
SELECT plan_with(
    '{insert_jobs, refuse_full}',
    'SET enable_hashjoin = on SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on');
-- Walks in the order of an index and no other; what has one time is put in order within it.
SELECT plan_with(
    '{read_messages, read_jobs, read_history, read_failures, read_held, read_completed, ended_page, newest_ended,
      read_feed, read_feed_mark, read_feed_end}',
    'SET enable_bitmapscan = off SET enable_indexscan = on SET enable_indexonlyscan = on SET enable_sort = off');
