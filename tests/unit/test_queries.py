"""The SQL files: loaded by name, scoped to an org, and never a walk through a table that grows."""

import re
from collections import defaultdict
from typing import Any

import pytest

from langlauf.store.shared_sql import Dialect, shared_queries
from langlauf.store.sql import load_queries, parse_queries
from langlauf.store.sqlite.connection import MEMORY, migrate, open_connection
from langlauf.store.sqlite.engine import _FENCE

PACKAGE = "langlauf.store.sqlite"
#: Schedules are read as a whole when a program starts, and by `doctor`; metrics count what is to be sent.
_WHOLE = {"code_schedules", "planned_analyses", "pending_deliveries"}
SHARED = {name: sql for name, sql in shared_queries("sqlite").items() if name not in _WHOLE}
READS = load_queries(PACKAGE, "reads.sql", "lists.sql")
READS |= {name: sql for name, sql in SHARED.items() if name.startswith("read_")}
MARKS = {name: sql for name, sql in load_queries(PACKAGE, "deliveries.sql").items() if name.startswith("mark_")}
#: Erasing an org reads the schema and all its rows; no request does.
ADMIN = {name: sql for name, sql in load_queries(PACKAGE, "admin.sql").items() if not name.startswith("org_")}
HOT = {**load_queries(PACKAGE, "writes.sql", "clock.sql", "overview.sql"), **ADMIN, **READS, **MARKS, **SHARED}
#: What a plan may walk through from end to end: tables that stay small, and indexes of what waits and runs.
_FEW = "idx_lanes_turn|idx_jobs_lane_head|idx_jobs_lane_due|idx_jobs_timeout_detection|idx_api_keys_org"
SMALL = re.compile(
    r"SCAN (CONSTANT ROW|\(subquery-\d+\)|\w+ VIRTUAL TABLE|analyses|lane_clock|lane_rows|feed_home|workers?"
    rf"|duties|pauses?|api_keys|\w+ USING (COVERING )?INDEX ({_FEW}))"
)
#: The one walk through a table from its end: it stops at the first job that was not imported.
FROM_THE_END = {"clock_newest": ["SCAN job_rows"]}
#: What a query has made itself, out of rows that it found by an index.
MADE = re.compile(r"(?:MATERIALIZE|CO-ROUTINE) (\w+)")


def plan_of(sql: str) -> list[str]:
    """The steps of a query, on a store without rows: there are no statistics that the planner could guess by."""
    connection = open_connection(MEMORY)
    migrate(connection)
    named = re.search(r":[a-z]", sql)
    numbered = [int(number) for number in re.findall(r"\?(\d+)", sql)]
    values: Any = defaultdict(lambda: None) if named else (None,) * max(numbered, default=sql.count("?"))
    return [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]


@pytest.mark.parametrize("name", READS)
def test_every_tenant_read_names_its_org(name: str) -> None:
    """A read that forgets its org cannot be added."""
    assert re.search(r"\borg_id = :org_id\b", READS[name])


@pytest.mark.parametrize("name", READS)
def test_every_read_of_a_narrow_table_is_of_its_org(name: str) -> None:
    """What has the number of an org is compared with the one of the caller, or found by a row that was."""
    walk = r"_rows AS (\w+) INDEXED BY (?:idx_jobs_org|idx_jobs_failed|idx_jobs_h|idx_jobs_lane|idx_jobs_time)"
    _, *walks = re.split(walk, READS[name])
    for alias, conditions in zip(walks[::2], walks[1::2], strict=True):
        own = rf"{alias}\.org = (?:\(SELECT org FROM orgs WHERE org_id = :org_id\)|lane\.org|one\.org)"
        assert re.search(own, conditions), f"{name} walks through {alias} of any org"


