"""The long tests, skipped by `make test` and run by `make test-all`. What no other test covers stays in `make test`."""

from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
#: The ids of all tests that a run collected, with those that it leaves out.
TEST_IDS = pytest.StashKey[frozenset[str]]()
#: Tests whose id begins so, one a line.
_BEGINNINGS = """
# Scenarios and floods: four smokes stay (kill, stop, cut, and the tests of shutdown)
tests/fuzz/
tests/abuse/test_scenarios.py
tests/abuse/test_timing.py::test_the_scenario_runs
tests/abuse/test_corpus.py::test_hostile_headers_are_answered
tests/abuse/test_corpus.py::test_hostile_queries_are_answered
tests/abuse/test_corpus.py::test_pages_are_as_hard_to_break
tests/faults/test_scenarios.py::test_every_promise_is_kept[abandoned]
tests/faults/test_scenarios.py::test_every_promise_is_kept[cancel]
tests/faults/test_scenarios.py::test_every_promise_is_kept[children]
tests/faults/test_scenarios.py::test_every_promise_is_kept[clock]
tests/faults/test_scenarios.py::test_every_promise_is_kept[deliveries]
tests/faults/test_scenarios.py::test_every_promise_is_kept[expiry]
tests/faults/test_scenarios.py::test_every_promise_is_kept[fairness]
tests/faults/test_scenarios.py::test_every_promise_is_kept[gil]
tests/faults/test_scenarios.py::test_every_promise_is_kept[latency]
tests/faults/test_scenarios.py::test_every_promise_is_kept[replies]
tests/faults/test_scenarios.py::test_every_promise_is_kept[restarts]
tests/faults/test_scenarios.py::test_every_promise_is_kept[timeout]
tests/faults/test_scenarios.py::test_every_promise_is_kept[watchdog]
tests/faults/test_scenarios.py::test_the_harness_sees_a_missing_fence
tests/worker/test_watchdog.py::test_a_job_that_blocks_again_and_again_is_given_up
tests/faults/test_cancel.py::test_a_cancel_does_not_wait_for_a_lost_worker[9]
tests/faults/test_cancel.py::test_a_resumed_worker_writes_nothing_and_works_on
tests/faults/test_shutdown.py::test_open_long_polls_are_answered
tests/faults/test_shutdown.py::test_a_second_signal_ends_the_grace[2]
tests/faults/test_shutdown.py::test_a_stop_in_the_middle_of_claims_leaves_no_lease_behind[0.0]
tests/faults/test_shutdown.py::test_a_stop_in_the_middle_of_claims_leaves_no_lease_behind[0.15]
tests/faults/test_shutdown.py::test_a_stop_in_the_middle_of_claims_leaves_no_lease_behind[0.3]
tests/faults/test_shutdown.py::test_a_third_signal_kills
tests/faults/test_shutdown.py::test_a_worker_alone_stops_in_the_same_way
tests/faults/test_shutdown.py::test_idle_connections_are_closed
tests/faults/test_shutdown.py::test_jobs_that_ignore_the_stop_are_not_waited_for[threaded]
tests/faults/test_shutdown.py::test_jobs_that_ignore_the_stop_are_not_waited_for[insistent]

# Programs that are started again and again
tests/blobs/test_serving.py
tests/bundled/test_running.py::test_a_killed
tests/bundled/test_running.py::test_clustering_as_a_job
tests/checks/test_house_figures.py::test_it_measures_this_clone
tests/postgres/test_api_processes.py::test_a_rate_holds
tests/simulation/test_schedules.py::test_store_and_contract_agree_on_every_schedule[2]
tests/simulation/test_schedules.py::test_store_and_contract_agree_on_every_schedule[3]
tests/bundled/test_running.py::test_address_shows_its_map
tests/cli/test_backup.py::test_a_backup_under_load
tests/cli/test_exit_codes.py::test_5_full
tests/cli/test_read_only.py::test_commands_on_a_read_only_mount
tests/client/test_restart.py
tests/client/test_sync.py::test_events_over_several_pages
tests/cli/test_keys.py::test_a_store_with_a_key_may_listen_beyond_this_machine
tests/docs/test_deploy.py::test_the_login_of_compose_is_enough
tests/docs/test_recipes.py
tests/http/test_streams_limits.py::test_idle_streams_cost_one_look_for_all
tests/http/test_streams_resume.py::test_twenty_restless_clients_see_every_event_once
tests/mcp/test_clients.py
tests/mcp/test_restart.py::test_a_client_moves_to_another_host
tests/cli/test_mcp.py::test_a_call_survives_the_server
tests/client/test_sync.py::test_a_notebook_shows_a_job
tests/browser/test_first_contact.py::test_a_misspelt_town_is_asked_about_and_mended
tests/browser/test_job.py::test_the_end_leaves_a_reader_in_place_who_is_busy
tests/checks/test_run.py
tests/docs/test_readme.py::test_the_package_installs_and_serves
tests/http/test_contract_details.py::test_a_synchronous_request_that_took_too_long_keeps_it_as_well
tests/worker/test_worker_process.py::test_a_coroutine_that_ends_its_worker_is_given_up_after_three_times
tests/mounting/test_examples.py::test_every_link_of_every_page_leads_somewhere
tests/http/test_store_read_only.py::test_a_store_that_takes_no_writes_is_not_ready_until_it_does[read_only_database]
tests/http/test_streams_resume.py::test_clients_come_through_a_restart_of_the_server
tests/http/test_streams_resume.py::test_what_another_process_writes_arrives
tests/http/test_streams_shutdown.py::test_a_stop_does_not_wait_for_a_client_that_does_not_read
tests/mounting/test_mounting.py::test_a_prefix_that_a_proxy_cuts_off_is_in_every_address
tests/mounting/test_mounting.py::test_two_applications_live_side_by_side
tests/unit/test_dask_heartbeat.py::test_a_process_lives_while_the_count_goes_up_and_no_longer
tests/worker/test_child_environment.py::test_a_variable_that_a_module_misses
tests/worker/test_child_environment.py::test_analyses_of_a_server
tests/worker/test_dask.py
tests/worker/test_dask_stopping.py
tests/doctor/test_postgres.py
tests/unit/domain/test_redact.py::test_a_hostile_mebibyte_is_done
tests/worker/test_hostile.py::test_a_death_has_a_name_whatever_the_signal
tests/worker/test_hostile.py::test_braces_in_a_step_break_nothing
tests/worker/test_hostile.py::test_the_end_of_a_file_is_an_error_like_others
tests/worker/test_hostile.py::test_without_its_output_a_function_still_returns
tests/worker/test_hostile.py::test_files_beside_a_script_and_a_missing_guard
tests/worker/test_hostile.py::test_many_items_do_not_hold_up_the_event_loop
tests/worker/test_parallel_map.py::test_a_map_with_a_step_reports_how_far_it_is
tests/worker/test_parallel_map.py::test_chunks_run_side_by_side
tests/worker/test_parallel_map.py::test_a_chunk_whose_process_dies_costs_an_attempt_and_no_other_chunk
tests/worker/test_parallel_map.py::test_a_canceled_map_ends_its_processes
tests/worker/test_processes.py::test_a_job_that_kills_its_process_is_given_up
tests/worker/test_processes.py::test_a_function_that_holds_the_interpreter_lock_keeps_its_lease
tests/worker/test_processes.py::test_a_lost_supervisor_is_replaced
tests/worker/test_processes.py::test_a_process_that_dies_costs_its_own_attempt_only[segfault]
tests/worker/test_processes.py::test_memory_is_limited_where_it_is_set
tests/worker/test_processes.py::test_a_waiting_call_gets_the_first_free_process
tests/worker/test_supervision.py::test_a_signal_to_the_whole_family
tests/worker/test_supervision.py::test_cpu_bound_jobs
tests/worker/test_supervision.py::test_the_process_of_a_paused_worker
tests/worker/test_tracing.py
tests/worker/test_watchdog.py::test_code_that_blocks_the_loop_is_stopped_and_the_server_lives[lock]
tests/worker/test_watchdog.py::test_a_paused_worker_is_refused_but_not_ended

# Browsers
tests/browser/test_attacks.py
tests/browser/test_element.py
tests/browser/test_facts.py
tests/browser/test_frame.py
tests/browser/test_job.py::test_a_job_is_stopped_without_a_script
tests/browser/test_job.py::test_a_job_is_stopped_by_a_dialog
tests/browser/test_job.py::test_a_failed_job_goes_on_where_it_stopped
tests/browser/test_job.py::test_a_version_can_be_kept_in_view
tests/browser/test_job.py::test_links_and_commands_are_copied
tests/browser/test_emails.py
tests/browser/test_lists.py
tests/browser/test_live.py::test_a_page_of_a_context_without_locks
tests/browser/test_live.py::test_a_reader_can_stop_all_of_it
tests/browser/test_live.py::test_seven_tabs
tests/browser/test_live.py::test_the_stream_of_a_tab
tests/browser/test_live.py::test_what_a_reader_is_busy_with_stays
tests/browser/test_live.py::test_what_happens_is_on_the_screen_soon
tests/browser/test_live.py::test_where_streams_do_not_work
tests/browser/test_live.py::test_without_a_connection
tests/browser/test_live.py::test_without_a_script_the_page_loads_itself_again
tests/browser/test_ops.py
tests/browser/test_result.py
tests/browser/test_start.py::test_a_text_comes_out_of_a_file
tests/browser/test_start.py::test_errors_have_the_focus_and_lead_to_their_entries
tests/browser/test_start.py::test_it_works_below_a_prefix
tests/browser/test_start.py::test_shortcuts_go_places
tests/browser/test_start.py::test_the_switch_changes_colours_at_once
tests/browser/test_start.py::test_times_are_those_of_the_reader
tests/browser/test_webhooks.py
tests/ui/test_view_charts.py::test_a_chart_that_eats_all_memory_ends_its_process_alone

# Databases and servers of their own
tests/postgres/test_adopted_table.py
tests/postgres/test_adopt.py
tests/postgres/test_contention.py
tests/postgres/test_plan_costs.py
tests/postgres/test_legacy_callers.py
tests/postgres/test_store_tool_logins.py
tests/postgres/test_lost_responses.py::test_an_end_sent_again_after_a_timeout_is_confirmed
tests/postgres/test_lost_responses.py::test_a_refused_write_is_not_executed_after_the_cut
tests/postgres/test_store_tools.py
tests/postgres/test_server.py::test_a_database_in_another_encoding_is_refused
tests/postgres/test_server.py::test_a_standby_is_refused
tests/postgres/test_roles.py
tests/store_contract/test_pause.py::test_no_job_starts_after_a_pause[postgres-100]
tests/store_contract/test_pause.py::test_no_job_starts_after_a_pause[sqlite-100]
tests/store_contract/test_store_copy.py::test_a_copy_goes_on_with_the_work
tests/store_contract/test_store_copy.py::test_a_copy_is_the_same_and_sound[postgres-postgres]
tests/store_contract/test_store_copy.py::test_a_copy_is_the_same_and_sound[postgres-sqlite]
tests/store_contract/test_store_copy.py::test_one_target_takes_one_source
tests/store_contract/test_store_copy.py::test_two_programs_do_not_fill_one_target
tests/store_contract/test_fair_choice.py::test_a_limited_analysis_is_shared_as_well
tests/store_contract/test_store_copy.py::test_a_copy_that_was_killed_goes_on
tests/store_contract/test_store_copy.py::test_a_source_that_changes_is_found_out
tests/store_contract/test_store_copy.py::test_a_store_in_use_is_not_filled
tests/store_contract/test_store_copy.py::test_running_work_is_not_copied_unasked
tests/store_contract/test_store_copy.py::test_there_and_back_again_is_the_same
tests/postgres/test_deployment.py
tests/store_contract/test_v1_import.py::test_a_job_keeps_who_wanted_it_and_for_how_long[postgres]
tests/store_contract/test_v1_import.py::test_what_retention_removed_is_no_result_of_an_export[postgres]
tests/unit/test_postgres_support.py

# Large inputs, and the benchmarks at work
tests/bundled/ontology/test_analysis.py::test_tens_of_thousands_of_terms_stay_small_and_quick
tests/ui/test_every_page.py::test_links_work_below_a_mount_point
tests/unit/address/test_analysis.py::test_every_stage_is_a_chunk_a_checkpoint_and_a_snapshot
tests/bench/test_store_costs.py::test_both_stores_are_measured_by_the_same_names
tests/bench/test_store_costs.py::test_what_one_server_carries_is_measured
tests/bench/test_poll_guard.py
tests/bench/test_store_guard.py
tests/unit/test_bench.py::test_a_server_is_measured_in_databases_that_are_dropped
"""

