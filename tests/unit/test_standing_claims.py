"""Claims that stand: submissions of the same process are claimed in the transaction that accepts them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from langlauf.domain.attempt import ClaimRequest
from langlauf.domain.errors import StoreUnavailable
from langlauf.hints import Hints
from langlauf.store.sqlite.driver import SqliteStore
from langlauf.store.standing_claims import StandingClaim, StandingClaims
from tests.support.standing import Standing
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


def test_submissions_are_claimed_with_them() -> None:
    """One transaction accepts a job and hands it out, again and again, until no slot is free."""

    async def main() -> None:
        clock = SetClock()
        async with _opened(clock) as store:
            standing = Standing(store, REQUEST)
            jobs = []
            for count in (1, 2, 2):
                jobs.append((await accept(store, clock)).job_id)
                assert standing.jobs == jobs[:count]
                assert ("ClaimRequest" in store.batches[-1]) is (len(jobs) == count)

    asyncio.run(main())


def test_a_claim_is_for_the_slots_that_are_free_when_it_is_executed() -> None:
    """Without a free slot it joins no submissions, and a slot that is asked for is not free."""
    claims, new = StandingClaims(), [new_job(SetClock())]
    free = 0
    claims.stand(StandingClaim(REQUEST, lambda: free, lambda _: None))
    assert claims.joining(new) == []
    free = 5
    [first] = claims.joining(new)
    assert first.request.slots == 5
    assert claims.joining(new) == []
    free = 7
    [second] = claims.joining(new)
    assert second.request.slots == 2
    first.answer()
    assert [one.request.slots for one in claims.joining(new)] == [5]


def test_workers_take_turns() -> None:
    """Where one claim can join, each submission is for the worker that has waited longest."""
    claims, new = StandingClaims(), [new_job(SetClock())]
    for name in ("a", "b"):
        request = ClaimRequest(
            worker_id=name, slots=9, analyses=("survey",), lease_seconds=LEASE_SECONDS, max_running=1_000
        )
        claims.stand(StandingClaim(request, lambda: 9, lambda _: None))
    found = []
    for _ in range(4):
        [execution] = claims.joining(new, 1)
        found.append(execution.request.worker_id)
        execution.answer()
    assert found == ["a", "b", "a", "b"]


def test_a_claim_that_was_withdrawn_gets_nothing() -> None:
    """The job waits for the next claim."""

    async def main() -> None:
        clock = SetClock()
        async with _opened(clock) as store:
            standing = Standing(store, REQUEST)
            assert await standing.end() == []
            job = await accept(store, clock)
            assert standing.jobs == []
            assert [made.lease.job_id for made in await store.claim(REQUEST)] == [job.job_id]

    asyncio.run(main())


def test_what_is_being_claimed_is_waited_for() -> None:
    """A claim that is withdrawn in that moment gets it: no job is claimed for no worker."""

    async def main() -> None:
        clock = SetClock()
        async with _opened(clock) as store:
            standing = Standing(store, REQUEST)
            submitted = asyncio.create_task(accept(store, clock))
            while standing.claim.slots == REQUEST.slots:  # noqa: ASYNC110 - a batch tells nobody that it begins
                await asyncio.sleep(0)
            [claim] = await standing.end()
            assert claim.lease.job_id == (await submitted).job_id

    asyncio.run(main())


def test_a_transaction_that_fails_leaves_the_claim_standing() -> None:
    """The next submission is claimed for it."""

    async def main() -> None:
        clock = SetClock()
        async with _opened(clock) as store:
            standing = Standing(store, REQUEST)
            store.failing = True
            [refused] = await asyncio.gather(accept(store, clock), return_exceptions=True)
            assert isinstance(refused, StoreUnavailable)
            store.failing = False
            job = await accept(store, clock)
            assert standing.jobs == [job.job_id]

    asyncio.run(main())


def test_a_claim_knows_where_nothing_else_waits() -> None:
    """No job is looked for then until a hint comes; with a slot less, a limit, or another job waiting one may be."""

    async def emptied(*, slots: int = 2, limits: dict[str, int] | None = None, waiting: bool = False) -> bool:
        clock = SetClock()
        async with _opened(clock) as store:
            if waiting:
                await accept(store, clock, analysis="census")
            standing = Standing(store, replace(REQUEST, slots=slots, limits=limits or {}))
            await accept(store, clock)
            assert len(standing.claims) == 1
            return standing.claim.emptied_at == store._hints.work_signals

    async def main() -> None:
        assert await emptied()
        assert not await emptied(slots=1)
        assert not await emptied(limits={"survey": 5})
        assert not await emptied(waiting=True)

    asyncio.run(main())
