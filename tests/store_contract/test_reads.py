"""Reading: complete for one's own org, nothing for anybody else."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from langlauf.domain.attempt import Checkpoint, Partial
from langlauf.domain.delivery import DeliveryClaim, DeliveryEnd, DeliveryFilter, Subscription, WebhookEndpoint
from langlauf.domain.errors import PayloadGone
from langlauf.domain.event import FeedPage, FeedRequest
from langlauf.domain.outcome import Completed, Failed
from langlauf.domain.provenance import Source
from langlauf.domain.read_models import EMPTY_OVERVIEW, EventLogPage, InboxPage, JobFilter, KeptParts, PageOfJobs
from langlauf.domain.result import SMALL_PAYLOAD, HoldRequest, RetentionPolicy
from langlauf.domain.schedule import Schedule
from langlauf.domain.state import Status
from langlauf.store.blobs.payloads import PIECE
from langlauf.store.protocol import JobReads, OrgReads, Store, TenantReads
from tests.store_contract.conftest import Harness
from tests.support.stores import DAY, SetClock
from tests.support.submissions import ORG, accept, cancel_request, claim, new_job, started

FAILED = Failed(code="internal", message="no", retryable=False)
Read = Callable[[TenantReads, str, str], Awaitable[Any]]
#: The message about a job's end, by the job, once there is one.
_MESSAGES: dict[str, str] = {}
#: Every read there is, with what an org sees that has nothing.
READS: dict[str, tuple[Read, Any]] = {
    "job": (lambda reads, job, _: reads.job(job), None),
    "status": (lambda reads, job, _: reads.status(job, events=100, inline_limit=1_000), None),
    "payload": (lambda reads, job, _: reads.payload(job), None),
    "inputs": (lambda reads, job, _: reads.inputs([job], largest=10_000), {}),
    "events": (lambda reads, job, _: reads.events(job, after=0, limit=10), []),
    "log": (
        lambda reads, job, _: reads.log(job, after=0, limit=10, most_bytes=1_000),
        EventLogPage([], more=False, over=True),
    ),
    "feed": (lambda reads, _, __: reads.feed(FeedRequest()), FeedPage([], None, more=False)),
    "results": (lambda reads, job, _: reads.results(job), []),
    "result": (lambda reads, _, result: reads.result(result, latest=True), None),
    "source": (lambda reads, _, result: reads.source(result), None),
    "views": (lambda reads, _, result: reads.views(result), None),
    "held": (lambda reads, _, __: reads.held(before=None, limit=10), []),
    "completed": (lambda reads, _, __: reads.completed("survey", before=None, limit=10), []),
    "notifications": (lambda reads, job, _: reads.notifications(job, channel=None, limit=10), []),
    "endpoints": (lambda reads, _, __: reads.endpoints(), []),
    "schedules": (lambda reads, _, __: reads.schedules(), []),
    "schedule_runs": (lambda reads, _, __: reads.schedule_runs("hourly", limit=10), []),
    "deliveries": (lambda reads, _, __: reads.deliveries(DeliveryFilter()), []),
    "delivery": (lambda reads, job, _: reads.delivery(_MESSAGES.get(job, job)), None),
    "delivery_attempts": (lambda reads, job, _: reads.delivery_attempts(_MESSAGES.get(job, job), limit=10), []),
    "mail_marks": (lambda reads, _, __: reads.mail_marks(), []),
    "subscriptions": (lambda reads, job, _: reads.subscriptions(job), ()),
    "jobs": (lambda reads, _, __: reads.jobs(JobFilter()), PageOfJobs([], None)),
    "counts": (lambda reads, _, __: reads.counts(most=10), {}),
    "failures": (lambda reads, _, __: reads.failures(since=0, before=None, limit=10), []),
    "inbox": (lambda reads, _, __: reads.inbox(before=None, limit=10), InboxPage([], None)),
    "unread": (lambda reads, _, __: reads.unread(most=10), 0),
    "history": (lambda reads, _, __: reads.history(limit=10, offset=0), ([], 0)),
    "overview": (lambda reads, _, __: reads.overview(since=0, most=10), EMPTY_OVERVIEW),
    "ranks": (lambda reads, _, __: reads.ranks(), []),
    "chunk": (lambda reads, job, _: reads.chunk(job, "c"), None),
    "chunks": (lambda reads, job, _: reads.chunks(job, ["c"]), {}),
    "kept_parts": (lambda reads, job, _: reads.kept_parts(job, most=10), KeptParts(0)),
    "trail": (lambda reads, job, _: reads.trail(job), []),
    "resumed": (lambda reads, job, _: reads.resumed(job), 0),
    "reruns": (lambda reads, job, _: reads.reruns(job, most=10), []),
}


#: Those of a whole org.
LISTS = (
    "feed",
    "held",
    "endpoints",
    "schedules",
    "schedule_runs",
    "deliveries",
    "mail_marks",
    "jobs",
    "completed",
    "counts",
    "failures",
    "inbox",
    "unread",
    "history",
    "ranks",
    "overview",
)


async def _finished(store: Store, clock: SetClock) -> str:
    """A job with all that can be read of one, and the org's endpoint, which was told of its end."""
    receiver = WebhookEndpoint(
        org_id=ORG, endpoint_id="e-1", url="https://a.example/", name="", subjects=("completed",), created_at=0
    )
    await store.deliveries.add_endpoint(receiver)
    await store.mail.add_mark(ORG, "a@b.example", "allowed")
    await store.schedules.add(
        Schedule(org_id=ORG, name="hourly", analysis="survey", every_seconds=3_600.0, next_run_at=clock.now())
    )
    planned = new_job(clock, query="planned")
    await store.submit(replace(planned, job=replace(planned.job, schedule="hourly", planned_at=clock.now())))
    await claim(store)
    wish = Subscription(channel="email", target="a@b.example", lane="mail")
    origin = await started(store, clock, query="Biel")
    assert await store.record(origin.lease, Checkpoint(key="c", payload="1"))
    assert await store.record(origin.lease, Failed(code="internal", message="no", retryable=False))
    clock.pass_(1)
    made = await started(store, clock, query="Bern", subscriptions=(wish,), resume_from=origin.lease.job_id)
    assert await store.record(made.lease, Checkpoint(key="d", payload="1"))
    source = Source(name="Register")
    assert await store.record(made.lease, Checkpoint(key=source.key, payload=source.payload))
    assert await store.record(made.lease, Partial(result_id="r-1", payload='{"n":1}', views="[]"))
    assert await store.record(made.lease, Completed(result_id="r-2", payload='{"n":2}', summary='{"s":2}', views="[]"))
    [told] = await store.deliveries.claim(DeliveryClaim(most=1, most_of_lane=1, claim_seconds=9, cautious_after=1))
    assert await store.deliveries.finish(
        DeliveryEnd(org_id=ORG, notification_id=told.notification_id, attempt=told.attempt, status="sent", seconds=0)
    )
    _MESSAGES[told.job_id] = told.notification_id
    assert await store.hold(HoldRequest(org_id=ORG, result_id="r-2")) is not None
    return made.lease.job_id


