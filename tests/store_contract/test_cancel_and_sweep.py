"""Stopping jobs and taking them back from workers that vanished."""

from typing import Any

from msgspec.json import decode

from langlauf.domain.attempt import Backoff, Claim, Partial, Progress
from langlauf.domain.errors import sentence_text
from langlauf.domain.outcome import (
    CANCEL_MARGIN,
    MOST_CRASHES,
    MOST_LOST_LEASES,
    Canceled,
    Completed,
    Crashed,
    Retry,
)
from langlauf.domain.state import Status
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.stores import LEASE_SECONDS, SetClock
from tests.support.submissions import ORG, accept, cancel_request, claim, event_types, read_job, started

NO_BACKOFF = Backoff(0, 0)
GRACE = 5.0


async def _sentences(store: Store, job_id: str) -> list[tuple[str, Any]]:
    """Return the sentences of Langlauf in the events of a job."""
    events = await store.tenant(ORG).events(job_id, after=0, limit=1_000)
    facts = [(str(event.event_type), decode(event.payload_json).get("sentence")) for event in events]
    return [(kind, said) for kind, said in facts if said]


async def _sweep(store: Store) -> list[str]:
    return [one.outcome for one in await store.sweep(grace_seconds=GRACE, backoff=NO_BACKOFF)]


def test_a_waiting_job_is_canceled_at_once(harness: Harness) -> None:
    """queued becomes canceled with who, why and when, and is never claimed."""

    async def body(store: Store, clock: SetClock) -> None:
        job = await accept(store, clock)
        view = await store.cancel(cancel_request(job.job_id))
        assert view is not None
        assert (view.job.status, view.job.canceled_by, view.job.cancel_reason) == (
            Status.CANCELED,
            "user",
            "not needed",
        )
        assert view.job.canceled_at == view.job.finished_at == clock.now()
        assert await claim(store) == []
        assert (await store.depth()).waiting == 0
        assert await event_types(store, job.job_id) == ["job.queued", "job.canceled"]

    harness.run(body)


def test_a_running_job_is_asked_to_stop_once(harness: Harness) -> None:
    """The wish is kept in the store; asking again changes nothing."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        first = await store.cancel(cancel_request(made.lease.job_id))
        clock.pass_(1)
        assert await store.cancel(cancel_request(made.lease.job_id)) == first
        assert first is not None
        assert (first.job.status, first.job.cancel_requested_at is not None) == (Status.RUNNING, True)
        assert await event_types(store, made.lease.job_id) == ["job.queued", "job.running", "job.cancel_requested"]

    harness.run(body)


def test_a_job_between_attempts_is_canceled_at_once(harness: Harness) -> None:
    """Waiting for a retry, nobody has to agree."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Retry(code="timeout", message="slow", delay_seconds=60))
        view = await store.cancel(cancel_request(made.lease.job_id))
        assert view is not None
        assert (view.job.status, view.job.next_attempt_at) == (Status.CANCELED, None)

    harness.run(body)


def test_a_job_of_a_dead_worker_is_canceled_at_once(harness: Harness) -> None:
    """An expired lease protects nothing."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        clock.pass_(LEASE_SECONDS)
        view = await store.cancel(cancel_request(made.lease.job_id))
        assert view is not None
        assert (view.job.status, view.lease_expires_at) == (Status.CANCELED, None)

    harness.run(body)


def test_an_unknown_or_foreign_job_cannot_be_canceled(harness: Harness) -> None:
    """Another org's job does not exist for the caller, and stays as it is."""

    async def body(store: Store, clock: SetClock) -> None:
        job = await accept(store, clock)
        assert await store.cancel(cancel_request(job.job_id, org="org-b")) is None
        assert await store.cancel(cancel_request("no-such-job")) is None
        assert (await read_job(store, job.job_id)).job.status is Status.QUEUED

    harness.run(body)


