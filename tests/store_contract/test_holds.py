"""Holding results: what is held stays whatever its age, until it is released; who came first stays."""

import asyncio

import pytest

from langlauf.domain.job import JobRecord
from langlauf.domain.read_models import JobView
from langlauf.domain.result import HoldRequest, ResultGone, RetentionPolicy
from langlauf.maintenance.duties import apply_retention
from langlauf.store.protocol import Store
from tests.support.store_kinds import StoreUnderTest
from tests.support.stores import DAY, JobFactory, SetClock

WEEK = RetentionPolicy(final_results=7 * DAY, partial_results=7 * DAY, events=3 * DAY, jobs=90 * DAY)
AT_ONCE = RetentionPolicy(final_results=0, partial_results=0, events=0, jobs=0)


async def job_of(store: Store, job_id: str) -> JobRecord:
    """A job of the maker's org."""
    view = await store.tenant("org-a").job(job_id)
    assert view is not None
    return view.job


async def result_of(store: Store, job_id: str) -> str:
    """The id of its result."""
    result_id = (await job_of(store, job_id)).result_id
    assert result_id is not None
    return result_id


def wish(result_id: str, *, held: bool = True, by: str = "ann", reason: str | None = "audit") -> HoldRequest:
    """Somebody holds a result, or releases it."""
    return HoldRequest(org_id="org-a", result_id=result_id, held=held, by=by, reason=reason)


def test_a_held_result_stays_and_its_events_go(any_bed: StoreUnderTest) -> None:
    """Results, record and messages are there after any time; events have their own age. Released, all goes."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        held, other = await make.completed(2), await make.completed(1)
        since = clock.now()
        answer = await store.hold(wish(await result_of(store, held)))
        assert isinstance(answer, JobView)
        assert (answer.job.held_at, answer.job.held_by, answer.job.hold_reason) == (since, "ann", "audit")
        clock.pass_(400 * DAY)
        dry = await apply_retention(store, WEEK, dry_run=True)
        report = await apply_retention(store, WEEK)
        assert dry.results == report.results
        assert (report.results.delete_count, report.results.kept_count, report.jobs_deleted) == (2, 3, 1)
        assert await store.tenant("org-a").job(other) is None
        job = await job_of(store, held)
        assert (job.result_expired_at, job.events_expired_at) == (None, clock.now())
        assert len(await store.tenant("org-a").results(held)) == 3
        assert (await apply_retention(store, WEEK)).jobs_deleted == 0
        await store.hold(wish(await result_of(store, held), held=False))
        assert (await job_of(store, held)).held_at is None
        assert (await apply_retention(store, WEEK)).jobs_deleted == 1

    any_bed.play(scene)


def test_holding_again_changes_nothing(any_bed: StoreUnderTest) -> None:
    """The first who holds it stays, by whichever of the job's results; releasing twice is fine too."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        job_id = await make.completed(1)
        first, last = await store.tenant("org-a").results(job_id)
        await store.hold(wish(first.result_id))
        since = (await job_of(store, job_id)).held_at
        clock.pass_(60)
        again = await store.hold(wish(last.result_id, by="bob", reason="other"))
        assert isinstance(again, JobView)
        assert (again.job.held_at, again.job.held_by, again.job.hold_reason) == (since, "ann", "audit")
        for _ in range(2):
            released = await store.hold(wish(first.result_id, held=False))
            assert isinstance(released, JobView)
            assert (released.job.held_at, released.job.held_by, released.job.hold_reason) == (None, None, None)

    any_bed.play(scene)


def test_a_result_of_a_running_job_is_held_beyond_its_end(bed: StoreUnderTest) -> None:
    """A partial can be held while its job works; nothing about the job's run changes."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        claim = await make.partial(1)
        job_id = claim.lease.job_id
        before = await job_of(store, job_id)
        await store.hold(wish(await result_of(store, job_id)))
        after = await job_of(store, job_id)
        assert (after.event_seq, after.updated_at, after.status) == (before.event_seq, before.updated_at, before.status)
        assert after.held_at is not None
        assert bed.check(clock) == []

    bed.play(scene)


def test_what_is_gone_cannot_be_held(any_bed: StoreUnderTest) -> None:
    """A tombstone says when it went, an unknown id nothing; neither is held. Releasing a tombstone's job is fine."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        job_id = await make.completed(1)
        result_id = await result_of(store, job_id)
        clock.pass_(8 * DAY)
        await apply_retention(store, WEEK)
        assert await store.hold(wish(result_id)) == ResultGone(job_id, clock.now())
        assert (await job_of(store, job_id)).held_at is None
        assert await store.hold(wish("nobody")) is None
        assert await store.hold(wish(result_id, held=False)) is not None

    any_bed.play(scene)


def test_another_org_holds_nothing(any_bed: StoreUnderTest) -> None:
    """The id of somebody else's result is as good as none."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        job_id = await make.completed(0)
        result_id = await result_of(store, job_id)
        assert await store.hold(HoldRequest(org_id="org-b", result_id=result_id)) is None
        await store.hold(wish(result_id))
        assert await store.hold(HoldRequest(org_id="org-b", result_id=result_id, held=False)) is None
        assert (await job_of(store, job_id)).held_at is not None

    any_bed.play(scene)


def test_what_is_held_is_listed_the_last_first(any_bed: StoreUnderTest) -> None:
    """Page by page, of one org alone."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        jobs = [await make.completed(0) for _ in range(3)]
        for job_id in jobs:
            await store.hold(wish(await result_of(store, job_id)))
            clock.pass_(1)
        tenant = store.tenant("org-a")
        first = await tenant.held(before=None, limit=2)
        assert [view.job.job_id for view in first] == [jobs[2], jobs[1]]
        last = first[-1].job
        assert last.held_at is not None
        rest = await tenant.held(before=(last.held_at, last.job_id), limit=2)
        assert [view.job.job_id for view in rest] == [jobs[0]]

    any_bed.play(scene)


@pytest.mark.parametrize("seed", range(3))
def test_a_hold_and_a_clean_up_at_once_end_one_way_or_the_other(bed: StoreUnderTest, seed: int) -> None:
    """Either it is held and everything is there, or it is gone and whoever wanted it is told so; never half of each."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        jobs = [await make.completed(1) for _ in range(12)]
        results = {job_id: await result_of(store, job_id) for job_id in jobs}
        clock.pass_(1)
        other = await bed.opened(clock)

        async def held(place: int, job_id: str) -> tuple[str, object]:
            await asyncio.sleep(0.001 * ((place * 7 + seed * 5) % 12))
            return job_id, await store.hold(wish(results[job_id]))

        try:
            cleaning = asyncio.create_task(apply_retention(other, AT_ONCE))
            answers = dict(await asyncio.gather(*(held(*one) for one in enumerate(jobs))))
            await cleaning
        finally:
            await other.close()
        for job_id, answer in answers.items():
            kept = await store.tenant("org-a").results(job_id)
            assert len(kept) == (2 if isinstance(answer, JobView) else 0), answer

    bed.play(scene)