#: Parameters with which the tests below a path are long: with another one they show nearly the same.
_PARAMETERS = {
    "tests/abuse/test_corpus.py": "memory postgres",
    "tests/blobs/": "objects",
    "tests/browser/": "dark",
    "tests/browser/test_every_page.py": """
        again cancel diff docs errors inbox job_backoff job_canceled job_canceling job_completed job_failed job_queued
        job_running job_silent job_working jobs jobs_filtered jobs_none not_found ops ops_orgs ops_workers problem
        problems result_failed result_partial settings start_other states version webhooks
    """,
    "tests/docs/test_code.py": "docs/python.md",
    "tests/doctor/": "postgres",
    "tests/http/": "postgres",
    "tests/http/test_tenancy.py": "open token",
    "tests/mail/test_rules.py": "postgres",
    "tests/mcp/": "postgres",
    "tests/mcp/test_bad_callers.py": "10000",
    "tests/cli/test_mcp.py": "legacy",
    "tests/mcp/test_restart.py": "3 5 50",
    "tests/mounting/": "django starlette",
    "tests/store_contract/": "memory blobs",
    "tests/store_contract/test_delivery_guards.py": "postgres",
    "tests/store_contract/test_erasure.py": "postgres",
    "tests/store_contract/test_holds.py": "postgres",
    "tests/store_contract/test_retention.py": "postgres",
    "tests/store_contract/test_retention_batches.py": "postgres",
    "tests/store_contract/test_retention_under_load.py": "postgres",
    "tests/unit/test_verify.py": "postgres",
    "tests/worker/test_processes.py": "address_intel exit nan nul validation_error",
}

