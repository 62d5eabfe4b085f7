"""A standing claim is sent with the submissions of its process, in one transaction."""

import asyncio

import asyncpg
import pytest
from msgspec.structs import replace

from langlauf.domain.attempt import Claim, ClaimBatch, ClaimRequest
from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore
from langlauf.worker.claimer import Claimer
from tests.support.postgres import fetch
from tests.support.postgres_stores import migrated_database
from tests.support.relay import Loss, relayed
from tests.support.standing import Standing
from tests.support.stores import LEASE_SECONDS, SetClock
from tests.support.submissions import accept, claim

REQUEST = ClaimRequest(worker_id="w", slots=2, analyses=("survey",), lease_seconds=LEASE_SECONDS, max_running=1_000)
_TRANSACTIONS = "SELECT DISTINCT xmin::text FROM langlauf.event_rows"


def test_a_submission_is_claimed_in_its_transaction() -> None:
    """One transaction accepts the job and claims it; one that does not fit waits."""

    async def main(url: str) -> None:
        clock = SetClock()
        store = await PostgresStore.open(url, hints=Hints(), clock=clock, notify=False)
        try:
            standing = Standing(store, REQUEST)
            jobs = [job.job_id for job in await asyncio.gather(*(accept(store, clock) for _ in range(3)))]
            assert sorted(standing.jobs) == sorted(jobs)[:2]
            assert len(fetch(url, _TRANSACTIONS)) == 1
            assert {one.lease.job_id for one in await claim(store)} == {*jobs} - {*standing.jobs}
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


def test_a_claim_asks_only_where_a_job_may_have_come() -> None:
    """After a submission that left nothing waiting none is looked for, until a hint or the time to poll."""

    async def main(url: str) -> None:
        clock, hints = SetClock(), Hints()
        store = await CountingStore.open(url, hints=hints, clock=clock, notify=False)
        other = await PostgresStore.open(url, hints=Hints(), clock=clock, notify=False)
        claims: asyncio.Queue[Claim] = asyncio.Queue()

        def take(handed: ClaimBatch) -> None:
            for one in handed.claims:
                claims.put_nowait(one)

        claimer = Claimer(store, hints, 3_600.0, replace(REQUEST, slots=9), lambda: 9, take)
        try:
            await claimer.start()
            for _ in range(3):
                while hints._work.is_set() or claimer._claim.slots < 9 or not store.asked:  # noqa: ASYNC110 - a claimer tells nobody that it has looked
                    await asyncio.sleep(0)
                await accept(store, clock)
                assert (await claims.get()).analysis == "survey"
                hints.claim_again()
            assert store.asked == 1
            elsewhere = await accept(other, clock)
            hints.work()
            assert (await claims.get()).lease.job_id == elsewhere.job_id
            assert store.asked == 2
        finally:
            await claimer.stop()
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
                standing = Standing(store, REQUEST)
                job = await accept(store, clock)
                assert standing.jobs == [job.job_id]
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
            standing = Standing(store, REQUEST)
            waiting = await accept(other, clock, org="org-a")
            async with batch.transaction():
                await batch.execute("SELECT lock_lanes('{org-a}', '{survey}')")
                accepted = await accept(store, clock, org="org-b")
                await batch.execute("SELECT lock_lanes('{org-b}', '{survey}')")
            assert await standing.end() == []
            found = await claim(store, 3)
            assert {one.lease.job_id for one in found} == {waiting.job_id, accepted.job_id}
        finally:
            await batch.close()
            await other.close()
            await store.close()

    with migrated_database() as url:
        asyncio.run(main(url))
