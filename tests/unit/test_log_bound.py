"""Emptying the write-ahead log is housekeeping: whether it works or not, what was committed was committed."""

import asyncio
import logging
from pathlib import Path

import apsw
import pytest

from langlauf.domain.attempt import Progress
from langlauf.store.sqlite import engine
from tests.support.stores import JobFactory, SetClock, opened


def _no_checkpoint(operation: int, what: str | None, *_: str | None) -> int:
    """Refuses a checkpoint, as a full disk does."""
    refused = operation == apsw.SQLITE_PRAGMA and what == "wal_checkpoint"
    return int(apsw.SQLITE_DENY if refused else apsw.SQLITE_OK)


def test_a_log_that_cannot_be_emptied_spoils_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Every caller of the batch is told that its write counts, and none of the writes runs a second time."""
    monkeypatch.setattr(engine, "LARGEST_LOG", 0)
    monkeypatch.setattr(engine, "_COMMITS_BETWEEN_CHECKS", 1)

    async def body() -> None:
        clock = SetClock()
        async with opened(tmp_path / "store.db", clock) as store:
            claim = await JobFactory(store, clock).running()
            before = await store.tenant("org-a").events(claim.lease.job_id, after=0, limit=100)
            store._writer.authorizer = _no_checkpoint
            writes = [store.record(claim.lease, Progress(percent=percent)) for percent in (20, 30, 40)]
            assert all(await asyncio.gather(*writes))
            after = await store.tenant("org-a").events(claim.lease.job_id, after=0, limit=100)
            assert len(after) == len(before) + 3
            store._writer.authorizer = None

    with caplog.at_level(logging.WARNING):
        asyncio.run(body())
    assert "the write-ahead log could not be emptied" in caplog.text
