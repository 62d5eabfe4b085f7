"""What an attempt writes: fenced, counted, and with its event in the same transaction."""

import pytest

from langlauf.clock import new_id
from langlauf.domain.attempt import Backoff, Checkpoint, Claim, Lease, Partial, Progress, Write
from langlauf.domain.outcome import Canceled, Completed, Failed, Released, Retry
from langlauf.domain.read_models import KeptParts
from langlauf.domain.state import Status
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.stores import LEASE_SECONDS, SetClock
from tests.support.submissions import ORG, cancel_request, claim, event_types, read_job, started

WRITES: dict[str, Write] = {
    "progress": Progress(percent=50, step="late"),
    "partial": Partial(result_id="late-partial", payload="{}"),
    "checkpoint": Checkpoint(key="late", payload="{}"),
    "completed": Completed(result_id="late-final", payload="{}"),
    "failed": Failed(code="internal", message="late", retryable=False),
    "retry": Retry(code="timeout", message="late", delay_seconds=1),
    "canceled": Canceled(by="worker", reason="late"),
    "released": Released(),
}


@pytest.mark.parametrize("kind", WRITES)
def test_an_attempt_that_lost_its_lease_writes_nothing(harness: Harness, kind: str) -> None:
    """Every kind of write of a zombie is refused, and the row, its log and its results stay as they were."""

    async def body(store: Store, clock: SetClock) -> None:
        zombie = await started(store, clock)
        clock.pass_(LEASE_SECONDS + 1)
        await store.sweep(grace_seconds=5, backoff=Backoff())
        [owner] = await claim(store)
        before = await read_job(store, owner.lease.job_id)
        assert not await store.record(zombie.lease, WRITES[kind])
        assert await read_job(store, owner.lease.job_id) == before
        assert await store.tenant(ORG).results(owner.lease.job_id) == []
        assert await store.tenant(ORG).chunk(owner.lease.job_id, "late") is None
        assert len(await event_types(store, owner.lease.job_id)) == before.job.event_seq
        assert await store.record(owner.lease, Completed(result_id=new_id(), payload="{}"))

    harness.run(body)


@pytest.mark.parametrize("kind", WRITES)
def test_an_expired_lease_is_gone_although_nobody_took_the_job(harness: Harness, kind: str) -> None:
    """The fence is the time, not the takeover."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        clock.pass_(LEASE_SECONDS)
        before = await read_job(store, made.lease.job_id)
        assert not await store.record(made.lease, WRITES[kind])
        assert await read_job(store, made.lease.job_id) == before

    harness.run(body)


@pytest.mark.parametrize("kind", WRITES)
def test_nothing_is_written_after_the_end(harness: Harness, kind: str) -> None:
    """The first terminal write wins for ever."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Completed(result_id="first", payload='{"n":1}'))
        before = await read_job(store, made.lease.job_id)
        assert not await store.record(made.lease, WRITES[kind])
        assert await read_job(store, made.lease.job_id) == before
        assert [one.result_id for one in await store.tenant(ORG).results(made.lease.job_id)] == ["first"]

    harness.run(body)


def test_progress_never_falls_and_stays_under_100(harness: Harness) -> None:
    """Reports may jump about; what is stored only rises, also across attempts, and each change has an event."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        seen = []
        for percent in (10, 5, 40.7, 100, 20):
            assert await store.record(made.lease, Progress(percent=percent))
            seen.append((await read_job(store, made.lease.job_id)).job.progress_percent)
        assert seen == [10, 10, 40, 99, 99]
        assert await store.record(made.lease, Released())
        [again] = await claim(store)
        assert await store.record(again.lease, Progress(percent=1, step="again"))
        job = (await read_job(store, made.lease.job_id)).job
        assert (job.progress_percent, job.step) == (99, "again")
        assert (await event_types(store, job.job_id)).count("job.progress") == 4

    harness.run(body)


def test_a_report_without_news_is_no_event(harness: Harness) -> None:
    """The same percent and step again, or a lower one: True while the lease is held, and nothing is written."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Progress(percent=40, step="reading"))
        before = await read_job(store, made.lease.job_id)
        clock.pass_(1)
        for write in (
            Progress(percent=40, step="reading"),
            Progress(percent=40),
            Progress(percent=3.9),
            Progress(step="reading"),
            Progress(),
            Progress(percent=40, replayed=True),
        ):
            assert await store.record(made.lease, write)
            assert await read_job(store, made.lease.job_id) == before
        assert (await event_types(store, made.lease.job_id)).count("job.progress") == 1
        for news in (Progress(percent=41), Progress(step="writing"), Progress(percent=42, step="closing")):
            assert await store.record(made.lease, news)
        assert (await event_types(store, made.lease.job_id)).count("job.progress") == 4
        clock.pass_(LEASE_SECONDS)
        assert not await store.record(made.lease, Progress(percent=42, step="closing"))

    harness.run(body)


