"""The queue of writes: one bad operation fails alone and costs little, and a queue that grows too long refuses work."""

import asyncio
import itertools
import math
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import apsw
import msgspec
import pytest

from langlauf.clock import new_id
from langlauf.domain.attempt import Lease, Partial, Progress
from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.domain.job import Accepted
from langlauf.domain.outcome import Completed
from langlauf.hints import Hints
from langlauf.store.group_commit import (
    BATCH_SECONDS,
    LARGEST_BATCH,
    MOST_WAITING,
    SMALLEST_BATCH,
    BatchPace,
    GroupCommit,
    Recording,
    payload_length,
)
from langlauf.store.sqlite.connection import open_connection
from langlauf.store.sqlite.driver import SqliteStore
from tests.support.stores import SetClock, opened, query
from tests.support.submissions import accept, new_job, started


class CountingStore(SqliteStore):
    """Counts its transactions."""

    transactions = 0

    def _run_statements(self, batch, *, waits=True):  # type: ignore[no-untyped-def]
        self.transactions += 1
        return super()._run_statements(batch, waits=waits)


@pytest.mark.parametrize("bad_places", [(0,), (255,), (100,), (3, 200), ()])
def test_a_bad_operation_fails_alone(tmp_path: Path, bad_places: tuple[int, ...]) -> None:
    """Its 255 neighbours are accepted, each with its own answer, in few transactions more."""

    async def body() -> None:
        clock = SetClock()
        store = await CountingStore.open(str(tmp_path / "store.db"), clock=clock, hints=Hints())
        try:
            known = await accept(store, clock)
            orders = [new_job(clock) for _ in range(256)]
            for place in bad_places:  # an id that is taken: the store refuses it
                job = msgspec.structs.replace(orders[place].job, job_id=known.job_id)
                orders[place] = msgspec.structs.replace(orders[place], job=job)
            before = store.transactions
            answers = await asyncio.gather(*map(store.submit, orders), return_exceptions=True)
            for place, (order, answer) in enumerate(zip(orders, answers, strict=True)):
                if place in bad_places:
                    assert isinstance(answer, StoreError)
                else:
                    assert isinstance(answer, Accepted)
                    assert answer.job.job_id == order.job.job_id
            assert store.transactions - before <= 2 + len(bad_places) * 2 * math.log2(256)
        finally:
            await store.close()

    asyncio.run(body())
    assert query(tmp_path / "store.db", "SELECT count(*) FROM jobs") == [(257 - len(bad_places),)]


def test_a_long_queue_refuses_submissions_and_takes_what_attempts_write(tmp_path: Path) -> None:
    """Nothing is accepted that would have to wait for so many; what was accepted before goes on."""

    async def body() -> None:
        clock = SetClock()
        async with opened(tmp_path / "store.db", clock) as store:
            made = await started(store, clock)
            other = apsw.Connection(str(tmp_path / "store.db"))
            other.execute("BEGIN EXCLUSIVE")
            order = partial(new_job, clock, max_waiting_org=10**6, max_waiting_all=10**6)
            taken = [asyncio.create_task(store.submit(order())) for _ in range(MOST_WAITING + 1_000)]
            await asyncio.sleep(0)
            refused = [task for task in taken if task.done()]
            assert len(refused) == 1_000
            with pytest.raises(StoreUnavailable, match=str(MOST_WAITING)):
                await store.submit(order())
            written = asyncio.ensure_future(store.record(made.lease, Progress(percent=10)))
            renewed = asyncio.create_task(store.renew([made.lease], lease_seconds=15))
            await asyncio.sleep(0)
            assert (written.done(), renewed.done()) == (False, False)
            other.execute("ROLLBACK")
            other.close()
            assert await written
            assert (await renewed)[0].held
            answers = await asyncio.gather(*taken, return_exceptions=True)
            assert sum(isinstance(answer, Accepted) for answer in answers) == MOST_WAITING
            assert sum(isinstance(answer, StoreUnavailable) for answer in answers) == 1_000

    asyncio.run(body())


