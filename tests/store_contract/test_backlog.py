"""What metrics tell of all that waits and runs: the same of every store."""

from langlauf.clock import made_at
from langlauf.domain.instant import Instant, after
from langlauf.domain.outcome import Completed, Retry
from langlauf.domain.read_models import Backlog
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.stores import LEASE_SECONDS, SetClock
from tests.support.submissions import accept, claim, started


def _told(found: Backlog) -> dict[str, dict[str, int]]:
    """What is there of each kind; whether a store remembers that there is nothing is its own business."""
    fields = ("waiting", "running", "org_waiting", "org_running")
    return {field: {name: count for name, count in getattr(found, field).items() if count} for field in fields}


def test_an_empty_store_has_nothing_to_tell(harness: Harness) -> None:
    """Not even an age."""

    async def body(store: Store, clock: SetClock) -> None:
        found = await store.backlog(orgs=True)
        assert _told(found) == {"waiting": {}, "running": {}, "org_waiting": {}, "org_running": {}}
        assert (found.seen_at, found.retrying, found.overdue) == (clock.now(), 0, 0)
        assert (found.oldest_waiting_at, found.oldest_attempt_at) == (None, None)

    harness.run(body)


def test_it_counts_what_waits_and_runs(harness: Harness) -> None:
    """By analysis and, where that is asked for, by org; with the oldest of both, whatever class it has."""

    async def body(store: Store, clock: SetClock) -> None:
        first = await started(store, clock, org="org-a")
        began = await _scene(store, clock)
        found = await store.backlog(orgs=True)
        assert _told(found) == {
            "waiting": {"route": 2, "survey": 1},
            "running": {"survey": 2},
            "org_waiting": {"org-a": 1, "org-b": 2},
            "org_running": {"org-a": 1, "org-b": 1},
        }
        assert (found.retrying, found.overdue) == (1, 0)
        assert (found.oldest_waiting_at, found.oldest_attempt_at) == (began, first.started_at)
        unasked = await store.backlog(orgs=False)
        assert (unasked.org_waiting, unasked.org_running) == ({}, {})

    harness.run(body)


async def _scene(store: Store, clock: SetClock) -> Instant:
    """One more that runs, one that is to be tried again, and three that wait; when the first of these came."""
    await started(store, clock, org="org-b")
    again = await started(store, clock, org="org-b")
    assert await store.record(again.lease, Retry(code="network_error", message="Away.", delay_seconds=30.0))
    began = clock.now()
    await accept(store, clock, org="org-b", analysis="route", priority_class="expedite")
    clock.pass_(2)
    await accept(store, clock, org="org-b", analysis="route")
    await accept(store, clock, org="org-a")
    return began


def test_a_lease_that_has_ended_is_overdue_until_it_is_swept(harness: Harness) -> None:
    """Its job does not run any more, and the age of its attempt is nobody's."""

    async def body(store: Store, clock: SetClock) -> None:
        lost = await started(store, clock)
        clock.pass_(LEASE_SECONDS - 1)
        [held] = await _claimed_one_more(store, clock)
        clock.pass_(2)
        found = await store.backlog(orgs=False)
        assert (_told(found)["running"], found.overdue, found.oldest_attempt_at) == ({"survey": 1}, 1, held)
        assert found.seen_at == after(lost.started_at, LEASE_SECONDS + 1.001)

    harness.run(body)


async def _claimed_one_more(store: Store, clock: SetClock) -> list[Instant]:
    await accept(store, clock)
    return [one.started_at for one in await claim(store)]


def test_what_has_ended_is_not_told(harness: Harness) -> None:
    """And what a store has in hand is what its queues hold: nothing, where nobody writes."""

    async def body(store: Store, clock: SetClock) -> None:
        done = await started(store, clock)
        assert await store.record(done.lease, Completed(result_id="r-1", payload="1"))
        found = await store.backlog(orgs=True)
        assert not any(_told(found).values())
        usage = store.usage()
        assert usage.queues
        assert set(usage.queues.values()) == {0}
        assert usage.kind in {"sqlite", "memory", "postgresql"}
        sizes = (usage.file_bytes or 0) > 0, usage.log_bytes is not None, usage.connections.get("open", 0) > 0
        assert sizes == {"sqlite": (True, True, False), "postgresql": (False, False, True)}.get(
            usage.kind, (False,) * 3
        )

    harness.run(body)


def test_a_claim_says_when_its_job_was_accepted(harness: Harness) -> None:
    """So that waits can be counted without another look; a database whose claims do not tell it has it from the id."""

    async def body(store: Store, clock: SetClock) -> None:
        job = await accept(store, clock)
        [one] = await claim(store)
        by_id = store.usage().kind == "postgresql"
        assert one.queued_at == (made_at(job.job_id) if by_id else job.queued_at)

    harness.run(body)
