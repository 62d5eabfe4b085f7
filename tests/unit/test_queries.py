"""The SQL files: loaded by name, scoped to an org, and never a walk through a table that grows."""

import re
from collections import defaultdict
from typing import Any

import pytest

from langlauf.store.queries import load, parse
from langlauf.store.sqlite.connection import MEMORY, migrate, open_connection
from langlauf.store.sqlite.driver import _FENCE

PACKAGE = "langlauf.store.sqlite"
FEED = load(PACKAGE, "feed.sql")
READS = {**load(PACKAGE, "reads.sql", "lists.sql"), **{name: FEED[name] for name in FEED if name.startswith("read_")}}
HOT = {**load(PACKAGE, "writes.sql", "clock.sql", "access.sql", "inbox.sql", "workers.sql", "overview.sql"), **READS}
#: Tables that grow with history. Leases, lanes and the clock stay as small as what runs and waits.
GROWING = ("jobs", "job", "job_events", "event", "job_results", "snapshot", "notifications", "job_inputs", "job_chunks")


@pytest.mark.parametrize("name", READS)
def test_every_tenant_read_names_its_org(name: str) -> None:
    """A read that forgets its org cannot be added."""
    assert re.search(r"\borg_id = :org_id\b", READS[name])


@pytest.mark.parametrize("name", HOT)
def test_no_statement_of_a_jobs_life_scans_a_growing_table(name: str) -> None:
    """The planner finds an index for each of them, and no sort over more than one job's rows."""
    connection = open_connection(MEMORY)
    migrate(connection)
    sql = HOT[name].replace("{fence}", _FENCE)
    values: Any = defaultdict(lambda: None) if ":" in sql else (None,) * sql.count("?")
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
    scans = [line for line in plan if re.match(rf"SCAN ({'|'.join(GROWING)})\b", str(line))]
    assert scans == []


def test_a_duplicate_is_looked_up_in_its_own_index() -> None:
    """Left alone, the planner would walk through an org's whole history at every submission."""
    connection = open_connection(MEMORY)
    migrate(connection)
    plan = connection.execute(f"EXPLAIN QUERY PLAN {HOT['find_duplicate']}", defaultdict(lambda: None)).fetchall()
    assert "idx_jobs_duplicates" in str(plan)


def test_queries_are_found_by_name_and_names_are_unique() -> None:
    """The format is one line of name, then the statement."""
    assert parse("-- name: one\nSELECT 1;\n\n-- name: two\n-- says why\nSELECT 2") == {
        "one": "SELECT 1",
        "two": "-- says why\nSELECT 2",
    }
    with pytest.raises(ValueError, match="two queries are called one"):
        parse("-- name: one\nSELECT 1\n-- name: one\nSELECT 2")


def test_placeholders_stand_for_the_fields_of_a_record() -> None:
    """A query and the record it fills cannot drift apart."""
    sql = parse("-- name: x\nSELECT {snapshot_columns} FROM job_results AS snapshot")["x"]
    assert sql.startswith("SELECT snapshot.org_id, snapshot.result_id, snapshot.job_id")


def test_the_indexes_of_the_sources_exist() -> None:
    """Under their names, or close ones."""
    connection = open_connection(MEMORY)
    migrate(connection)
    found = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'index'")}
    assert found >= {
        "idx_jobs_org_status_updated",
        "idx_jobs_status_priority_queued",
        "idx_jobs_result_id",
        "idx_job_events_job_occurred",
        "idx_job_events_type_occurred",
        "idx_job_results_job_seq",
        "idx_job_results_created",
        "idx_job_results_final",
        "idx_notifications_job_channel",
        "idx_notifications_delivery_status",
        "idx_jobs_timeout_detection",
        "idx_jobs_retry_eligible",
        "idx_jobs_error_code",
    }


def test_no_row_of_tenant_data_exists_without_an_org() -> None:
    """Every table that is not of the program itself has org_id, and it may not be null."""
    connection = open_connection(MEMORY)
    migrate(connection)
    inner = {
        "lane_clock",
        "pace",
        "imports",
        "clocks",
        "waiting_counts",
        "signing_secrets",
        "ended_sessions",
        "copying",
        "workers",
        "feed_home",
        "duties",
    }
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    for table in tables - inner:
        columns = {row[1]: row[3] for row in connection.execute(f"PRAGMA table_info({table})")}
        assert columns.get("org_id") == 1, table
