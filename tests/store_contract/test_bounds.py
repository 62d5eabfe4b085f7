"""The bounds of one job: past them progress and partials are not stored, one event says so, and the end has room."""

import json

from langlauf.clock import new_id
from langlauf.domain.attempt import Checkpoint, Claim, JobBounds, Partial, Progress, WriteResult
from langlauf.domain.event import Event
from langlauf.domain.outcome import Completed, Released, Retry
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.stores import LEASE_SECONDS, SetClock
from tests.support.submissions import ORG, cancel_request, claim, event_types, read_job, started

#: The sixth event is the last that tells of progress; the first two are those of the start.
FEW_EVENTS = JobBounds(events=10)
#: Two of the partials below.
FEW_BYTES = JobBounds(partial_bytes=20)


def _partial(percent: int, bounds: JobBounds, payload: str = '{"found":1}'[:10]) -> Partial:
    return Partial(result_id=new_id(), payload=payload, percent=percent, step=f"at {percent}", bounds=bounds)


async def _news(store: Store, made: Claim, percents: range, bounds: JobBounds) -> list[WriteResult]:
    return [await store.record(made.lease, Progress(percent=one, step=f"at {one}", bounds=bounds)) for one in percents]


async def _limits(store: Store, made: Claim) -> list[tuple[str, dict[str, object]]]:
    """The events that tell of a bound."""
    events: list[Event] = await store.tenant(ORG).events(made.lease.job_id, after=0, limit=100)
    told = [(str(event.event_type), json.loads(event.payload_json)) for event in events]
    return [(kind, facts) for kind, facts in told if "limit" in facts]


def test_the_last_progress_that_is_stored_says_so(harness: Harness) -> None:
    """Progress and partials past the bound change nothing, and their attempt hears of it."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        answers = await _news(store, made, range(1, 7), FEW_EVENTS)
        assert answers == [WriteResult.WRITTEN] * 3 + [WriteResult.EVENTS_FULL] * 3
        before = await read_job(store, made.lease.job_id)
        assert (before.job.progress_percent, before.job.step, before.job.event_seq) == (4, "at 4", 6)
        assert before.job.limit_reached == "events"
        clock.pass_(1)
        assert await store.record(made.lease, _partial(50, FEW_EVENTS)) is WriteResult.EVENTS_FULL
        # A bound that was raised since does not let it go on: the log has said that nothing follows.
        assert await store.record(made.lease, Progress(percent=60)) is WriteResult.EVENTS_FULL
        assert await read_job(store, made.lease.job_id) == before
        assert await store.tenant(ORG).results(made.lease.job_id) == []
        notice = {"progress_percent": 4, "step": "at 4", "limit": "events"}
        assert await _limits(store, made) == [("job.progress", notice)]

    harness.run(body)


def test_past_the_bound_everything_that_ends_is_stored(harness: Harness) -> None:
    """Chunks, retries, losses, cancels and the final result: more than the bound has room for, where it must be."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        await _news(store, made, range(1, 9), FEW_EVENTS)
        assert await store.record(made.lease, Checkpoint(key="k", payload="1")) is WriteResult.WRITTEN
        assert await store.record(made.lease, Retry(code="timeout", message="slow", delay_seconds=0, timed_out=True))
        for _ in range(3):
            [made] = await claim(store)
            assert await store.record(made.lease, Progress(percent=70, bounds=FEW_EVENTS)) is WriteResult.EVENTS_FULL
            assert await store.record(made.lease, Released())
        [made] = await claim(store)
        await store.cancel(cancel_request(made.lease.job_id))
        assert await store.record(made.lease, Completed(result_id="final", payload='{"n":1}'))
        job = (await read_job(store, made.lease.job_id)).job
        assert (job.status, job.result_id, job.progress_percent) == ("completed", "final", 100)
        kinds = await event_types(store, made.lease.job_id)
        assert kinds[6:] == [
            *("job.timeout", "job.retry_scheduled"),
            *("job.attempt_started", "job.released") * 3,
            *("job.attempt_started", "job.cancel_requested", "job.completed"),
        ]
        assert len(await _limits(store, made)) == 1

    harness.run(body)


