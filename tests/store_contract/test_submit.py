"""Accepting jobs: once, durably, or not at all."""

import asyncio

import msgspec

from langlauf.domain.job import Accepted, Duplicate, KeyReused, QueueFull, Replayed
from langlauf.domain.state import Status
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.stores import SetClock
from tests.support.submissions import ORG, accept, cancel_request, claim, event_types, new_job, read_job


def test_an_accepted_job_is_there_with_its_first_event_and_its_input(harness: Harness) -> None:
    """What submit returned can be read back by its org at once."""

    async def body(store: Store, clock: SetClock) -> None:
        new = new_job(clock, query="Bern")
        first = msgspec.structs.replace(new.job, ticket=1)
        assert await store.submit(new) == Accepted(first)
        assert (await read_job(store, new.job.job_id)).job == first
        assert await event_types(store, new.job.job_id) == ["job.queued"]
        assert await store.tenant(ORG).payload(new.job.job_id) == new.payload

    harness.run(body)


def test_a_duplicate_is_refused_until_the_first_one_ended(harness: Harness) -> None:
    """Same org, analysis and input: one at a time; other orgs and other analyses are not concerned."""

    async def body(store: Store, clock: SetClock) -> None:
        first = await accept(store, clock, query="Bern")
        refused = await store.submit(new_job(clock, query="Bern"))
        assert isinstance(refused, Duplicate)
        assert refused.job.job_id == first.job_id
        await accept(store, clock, query="Bern", org="org-b")
        await accept(store, clock, query="Bern", analysis="census")
        await accept(store, clock, query="Bern", refuse_duplicate=False)
        await store.cancel(cancel_request(first.job_id))
        await claim(store, 10)
        assert isinstance(await store.submit(new_job(clock, query="Bern")), Duplicate)

    harness.run(body)


def test_one_of_many_identical_submissions_at_once_is_accepted(harness: Harness) -> None:
    """Submissions that share a transaction see each other."""

    async def body(store: Store, clock: SetClock) -> None:
        answers = await asyncio.gather(*(store.submit(new_job(clock, query="Bern")) for _ in range(50)))
        accepted = [one for one in answers if isinstance(one, Accepted)]
        assert len(accepted) == 1
        assert {one.job.job_id for one in answers if isinstance(one, Duplicate)} == {accepted[0].job.job_id}

    harness.run(body)


def test_an_idempotency_key_gives_the_same_job_again(harness: Harness) -> None:
    """Same key and payload: that job, as it is now; another payload: refused; another org: its own key."""

    async def body(store: Store, clock: SetClock) -> None:
        first = await accept(store, clock, query="Bern", idempotency_key="k")
        await claim(store)
        again = await store.submit(new_job(clock, query="Bern", idempotency_key="k"))
        assert isinstance(again, Replayed)
        assert (again.job.job_id, again.job.status) == (first.job_id, Status.RUNNING)
        assert await store.submit(new_job(clock, query="Basel", idempotency_key="k")) == KeyReused()
        other = await store.submit(new_job(clock, query="Basel", idempotency_key="k", org="org-b"))
        assert isinstance(other, Accepted)

    harness.run(body)


def test_many_submissions_with_one_key_make_one_job(harness: Harness) -> None:
    """A key decides before duplicates do, also inside one transaction."""

    async def body(store: Store, clock: SetClock) -> None:
        orders = [new_job(clock, query="Bern", idempotency_key="k") for _ in range(200)]
        answers = await asyncio.gather(*map(store.submit, orders))
        assert sum(isinstance(one, Accepted) for one in answers) == 1
        assert sum(isinstance(one, Replayed) for one in answers) == 199

    harness.run(body)


def test_a_full_queue_refuses_and_writes_nothing(harness: Harness) -> None:
    """The limits count waiting jobs, of the org and in all; room comes back when a job leaves the queue."""

    async def body(store: Store, clock: SetClock) -> None:
        await accept(store, clock, max_waiting_org=2)
        await accept(store, clock, max_waiting_org=2)
        full = await store.submit(new_job(clock, max_waiting_org=2, idempotency_key="k"))
        assert full == QueueFull("org", 2)
        await accept(store, clock, max_waiting_org=2, org="org-b")
        assert await store.submit(new_job(clock, max_waiting_all=3)) == QueueFull("all", 3)
        assert (await store.depth()).waiting == 3
        await claim(store)
        await accept(store, clock, max_waiting_org=2, idempotency_key="k")
        assert await store.submit(new_job(clock, max_waiting_analysis=3)) == QueueFull("analysis", 3)
        await accept(store, clock, max_waiting_analysis=3, analysis="census")

    harness.run(body)


def test_a_submission_that_breaks_a_rule_does_not_spoil_its_neighbours(harness: Harness) -> None:
    """Operations share a transaction, not their fate."""

    async def body(store: Store, clock: SetClock) -> None:
        bad = new_job(clock, timeout_seconds=-1.0)
        good = [new_job(clock) for _ in range(5)]
        answers = await asyncio.gather(*map(store.submit, [*good[:2], bad, *good[2:]]), return_exceptions=True)
        assert [isinstance(answer, Accepted) for answer in answers] == [True, True, False, True, True, True]
        assert await store.tenant(ORG).job(bad.job.job_id) is None
        assert (await store.depth()).waiting == 5

    harness.run(body)