_LINES = tuple(line for line in _BEGINNINGS.splitlines() if line and not line.startswith("#"))
_FOLDERS = tuple(line for line in _LINES if line.endswith("/"))


def is_long(test_id: str) -> bool:
    """Whether `make test` leaves out the test with this id."""
    parameters = set(test_id.partition("[")[2].rstrip("]").split("-"))
    return test_id.startswith(_LINES) or any(
        test_id.startswith(path) and parameters & set(words.split()) for path, words in _PARAMETERS.items()
    )


def is_all_long(path: Path) -> bool:
    """Whether all tests of a file, or below a folder, are left out: then it is not even imported."""
    if not path.is_relative_to(_ROOT):  # a test of the test run has a folder of its own
        return False
    at = path.relative_to(_ROOT).as_posix()
    return f"{at}/".startswith(_FOLDERS) or at in _LINES


def unused(test_ids: frozenset[str]) -> list[str]:
    """Return the lines that no test begins with, of the files whose tests were collected or that are not there."""
    files = {one.partition("::")[0] for one in test_ids}
    return [line for line in (*_LINES, *_PARAMETERS) if _judged(line, files) and not _begins(line, test_ids)]


def _judged(line: str, files: set[str]) -> bool:
    path = line.partition("::")[0]
    return path in files or not (_ROOT / path).exists()


def _begins(line: str, test_ids: frozenset[str]) -> bool:
    return any(one.startswith(line) for one in test_ids)
