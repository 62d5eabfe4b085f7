"""Lists of one org: filters that combine, counts, failures, history and inbox, whatever way a store looks them up."""

from typing import Any

import msgspec
import pytest

from langlauf.clock import new_id
from langlauf.domain.attempt import Partial, Progress
from langlauf.domain.instant import after
from langlauf.domain.job import Accepted, JobRecord
from langlauf.domain.outcome import Completed, Failed, Retry
from langlauf.domain.read_models import JobFilter, MarkRead
from langlauf.domain.state import Status
from langlauf.store import reads as bounded_scan
from langlauf.store.postgres import reads as postgres_reads
from langlauf.store.protocol import Store
from langlauf.store.sqlite import reads as sqlite_reads
from tests.store_contract.conftest import Harness
from tests.support.store_kinds import StoreUnderTest
from tests.support.stores import DAY, JobFactory, SetClock
from tests.support.submissions import ORG, accept, cancel_request, claim, new_job, started


async def failed(store: Store, clock: SetClock, code: str = "internal", message: str = "no", **rules: Any) -> str:
    """A job that failed."""
    made = await started(store, clock, **rules)
    assert await store.record(made.lease, Failed(code=code, message=message, retryable=False))
    return made.lease.job_id


async def completed(store: Store, clock: SetClock, **rules: Any) -> str:
    """A job that completed."""
    made = await started(store, clock, **rules)
    result_id = f"r-{made.lease.job_id}"
    assert await store.record(made.lease, Completed(result_id=result_id, payload="{}"))
    return made.lease.job_id


async def ids(store: Store, **which: Any) -> list[str]:
    """All jobs that fit a filter, page by page."""
    found: list[str] = []
    before = None
    while True:
        page = await store.tenant(ORG).jobs(JobFilter(before=before, **which))
        found += [view.job.job_id for view in page.views]
        before = page.after
        if before is None:
            return found


@pytest.fixture(params=["few", "many"])
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A state with few jobs is looked up, one with many is walked for: both must find the same."""
    if request.param == "many":
        monkeypatch.setattr(sqlite_reads, "FEW", 0)
        monkeypatch.setattr(postgres_reads, "FEW", 0)
    return str(request.param)


@pytest.mark.usefixtures("ways")
def test_every_state_is_found(harness: Harness) -> None:
    """Each job is in the list of its state and in no other; a job that waits for its next attempt is one that runs."""

    async def body(store: Store, clock: SetClock) -> None:
        done = [await completed(store, clock) for _ in range(2)]
        broken = [await failed(store, clock) for _ in range(3)]
        backoff = await started(store, clock)
        assert await store.record(backoff.lease, Retry(code="timeout", message="x", delay_seconds=60))
        running = await started(store, clock)
        showing = await started(store, clock)
        assert await store.record(showing.lease, Partial(result_id="p", payload="{}"))
        stopped = await accept(store, clock)
        await store.cancel(cancel_request(stopped.job_id))
        waiting = [await accept(store, clock), await accept(store, clock, priority_class="expedite")]
        expected = {
            Status.QUEUED: [job.job_id for job in waiting],
            Status.RUNNING: [backoff.lease.job_id, running.lease.job_id],
            Status.PARTIAL: [showing.lease.job_id],
            Status.COMPLETED: done,
            Status.FAILED: broken,
            Status.CANCELED: [stopped.job_id],
        }
        for status, jobs in expected.items():
            assert await ids(store, status=status, limit=2) == list(reversed(jobs)), status
        assert await store.tenant(ORG).counts(most=10) == {status: len(jobs) for status, jobs in expected.items()}
        assert (await store.tenant(ORG).counts(most=2))[Status.FAILED] == 2

    harness.run(body)


@pytest.mark.usefixtures("ways")
def test_filters_combine(harness: Harness) -> None:
    """State, analysis, code, time and text together leave what fits all of them."""

    async def body(store: Store, clock: SetClock) -> None:
        old = await failed(store, clock, "timeout", "upstream of Bern was slow")
        clock.pass_(2 * DAY)
        since = clock.now()
        new = await failed(store, clock, "timeout", "upstream of Basel was slow")
        other = await failed(store, clock, "network_error", "no way", analysis="census")
        await completed(store, clock, query="upstream")
        assert await ids(store, error_code="timeout") == [new, old]
        assert await ids(store, error_code="timeout", since=since) == [new]
        assert await ids(store, status=Status.FAILED, analysis="census") == [other]
        assert await ids(store, status=Status.FAILED, text="UPSTREAM") == [new, old]
        assert await ids(store, error_code="timeout", text="bern", since=since) == []
        assert await ids(store, status=Status.COMPLETED, error_code="timeout") == []
        assert await ids(store, error_code="time%") == []

    harness.run(body)


def test_a_text_is_found_wherever_a_person_would_look(harness: Harness) -> None:
    """In the id, the analysis, the step, the error and the input; a large input is not searched."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock, query="Zürich", analysis="census")
        job_id = made.lease.job_id
        assert await store.record(made.lease, Progress(percent=10, step="Reading Parcels"))
        for text in (job_id[-12:].upper(), "CENSUS", "parcels", "Zürich", "zürich", "rich"):
            assert await ids(store, text=text) == [job_id], text
        assert await store.record(made.lease, Failed(code="address_intel", message="No Such Place", retryable=False))
        assert await ids(store, text="such place") == [job_id]
        assert await ids(store, text="address_INTEL") == [job_id]
        assert await ids(store, text="nowhere") == []
        await accept(store, clock, query="x" * bounded_scan.LARGEST_SEARCHED + "needle")
        assert await ids(store, text="needle") == []

    harness.run(body)