def test_every_read_is_in_the_list() -> None:
    """A read that is added later is not forgotten here."""
    public = {name for name in vars(JobReads) | vars(OrgReads) if not name.startswith("_")}
    assert public == set(READS)


@pytest.mark.parametrize("name", READS)
def test_another_org_sees_nothing(harness: Harness, name: str) -> None:
    """A foreign id gives exactly what an unknown one gives, and the owner does see something."""
    read, nothing = READS[name]

    async def body(store: Store, clock: SetClock) -> None:
        job_id = await _finished(store, clock)
        broken = await started(store, clock)
        assert await store.record(broken.lease, FAILED)
        again = new_job(clock)
        await store.submit(msgspec.structs.replace(again, job=msgspec.structs.replace(again.job, based_on=job_id)))
        assert await read(store.tenant("org-b"), job_id, "r-1") == nothing
        assert await read(store.tenant(""), job_id, "r-1") == nothing
        assert await read(store.tenant("org-%"), job_id, "r-1") == nothing
        assert await read(store.tenant(ORG), job_id, "r-1") != nothing

    harness.run(body)


def test_runs_again_are_found_newest_first(harness: Harness) -> None:
    """Repeats and jobs that started from its input, in the order of time, up to a limit; not those of other jobs."""

    async def body(store: Store, clock: SetClock) -> None:
        first = await accept(store, clock)
        made = []
        for link in ("retry_of", "based_on", "retry_of"):
            new = new_job(clock)
            job = msgspec.structs.replace(new.job, **{link: first.job_id})
            await store.submit(msgspec.structs.replace(new, job=job))
            clock.pass_(1)
            made.append((job.job_id, link))
        found = await store.tenant(ORG).reruns(first.job_id, most=9)
        assert [view.job.job_id for view in found] == [job_id for job_id, _ in reversed(made)]
        assert [view.job.based_on for view in found] == [None, first.job_id, None]
        newest = await store.tenant(ORG).reruns(first.job_id, most=2)
        assert [view.job.job_id for view in newest] == [made[2][0], made[1][0]]
        assert await store.tenant(ORG).reruns(made[0][0], most=9) == []

    harness.run(body)


def test_a_status_has_the_latest_events_and_a_small_result(harness: Harness) -> None:
    """Events ascend; the result is inline up to the limit, to the byte."""

    async def body(store: Store, clock: SetClock) -> None:
        job_id = await _finished(store, clock)
        found = await store.tenant(ORG).status(job_id, events=2, inline_limit=7)
        assert found is not None
        assert [event.event_type for event in found.events] == ["job.partial", "job.completed"]
        assert found.result == '{"n":2}'
        found = await store.tenant(ORG).status(job_id, events=2, inline_limit=6)
        assert found is not None
        assert found.result is None

    harness.run(body)


