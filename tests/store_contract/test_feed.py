"""The feed of an org: every outbound event once, in order, whoever commits when, and whatever goes meanwhile."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from langlauf.domain.attempt import Partial, Progress
from langlauf.domain.event import (
    FEED_SCAN_LIMIT,
    OUTBOUND,
    EventType,
    FeedEvent,
    FeedPosition,
    FeedRequest,
    to_cloud_event,
)
from langlauf.domain.outcome import Completed, Failed
from langlauf.domain.result import RetentionPolicy
from langlauf.store.protocol import Store
from langlauf.store.tools.drivers import copy_store
from langlauf.store.tools.location import parse_location
from tests.store_contract.conftest import Harness
from tests.support.store_kinds import StoreUnderTest, store_under_test
from tests.support.stores import DAY, JobFactory, SetClock
from tests.support.submissions import ORG, accept, cancel_request, claim, new_job, started

FAILED = Failed(code="internal", message="no", retryable=False)
_EVENTS_GO = RetentionPolicy(final_results=None, partial_results=None, events=DAY, jobs=None)


async def _everything(
    store: Store, after: FeedPosition | None = None, *, org: str = ORG, limit: int = 200, **wish: Any
) -> list[FeedEvent]:
    """All that follows a place, page by page; another test may keep a transaction open on the same server."""
    found, more = list[FeedEvent](), True
    while more:
        page = await store.tenant(org).feed(FeedRequest(after=after, limit=limit, **wish))
        assert len(page.events) <= limit
        found += page.events
        after, more = page.after, page.more or page.held
    return found


async def _lives(store: Store, clock: SetClock) -> None:
    """One job of each end, and more events than go out."""
    for ending in (Completed(result_id="r-final", payload="1"), FAILED):
        made = await started(store, clock)
        assert await store.record(made.lease, Progress(percent=5))
        assert await store.record(made.lease, Partial(result_id=f"r-{made.lease.job_id}", payload="1"))
        assert await store.record(made.lease, ending)
    job = await accept(store, clock)
    await store.cancel(cancel_request(job.job_id))
    await accept(store, clock, org="org-b")


def test_a_feed_is_every_outbound_event_and_goes_on_from_any_of_them(harness: Harness) -> None:
    """In the order of what happened, over all jobs of the org; the rest is the same from anywhere."""

    async def body(store: Store, clock: SetClock) -> None:
        await _lives(store, clock)
        whole = await _everything(store)
        kinds = [told.event.event_type.removeprefix("job.") for told in whole]
        assert kinds == [
            *("queued", "running", "partial", "completed"),
            *("queued", "running", "partial", "failed"),
            *("queued", "canceled"),
        ]
        assert {told.event.org_id for told in whole} == {ORG}
        for limit in (1, 3):
            assert await _everything(store, limit=limit) == whole
            for number, told in enumerate(whole):
                assert await _everything(store, told.place, limit=limit) == whole[number + 1 :]

    harness.run(body)


def test_what_goes_out_says_which_result_there_is(harness: Harness) -> None:
    """A snapshot's event names it; a failed job's names the last partial, as its message does."""

    async def body(store: Store, clock: SetClock) -> None:
        await _lives(store, clock)
        out = [to_cloud_event(told, "/analyze") for told in await _everything(store)]
        failed = next(event for event in out if event.type.endswith("failed"))
        assert [event.data.result_id is not None for event in out] == [*2 * (False, False, True, True), False, False]
        assert failed.data.result_id == f"r-{failed.subject}"
        stored = await store.tenant(ORG).events(failed.subject, after=0, limit=10)
        assert failed.id == stored[-1].event_id

    harness.run(body)


def test_some_kinds_alone_and_pages_that_found_none(harness: Harness) -> None:
    """A page looks at so many events and no more, and says where it was, though none was wanted."""

    async def body(store: Store, clock: SetClock) -> None:
        many = FEED_SCAN_LIMIT + 5
        await asyncio.gather(*(store.submit(new_job(clock, max_waiting_org=many + 1)) for _ in range(many)))
        clock.pass_(1)
        await store.cancel(cancel_request((await claim(store))[0].lease.job_id))
        [made] = await claim(store)
        assert await store.record(made.lease, FAILED)
        wish = FeedRequest(kinds=frozenset({EventType.FAILED}))
        while (first := await store.tenant(ORG).feed(wish)).held:
            assert first.events == []  # another test keeps a transaction open on the same server
        assert (first.events, first.more) == ([], True)
        [told] = await _everything(store, kinds=frozenset({EventType.FAILED}))
        assert told.event.job_id == made.lease.job_id
        assert first.after is not None
        assert await _everything(store, first.after, kinds=frozenset({EventType.FAILED})) == [told]

    harness.run(body)


def test_the_end_is_where_only_news_follows(harness: Harness) -> None:
    """Also in an org that has nothing yet, and where retention took all there was."""

    async def body(store: Store, clock: SetClock) -> None:
        for _ in range(2):
            page = await store.tenant(ORG).feed(FeedRequest(latest=True))
            assert (page.events, page.more) == ([], False)
            assert await _everything(store, page.after) == []
            job = await accept(store, clock)
            [told] = await _everything(store, page.after)
            assert told.event.job_id == job.job_id
            await store.cancel(cancel_request(job.job_id))
            await _everything(store, told.place)  # the feed ends before what cannot be told yet

    harness.run(body)


def test_what_commits_at_the_same_instant_is_not_passed_over(harness: Harness) -> None:
    """The clock stands, and each job has a lower id than the one before."""

    async def body(store: Store, clock: SetClock) -> None:
        after: FeedPosition | None = None
        for number in range(9, 0, -1):
            await store.submit(new_job(clock, job_id=f"job-{number}"))
            [told] = await _everything(store, after)
            assert told.event.job_id == f"job-{number}"
            after = told.place

    harness.run(body)


def test_a_reader_beside_many_writers_gets_every_event_once_and_each_job_in_order(shared: Harness) -> None:
    """Several programs write at once, at instants that are the same, while one reads on and on."""
    jobs_each = 12

    async def write(store: Store, clock: SetClock, analysis: str) -> None:
        for _ in range(jobs_each):
            made = await started(store, clock, analysis=analysis)
            await store.record(made.lease, Partial(result_id=f"p-{made.lease.job_id}", payload="1"))
            await store.record(made.lease, Completed(result_id=f"r-{made.lease.job_id}", payload="1"))

    async def body(stores: list[Store], clock: SetClock) -> None:
        writing = asyncio.gather(*(write(one, clock, f"a-{place}") for place, one in enumerate(stores[1:])))
        seen, after = list[FeedEvent](), None
        over = False
        while not over:
            over = writing.done()  # what is read from here on is all there is
            page = await stores[0].tenant(ORG).feed(FeedRequest(after=after, limit=7))
            seen += page.events
            after = page.after
            over = over and not page.more and not page.held
            await asyncio.sleep(0)
        await writing
        ids = [told.event.event_id for told in seen]
        assert len(set(ids)) == len(ids) == 3 * jobs_each * 4
        logs = dict[str, list[int]]()
        for told in seen:
            logs.setdefault(told.event.job_id, []).append(told.event.event_seq)
        assert all(log == [1, 2, 3, 4] for log in logs.values()), logs

    shared.run_many(4, body)


def test_a_place_outlives_the_event_it_is_behind(bed: StoreUnderTest) -> None:
    """Retention takes every event, the newest too; whoever was behind it gets what comes next, and nothing else."""

    async def scene(store: Store, maker: JobFactory, clock: SetClock) -> None:
        made = await maker.running()
        assert await store.record(made.lease, FAILED)
        places = [told.place for told in await _everything(store)]
        clock.pass_(2 * DAY)
        report = await store.retire(_EVENTS_GO, dry_run=False)
        assert report.events.delete_count > 0
        assert await _everything(store) == []
        job = await maker.queued()
        for place in places:
            assert [told.event.job_id for told in await _everything(store, place)] == [job.job_id]

    bed.play(scene)


@pytest.fixture
def beds(tmp_path: Path) -> Iterator[Any]:
    """Makes empty stores."""
    with ExitStack() as stack:

        def made(kind: str, name: str) -> StoreUnderTest:
            (tmp_path / name).mkdir()
            return stack.enter_context(store_under_test(kind, tmp_path / name))

        yield made


KINDS = [("sqlite", "postgres"), ("postgres", "sqlite"), ("sqlite", "sqlite")]


@pytest.mark.parametrize("kinds", KINDS, ids="-to-".join)
def test_a_place_is_good_in_a_copy_of_the_store(beds: Any, kinds: tuple[str, str]) -> None:
    """What was not read yet comes, whichever store counts; what comes twice has the same id."""
    source, target = beds(kinds[0], "from"), beds(kinds[1], "to")
    clock = SetClock()

    async def before(store: Store, maker: JobFactory, _: SetClock) -> list[FeedEvent]:
        for _number in range(3):
            made = await maker.running()
            assert await store.record(made.lease, FAILED)
            clock.pass_(200)
        return await _everything(store)

    async def after(store: Store, maker: JobFactory, _: SetClock) -> None:
        job = await maker.queued()
        again = await _everything(store)
        assert [told.event for told in again[:-1]] == [told.event for told in whole]
        for number, told in enumerate(whole):
            got = [one.event.event_id for one in await _everything(store, told.place)]
            unread = [one.event.event_id for one in again[number + 1 :]]
            assert got[-len(unread) :] == unread
            assert len(got) - len(unread) <= 3, "only what is as recent as the place comes again"
            assert again[-1].event.job_id == job.job_id

    whole = source.play(before, clock)
    assert copy_store(parse_location(source.place), parse_location(target.place), running=True, watch=_quiet).complete
    target.play(after, clock)


def _quiet(*_: object) -> None:
    """Nobody watches."""


def test_what_is_no_outbound_event_has_no_place(tmp_path: Path) -> None:
    """Every kind that goes out, and no other, is in the index."""

    async def scene(_: Store, make: JobFactory, __: SetClock) -> None:
        await make.one_of_each()

    with store_under_test("sqlite", tmp_path) as bed:
        bed.play(scene)
        placed = dict(bed.query("SELECT event_type, max(feed_at IS NOT NULL) FROM job_events GROUP BY event_type"))
        unplaced = dict(bed.query("SELECT event_type, max(feed_at IS NULL) FROM job_events GROUP BY event_type"))
    assert {kind for kind, some in placed.items() if some} == set(OUTBOUND)
    assert {kind for kind, some in unplaced.items() if some} == set(placed) - set(OUTBOUND) != set()
    folder = Path(__file__).parents[2] / "src/langlauf/store"
    named = ",".join(f"'{kind}'" for kind in OUTBOUND)
    for text in (folder / "sqlite/migrations/0001_store.sql", folder / "postgres/migrations/0001_tables.sql"):
        assert f"IN({named})" in "".join(text.read_text("utf-8").split()), "what is brought from elsewhere too"
    assert msgspec.structs.fields(FeedPosition)[0].name == "life"