def test_a_search_ends_and_says_how_far_it_came(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives up after so many jobs, with where to go on; going on comes to the end."""
    monkeypatch.setattr(bounded_scan, "MOST_LOOKED_AT", 4)
    monkeypatch.setattr(bounded_scan, "_FIRST_ROWS", 2)
    monkeypatch.setattr(bounded_scan, "_ROWS_OF_TEXT", 2)

    async def body(store: Store, clock: SetClock) -> None:
        oldest = await accept(store, clock, query="needle")
        for _ in range(5):
            await accept(store, clock)
        page = await store.tenant(ORG).jobs(JobFilter(text="needle"))
        assert (page.views, page.looked_at) == ([], 4)
        assert page.after is not None
        rest = await store.tenant(ORG).jobs(JobFilter(text="needle", before=page.after))
        assert [view.job.job_id for view in rest.views] == [oldest.job_id]

    harness.run(body)


def test_a_search_has_no_more_time_than_it_was_given(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no time left it ends after its first look."""
    monkeypatch.setattr(bounded_scan, "_FIRST_ROWS", 1)
    monkeypatch.setattr(bounded_scan.walk_jobs, "__kwdefaults__", {"patience": 0.0})

    async def body(store: Store, clock: SetClock) -> None:
        for _ in range(3):
            await accept(store, clock)
        page = await store.tenant(ORG).jobs(JobFilter(text="needle"))
        assert (page.views, page.looked_at) == ([], 1)

    harness.run(body)


def test_no_job_of_one_instant_is_lost_between_pages(harness: Harness) -> None:
    """However they came in, and also where a page begins before a job that is gone."""

    async def body(store: Store, clock: SetClock) -> None:
        made = [new_id() for _ in range(8)]
        gone = made.pop(4)
        for job_id in [made[3], made[1], made[6], made[0], made[5], made[2], made[4]]:
            assert isinstance(await store.submit(new_job(clock, job_id=job_id)), Accepted)
        made.sort(reverse=True)
        assert await ids(store, limit=2) == made
        assert await ids(store, limit=3, status=Status.QUEUED) == made
        for place in (gone, *made):
            page = await store.tenant(ORG).jobs(JobFilter(before=(clock.now(), place), limit=10))
            assert [view.job.job_id for view in page.views] == [job_id for job_id in made if job_id < place]

    harness.run(body)


def test_no_end_of_one_instant_is_lost_between_pages(harness: Harness) -> None:
    """Of failures, messages and results each is on one page, wherever the pages end."""

    async def body(store: Store, clock: SetClock) -> None:
        taken = []
        for _ in range(6):
            assert isinstance(await store.submit(new_job(clock)), Accepted)
            taken += await claim(store)
        bad, good = taken[::2], taken[1::2]
        for one in bad:
            assert await store.record(one.lease, Failed(code="internal", message="no", retryable=False))
        for one in good:
            assert await store.record(one.lease, Completed(result_id=new_id(), payload="{}"))
        reads = store.tenant(ORG)
        found: list[str] = []
        while page := await reads.failures(since=0, before=(clock.now(), found[-1]) if found else None, limit=2):
            found += [one.job_id for one in page]
        assert found == sorted((one.lease.job_id for one in bad), reverse=True)
        told, before = [], None
        while True:
            messages = await reads.inbox(before=before, limit=2)
            told += [(one.notification.notification_id, one.view.job.job_id) for one in messages.messages]
            if (before := messages.after) is None:
                break
        assert told == sorted(told, reverse=True)
        assert sorted(job_id for _, job_id in told) == sorted(one.lease.job_id for one in taken)
        entries = [entry for offset in range(4) for entry in (await reads.history(limit=1, offset=offset))[0]]
        assert sorted(entry.job_id for entry in entries) == sorted(one.lease.job_id for one in good)

    harness.run(body)


def test_failures_say_whether_they_were_run_again(harness: Harness) -> None:
    """Newest first, since an instant, page by page; a long message is cut."""

    async def body(store: Store, clock: SetClock) -> None:
        first = await failed(store, clock, "timeout", "x" * 1_000)
        since = clock.now()
        second = await failed(store, clock, "internal", "broken", analysis="census")
        again = new_job(clock)
        assert isinstance(await store.submit(_again(again, second)), Accepted)
        [newest, oldest] = await store.tenant(ORG).failures(since=0, before=None, limit=10)
        assert (newest.job_id, newest.analysis, newest.error_code, newest.error_message, newest.repeated) == (
            second, "census", "internal", "broken", True,
        )  # fmt: skip
        assert (oldest.job_id, oldest.repeated, len(oldest.error_message)) == (first, False, 300)
        assert [one.job_id for one in await store.tenant(ORG).failures(since=since, before=None, limit=10)] == [second]
        position = (newest.queued_at, newest.job_id)
        assert await store.tenant(ORG).failures(since=0, before=position, limit=10) == [oldest]

    harness.run(body)


def _again(new: Any, job_id: str) -> Any:
    job: JobRecord = msgspec.structs.replace(new.job, retry_of=job_id)
    return msgspec.structs.replace(new, job=job)


def test_history_has_jobs_that_still_work_in_their_place(harness: Harness) -> None:
    """Ended jobs come from an index, working ones do not: the page and the total are those of both together."""

    async def body(store: Store, clock: SetClock) -> None:
        made = []
        for number in range(6):
            if number % 2:
                working = await started(store, clock)
                assert await store.record(working.lease, Partial(result_id=f"p{number}", payload="{}"))
                made.append(working.lease.job_id)
            else:
                made.append(await completed(store, clock))
        await failed(store, clock)
        made.reverse()
        for offset in range(8):
            for limit in (1, 2, 10):
                entries, total = await store.tenant(ORG).history(limit=limit, offset=offset)
                assert total == 6
                assert [entry.job_id for entry in entries] == made[offset : offset + limit], (offset, limit)

    harness.run(body)


def test_the_inbox_has_messages_with_their_jobs(harness: Harness) -> None:
    """Newest first, page by page; a message of another channel or org is not in it."""

    async def body(store: Store, clock: SetClock) -> None:
        jobs = [await completed(store, clock), await failed(store, clock), await completed(store, clock)]
        await completed(store, clock, org="org-b")
        reads = store.tenant(ORG)
        first = await reads.inbox(before=None, limit=2)
        assert first.after is not None
        rest = await reads.inbox(before=first.after, limit=2)
        assert rest.after is None
        messages = first.messages + rest.messages
        assert [one.view.job.job_id for one in messages] == list(reversed(jobs))
        assert [one.view.job.status for one in messages] == [Status.COMPLETED, Status.FAILED, Status.COMPLETED]
        assert all(one.unread and one.notification.delivery_status == "pending" for one in messages)
        assert (await reads.unread(most=99), await reads.unread(most=2)) == (3, 2)

    harness.run(body)


def test_messages_that_were_brought_are_among_the_others(bed: StoreUnderTest) -> None:
    """In the order of time, on one page each, counted and marked like any other."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        brought = []
        for number in range(6):
            job_id = await make.completed(0)
            clock.pass_(1)
            if number % 2:
                brought.append(f"message-{number}")
                values = (brought[-1], job_id, f"{job_id}:other", clock.now(), clock.now())
                bed.query(
                    "INSERT INTO notifications (org_id, notification_id, job_id, channel, template_key,"
                    " delivery_status, attempt_count, dedupe_key, scheduled_at, created_at, payload_json)"
                    " VALUES ('org-a', ?, ?, 'in_app', 'async.job.completed', 'pending', 0, ?, ?, ?, '{}')",
                    *values,
                )
        reads = store.tenant("org-a")
        told, before = [], None
        while True:
            page = await reads.inbox(before=before, limit=2)
            told += [(one.notification.created_at, one.notification.notification_id) for one in page.messages]
            if (before := page.after) is None:
                break
        assert told == sorted(set(told), reverse=True)
        assert (len(told), {name for _, name in told} >= set(brought)) == (9, True)
        for left, (_, notification_id) in zip(range(8, -1, -1), told, strict=True):
            assert not await store.mark_read(MarkRead(org_id="org-b", notification_id=notification_id))
            assert await store.mark_read(MarkRead(org_id="org-a", notification_id=notification_id))
            assert not await store.mark_read(MarkRead(org_id="org-a", notification_id=notification_id))
            assert await reads.unread(most=20) == left

    bed.play(scene)


def test_a_message_is_marked_once_and_by_its_org(harness: Harness) -> None:
    """The delivery stays what it is; another org changes nothing; a second time changes nothing."""

    async def body(store: Store, clock: SetClock) -> None:
        await completed(store, clock)
        await completed(store, clock)
        reads = store.tenant(ORG)
        [newer, older] = (await reads.inbox(before=None, limit=9)).messages
        mine = newer.notification.notification_id
        for org, name, changed in (("org-b", mine, False), (ORG, "\x00", False), (ORG, mine, True), (ORG, mine, False)):
            assert await store.mark_read(MarkRead(org_id=org, notification_id=name)) is changed
        [read, other] = (await reads.inbox(before=None, limit=9)).messages
        assert (read.unread, read.notification.read_at, read.notification.delivery_status) == (
            False, clock.now(), "pending",
        )  # fmt: skip
        assert other == older
        assert await reads.unread(most=9) == 1

    harness.run(body)


def test_all_messages_up_to_an_instant_are_marked_at_once(harness: Harness) -> None:
    """What came later stays unread; an instant to come counts as now, and an earlier one takes nothing back."""

    async def body(store: Store, clock: SetClock) -> None:
        assert not await store.mark_read(MarkRead(org_id="org-b", until=clock.now()))
        await completed(store, clock)
        [seen] = (await store.tenant(ORG).inbox(before=None, limit=9)).messages
        clock.pass_(1)
        await completed(store, clock)
        reads = store.tenant(ORG)
        assert await store.mark_read(MarkRead(org_id=ORG, until=seen.notification.created_at))
        assert [one.unread for one in (await reads.inbox(before=None, limit=9)).messages] == [True, False]
        assert await reads.unread(most=9) == 1
        assert await store.mark_read(MarkRead(org_id=ORG, until=after(clock.now(), DAY)))
        assert not await store.mark_read(MarkRead(org_id=ORG, until=seen.notification.created_at))
        assert await reads.unread(most=9) == 0
        clock.pass_(1)
        await completed(store, clock)
        assert await reads.unread(most=9) == 1

    harness.run(body)


def test_counts_follow_a_job_through_its_life(harness: Harness) -> None:
    """Waiting, running, ended: it is counted once."""

    async def body(store: Store, clock: SetClock) -> None:
        reads = store.tenant(ORG)
        await accept(store, clock)
        assert await reads.counts(most=9) == {Status.QUEUED: 1}
        [made] = await claim(store)
        assert await reads.counts(most=9) == {Status.RUNNING: 1}
        assert await store.record(made.lease, Completed(result_id="r", payload="{}"))
        assert await reads.counts(most=9) == {Status.COMPLETED: 1}

    harness.run(body)