def test_a_lost_job_goes_on_without_counting_as_a_failure(harness: Harness) -> None:
    """The sweep notes the loss; the job keeps its state, its snapshots and its retries."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Partial(result_id="r-1", payload="{}"))
        clock.pass_(LEASE_SECONDS)
        assert await _sweep(store) == ["lost"]
        assert await _sweep(store) == []
        job = (await read_job(store, made.lease.job_id)).job
        assert (job.status, job.retry_count, job.error_count, job.lost_count) == (Status.PARTIAL, 0, 0, 1)
        [again] = await claim(store)
        assert again.lease.attempt == 2
        events = await event_types(store, job.job_id)
        assert events[-2:] == ["job.lease_lost", "job.attempt_started"]

    harness.run(body)


def test_a_job_that_loses_too_many_workers_is_given_up(harness: Harness) -> None:
    """It may be what kills them: after ten losses it fails with worker_lost."""

    async def body(store: Store, clock: SetClock) -> None:
        await accept(store, clock)
        outcomes = []
        for _ in range(MOST_LOST_LEASES):
            [made] = await claim(store)
            clock.pass_(LEASE_SECONDS)
            outcomes += await _sweep(store)
        assert outcomes == ["lost"] * 9 + ["failed"]
        job = (await read_job(store, made.lease.job_id)).job
        assert (job.status, job.error_code, job.lost_count) == (Status.FAILED, "worker_lost", 10)
        assert job.error_message == sentence_text("worker_vanished", times=10)
        assert decode(job.error_meta or "") == {"sentence": {"name": "worker_vanished", "times": 10}}

    harness.run(body)


def test_a_job_whose_worker_vanished_while_it_was_asked_to_stop_is_canceled(harness: Harness) -> None:
    """Somebody wished it: nobody has to compute it again."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        await store.cancel(cancel_request(made.lease.job_id))
        clock.pass_(LEASE_SECONDS)
        assert await _sweep(store) == ["canceled"]
        job = (await read_job(store, made.lease.job_id)).job
        assert (job.status, job.canceled_by) == (Status.CANCELED, "user")

    harness.run(body)


def test_a_canceled_attempt_that_does_not_end_loses_its_live_lease(harness: Harness) -> None:
    """Its worker beats and does not stop: after the grace and a margin the sweep ends the job, and refuses the rest."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        await store.cancel(cancel_request(made.lease.job_id))
        clock.pass_(GRACE + CANCEL_MARGIN - 0.001)
        [renewal] = await store.renew([made.lease], lease_seconds=60)
        assert renewal.held
        assert await _sweep(store) == []
        clock.pass_(0.001)
        assert await _sweep(store) == ["canceled"]
        assert await _sweep(store) == []
        view = await read_job(store, made.lease.job_id)
        assert (view.job.status, view.job.canceled_by, view.job.cancel_reason) == (
            Status.CANCELED,
            "user",
            "not needed",
        )
        assert view.lease_expires_at is None
        await _is_refused_everything(store, made)
        [*_, last] = await store.tenant(ORG).events(made.lease.job_id, after=0, limit=10)
        assert (last.event_type, last.actor_type) == ("job.canceled", "system")

    harness.run(body)


async def _is_refused_everything(store: Store, made: Claim) -> None:
    """What a worker that wakes up after the end tries: nothing of it counts."""
    before = await read_job(store, made.lease.job_id)
    writes = (Progress(percent=50), Completed(result_id="late", payload="{}"), Canceled(by="worker", reason="late"))
    for write in writes:
        assert not await store.record(made.lease, write)
    [renewal] = await store.renew([made.lease], lease_seconds=60)
    assert not renewal.held
    assert await read_job(store, made.lease.job_id) == before


def test_a_canceled_attempt_may_use_its_whole_grace(harness: Harness) -> None:
    """A worker that stops at the end of the grace writes the end itself."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        await store.cancel(cancel_request(made.lease.job_id))
        clock.pass_(GRACE)
        assert await _sweep(store) == []
        assert await store.record(made.lease, Canceled(by="worker", reason="asked to"))
        assert await _sweep(store) == []

    harness.run(body)


