"""Pauses: nothing of a paused analysis starts, for all orgs or for one, and nothing accepted is lost."""

import asyncio
import random

import pytest

from langlauf.domain.attempt import Backoff, Claim, ClaimRequest
from langlauf.domain.outcome import Completed, Released, Retry
from langlauf.domain.schedule import ALL_ORGS, PauseRequest, ResumeRequest
from langlauf.domain.state import Status
from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.protocol import Store
from langlauf.store.sqlite.driver import SqliteStore
from tests.store_contract.conftest import Harness
from tests.support.standing import Standing
from tests.support.store_kinds import StoreUnderTest
from tests.support.stores import LEASE_SECONDS, SetClock
from tests.support.submissions import accept, claim, event_types, new_job, read_job

BOTH = ("survey", "census")


def _pause(analysis: str = "survey", org: str = ALL_ORGS, until: int | None = None) -> PauseRequest:
    return PauseRequest(analysis=analysis, org_id=org, because="the source is down", paused_until=until, paused_by="me")


def _resume(analysis: str = "survey", org: str = ALL_ORGS) -> ResumeRequest:
    return ResumeRequest(analysis=analysis, org_id=org)


async def _claimed(store: Store, slots: int = 100) -> list[tuple[str, str]]:
    made = await claim(store, slots, analyses=BOTH)
    return sorted((one.lease.org_id, one.analysis) for one in made)


def test_nothing_of_a_paused_analysis_starts(harness: Harness) -> None:
    """Others start, submissions are accepted, and all of it starts once it is resumed."""

    async def body(store: Store, clock: SetClock) -> None:
        before = await accept(store, clock)
        held = await store.pause(_pause())
        after = await accept(store, clock)
        await accept(store, clock, analysis="census")
        assert (held.org_id, held.analysis, held.because, held.paused_by) == ("", "survey", "the source is down", "me")
        assert await _claimed(store) == [("org-a", "census")]
        assert await store.pauses() == [held]
        assert await store.resume(_resume())
        assert await store.pauses() == []
        made = await claim(store, 10)
        assert [one.lease.job_id for one in made] == [before.job_id, after.job_id]
        assert await event_types(store, after.job_id) == ["job.queued", "job.running"]

    harness.run(body)


def test_a_pause_for_one_org_holds_back_that_org_only(harness: Harness) -> None:
    """Its jobs of other analyses start, and other orgs do not notice."""

    async def body(store: Store, clock: SetClock) -> None:
        await store.pause(_pause(org="org-a"))
        for org in ("org-a", "org-b"):
            for analysis in BOTH:
                await accept(store, clock, org=org, analysis=analysis)
        assert await _claimed(store) == [("org-a", "census"), ("org-b", "census"), ("org-b", "survey")]
        assert await _claimed(store) == []
        await store.pause(_pause())
        await store.resume(_resume(org="org-a"))
        assert await _claimed(store) == [], "the pause for all orgs goes on"
        await store.resume(_resume())
        assert await _claimed(store) == [("org-a", "survey")]

    harness.run(body)


def test_orgs_that_are_paused_take_no_slot_and_no_turn_of_others(harness: Harness) -> None:
    """Many paused orgs at the head of the queue; the others get every slot, and a paused one is not owed any later."""

    async def body(store: Store, clock: SetClock) -> None:
        for number in range(12):
            org = f"paused-{number}"
            await store.pause(_pause(org=org))
            for _ in range(3):
                await accept(store, clock, org=org)
        for _ in range(20):
            await accept(store, clock, org="org-a")
            await accept(store, clock, org="org-b")
        starts = [org for _ in range(5) for org, _ in await _claimed(store, 4)]
        assert (starts.count("org-a"), starts.count("org-b"), len(starts)) == (10, 10, 20)
        await store.resume(_resume(org="paused-0"))
        later = [org for _ in range(3) for org, _ in await _claimed(store, 2)]
        assert later.count("paused-0") <= 3
        assert {"org-a", "org-b"} <= set(later), "time in a pause is not saved up"

    harness.run(body)


def test_jobs_that_had_started_wait_too(harness: Harness) -> None:
    """What runs goes on; a retry, a released and a lost job do not continue before the end of the pause."""

    async def body(store: Store, clock: SetClock) -> None:
        jobs = [await accept(store, clock, max_retries=3) for _ in range(4)]
        running, failing, released, lost = await claim(store, 4)
        await store.pause(_pause())
        assert await store.record(failing.lease, Retry(code="timeout", message="slow", delay_seconds=0))
        assert await store.record(released.lease, Released())
        renewed = await store.renew([running.lease], lease_seconds=LEASE_SECONDS * 3)
        assert renewed[0].held
        clock.pass_(LEASE_SECONDS + 1)
        assert [one.job_id for one in await store.sweep(grace_seconds=5, backoff=Backoff(1, 60))] == [lost.lease.job_id]
        assert await claim(store, 10) == []
        assert await store.record(running.lease, Completed(result_id="r-1", payload="{}"))
        assert (await read_job(store, jobs[0].job_id)).job.status is Status.COMPLETED
        await store.resume(_resume())
        assert {one.lease.job_id for one in await claim(store, 10)} == {one.job_id for one in jobs[1:]}

    harness.run(body)


def test_a_lost_job_of_a_paused_analysis_keeps_no_slot(harness: Harness) -> None:
    """Before the sweep a slot is kept for a lost job, but not for one that may not go on."""

    async def body(store: Store, clock: SetClock) -> None:
        await accept(store, clock)
        await claim(store, 1)
        await accept(store, clock, analysis="census")
        await store.pause(_pause())
        clock.pass_(LEASE_SECONDS + 1)
        made = await claim(store, 1, analyses=BOTH, max_running=1)
        assert [one.analysis for one in made] == ["census"]

    harness.run(body)


