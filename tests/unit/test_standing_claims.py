"""Claims that stand: submissions of the same process are claimed in the transaction that accepts them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from langlauf.domain.attempt import ClaimBatch, ClaimRequest
from langlauf.domain.errors import StoreUnavailable
from langlauf.hints import Hints
from langlauf.store.group_commit import StandingClaims
from langlauf.store.sqlite.driver import SqliteStore
from tests.support.stores import LEASE_SECONDS, SetClock
from tests.support.submissions import accept, new_job

REQUEST = ClaimRequest(worker_id="w", slots=2, analyses=("survey",), lease_seconds=LEASE_SECONDS, max_running=1_000)


class _Counted(SqliteStore):
    """Notes which kinds of operations each transaction had, and can be made to fail."""

    failing = False
    batches: list[list[str]]

    def _run_statements(self, batch: Sequence[Any], *, waits: bool = True) -> list[Any]:
        self.batches = [sorted(type(one).__name__ for one in batch)]
        if self.failing:
            raise StoreUnavailable("not now")
        return super()._run_statements(batch, waits=waits)


@asynccontextmanager
async def _opened(clock: SetClock) -> AsyncIterator[_Counted]:
    store = await _Counted.open(":memory:", clock=clock, hints=Hints())
    try:
        yield store
    finally:
        await store.close()


async def _standing(store: SqliteStore, idle: asyncio.Event) -> "asyncio.Task[ClaimBatch]":
    """A claim that has found nothing and stands."""

    stands = asyncio.Event()

    async def wait() -> None:
        stands.set()
        await idle.wait()

    task = asyncio.create_task(store.claim_next(REQUEST, wait))
    await stands.wait()
    return task


def test_a_submission_is_claimed_with_it() -> None:
    """One transaction accepts the job and hands it out."""

    async def main() -> None:
        clock = SetClock()
        async with _opened(clock) as store:
            task = await _standing(store, asyncio.Event())
            job = await accept(store, clock)
            handed = await task
            assert [made.lease.job_id for made in handed.claims] == [job.job_id]
            assert store.batches[-1] == ["ClaimRequest", "NewJob"]
            assert not store._standing._offers

    asyncio.run(main())


def test_a_batch_that_finds_nothing_ends_a_claim_that_no_longer_waits() -> None:
    """The batch accepts nothing that can start, and no other comes: the claim goes back with empty hands."""

    async def main() -> None:
        claims = StandingClaims()
        idle = asyncio.Event()
        task = asyncio.create_task(claims.stand(REQUEST, lambda: _wait(idle)))
        await asyncio.sleep(0)
        joined = claims.joining([new_job(SetClock())])
        assert len(joined) == 1
        idle.set()
        for _ in range(10):  # until it is about to go
            await asyncio.sleep(0)
        assert not task.done(), "what the batch claims must not be lost"
        claims.answer(joined, [[]])
        assert (await asyncio.wait_for(task, 10)).claims == []

    asyncio.run(main())


def test_a_claim_is_for_the_slots_that_are_free_when_it_is_executed() -> None:
    """Without a free slot it joins no submissions; with more than it had at first it asks for all of them."""

    async def main() -> None:
        claims, new = StandingClaims(), [new_job(SetClock())]
        free = 0
        task = asyncio.create_task(claims.stand(REQUEST, lambda: _wait(asyncio.Event()), lambda: free))
        await asyncio.sleep(0)
        assert claims.joining(new) == []
        free = 5
        assert [one.request.slots for one in claims.joining(new)] == [5]
        task.cancel()

    asyncio.run(main())


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


def test_who_no_longer_waits_gets_nothing() -> None:
    """The job waits for the next claim."""

    async def main() -> None:
        clock, idle = SetClock(), asyncio.Event()
        async with _opened(clock) as store:
            task = await _standing(store, idle)
            idle.set()
            assert (await task).claims == []
            job = await accept(store, clock)
            assert [made.lease.job_id for made in await store.claim(REQUEST)] == [job.job_id]

    asyncio.run(main())


def test_a_claim_that_is_being_made_is_waited_for() -> None:
    """Whoever stops to wait in that moment gets what was claimed: no job is given to nobody."""

    async def main() -> None:
        clock, idle = SetClock(), asyncio.Event()
        async with _opened(clock) as store:
            task = await _standing(store, idle)
            submitted = asyncio.create_task(accept(store, clock))
            while store._standing._offers[0].asked_at is None:  # noqa: ASYNC110 - a batch tells nobody that it begins
                await asyncio.sleep(0)
            idle.set()
            assert [made.lease.job_id for made in (await task).claims] == [(await submitted).job_id]

    asyncio.run(main())


def test_a_transaction_that_fails_leaves_the_claim_standing() -> None:
    """The next submission is claimed for it."""

    async def main() -> None:
        clock = SetClock()
        async with _opened(clock) as store:
            task = await _standing(store, asyncio.Event())
            store.failing = True
            [refused] = await asyncio.gather(accept(store, clock), return_exceptions=True)
            assert isinstance(refused, StoreUnavailable)
            assert not task.done()
            store.failing = False
            job = await accept(store, clock)
            assert [made.lease.job_id for made in (await task).claims] == [job.job_id]

    asyncio.run(main())
