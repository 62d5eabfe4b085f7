"""Jobs that wait for their time: they start then and not before, in line with others, or are canceled as too late."""

from typing import Any

from msgspec.structs import replace

from langlauf.domain.attempt import Backoff
from langlauf.domain.instant import Instant, after
from langlauf.domain.job import TOO_LATE, Accepted, JobRecord, NewJob, QueueFull
from langlauf.domain.outcome import Retry
from langlauf.domain.read_models import JobFilter, SweptJob
from langlauf.domain.state import Status
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.stores import SetClock
from tests.support.submissions import ORG, accept, cancel_request, claim, event_types, new_job, read_job

_BACKOFF = Backoff()


def _later(clock: SetClock, seconds: float | None = None, *, start_by: float | None = None, **rules: Any) -> NewJob:
    """A submission that waits for so many seconds, and not longer than until `start_by`."""
    new = new_job(clock, **rules)
    times = {
        "run_at": None if seconds is None else after(clock.now(), seconds),
        "start_by": None if start_by is None else after(clock.now(), start_by),
    }
    return replace(new, job=replace(new.job, **times))


async def _accept(store: Store, new: NewJob) -> JobRecord:
    submitted = await store.submit(new)
    assert isinstance(submitted, Accepted), submitted
    return submitted.job


async def _waiting(store: Store) -> tuple[int, int]:
    """How many jobs are in line, and how many wait for their time."""
    backlog = await store.backlog(orgs=False)
    return sum(backlog.waiting.values()), sum(backlog.scheduled.values())


async def _sweep(store: Store) -> list[SweptJob]:
    return await store.sweep(grace_seconds=5, backoff=_BACKOFF)


def test_a_job_starts_at_its_time_and_not_before(harness: Harness) -> None:
    """To the microsecond; until then it holds no slot and no claim sees it."""

    async def body(store: Store, clock: SetClock) -> None:
        job = await _accept(store, _later(clock, 60))
        assert (job.run_at, job.status) == (after(clock.now(), 60), Status.QUEUED)
        assert await _waiting(store) == (0, 1)
        clock.time = (job.run_at or 0) - 1
        assert await claim(store, 2) == []
        clock.time += 1
        [made] = await claim(store, 2)
        assert (made.lease.job_id, made.started_at) == (job.job_id, job.run_at)
        assert await _waiting(store) == (0, 0)
        assert await event_types(store, job.job_id) == ["job.queued", "job.running"]
        assert (await read_job(store, job.job_id)).job.run_at == job.run_at

    harness.run(body)


def test_a_time_that_has_passed_is_now(harness: Harness) -> None:
    """The job keeps the time that it was given."""

    async def body(store: Store, clock: SetClock) -> None:
        job = await _accept(store, _later(clock, -1))
        assert await _waiting(store) == (1, 0)
        [made] = await claim(store)
        assert made.lease.job_id == job.job_id
        assert (await read_job(store, job.job_id)).job.run_at == job.run_at

    harness.run(body)


def test_jobs_enter_the_line_behind_what_waits_there_in_the_order_of_their_times(harness: Harness) -> None:
    """Urgent ones before the others, as everywhere."""

    async def body(store: Store, clock: SetClock) -> None:
        third = await _accept(store, _later(clock, 30))
        second = await _accept(store, _later(clock, 20))
        urgent = await _accept(store, _later(clock, 40, priority_class="expedite"))
        first = await accept(store, clock)
        clock.pass_(60)
        claims = await claim(store, 9)
        order = [urgent.job_id, first.job_id, second.job_id, third.job_id]
        assert sorted(made.lease.job_id for made in claims) == sorted(order)
        tickets = {job_id: (await read_job(store, job_id)).job.ticket for job_id in order}
        assert tickets[first.job_id] < tickets[second.job_id] < tickets[third.job_id]
        assert min(tickets.values()) > 0

    harness.run(body)


def test_jobs_that_wait_for_their_time_count_against_quotas(harness: Harness) -> None:
    """They take places of the org, of the analysis and of all, as those in line do."""

    async def body(store: Store, clock: SetClock) -> None:
        await _accept(store, _later(clock, 60))
        await accept(store, clock)
        for limit, scope in (
            ("max_waiting_org", "org"),
            ("max_waiting_all", "all"),
            ("max_waiting_analysis", "analysis"),
        ):
            assert await store.submit(_later(clock, 60, **{limit: 2})) == QueueFull(scope, 2)  # type: ignore[arg-type]
            assert await store.submit(new_job(clock, **{limit: 2})) == QueueFull(scope, 2)  # type: ignore[arg-type]
        clock.pass_(60)
        assert len(await claim(store, 1)) == 1
        assert isinstance(await store.submit(_later(clock, 60, max_waiting_org=2)), Accepted)

    harness.run(body)