def test_the_first_step_is_news(harness: Harness) -> None:
    """A step where there was none, without any percent."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Progress(step="reading"))
        job = (await read_job(store, made.lease.job_id)).job
        assert (job.step, job.progress_percent, job.event_seq) == ("reading", 0, 3)

    harness.run(body)


def test_the_pace_of_an_attempt_is_measured_from_where_it_computes(harness: Harness) -> None:
    """From its start; from the last stored chunk; in a further attempt from where it gets beyond the one before."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        start = clock.now()
        clock.pass_(1)
        assert await store.record(made.lease, Progress(percent=20))
        assert await _pace(store, made) == (0, start, clock.now())
        clock.pass_(1)
        assert await store.record(made.lease, Progress(percent=60, replayed=True))
        mark = clock.now()
        assert await _pace(store, made) == (60, mark, mark)
        clock.pass_(1)
        assert await store.record(made.lease, Progress(percent=70))
        assert await _pace(store, made) == (60, mark, clock.now())
        assert await store.record(made.lease, Released())
        [again] = await claim(store)
        assert await _pace(store, again) == (70, None, None)
        assert await store.record(again.lease, Progress(percent=30, step="again"))
        assert await _pace(store, again) == (70, None, None)
        clock.pass_(1)
        assert await store.record(again.lease, Partial(result_id="r", payload="{}", percent=75))
        assert await _pace(store, again) == (75, clock.now(), clock.now())

    harness.run(body)


async def _pace(store: Store, made: Claim) -> tuple[int, int | None, int | None]:
    job = (await read_job(store, made.lease.job_id)).job
    return job.paced_percent, job.paced_at, job.progress_at


def test_only_whole_runs_teach_how_long_one_takes(harness: Harness) -> None:
    """Failures, cancels and what was mostly done before do not count; what was resumed early is brought up."""

    async def body(store: Store, clock: SetClock) -> None:
        for end in (Failed(code="internal", message="x", retryable=False), Canceled(by="worker", reason="x")):
            made = await started(store, clock)
            clock.pass_(5)
            assert await store.record(made.lease, end)
        for percent, seconds in ((80, 1), (50, 4)):
            made = await started(store, clock)
            assert await store.record(made.lease, Progress(percent=percent, replayed=True))
            clock.pass_(seconds)
            assert await store.paces() == {}
            assert await store.record(made.lease, Completed(result_id=new_id(), payload="{}"))
        assert await store.paces() == {"survey": 8.0}

    harness.run(body)


def test_a_completed_job_has_the_start_of_its_attempt_and_no_pace(harness: Harness) -> None:
    """Its latest attempt began when it did, or later; the run taught how long one takes without progress of its own."""

    async def body(store: Store, clock: SetClock) -> None:
        once, twice, moved = [await started(store, clock) for _ in range(3)]
        assert await store.record(twice.lease, Released())
        clock.pass_(4)
        [twice] = await claim(store, 1)
        assert await store.record(moved.lease, Progress(percent=40, step="on"))
        for made in (once, twice, moved):
            before = (await read_job(store, made.lease.job_id)).job
            assert await store.record(made.lease, Completed(result_id=new_id(), payload="{}"))
            job = (await read_job(store, made.lease.job_id)).job
            assert (job.started_at, job.attempt_started_at) == (before.started_at, before.attempt_started_at)
            assert (job.attempt_started_at != job.started_at) is (made is twice)
            assert await _pace(store, made) == (0, None, None)
        assert await store.paces() == {"survey": pytest.approx(0.8 * (0.8 * 4) + 0.2 * 4, abs=0.01)}

    harness.run(body)