def test_what_is_small_waits_for_one_large_write_at_the_most() -> None:
    """Large ones are written one by one, in their order, in turns with all that is small; none is forgotten."""
    batches: list[list[str]] = []

    async def run(batch: Sequence[str]) -> list[str]:
        batches.append(list(batch))
        if len(batches) < 4:  # somebody always comes meanwhile
            coming.append(asyncio.ensure_future(queue.do(f"late {len(batches)}")))
        await asyncio.sleep(0)
        return list(batch)

    def size(operation: str) -> int:
        return 2_000_000 if operation.startswith("large") else 10

    async def body() -> None:
        names = ["first", "large 1", "large 2", "second", "large 3"]
        assert await asyncio.gather(*map(queue.do, names)) == names
        await asyncio.gather(*coming)
        await queue.finish()

    coming: list[asyncio.Future[str]] = []
    queue: GroupCommit[str, str] = GroupCommit(run, name="langlauf-writes", size=size)
    asyncio.run(body())
    large = [batch for batch in batches if any(name.startswith("large") for name in batch)]
    assert large == [["large 1"], ["large 2"], ["large 3"]]
    assert batches[0] == ["first", "second"]
    places = [place for place, batch in enumerate(batches) if batch in large]
    assert all(after - before == 2 for before, after in itertools.pairwise(places)), batches


@pytest.mark.parametrize("length", [10, 2_000_000])
def test_the_store_tells_large_writes_from_small_ones(length: int) -> None:
    """By what they bring with them."""
    lease = Lease("org-a", "job", 1)
    for write in (Partial(result_id="r", payload="x" * length), Completed(result_id="r", payload="x" * length)):
        assert payload_length(Recording(lease, write)) == length
        as_bytes = msgspec.structs.replace(write, payload=None, payload_data=memoryview(b"x" * length))
        assert payload_length(Recording(lease, as_bytes)) == length
    assert payload_length(Recording(lease, Progress(percent=1, step=None))) == 0
    assert payload_length(new_job(SetClock())) < 100


def test_batches_are_as_long_as_they_take_their_time() -> None:
    """A batch that took too long makes the next ones smaller, in proportion; full ones that did not let them grow."""
    pace = BatchPace()
    assert pace.most == LARGEST_BATCH
    pace.observe(200, 10 * BATCH_SECONDS)
    assert pace.most == 20
    pace.observe(20, 20 * BATCH_SECONDS)
    assert pace.most == SMALLEST_BATCH
    pace.observe(SMALLEST_BATCH, 20 * BATCH_SECONDS)  # one slow operation
    assert pace.most == SMALLEST_BATCH
    pace.observe(SMALLEST_BATCH - 1, BATCH_SECONDS / 10)  # shows nothing about larger ones
    assert pace.most == SMALLEST_BATCH
    sizes = [SMALLEST_BATCH]
    while pace.most < LARGEST_BATCH:
        pace.observe(pace.most, BATCH_SECONDS)
        sizes.append(pace.most)
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == LARGEST_BATCH


def test_a_flood_of_slow_reads_makes_short_batches(tmp_path: Path) -> None:
    """One org reads what takes long, all at once; another one waits for a few of these, not for all."""
    batches: list[int] = []

    class CountingReads(SqliteStore):
        def _run_reads(self, batch):  # type: ignore[no-untyped-def]
            batches.append(len(batch))
            return super()._run_reads(batch)

    async def body() -> None:
        store = await CountingReads.open(str(tmp_path / "store.db"), clock=SetClock(), hints=Hints())
        try:
            batches.clear()
            await asyncio.gather(*(store._read(lambda _: time.sleep(0.002), "flood") for _ in range(100)))
            assert batches == [100]
            batches.clear()
            flood = [store._read(lambda _: time.sleep(0.002), "flood") for _ in range(100)]
            await store._read(lambda _: None, "other")
            assert sum(batches) == SMALLEST_BATCH
            await asyncio.gather(*flood)
            assert sum(batches) == 101
        finally:
            await store.close()

    asyncio.run(body())


