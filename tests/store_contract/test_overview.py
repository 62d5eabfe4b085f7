"""The looks that figures are made of: the same of every store, of one org or of all, and no more than was asked for."""

from langlauf.clock import new_id
from langlauf.domain.instant import after
from langlauf.domain.outcome import Completed, Failed, Retry
from langlauf.domain.read_models import EMPTY_OVERVIEW, EndedJob, Overview, WaitingJobs
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.stores import SetClock
from tests.support.submissions import accept, cancel_request, started

_MOST = 100


async def _scene(store: Store, clock: SetClock, org: str) -> dict[str, str]:
    """A job of each kind; their ids by what they are. A second passes between any two of them."""
    ids = {}
    done = await started(store, clock, org=org)
    clock.pass_(1)
    assert await store.record(done.lease, Completed(result_id=new_id(), payload="1"))
    ids["completed"] = done.lease.job_id
    failed = await started(store, clock, org=org)
    clock.pass_(1)
    assert await store.record(failed.lease, Failed(code="timeout", message="Late.", retryable=True, hint=None))
    ids["failed"] = failed.lease.job_id
    unwanted = await accept(store, clock, org=org)
    clock.pass_(1)
    assert await store.cancel(cancel_request(unwanted.job_id, org))
    ids["canceled"] = unwanted.job_id
    again = await started(store, clock, org=org)
    assert await store.record(again.lease, Retry(code="network_error", message="Away.", delay_seconds=30.0))
    ids["retrying"] = again.lease.job_id
    asked = await started(store, clock, org=org)
    assert await store.cancel(cancel_request(asked.lease.job_id, org))
    ids["canceling"] = asked.lease.job_id
    clock.pass_(1)
    ids["first"] = (await accept(store, clock, org=org, analysis="route")).job_id
    clock.pass_(1)
    ids["urgent"] = (await accept(store, clock, org=org, analysis="route", priority_class="expedite")).job_id
    return ids


def test_a_look_finds_what_waits_runs_and_ended(harness: Harness) -> None:
    """The newest first, with all that figures need."""

    async def body(store: Store, clock: SetClock) -> None:
        begin = clock.now()
        ids = await _scene(store, clock, "org-a")
        seen = await store.tenant("org-a").overview(since=begin, most=_MOST)
        assert [(one.status, one.job_id, one.error_code) for one in seen.ended] == [
            ("canceled", None, None),
            ("failed", ids["failed"], "timeout"),
            ("completed", None, None),
        ]
        last = seen.ended[-1]
        assert last == EndedJob(
            "org-a", "survey", "completed", begin, after(begin, 0.001), after(begin, 1.001), None, None
        )
        assert seen.ended[0].started_at is None
        [queue] = seen.queues
        first_at = (await store.tenant("org-a").job(ids["first"])).job.queued_at  # type: ignore[union-attr]
        assert queue == WaitingJobs("org-a", "route", 2, first_at)
        assert seen.queued == [after(first_at, 1.001), first_at]
        held = {one.job_id: one for one in seen.underway}
        assert set(held) == {ids["retrying"], ids["canceling"]}
        assert held[ids["retrying"]].lease_until is None
        assert held[ids["retrying"]].next_attempt_at is not None
        assert held[ids["canceling"]].lease_until is not None
        assert held[ids["canceling"]].cancel_requested_at is not None
        assert not any((seen.ended_more, seen.queued_more, seen.queues_more, seen.underway_more))

    harness.run(body)


def test_a_look_over_all_is_the_looks_of_each_org(harness: Harness) -> None:
    """Nothing is missing and nothing is counted twice; another org sees nothing."""

    async def body(store: Store, clock: SetClock) -> None:
        begin = clock.now()
        await _scene(store, clock, "org-a")
        await _scene(store, clock, "org-b")
        one, other, everything = [
            _sets(await reads.overview(since=begin, most=_MOST))
            for reads in (store.tenant("org-a"), store.tenant("org-b"), store)
        ]
        for mine, theirs, whole in zip(one, other, everything, strict=True):
            assert mine
            assert theirs
            assert mine | theirs == whole
        assert await store.tenant("org-c").overview(since=begin, most=_MOST) == EMPTY_OVERVIEW

    harness.run(body)


def _sets(seen: Overview) -> tuple[set[object], ...]:
    return set(seen.ended), set(seen.queued), set(seen.queues), set(seen.underway)


def test_a_look_is_cut_to_the_newest(harness: Harness) -> None:
    """It says where there is more, also where one way to end has all of the newest."""

    async def body(store: Store, clock: SetClock) -> None:
        begin = clock.now()
        for org in ("org-a", "org-a", "org-b"):
            await _scene(store, clock, org)
        for reads in (store, store.tenant("org-a")):
            whole = await reads.overview(since=begin, most=_MOST)
            cut = await reads.overview(since=begin, most=2)
            assert (cut.ended, cut.ended_more) == (whole.ended[:2], True)
            assert (cut.queued, cut.queued_more) == (whole.queued[:2], True)
            assert (len(cut.underway), cut.underway_more) == (2, True)
            later = await reads.overview(since=whole.ended[1].finished_at, most=2)
            assert (later.ended, later.ended_more) == (whole.ended[:2], False)

    harness.run(body)


def test_what_is_older_is_not_looked_at(harness: Harness) -> None:
    """What ended before is left out; what waits and runs is there however old it is."""

    async def body(store: Store, clock: SetClock) -> None:
        await _scene(store, clock, "org-a")
        clock.pass_(10)
        for reads in (store, store.tenant("org-a")):
            seen = await reads.overview(since=clock.now(), most=_MOST)
            assert (seen.ended, seen.queued) == ([], [])
            assert (len(seen.queues), len(seen.underway)) == (1, 2)

    harness.run(body)