def test_a_partial_that_does_not_fit_is_progress_without_a_snapshot(harness: Harness) -> None:
    """Those after it change nothing, however small; progress goes on, and the final result is stored."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        answers = [await store.record(made.lease, _partial(percent, FEW_BYTES)) for percent in (10, 20, 30)]
        assert answers == [WriteResult.WRITTEN, WriteResult.WRITTEN, WriteResult.PARTIALS_FULL]
        job = (await read_job(store, made.lease.job_id)).job
        assert (job.partial_count, job.partial_bytes, job.progress_percent, job.step) == (2, 20, 30, "at 30")
        assert (job.limit_reached, job.status, job.event_seq) == ("partials", "partial", 5)
        assert await store.record(made.lease, _partial(40, JobBounds(), payload="1")) is WriteResult.PARTIALS_FULL
        assert (await read_job(store, made.lease.job_id)).job == job
        assert await store.record(made.lease, Progress(percent=50, bounds=FEW_BYTES)) is WriteResult.PARTIALS_FULL
        results = await store.tenant(ORG).results(made.lease.job_id)
        assert [(one.result_kind, one.result_seq) for one in results] == [("partial", 1), ("partial", 2)]
        assert results[-1].result_id == job.result_id
        notice = {"progress_percent": 30, "step": "at 30", "limit": "partials"}
        assert await _limits(store, made) == [("job.progress", notice)]
        assert await store.record(made.lease, Completed(result_id="final", payload='"' + "x" * 100 + '"'))
        assert (await store.tenant(ORG).results(made.lease.job_id))[-1].result_seq == 3

    harness.run(body)


def test_one_event_for_each_bound(harness: Harness) -> None:
    """A job that reached the bound of its partials may reach that of its events as well."""

    async def body(store: Store, clock: SetClock) -> None:
        bounds = JobBounds(events=10, partial_bytes=5)
        made = await started(store, clock)
        assert await store.record(made.lease, _partial(1, bounds)) is WriteResult.PARTIALS_FULL
        answers = await _news(store, made, range(2, 7), bounds)
        assert answers == [WriteResult.PARTIALS_FULL] * 2 + [WriteResult.EVENTS_FULL] * 3
        assert (await read_job(store, made.lease.job_id)).job.limit_reached == "events"
        assert [facts["limit"] for _, facts in await _limits(store, made)] == ["partials", "events"]

    harness.run(body)


def test_a_partial_can_reach_the_bound_of_events(harness: Harness) -> None:
    """It is then progress like any other that is the last, without its snapshot."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        answers = [await store.record(made.lease, _partial(percent, FEW_EVENTS)) for percent in range(1, 7)]
        assert answers == [WriteResult.WRITTEN] * 3 + [WriteResult.EVENTS_FULL] * 3
        job = (await read_job(store, made.lease.job_id)).job
        assert (job.partial_count, job.progress_percent, job.limit_reached) == (3, 4, "events")
        assert len(await store.tenant(ORG).results(made.lease.job_id)) == 3
        assert [kind for kind, _ in await _limits(store, made)] == ["job.progress"]

    harness.run(body)


def test_a_lost_lease_is_refused_past_the_bound_as_well(harness: Harness) -> None:
    """That nothing would be stored is not said to an attempt that may not write."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        await _news(store, made, range(1, 7), FEW_EVENTS)
        clock.pass_(LEASE_SECONDS)
        assert await store.record(made.lease, Progress(percent=60, bounds=FEW_EVENTS)) is WriteResult.REFUSED
        assert await store.record(made.lease, _partial(60, FEW_EVENTS)) is WriteResult.REFUSED

    harness.run(body)


def test_all_that_a_partial_stores_is_counted(harness: Harness) -> None:
    """Its payload in bytes, wherever that is kept, its summary and its views."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        write = Partial(result_id=new_id(), payload='"ä"', summary='"s"', views="[]")
        assert await store.record(made.lease, write)
        assert await store.record(made.lease, write)  # again, as after a lost answer: it is counted once
        assert (await read_job(store, made.lease.job_id)).job.partial_bytes == 4 + 3 + 2

    harness.run(body)