def test_a_slow_batch_of_writes_makes_the_next_ones_shorter(tmp_path: Path) -> None:
    """The processor time of the operations counts, measured in the transaction."""
    batches: list[int] = []

    class SlowWrites(SqliteStore):
        def _run_statements(self, batch, *, waits=True):  # type: ignore[no-untyped-def]
            batches.append(len(batch))
            return super()._run_statements(batch, waits=waits)

    class SlowClock(SetClock):
        """Takes its time inside of the transaction."""

        def now(self) -> int:
            until = time.thread_time() + 4 * BATCH_SECONDS
            while batches and time.thread_time() < until:
                pass
            return super().now()

    async def body() -> None:
        clock = SetClock()
        orders = [new_job(clock) for _ in range(3 * SMALLEST_BATCH)]
        store = await SlowWrites.open(str(tmp_path / "store.db"), clock=SlowClock(), hints=Hints())
        try:
            for _ in range(2):
                batches.clear()
                await asyncio.gather(*map(store.submit, orders))
            assert batches == [SMALLEST_BATCH] * 3
        finally:
            await store.close()

    asyncio.run(body())


def test_short_writes_need_no_change_of_threads_but_for_the_disk(tmp_path: Path) -> None:
    """Statements run on the event loop, the commit does not; the rare, the large and copies are in the thread."""
    used: list[tuple[str, bool]] = []

    class Observed(SqliteStore):
        def _run_statements(self, batch, *, waits=True):  # type: ignore[no-untyped-def]
            used.append(("statements", threading.current_thread() is threading.main_thread()))
            return super()._run_statements(batch, waits=waits)

        def _finish(self, count):  # type: ignore[no-untyped-def]
            used.append(("commit", threading.current_thread() is threading.main_thread()))
            super()._finish(count)

    async def body() -> None:
        clock = SetClock()
        store = await Observed.open(str(tmp_path / "store.db"), clock=clock, hints=Hints())
        try:
            await accept(store, clock)
            assert used == [("statements", True), ("commit", False)]
            lease = (await started(store, clock, analysis="other")).lease
            used.clear()
            large = Partial(result_id=new_id(), payload=f'"{"x" * 2_000_000}"')
            assert await store.record(lease, large)
            copies = msgspec.structs.replace(new_job(clock), resume_from=lease.job_id)
            assert isinstance(await store.submit(copies), Accepted)
            many = [msgspec.structs.replace(new_job(clock), payload=f'"{"x" * 100_000}"') for _ in range(3)]
            assert all(isinstance(one, Accepted) for one in await asyncio.gather(*map(store.submit, many)))
            assert used == [("statements", False), ("commit", False)] * 3
        finally:
            await store.close()

    asyncio.run(body())


def test_callers_of_a_large_batch_are_woken_in_groups() -> None:
    """Between them the event loop serves others, however much each caller does with its answer."""
    rounds_of_callers: list[int] = []

    async def body() -> None:
        rounds = 0

        async def run(batch: Sequence[int]) -> Sequence[int]:
            return batch

        async def count_rounds() -> None:
            nonlocal rounds
            while True:
                rounds += 1
                await asyncio.sleep(0)

        async def caller(number: int) -> None:
            assert await queue.do(number) == number
            rounds_of_callers.append(rounds)

        queue: GroupCommit[int, int] = GroupCommit(run, name="langlauf-writes")
        counting = asyncio.create_task(count_rounds())
        await asyncio.gather(*map(caller, range(100)))
        counting.cancel()

    asyncio.run(body())
    assert rounds_of_callers == sorted(rounds_of_callers)
    assert max(map(rounds_of_callers.count, rounds_of_callers)) == 16


def test_another_process_that_writes_does_not_stop_the_event_loop(tmp_path: Path) -> None:
    """The thread waits for its lock, while everything else goes on; then the write is accepted. Names stay known."""

    async def body() -> None:
        clock = SetClock()
        path = tmp_path / "store.db"
        async with opened(path, clock) as store:
            assert isinstance(await store.submit(new_job(clock)), Accepted)
            other = open_connection(str(path))
            other.execute("BEGIN IMMEDIATE")
            accepting = asyncio.create_task(store.submit(new_job(clock)))
            for _ in range(100):
                await asyncio.sleep(0.001)
            assert not accepting.done()
            assert store._cache.orgs
            other.execute("COMMIT")
            other.close()
            assert isinstance(await accepting, Accepted)

    asyncio.run(body())


def test_a_closed_store_refuses_writes(tmp_path: Path) -> None:
    """As one that is away: an attempt that could not be released tries again, and is still counted as held."""

    async def body() -> None:
        clock = SetClock()
        async with opened(tmp_path / "store.db", clock) as store:
            pass
        with pytest.raises(StoreUnavailable, match="closed"):
            await store.submit(new_job(clock))

    asyncio.run(body())
