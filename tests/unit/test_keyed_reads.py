"""Rows by key are read on the event loop: they wait for no other read."""

import asyncio
import threading
from pathlib import Path

from tests.support.stores import SetClock, opened
from tests.support.submissions import accept


def test_a_status_does_not_wait_for_the_reads_of_others(tmp_path: Path) -> None:
    """While the reading thread is busy, a job and its status are read all the same, and a list has to wait."""
    may_end = threading.Event()

    async def body() -> None:
        clock = SetClock()
        async with opened(tmp_path / "store.db", clock) as store:
            job = await accept(store, clock)
            reads = store.tenant(job.org_id)
            busy = asyncio.ensure_future(store._read(lambda _: may_end.wait(60), "other"))
            listed = asyncio.create_task(reads.counts(most=10))
            view = await reads.job(job.job_id)
            status = await reads.status(job.job_id, events=10, inline_limit=10)
            assert view is not None
            assert status is not None
            assert status.view == view
            assert not listed.done()
            may_end.set()
            assert await busy
            assert sum((await listed).values()) == 1

    asyncio.run(body())


def test_they_see_what_was_just_committed(tmp_path: Path) -> None:
    """A reader opens no snapshot before it is asked, so that an accepted job is there at once."""

    async def body() -> None:
        clock = SetClock()
        async with opened(tmp_path / "store.db", clock) as store:
            for _ in range(20):
                job = await accept(store, clock)
                assert await store.tenant(job.org_id).job(job.job_id) is not None
                assert await store.tenant("another-org").job(job.job_id) is None

    asyncio.run(body())
