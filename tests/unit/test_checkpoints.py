"""The write-ahead log is copied into the file beside the writer, and begins anew also under constant load."""

import asyncio
from pathlib import Path

import pytest

from langlauf.store.sqlite import connection
from langlauf.store.sqlite.connection import open_untouched
from langlauf.store.sqlite.driver import SqliteStore
from tests.support.stores import SetClock, opened
from tests.support.submissions import accept

PAGE = 4096


def _jobs_without_the_log(path: Path) -> int:
    """How many jobs the file has, as if it had no log."""
    alone = open_untouched(path)
    try:
        return int(str(alone.execute("SELECT count(*) FROM job_rows").get))
    finally:
        alone.close()


def _log_size(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size


async def _checkpointed(store: SqliteStore) -> None:
    """Wait for the checkpoints that were asked for."""
    assert store._checkpoints is not None
    await asyncio.wrap_future(store._checkpoints._thread.submit(lambda: None))


def test_no_commit_does_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread does, soon after it, long before the writer would: the file then has jobs without its log."""
    monkeypatch.setattr(connection, "CHECKPOINT_PAGES", 20)
    path = tmp_path / "store.db"

    async def body() -> None:
        clock = SetClock()
        async with opened(path, clock) as store:
            for _ in range(40):
                await accept(store, clock)
            await _checkpointed(store)
            assert _jobs_without_the_log(path) > 0

    asyncio.run(body())


def test_the_log_begins_anew_under_constant_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint beside a writer never gets all of the log; the writer does the rest, and the log stays small."""
    monkeypatch.setattr(connection, "CHECKPOINT_PAGES", 20)
    monkeypatch.setattr(connection, "_PAGES_OF_WRITER", 100)
    path = tmp_path / "store.db"

    async def body() -> None:
        clock = SetClock()
        async with opened(path, clock) as store:
            largest = 0
            for _ in range(200):
                await accept(store, clock)
                largest = max(largest, _log_size(path))
            assert largest < 4 * 100 * PAGE

    asyncio.run(body())
