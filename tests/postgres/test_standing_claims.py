"""A waiting claim is sent with the next submissions of its process, in one transaction."""

import asyncio
import math

import asyncpg
import pytest

from langlauf.domain.attempt import Claim, ClaimBatch, ClaimRequest
from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore
from tests.support.postgres import fetch
from tests.support.postgres_stores import migrated_database
from tests.support.relay import Loss, relayed
from tests.support.stores import LEASE_SECONDS, SetClock
from tests.support.submissions import accept, claim

REQUEST = ClaimRequest(worker_id="w", slots=2, analyses=("survey",), lease_seconds=LEASE_SECONDS, max_running=1_000)
_TRANSACTIONS = "SELECT DISTINCT xmin::text FROM langlauf.event_rows"


async def _standing(store: PostgresStore) -> "asyncio.Task[ClaimBatch]":
    """Start a claim that found nothing and waits."""
    stands = asyncio.Event()

    async def wait() -> None:
        stands.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(store.claim_next(REQUEST, wait))
    await stands.wait()
    return task


def test_a_submission_is_claimed_in_its_transaction() -> None:
    """One transaction accepts the job and claims it; one that does not fit waits."""

    async def main(url: str) -> None:
        clock = SetClock()
        store = await PostgresStore.open(url, hints=Hints(), clock=clock, notify=False)
        try:
            task = await _standing(store)
            jobs = [job.job_id for job in await asyncio.gather(*(accept(store, clock) for _ in range(3)))]
            handed = [one.lease.job_id for one in (await task).claims]
            assert sorted(handed) == sorted(jobs)[:2]
            assert len(fetch(url, _TRANSACTIONS)) == 1
            assert {one.lease.job_id for one in await claim(store)} == {*jobs} - {*handed}
        finally:
            await store.close()

    with migrated_database() as url:
        asyncio.run(main(url))


class CountingStore(PostgresStore):
    """Counts the claims that were no part of a submission."""

    asked = 0

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        self.asked += 1
        return await super().claim(request)


def test_a_claim_waits_for_submissions_under_way() -> None:
    """Their transaction claims as well; where none got anything for some time, it is executed by itself."""

    async def main(url: str) -> None:
        clock, hints = SetClock(), Hints()
        store = await CountingStore.open(url, hints=hints, clock=clock, notify=False)
        try:
            for last, asked in ((math.inf, 0), (-math.inf, 1)):
                store._claimed_at, store._emptied = last, None
                submitted = asyncio.create_task(accept(store, clock))
                while store._submits.idle:  # noqa: ASYNC110 - a queue tells nobody that it has something
                    await asyncio.sleep(0)
                handed = await store.claim_next(REQUEST, lambda: hints.wait_for_work(60))
                assert store.asked == asked
                found = handed.claims or await store.claim(REQUEST)
                assert [one.lease.job_id for one in found] == [(await submitted).job_id]
        finally:
            await store.close()

    with migrated_database() as url:
        asyncio.run(main(url))


def test_a_claim_asks_only_where_a_job_may_have_come() -> None:
    """After a submission that left nothing waiting the next claim waits at once, until a hint or the time to poll."""

    async def main(url: str) -> None:
        clock, hints = SetClock(), Hints()
        store = await CountingStore.open(url, hints=hints, clock=clock, notify=False)
        other = await PostgresStore.open(url, hints=Hints(), clock=clock, notify=False)
        try:
            for _ in range(2):
                task = await _standing(store)
                await accept(store, clock)
                assert len((await task).claims) == 1
            assert store.asked == 1
            await accept(other, clock)
            hints.work()
            assert len((await store.claim_next(REQUEST, lambda: hints.wait_for_work(60))).claims) == 1
            await hints.wait_for_work(60)
            assert store.asked == 2
            task = await _standing(store)
            await accept(store, clock)
            assert len((await task).claims) == 1
            await accept(other, clock)
            found = await store.claim_next(REQUEST, lambda: hints.wait_for_work(0))
            assert found.claims == []
            found = await store.claim_next(REQUEST, lambda: hints.wait_for_work(0))
            assert len(found.claims) == 1
        finally:
            await other.close()
            await store.close()

    with migrated_database() as url:
        asyncio.run(main(url))


@pytest.mark.parametrize("loss", [Loss.ANSWERED, Loss.UNDERWAY])
def test_a_retry_returns_the_same_jobs(loss: Loss) -> None:
    """The second try finds what the first one accepted and claimed."""
    left = [loss]

    def draw(query: str) -> Loss | None:
        return left.pop() if left and "submit(" in query else None

    async def main(url: str) -> None:
        clock = SetClock()
        async with relayed(url, "127.0.0.1", draw) as (_, through):
            store = await PostgresStore.open(through, hints=Hints(), clock=clock, notify=False)
            try:
                task = await _standing(store)
                job = await accept(store, clock)
                assert [one.lease.job_id for one in (await task).claims] == [job.job_id]
                assert not left
                assert [row["attempt"] for row in fetch(url, "SELECT attempt FROM langlauf.jobs")] == [1]
            finally:
                await store.close()

    with migrated_database() as url:
        asyncio.run(main(url))


def test_a_claim_in_a_submission_waits_for_no_lane() -> None:
    """It would wait out of order: a batch of another host has that lane, and may come to those of this submission."""

    async def main(url: str) -> None:
        clock = SetClock()
        store = await PostgresStore.open(url, hints=Hints(), clock=clock, notify=False)
        other = await PostgresStore.open(url, hints=Hints(), clock=clock, notify=False)
        batch = await asyncpg.connect(url, server_settings={"search_path": "langlauf"})
        try:
            task = await _standing(store)
            waiting = await accept(other, clock, org="org-a")
            async with batch.transaction():
                await batch.execute("SELECT lock_lanes('{org-a}', '{survey}')")
                accepted = await accept(store, clock, org="org-b")
                await batch.execute("SELECT lock_lanes('{org-b}', '{survey}')")
            assert not task.done()
            task.cancel()
            found = await claim(store, 3)
            assert {one.lease.job_id for one in found} == {waiting.job_id, accepted.job_id}
        finally:
            await batch.close()
            await other.close()
            await store.close()

    with migrated_database() as url:
        asyncio.run(main(url))
