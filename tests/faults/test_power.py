"""A job is on disk before its 202 is sent: an fsync comes first, and a power cut right after loses nothing."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tests.faults.recording_disk import Disk
from tests.support.live import live
from tests.support.stores import query


@pytest.fixture
def disk() -> Iterator[Disk]:
    """The disk of every store of the test."""
    made = Disk()
    try:
        yield made
    finally:
        made.unregister()


def _jobs_left(disk: Disk, folder: Path) -> set[object]:
    disk.after_power_cut(folder)
    return {row[0] for row in query(folder / "store.db", "SELECT job_id FROM jobs")}


def test_the_disk_loses_unsynchronised_writes(disk: Disk, tmp_path: Path) -> None:
    """Without synchronous=FULL a committed row is gone after the cut: these tests can fail."""
    for level, left in (("OFF", 1), ("FULL", 2)):
        path = tmp_path / level / "store.db"
        path.parent.mkdir()
        connection = apsw.Connection(str(path))
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE jobs (job_id)")
        connection.execute("INSERT INTO jobs VALUES (1)")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute(f"PRAGMA synchronous = {level}")
        connection.execute("INSERT INTO jobs VALUES (2)")
        disk.synced = {name: content for name, content in disk.synced.items() if level in name}
        assert len(_jobs_left(disk, tmp_path / f"after-{level}")) == left
        connection.close()


def test_an_fsync_precedes_the_202(disk: Disk, tmp_path: Path) -> None:
    """For each of many submissions the write-ahead log is synchronised before the response is sent."""
    with live(tmp_path, LANGLAUF_WORKERS="0") as server:
        for number in range(30):
            disk.record_event("request")
            server.submit("echo", query=f"place {number}")
            disk.record_event("202")
    begun = [index for index, what in enumerate(disk.happened) if what == "request"]
    assert len(begun) == 30
    for start in begun:
        answered = disk.happened.index("202", start)
        assert "sync .db-wal" in disk.happened[start:answered]


def test_a_power_cut_after_a_202_loses_nothing(disk: Disk, tmp_path: Path) -> None:
    """After every response, what a cut would leave holds every accepted job with its events and input."""
    accepted: set[object] = set()
    with live(tmp_path / "live", LANGLAUF_WORKERS="1") as server:
        for number in range(12):
            accepted.add(server.submit("echo", query=f"place {number}")["job_id"])
            left = tmp_path / f"cut-{number}"
            assert _jobs_left(disk, left) == accepted
            events = {row[0] for row in query(left / "store.db", "SELECT job_id FROM job_events WHERE event_seq = 1")}
            inputs = {row[0] for row in query(left / "store.db", "SELECT job_id FROM job_inputs")}
            assert events == inputs == accepted
