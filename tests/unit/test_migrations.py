"""The schema is made once and at once, is what was written down, and takes up what was brought to it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

from langlauf.domain.errors import SchemaTooNew
from langlauf.domain.job import JobRecord
from langlauf.domain.state import Status
from langlauf.store.sql import migrations_in
from langlauf.store.sqlite.connection import migrate, open_connection
from langlauf.store.sqlite.driver import SqliteStore
from langlauf.store.sqlite.snapshot import check_file, target_of
from langlauf.store.tools.store_copy import BY_NAME, CopyProgress
from tests.support.schema_dump import dump
from tests.support.stores import START, SetClock, query, with_store
from tests.support.submissions import claim

HASH = "ab" * 32


def test_the_schema_is_the_one_that_was_written_down() -> None:
    """Whoever changes a migration sees in plain words what that changes: see `tests/support/schema_dump.py`."""
    assert dump() == Path(__file__).with_name("sqlite_schema.txt").read_text("utf-8")


def test_a_file_is_migrated_once(tmp_path: Path) -> None:
    """Each step is done once, whoever starts; the second one finds nothing to do."""
    path = str(tmp_path / "s.db")
    names = [f"{step.number:04d}_{step.name}" for step in migrations_in("langlauf.store.sqlite")]

    def start(_: int) -> list[str]:
        connection = open_connection(path)
        try:
            return migrate(connection)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(start, range(4)))
    assert sorted(done) == [[], [], [], names]
    assert query(path, "PRAGMA user_version") == [(len(names),)]


def test_a_step_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """A file with something in the way is as it was before."""
    path = tmp_path / "s.db"
    query(path, "CREATE TABLE workers (mine)")
    connection = open_connection(str(path))
    with pytest.raises(apsw.SQLError, match="workers already exists"):
        migrate(connection)
    connection.close()
    assert query(path, "SELECT name FROM sqlite_schema") == [("workers",)]
    assert query(path, "PRAGMA user_version") == [(0,)]


def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    """A program that does not know a schema does not touch it."""
    path = tmp_path / "s.db"
    query(path, "PRAGMA user_version = 99")
    connection = open_connection(str(path))
    with pytest.raises(SchemaTooNew):
        migrate(connection)
    connection.close()


def _job(job_id: str, status: Status = Status.QUEUED, **fields: Any) -> JobRecord:
    return JobRecord(
        org_id="org-a",
        job_id=job_id,
        analysis="survey",
        status=status,
        priority_class="default",
        request_payload_hash=HASH,
        request_payload_ref="inline:",
        queued_at=START,
        updated_at=START,
        timeout_seconds=60.0,
        max_retries=3,
        trace_id="t",
        request_id="r",
        **fields,
    )


def _bring(path: Path, jobs: list[JobRecord]) -> None:
    """Jobs with their inputs, as a copy brings them: without lanes or counts."""
    table, inputs = BY_NAME["jobs"], BY_NAME["job_inputs"]
    first, last = CopyProgress("elsewhere", "jobs", None), CopyProgress("elsewhere", "job_inputs", None)
    with target_of(str(path)) as target:
        target.begin(first)
        rows = [tuple(getattr(job, name, None) for name in table.columns) for job in jobs]
        target.put(table, rows, first, first)
        target.put(inputs, [("org-a", job.job_id, START, "{}") for job in jobs], first, last)
        target.finish(last)


def test_what_waited_elsewhere_goes_on(tmp_path: Path) -> None:
    """Queued jobs are counted and have places, parked ones are found, and nothing is lost."""
    path = tmp_path / "store.db"
    parked = {"attempt": 1, "started_at": START, "attempt_started_at": START, "next_attempt_at": START + 1}
    queued = [_job(f"queued-{number}", ticket=number + 1) for number in range(3)]
    _bring(path, [*queued, _job("parked", Status.RUNNING, **parked)])

    async def use(store: SqliteStore) -> None:
        assert (await store.depth()).waiting == 3
        [rank] = await store.tenant("org-a").ranks()
        assert (rank.lane_waiting, rank.first_ticket, rank.last_ticket) == (3, 1, 3)
        broken = {found.rule for found in check_file(str(path), now=START + 10)}
        assert not broken & {"lane_counts", "lane_due", "schema_intact"}
        order = [made.lease.job_id for _ in range(4) for made in await claim(store)]
        assert order == ["parked", "queued-0", "queued-1", "queued-2"]

    with_store(path, SetClock(START + 10), use)