def test_a_job_that_waits_for_its_time_can_be_canceled(harness: Harness) -> None:
    """It leaves no count behind, and the lane finds out when the next one is due."""

    async def body(store: Store, clock: SetClock) -> None:
        early = await _accept(store, _later(clock, 10))
        late = await _accept(store, _later(clock, 20))
        view = await store.cancel(cancel_request(early.job_id))
        assert view is not None
        assert view.job.status is Status.CANCELED
        assert await _waiting(store) == (0, 1)
        clock.pass_(15)
        assert await claim(store, 1) == []
        assert await store.next_start() == late.run_at
        clock.pass_(5)
        [made] = await claim(store, 1)
        assert made.lease.job_id == late.job_id

    harness.run(body)


def test_lists_and_counts_show_them_as_queued(harness: Harness) -> None:
    """Whatever their time is."""

    async def body(store: Store, clock: SetClock) -> None:
        later = await _accept(store, _later(clock, 60))
        now = await accept(store, clock)
        tenant = store.tenant(ORG)
        assert await tenant.counts(most=100) == {Status.QUEUED: 2}
        page = await tenant.jobs(JobFilter(status=Status.QUEUED, limit=10))
        assert {view.job.job_id for view in page.views} == {later.job_id, now.job_id}
        assert [one.first_ticket for one in await tenant.ranks()] == [now.ticket]
        assert (await store.depth()).waiting == 2

    harness.run(body)


def test_a_job_that_did_not_start_in_time_is_canceled_by_the_next_claim(harness: Harness) -> None:
    """At its last moment it is too late, and it takes no slot of another."""

    async def body(store: Store, clock: SetClock) -> None:
        late = await _accept(store, _later(clock, start_by=30))
        other = await accept(store, clock, org="org-b")
        clock.time = late.start_by or 0
        [made] = await claim(store, 1)
        assert made.lease.job_id == other.job_id
        job = (await read_job(store, late.job_id)).job
        assert (job.status, job.canceled_by, job.cancel_reason) == (Status.CANCELED, "system", TOO_LATE)
        assert await event_types(store, late.job_id) == ["job.queued", "job.canceled"]
        assert await _waiting(store) == (0, 0)

    harness.run(body)


def test_the_sweep_does_the_same_where_nobody_claims(harness: Harness) -> None:
    """It cancels what is too late, and lets into the line what may start."""

    async def body(store: Store, clock: SetClock) -> None:
        late = await _accept(store, _later(clock, 10, start_by=30))
        due = await _accept(store, _later(clock, 20, start_by=90))
        clock.pass_(20)
        assert await _sweep(store) == []
        assert await _waiting(store) == (2, 0)
        clock.pass_(10)
        assert await _sweep(store) == [SweptJob(ORG, late.job_id, "canceled")]
        assert await _waiting(store) == (1, 0)
        [made] = await claim(store, 2)
        assert made.lease.job_id == due.job_id

    harness.run(body)


def test_a_job_that_started_in_time_is_left_alone(harness: Harness) -> None:
    """Also where it waits for a retry when the time comes."""

    async def body(store: Store, clock: SetClock) -> None:
        job = await _accept(store, _later(clock, start_by=30))
        [made] = await claim(store)
        assert await store.record(made.lease, Retry(code="timeout", message="slow", delay_seconds=50))
        clock.pass_(40)
        assert await _sweep(store) == []
        assert await claim(store) == []
        clock.pass_(10)
        [again] = await claim(store)
        assert (again.lease.job_id, again.lease.attempt) == (job.job_id, 2)

    harness.run(body)


def test_the_next_start_is_the_first_of_all_times(harness: Harness) -> None:
    """Of jobs that wait for theirs, of retries, and of what will be too late; what has passed is no more."""

    async def body(store: Store, clock: SetClock) -> None:
        start = clock.now()

        def at(seconds: float) -> Instant:
            return after(start, seconds)

        assert await store.next_start() is None
        await _accept(store, _later(clock, 50))
        assert await store.next_start() == at(50)
        await _accept(store, _later(clock, 70, start_by=80, org="org-b"))
        await _accept(store, _later(clock, start_by=40, org="org-c"))
        assert await store.next_start() == at(40)
        await accept(store, clock, org="org-d")
        for made in await claim(store, 9):
            delay = 30 - (clock.now() - start) / 1_000_000
            await store.record(made.lease, Retry(code="timeout", message="slow", delay_seconds=delay))
        assert await store.next_start() == at(30)
        clock.time = at(45)
        assert await store.next_start() == at(50)
        clock.time = at(50)
        assert await store.next_start() == at(70)

    harness.run(body)


def test_many_due_jobs_are_taken_in_bounded_steps(harness: Harness) -> None:
    """One claim lets a part of them into the line; all of them start, each once."""

    async def body(store: Store, clock: SetClock) -> None:
        made = {(await _accept(store, _later(clock, 10, org=f"org-{number % 3}"))).job_id for number in range(330)}
        clock.pass_(10)
        seen: list[str] = []
        while claims := await claim(store, 50):
            seen += [one.lease.job_id for one in claims]
        assert (len(seen), set(seen)) == (len(made), made)

    harness.run(body)