@pytest.mark.parametrize("name", HOT)
def test_no_statement_of_a_jobs_life_scans_a_growing_table(name: str) -> None:
    """The planner finds an index for each of them, and no sort over more than one job's rows."""
    plan = plan_of(HOT[name].replace("{fence}", _FENCE))
    made = {word for line in plan for word in MADE.findall(line)}
    if "notifications" in made:
        made.add("notification")  # the name that the query gives to the view
    scans = [line for line in plan if line.startswith("SCAN ") and line.split()[1] not in made]
    assert [line for line in scans if not SMALL.match(line)] == FROM_THE_END.get(name, [])


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_shared_statements_are_whole_in_both_dialects(dialect: Dialect) -> None:
    """Each word that the databases spell differently is filled in, and both have the same statements."""
    found = shared_queries(dialect)
    assert [name for name, sql in found.items() if not sql or "{" in sql] == []
    assert found.keys() == shared_queries("sqlite").keys()


def test_a_duplicate_is_looked_up_in_its_own_index() -> None:
    """Left alone, the planner would walk through an org's whole history at every submission."""
    assert "idx_jobs_duplicates" in str(plan_of(HOT["find_duplicates"]))


@pytest.mark.parametrize("name", ["read_status", "read_latest_events"])
def test_a_poll_looks_up_its_rows_and_sorts_nothing(name: str) -> None:
    """The job by its id, and what belongs to it by its key."""
    plan = plan_of(HOT[name])
    assert all(line.startswith(("SEARCH", "CORRELATED")) for line in plan)
    assert "idx_jobs_id (job_id=?)" in plan[0]


def test_the_feed_is_walked_along_its_index() -> None:
    """From the place on, in the order of commits: nothing is sorted."""
    for name in ("read_feed", "read_feed_end"):
        plan = plan_of(HOT[name])
        assert any("idx_job_events_feed (org=? AND feed_at>?)" in line for line in plan)
        assert not any("TEMP B-TREE" in line for line in plan)


def test_queries_are_found_by_name_and_names_are_unique() -> None:
    """The format is one line of name, then the statement; comments are for people."""
    assert parse_queries("-- name: one\nSELECT 1;\n\n-- name: two\n-- says why\nSELECT 2") == {
        "one": "SELECT 1",
        "two": "SELECT 2",
    }
    with pytest.raises(ValueError, match="two queries are called one"):
        parse_queries("-- name: one\nSELECT 1\n-- name: one\nSELECT 2")


def test_placeholders_stand_for_the_fields_of_a_record() -> None:
    """A query and the record it fills cannot drift apart."""
    sql = parse_queries("-- name: x\nSELECT {snapshot_columns} FROM job_results AS snapshot")["x"]
    assert sql.startswith("SELECT snapshot.org_id, snapshot.result_id, snapshot.job_id")


def test_the_indexes_of_the_sources_exist() -> None:
    """Under their names, or close ones, for each look that still has one of its own."""
    connection = open_connection(MEMORY)
    migrate(connection)
    found = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'index'")}
    assert found >= {
        "idx_jobs_org_status_updated",
        "idx_job_results_job_seq",
        "idx_job_results_final",
        "idx_notifications_job_channel",
        "idx_notifications_delivery_status",
        "idx_jobs_timeout_detection",
        "idx_jobs_error_code",
    }


def test_no_row_of_tenant_data_exists_without_an_org() -> None:
    """Every table that is not of the program itself has the org, by name or number, and it may not be null."""
    connection = open_connection(MEMORY)
    migrate(connection)
    inner = {
        "lane_clock",
        "analyses",
        "imports",
        "clocks",
        "signing_secrets",
        "ended_sessions",
        "copying",
        "workers",
        "feed_home",
        "duties",
        "codes",
        "inputs",  # a part of the job's own row, under the same key
    }
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    for table in tables - inner:
        columns = {row[1]: row[3] for row in connection.execute(f"PRAGMA table_info({table})")}
        assert 1 in (columns.get("org_id"), columns.get("org")), table