@pytest.mark.parametrize("size", [2, SMALL_PAYLOAD, SMALL_PAYLOAD + 1, 2 * PIECE, 2 * PIECE + 1], ids=str)
def test_a_payload_is_read_in_pieces(harness: Harness, size: int) -> None:
    """Together they are what was written, also where a letter lies across an edge; one that is removed is gone."""
    payload = '"' + "x" * (size % 2) + "ü" * (size // 2 - 1) + '"'

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Completed(result_id="r", payload=payload))
        source = await store.tenant(ORG).source("r")
        assert source is not None
        found = b""
        while len(found) < source.size:
            found += await source.read(len(found))
        assert found == payload.encode()
        assert source.size == size
        assert source.whole in ((found, None) if size <= SMALL_PAYLOAD else (None,))
        clock.pass_(2 * DAY)
        late = await store.tenant(ORG).source("r")
        nothing_kept = RetentionPolicy(final_results=DAY, partial_results=DAY, events=DAY, jobs=90 * DAY)
        await store.retire(nothing_kept, dry_run=False)
        assert await store.tenant(ORG).source("r") is None
        assert late is not None
        if late.whole is None and late.share is None:
            with pytest.raises(PayloadGone):
                await late.read(0)

    harness.run(body)


def test_a_result_is_the_newest_or_exactly_the_one_asked_for(harness: Harness) -> None:
    """latest delivers the final for a partial's id; requested delivers that partial."""

    async def body(store: Store, clock: SetClock) -> None:
        await _finished(store, clock)
        latest = await store.tenant(ORG).result("r-1", latest=True)
        exact = await store.tenant(ORG).result("r-1", latest=False)
        assert latest is not None
        assert exact is not None
        assert (latest.requested.result_id, latest.delivered.snapshot.result_id) == ("r-1", "r-2")
        assert (latest.delivered.payload, exact.delivered.payload) == ('{"n":2}', '{"n":1}')

    harness.run(body)


def test_jobs_are_listed_newest_first_page_by_page(harness: Harness) -> None:
    """Pages by position miss nothing and repeat nothing, also where jobs came in the same microsecond."""

    async def body(store: Store, clock: SetClock) -> None:
        made = [await accept(store, clock) for _ in range(3)]
        clock.time -= 1_000
        made += [await accept(store, clock) for _ in range(4)]
        seen: list[str] = []
        before = None
        while True:
            page = await store.tenant(ORG).jobs(JobFilter(limit=2, before=before))
            seen += [view.job.job_id for view in page.views]
            if page.after is None:
                break
            assert len(page.views) == 2
            before = page.after
        expected = sorted(made, key=lambda job: (job.queued_at, job.job_id), reverse=True)
        assert seen == [job.job_id for job in expected]

    harness.run(body)


def test_jobs_can_be_filtered(harness: Harness) -> None:
    """By state, by analysis and by a text in the input or the id, taken literally."""

    async def body(store: Store, clock: SetClock) -> None:
        bern = await accept(store, clock, query="Bern 100%")
        census = await accept(store, clock, query="Basel", analysis="census")
        await store.cancel(cancel_request(census.job_id))

        async def ids(**which: Any) -> list[str]:
            return [view.job.job_id for view in (await store.tenant(ORG).jobs(JobFilter(**which))).views]

        assert await ids(status=Status.CANCELED) == [census.job_id]
        assert await ids(analysis="survey") == [bern.job_id]
        assert await ids(text="BERN") == [bern.job_id]
        assert await ids(text="100%") == [bern.job_id]
        assert await ids(text="_") == []
        assert await ids(text=census.job_id) == [census.job_id]

    harness.run(body)


def test_history_has_what_has_a_result(harness: Harness) -> None:
    """Newest first, with a total; jobs without a result are not history."""

    async def body(store: Store, clock: SetClock) -> None:
        job_id = await _finished(store, clock)
        await accept(store, clock)
        entries, total = await store.tenant(ORG).history(limit=10, offset=0)
        assert [(entry.job_id, entry.result_id, entry.status) for entry in entries] == [
            (job_id, "r-2", Status.COMPLETED)
        ]
        assert total == 1
        assert (await store.tenant(ORG).history(limit=10, offset=1)) == ([], 1)

    harness.run(body)


def test_a_name_that_nobody_can_have_is_nobodys(harness: Harness) -> None:
    """Whatever its letters are, also those that a database does not take: there is nothing by that name."""

    async def body(store: Store, clock: SetClock) -> None:
        await _finished(store, clock)
        reads = store.tenant(ORG)
        by_name = [pair for read, pair in READS.items() if read not in LISTS]
        for name in ("\x00", "a\x00b", "\U0010ffff", "' OR ''='", "%"):
            for read, nothing in by_name:
                assert await read(reads, name, name) == nothing
            assert await store.access.find("job", name) is None
            assert await store.access.find("result", name) is None
            assert await store.access.revoke_key(name, org_id=None) is None
            assert (await reads.jobs(JobFilter(text=name))).views == []
            assert (await reads.jobs(JobFilter(analysis=name))).views == []

    harness.run(body)