def test_partials_are_versioned(harness: Harness) -> None:
    """Each snapshot has the next number; the first one moves the job to partial."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        for number in (1, 2, 3):
            write = Partial(result_id=f"r-{number}", payload=f'{{"n":{number}}}', summary='{"s":1}', percent=number)
            assert await store.record(made.lease, write)
            job = (await read_job(store, made.lease.job_id)).job
            assert (job.status, job.partial_count, job.result_id) == (Status.PARTIAL, number, f"r-{number}")
        assert await store.record(made.lease, Completed(result_id="r-4", payload='{"n":4}'))
        snapshots = await store.tenant(ORG).results(made.lease.job_id)
        assert [(one.result_seq, one.result_kind) for one in snapshots] == [
            (1, "partial"),
            (2, "partial"),
            (3, "partial"),
            (4, "final"),
        ]
        job = (await read_job(store, made.lease.job_id)).job
        assert (job.status, job.progress_percent, job.result_id) == (Status.COMPLETED, 100, "r-4")
        assert job.finished_at == clock.now()

    harness.run(body)


def test_a_partial_that_is_written_again_counts_once(harness: Harness) -> None:
    """Told that a commit failed which was made, a worker writes again: no second snapshot, no error, no refusal."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        first, second = (Partial(result_id=f"r-{number}", payload="{}", percent=number) for number in (1, 2))
        assert await store.record(made.lease, first)
        assert await store.record(made.lease, second)
        before = await read_job(store, made.lease.job_id)
        for again in (second, first):
            assert await store.record(made.lease, again)
        assert await read_job(store, made.lease.job_id) == before
        assert [one.result_id for one in await store.tenant(ORG).results(made.lease.job_id)] == ["r-1", "r-2"]
        clock.pass_(LEASE_SECONDS)
        assert not await store.record(made.lease, second)

    harness.run(body)


def test_events_of_results_name_them(harness: Harness) -> None:
    """job.partial and job.completed have result_id, result_seq and progress_percent."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Partial(result_id="r-1", payload="{}", percent=30))
        assert await store.record(made.lease, Completed(result_id="r-2", payload="{}"))
        events = await store.tenant(ORG).events(made.lease.job_id, after=2, limit=10)
        assert [event.payload_json for event in events] == [
            '{"result_id":"r-1","result_seq":1,"progress_percent":30}',
            '{"result_id":"r-2","result_seq":2,"progress_percent":100}',
        ]

    harness.run(body)


def test_a_checkpoint_keeps_its_first_value(harness: Harness) -> None:
    """A chunk is computed once: what is there stays, and a checkpoint is no news for people."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Checkpoint(key="year-1", payload="1"))
        assert await store.record(made.lease, Checkpoint(key="year-1", payload="2"))
        assert await store.tenant(ORG).chunk(made.lease.job_id, "year-1") == "1"
        assert await event_types(store, made.lease.job_id) == ["job.queued", "job.running"]

    harness.run(body)


def test_many_chunks_are_looked_up_at_once(harness: Harness) -> None:
    """Those that are finished come back by their keys, however many are asked for, and whatever is in the keys."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        kept = {f'year "{number}", ä\\': str(number) for number in range(0, 2_500, 500)}
        for key, payload in kept.items():
            assert await store.record(made.lease, Checkpoint(key=key, payload=payload))
        asked = [f'year "{number}", ä\\' for number in range(2_500)]
        assert await store.tenant(ORG).chunks(made.lease.job_id, asked) == kept
        assert await store.tenant(ORG).chunks(made.lease.job_id, []) == {}

    harness.run(body)


def test_the_parts_of_a_map_know_how_many_there_are(harness: Harness) -> None:
    """The newest total counts, a resumed job inherits it, and one that is reached says nothing more."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)

        async def kept_after(key: str, total: int | None, lease: Lease = made.lease) -> KeptParts:
            assert await store.record(lease, Checkpoint(key=key, payload="1", total=total))
            return await store.tenant(ORG).kept_parts(lease.job_id, most=9)

        assert await kept_after("first", None) == KeptParts(1)
        assert await kept_after("map-1", 3) == KeptParts(2, 3)
        assert await kept_after("map-2", 3) == KeptParts(3)
        assert await kept_after("more-1", 10) == KeptParts(4, 10)
        assert await store.record(made.lease, Failed(code="internal", message="no", retryable=False))
        again = await started(store, clock, resume_from=made.lease.job_id)
        assert await kept_after("more-2", 10, again.lease) == KeptParts(5, 10)

    harness.run(body)


