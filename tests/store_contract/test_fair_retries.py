"""Retries pay turns: no org starts more by failing. What was lost or given back pays none, and goes first."""

from collections import Counter
from itertools import pairwise

from langlauf.domain.attempt import Backoff, Claim
from langlauf.domain.outcome import Completed, Released, Retry
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.stores import LEASE_SECONDS, SetClock
from tests.support.submissions import accept, claim

_ROUNDS = 40
_ORGS = ("org-a", "org-b", "org-c")


async def _fail(store: Store, made: Claim) -> None:
    assert await store.record(made.lease, Retry(code="timeout", message="slow", delay_seconds=0))


async def _complete(store: Store, made: Claim) -> None:
    assert await store.record(made.lease, Completed(result_id=made.lease.job_id, payload="{}"))


def test_an_org_whose_jobs_always_fail_gets_its_share_and_no_more(harness: Harness) -> None:
    """Its retries are due at once, and still each of three orgs gets a third of the starts."""

    async def body(store: Store, clock: SetClock) -> None:
        for org in _ORGS:
            for _ in range(_ROUNDS):
                await accept(store, clock, org=org, max_retries=1_000)
        starts = Counter[str]()
        for _ in range(_ROUNDS):
            for made in await claim(store, 2):
                starts[made.lease.org_id] += 1
                await (_fail if made.lease.org_id == "org-a" else _complete)(store, made)
            clock.pass_(0.01)
        assert sum(starts.values()) == 2 * _ROUNDS
        assert max(starts.values()) - min(starts.values()) <= 1, starts

    harness.run(body)


def test_a_retry_that_is_due_goes_before_what_waits_in_its_org(harness: Harness) -> None:
    """Urgent jobs included: it had started."""

    async def body(store: Store, clock: SetClock) -> None:
        first = await accept(store, clock)
        [made] = await claim(store, 1)
        await _fail(store, made)
        await accept(store, clock, priority_class="expedite")
        await accept(store, clock)
        clock.pass_(0.01)
        [again] = await claim(store, 1)
        assert (again.lease.job_id, again.lease.attempt) == (first.job_id, 2)

    harness.run(body)


def test_an_org_with_nothing_but_retries_has_its_turn(harness: Harness) -> None:
    """Beside an org with a long queue: neither waits for the other to be done."""

    async def body(store: Store, clock: SetClock) -> None:
        await accept(store, clock, org="org-a", max_retries=1_000)
        [made] = await claim(store, 1)
        await _fail(store, made)
        for _ in range(20):
            await accept(store, clock, org="org-b")
        order = []
        for _ in range(10):
            clock.pass_(0.01)
            [made] = await claim(store, 1)
            order.append(made.lease.org_id)
            await (_fail if made.lease.org_id == "org-a" else _complete)(store, made)
        assert Counter(order) == {"org-a": 5, "org-b": 5}
        assert all(before != after for before, after in pairwise(order)), order

    harness.run(body)


def test_what_was_given_back_goes_first_and_pays_no_turn(harness: Harness) -> None:
    """A worker that stops, or vanishes, costs the orgs of its jobs nothing."""

    async def body(store: Store, clock: SetClock) -> None:
        for org in ("org-a", "org-b"):
            for _ in range(4):
                await accept(store, clock, org=org)
        [one] = [made for made in await claim(store, 2) if made.lease.org_id == "org-a"]
        assert await store.record(one.lease, Released())
        [again] = await claim(store, 1)
        assert again.lease.job_id == one.lease.job_id
        clock.pass_(LEASE_SECONDS + 0.001)
        lost = await store.sweep(grace_seconds=5, backoff=Backoff())
        assert [swept.outcome for swept in lost] == ["lost", "lost"]
        back = await claim(store, 2)
        assert {made.lease.job_id for made in back} == {swept.job_id for swept in lost}
        assert Counter(made.lease.org_id for made in await claim(store, 4)) == {"org-a": 2, "org-b": 2}

    harness.run(body)
