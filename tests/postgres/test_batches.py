"""A batch whose response was lost is sent again under its id: it runs once, with the same outcome."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from langlauf.clock import new_id
from langlauf.domain.attempt import ClaimRequest, Progress
from langlauf.domain.outcome import Completed, Released
from langlauf.domain.read_models import QueueDepth
from langlauf.hints import Hints
from langlauf.store.group_commit import Recording
from langlauf.store.postgres import record, submit
from langlauf.store.postgres.driver import PostgresStore
from tests.support.postgres_stores import migrated_database
from tests.support.stores import LEASE_SECONDS, SetClock
from tests.support.submissions import ORG, accept, claim, event_types, new_job

Scene = Callable[[list[PostgresStore], SetClock], Awaitable[None]]


def _play(scene: Scene) -> None:
    """Two hosts at one database: a batch may be sent again while it still runs."""

    async def main() -> None:
        clock = SetClock()
        with migrated_database() as url:
            stores = [await PostgresStore.open(url, clock=clock, hints=Hints()) for _ in range(2)]
            try:
                await scene(stores, clock)
            finally:
                for store in stores:
                    await store.close()

    asyncio.run(main())


def test_repeated_submissions_are_accepted_once() -> None:
    """At the same moment, and later; with a refused one among them."""

    async def scene(stores: list[PostgresStore], clock: SetClock) -> None:
        batch = [new_job(clock, idempotency_key=f"k-{n}", max_waiting_org=3) for n in range(4)]

        async def ask(store: PostgresStore, *, again: bool) -> Any:
            values = (clock.now(), *submit.parameters_of(batch), None, again)
            [(said, _)] = await store._connections["submit"].rows("submit", *values)
            return [words.replace("known", "accepted") for words in said]

        first = await ask(stores[0], again=False)
        second, third = await asyncio.gather(*(ask(store, again=True) for store in stores))
        clock.pass_(1)
        assert first == second == third == await ask(stores[0], again=True)
        assert [answer.split(" ")[0] for answer in first] == ["accepted", "accepted", "accepted", "full"]
        assert await stores[0].depth() == QueueDepth(3, 0)
        for new in batch[:3]:
            assert await event_types(stores[0], new.job.job_id) == ["job.queued"]

    _play(scene)


def test_repeated_writes_are_written_once() -> None:
    """All kinds; a refused one is refused again, although its job could be written to by then."""

    async def scene(stores: list[PostgresStore], clock: SetClock) -> None:
        jobs = [await accept(stores[0], clock) for _ in range(4)]
        held = {one.lease.job_id: one.lease for one in await claim(stores[0], 4)}
        done, going, given_back, gone = (held[job.job_id] for job in jobs)
        assert await stores[0].record(gone, Released())
        batch = [
            Recording(gone, Progress(percent=50)),
            Recording(done, Completed(result_id=new_id(), payload="1")),
            Recording(going, Progress(percent=50)),
            Recording(given_back, Released()),
        ]
        values = record.parameters_of(sorted(batch, key=lambda one: record.lock_order(one.lease)))
        batch_id = uuid4()

        async def ask(store: PostgresStore, *, again: bool) -> list[bool]:
            said = await store._connections["record"].call("record", clock.now(), batch_id, *values, again)
            found = dict(zip(sorted(record.lock_order(one.lease) for one in batch), said, strict=True))
            return [found[record.lock_order(one.lease)] == "true" for one in batch]

        first = await ask(stores[0], again=False)
        second, third = await asyncio.gather(*(ask(store, again=True) for store in stores))
        assert first == second == third == [False, True, True, True]
        assert {one.lease.job_id for one in await claim(stores[1], 2)} == {given_back.job_id, gone.job_id}
        assert await ask(stores[1], again=True) == first
        shown = await stores[0].tenant(ORG).results(done.job_id)
        assert len(shown) == 1
        assert (await event_types(stores[0], going.job_id)).count("job.progress") == 1
        assert (await event_types(stores[0], given_back.job_id)).count("job.released") == 1

    _play(scene)


def test_a_repeated_claim_returns_the_same_jobs() -> None:
    """And nothing more, although more waits; a claim that found nothing may find something when it is repeated."""

    async def scene(stores: list[PostgresStore], clock: SetClock) -> None:
        for _ in range(4):
            await accept(stores[0], clock)
        request = ClaimRequest(
            worker_id="worker-1", slots=2, analyses=("survey",), lease_seconds=LEASE_SECONDS, max_running=100
        )

        async def ask(again: bool, claim_id: object) -> list[tuple[object, ...]]:
            connection = stores[again]._connections["claim"]
            wanted = {**record.request_of(request), "claim": claim_id}
            return sorted(tuple(row) for row in await connection.rows("claim", clock.now(), wanted, again))

        claim_id = uuid4()
        first = await ask(False, claim_id)
        assert len(first) == 2
        assert await ask(True, claim_id) == first
        assert len(await ask(True, uuid4())) == 2
        assert await stores[0].depth() == QueueDepth(0, 4)

    _play(scene)