def test_an_attempt_over_its_time_is_ended_even_if_its_worker_beats(harness: Harness) -> None:
    """A worker that does not stop in time loses the job: retried while retries are left, then failed."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock, timeout_seconds=20.0, max_retries=1)
        clock.pass_(10)
        await store.renew([made.lease], lease_seconds=LEASE_SECONDS)
        clock.pass_(14)
        await store.renew([made.lease], lease_seconds=LEASE_SECONDS)
        assert await _sweep(store) == []
        clock.pass_(1)
        assert await _sweep(store) == ["retry"]
        [again] = await claim(store)
        clock.pass_(25)
        assert await _sweep(store) == ["failed"]
        job = (await read_job(store, again.lease.job_id)).job
        assert (job.error_code, job.retry_count, job.error_count) == ("timeout_max_retries", 1, 2)
        assert job.error_meta is not None
        assert '"threshold_seconds":20.0' in job.error_meta
        said = {"name": "timed_out", "seconds": 20.0}
        assert decode(job.error_meta)["sentence"] == said
        assert await _sentences(store, job.job_id) == [("job.retry_scheduled", said), ("job.failed", said)]
        events = await event_types(store, job.job_id)
        assert events[2:4] == ["job.timeout", "job.retry_scheduled"]
        assert events[-2:] == ["job.timeout", "job.failed"]

    harness.run(body)


def test_the_sweep_goes_through_all_pages(harness: Harness) -> None:
    """More lost jobs than one page holds are all found in one sweep."""

    async def body(store: Store, clock: SetClock) -> None:
        for _ in range(7):
            await accept(store, clock)
        assert len(await claim(store, 7)) == 7
        clock.pass_(LEASE_SECONDS)
        assert len(await store.sweep(grace_seconds=5, backoff=NO_BACKOFF, limit=3)) == 7
        assert (await store.tenant(ORG).notifications("none", channel=None, limit=1)) == []

    harness.run(body)


def test_a_crashed_process_is_counted_apart(harness: Harness) -> None:
    """The job goes on at once; neither a failure nor a lost lease is counted; the event says how it died."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Crashed("its process was ended by SIGSEGV"))
        assert not await store.record(made.lease, Crashed("again")), "the attempt has ended"
        job = (await read_job(store, made.lease.job_id)).job
        assert (job.status, job.crash_count, job.lost_count, job.error_count) == (Status.RUNNING, 1, 0, 0)
        last = (await store.tenant(ORG).events(job.job_id, after=0, limit=10))[-1]
        assert (last.event_type, "SIGSEGV" in last.payload_json) == ("job.lease_lost", True)
        [again] = await claim(store)
        assert again.lease.attempt == 2

    harness.run(body)


def test_a_job_that_kills_its_processes_is_given_up(harness: Harness) -> None:
    """After three deaths it fails with worker_lost: nobody else can have killed them."""

    async def body(store: Store, clock: SetClock) -> None:
        await accept(store, clock)
        for _ in range(MOST_CRASHES):
            [made] = await claim(store)
            assert await store.record(made.lease, Crashed("its process ended itself with exit code 3"))
        assert await claim(store) == []
        job = (await read_job(store, made.lease.job_id)).job
        assert (job.status, job.error_code, job.crash_count, job.lost_count) == (Status.FAILED, "worker_lost", 3, 0)
        how = "its process ended itself with exit code 3"
        said = {"name": "process_died", "deaths": MOST_CRASHES, "how": how}
        assert job.error_message == sentence_text("process_died", deaths=MOST_CRASHES, how=how)
        assert decode(job.error_meta or "") == {"crash": how, "sentence": said}
        assert await _sentences(store, job.job_id) == [("job.failed", said)]

    harness.run(body)


def test_deaths_that_a_cluster_counted_itself_are_all_counted(harness: Harness) -> None:
    """One that tried a chunk again by itself tells of all of them at once."""

    async def body(store: Store, clock: SetClock) -> None:
        await accept(store, clock)
        [made] = await claim(store)
        assert await store.record(made.lease, Crashed("workers died", deaths=MOST_CRASHES - 1))
        assert not (await read_job(store, made.lease.job_id)).job.terminal
        [made] = await claim(store)
        assert await store.record(made.lease, Crashed("workers died", deaths=MOST_CRASHES + 1))
        job = (await read_job(store, made.lease.job_id)).job
        assert (job.status, job.error_code) == (Status.FAILED, "worker_lost")

    harness.run(body)


def test_a_crash_of_a_job_that_was_asked_to_stop_cancels_it(harness: Harness) -> None:
    """Somebody wished it: nobody has to compute it again."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        for _ in range(MOST_CRASHES - 1):
            assert await store.record(made.lease, Crashed("it fell over"))
            [made] = await claim(store)
        assert await store.cancel(cancel_request(made.lease.job_id)) is not None
        assert await store.record(made.lease, Crashed("it fell over"))
        assert (await read_job(store, made.lease.job_id)).job.status is Status.CANCELED

    harness.run(body)
