"""Stores of earlier versions are brought up to date with what waits in them."""

from pathlib import Path

import apsw

from langlauf.store.migrate import migrations_in
from langlauf.store.sqlite.connection import open_connection
from langlauf.store.sqlite.driver import SqliteStore
from langlauf.store.sqlite.verifying import check_file
from tests.support.orders import claim
from tests.support.stores import START, SetClock, with_store

#: The schema before lanes knew of jobs that go on, and waiting jobs had tickets.
BEFORE_LIMITS = 3


def _make(path: Path) -> None:
    connection = open_connection(str(path))
    for step in migrations_in("langlauf.store.sqlite")[:BEFORE_LIMITS]:
        connection.execute(step.sql)
    connection.execute(f"PRAGMA user_version = {BEFORE_LIMITS}")
    for number in range(3):
        _insert(connection, f"queued-{number}", status="queued")
    started = {
        "status": "running",
        "attempt": 1,
        "started_at": START,
        "attempt_started_at": START,
        "imported_at": START,
    }
    _insert(connection, "parked", **started, next_attempt_at=START + 1)
    connection.execute("INSERT INTO lanes (org_id, analysis, waiting, virtual_start) VALUES ('org-a', 'survey', 3, 0)")
    connection.close()


def _insert(connection: apsw.Connection, job_id: str, **fields: object) -> None:
    row: dict[str, object] = {
        "org_id": "org-a",
        "job_id": job_id,
        "analysis": "survey",
        "priority_class": "default",
        "request_payload_hash": job_id,
        "request_payload_ref": "inline:",
        "queued_at": START,
        "updated_at": START,
        "timeout_seconds": 60.0,
        "max_retries": 3,
        "trace_id": "t",
        "request_id": "r",
        **fields,
    }
    marks = ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO jobs ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
    connection.execute("INSERT INTO job_inputs VALUES ('org-a', ?, '{}')", (job_id,))


def test_what_waited_before_the_limits_came_goes_on(tmp_path: Path) -> None:
    """Queued jobs are counted and have places, parked ones are found, and nothing is lost."""
    path = tmp_path / "store.db"
    _make(path)

    async def use(store: SqliteStore) -> None:
        assert (await store.depth()).waiting == 3
        [rank] = await store.tenant("org-a").ranks()
        assert (rank.lane_waiting, rank.first_ticket, rank.last_ticket) == (3, 1, 3)
        broken = {found.rule for found in check_file(str(path), now=START + 10)}
        assert not broken & {"lane_counts", "lane_due", "schema_intact"}
        order = [made.lease.job_id for _ in range(4) for made in await claim(store)]
        assert order == ["parked", "queued-0", "queued-1", "queued-2"]

    with_store(path, SetClock(START + 10), use)