def test_a_resumed_job_starts_with_the_finished_chunks(harness: Harness) -> None:
    """resume_from copies chunks within the org, and only there."""

    async def body(store: Store, clock: SetClock) -> None:
        old = await started(store, clock)
        assert await store.record(old.lease, Checkpoint(key="year-1", payload="1"))
        assert await store.record(old.lease, Failed(code="internal", message="no", retryable=False))
        new = await started(store, clock, resume_from=old.lease.job_id)
        assert await store.tenant(ORG).chunk(new.lease.job_id, "year-1") == "1"
        assert await store.tenant(ORG).kept_parts(new.lease.job_id, most=9) == KeptParts(1)
        assert await store.tenant("org-b").kept_parts(new.lease.job_id, most=9) == KeptParts(0)
        foreign = await started(store, clock, org="org-b", resume_from=old.lease.job_id)
        assert await store.tenant("org-b").chunk(foreign.lease.job_id, "year-1") is None

    harness.run(body)


def test_a_failure_tells_why_and_keeps_what_was_found(harness: Harness) -> None:
    """failed has code, message, time and hint; snapshots and events stay readable."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Partial(result_id="r-1", payload='{"n":1}'))
        end = Failed(
            code="address_intel",
            message="No such place.",
            retryable=False,
            hint="check_input_and_retry",
            meta={"at": 1},
        )
        assert await store.record(made.lease, end)
        job = (await read_job(store, made.lease.job_id)).job
        assert (job.status, job.error_code, job.error_message) == (Status.FAILED, "address_intel", "No such place.")
        assert (job.retryable, job.retry_hint, job.error_meta) == (False, "check_input_and_retry", '{"at":1}')
        assert job.failed_at == job.finished_at == clock.now()
        found = await store.tenant(ORG).result("r-1", latest=True)
        assert found is not None
        assert found.delivered.payload == '{"n":1}'

    harness.run(body)


@pytest.mark.parametrize(
    ("end", "template"),
    [
        (Completed(result_id="r", payload="{}"), "async.job.completed"),
        (Failed(code="internal", message="no", retryable=False), "async.job.failed"),
        (Canceled(by="worker", reason="asked"), None),
    ],
)
def test_people_are_told_of_the_end_once(harness: Harness, end: Write, template: str | None) -> None:
    """completed and failed leave exactly one in-app message, a cancel leaves none."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, end)
        found = await store.tenant(ORG).notifications(made.lease.job_id, channel=None, limit=10)
        assert [one.template_key for one in found] == ([template] if template else [])
        for one in found:
            assert (one.channel, one.delivery_status) == ("in_app", "pending")
            assert one.dedupe_key == f"{made.lease.job_id}:in_app:{template}"

    harness.run(body)


@pytest.mark.parametrize("end", [Retry(code="timeout", message="slow", delay_seconds=9), Released()])
def test_a_job_that_is_wished_to_stop_does_not_go_on(harness: Harness, end: Write) -> None:
    """A cancel that came during the attempt counts, however the attempt ends without a result."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        await store.cancel(cancel_request(made.lease.job_id))
        assert await store.record(made.lease, end)
        job = (await read_job(store, made.lease.job_id)).job
        assert (job.status, job.canceled_by, job.cancel_reason) == (Status.CANCELED, "user", "not needed")

    harness.run(body)


def test_a_completion_that_commits_first_beats_the_cancel(harness: Harness) -> None:
    """The job stays completed and does not look canceled."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        await store.cancel(cancel_request(made.lease.job_id))
        assert await store.record(made.lease, Completed(result_id="r", payload="{}"))
        view = await store.cancel(cancel_request(made.lease.job_id))
        assert view is not None
        assert (view.job.status, view.job.canceled_by, view.job.cancel_reason) == (Status.COMPLETED, None, None)

    harness.run(body)