def test_a_pause_ends_by_itself(harness: Harness) -> None:
    """At its time, without a request and without a sweep."""

    async def body(store: Store, clock: SetClock) -> None:
        await accept(store, clock)
        until = clock.now() + 60_000_000
        held = await store.pause(_pause(until=until))
        assert held.paused_until == until
        clock.pass_(59.9)
        assert await claim(store) == []
        clock.pass_(0.1)
        assert len(await claim(store)) == 1
        assert not await store.resume(_resume()), "it was over"

    harness.run(body)


def test_a_second_pause_changes_reason_and_end(harness: Harness) -> None:
    """Since when stays, while the pause holds; after its end it is a new one."""

    async def body(store: Store, clock: SetClock) -> None:
        first = await store.pause(_pause(until=clock.now() + 60_000_000))
        clock.pass_(10)
        second = await store.pause(_pause(until=clock.now() + 20_000_000))
        assert (second.paused_at, second.paused_until) == (first.paused_at, clock.now() + 20_000_000)
        clock.pass_(30)
        third = await store.pause(_pause())
        assert (third.paused_at, third.paused_until) == (clock.now(), None)
        assert await store.resume(_resume())
        assert not await store.resume(_resume())

    harness.run(body)


def test_a_standing_claim_respects_a_pause(harness: Harness) -> None:
    """A worker that waits for work is not handed a job with the transaction that accepts it."""

    async def body(store: Store, clock: SetClock) -> None:
        request = ClaimRequest(
            worker_id="w", slots=5, analyses=BOTH, lease_seconds=LEASE_SECONDS, max_running=100, limits={}
        )
        standing = Standing(store, request)
        await store.pause(_pause())
        job = await accept(store, clock)
        other = await accept(store, clock, analysis="census")
        assert [one.lease.job_id for one in await standing.end()] == [other.job_id]
        assert (await read_job(store, job.job_id)).job.status is Status.QUEUED

    harness.run(body)


def test_other_processes_see_a_pause_at_once(shared: Harness) -> None:
    """The next claim of any process, without a wait."""

    async def body(stores: list[Store], clock: SetClock) -> None:
        first, second = stores
        for _ in range(4):
            await accept(first, clock)
        assert len(await claim(second)) == 1
        await first.pause(_pause())
        assert await claim(second) == []
        await second.resume(_resume())
        assert len(await claim(first)) == 1

    shared.run_many(2, body)


async def _opened(bed: StoreUnderTest) -> Store:
    """The store with its own clock: races are judged by its time."""
    if bed.kind == "postgres":
        return await PostgresStore.open(bed.place, hints=Hints())
    return await SqliteStore.open(bed.place, hints=Hints())


@pytest.mark.parametrize("rounds", [5, 100])
def test_no_job_starts_after_a_pause(bed: StoreUnderTest, rounds: int) -> None:
    """Processes submit and claim all the time while another one pauses and resumes: no start is later than the pause.

    Judged by the store's own clock: an attempt that begins at or after the instant of a pause and before its end is
    one too many. At the end everything that was accepted has started.
    """
    draw = random.Random(rounds)

    async def worker(store: Store, starts: list[Claim], over: asyncio.Event) -> None:
        while not over.is_set():
            starts += await claim(store, 3, max_running=100_000)
            await asyncio.sleep(0)

    async def submitter(store: Store, accepted: list[str], over: asyncio.Event) -> None:
        clock = SetClock()
        while not over.is_set():
            accepted.append((await accept(store, clock)).job_id)
            await asyncio.sleep(draw.uniform(0, 0.004))

    async def main() -> tuple[list[tuple[int, int]], list[Claim], list[str]]:
        stores = [await _opened(bed) for _ in range(3)]
        starts: list[Claim] = []
        accepted: list[str] = []
        spans: list[tuple[int, int]] = []
        over = asyncio.Event()
        tasks = [asyncio.create_task(worker(store, starts, over)) for store in stores[:2]]
        tasks.append(asyncio.create_task(submitter(stores[0], accepted, over)))
        try:
            for number in range(rounds):
                target = stores[number % 3]
                await asyncio.sleep(draw.uniform(0, 0.01))
                held = await target.pause(_pause(org=ALL_ORGS if number % 2 else "org-a"))
                await asyncio.sleep(draw.uniform(0, 0.02))
                mark = await target.pause(_pause("mark"))  # the time of the store itself, before the end
                assert await target.resume(_resume("mark"))
                assert await target.resume(_resume(org=held.org_id))
                spans.append((held.paused_at, mark.paused_at))
            over.set()
            await asyncio.gather(*tasks)
            starts += await claim(stores[0], 100_000, max_running=100_000)
        finally:
            over.set()
            await asyncio.gather(*tasks, return_exceptions=True)
            for store in stores:
                await store.close()
        return spans, starts, accepted

    spans, starts, accepted = asyncio.run(main())
    late = [
        (one.lease.job_id, one.started_at - began)
        for one in starts
        for began, ended in spans
        if began < one.started_at <= ended
    ]
    assert late == []
    assert sorted(one.lease.job_id for one in starts) == sorted(accepted)


def test_a_submission_while_paused_is_still_a_duplicate(harness: Harness) -> None:
    """Waiting jobs count as before."""

    async def body(store: Store, clock: SetClock) -> None:
        await store.pause(_pause())
        await accept(store, clock, query="Bern")
        assert type(await store.submit(new_job(clock, query="Bern"))).__name__ == "Duplicate"

    harness.run(body)
