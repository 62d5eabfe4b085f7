"""Blobs go with the rows that name them, those that no row came for go too, and no other ever does."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from langlauf.clock import new_id
from langlauf.domain.attempt import Backoff, Claim, Lease, Partial, Write
from langlauf.domain.outcome import Canceled, Completed, Failed
from langlauf.domain.result import RetentionPolicy
from langlauf.store.blobs.files import FileBlobs
from langlauf.store.blobs.protocol import ref_of
from langlauf.store.sqlite.driver import SqliteStore
from tests.blobs.blob_stores import SilentBlobs, keys_in, open_with, play_with
from tests.blobs.conftest import Open
from tests.support.stores import DAY, LEASE_SECONDS, SetClock
from tests.support.submissions import ORG, claim, read_job, started
from tests.support.tiers import at_scale

WEEK = RetentionPolicy(final_results=7 * DAY, partial_results=7 * DAY, events=3 * DAY, jobs=90 * DAY)
FINALS_ONLY = RetentionPolicy(final_results=7 * DAY, partial_results=DAY, events=3 * DAY, jobs=90 * DAY)
ENDS: dict[str, Write] = {
    "completed": Completed(result_id="end", payload='"' + "end" * 100 + '"'),
    "failed": Failed(code="internal", message="no", retryable=False),
    "canceled": Canceled(by="worker", reason="asked to"),
}


def large(number: int) -> str:
    """A payload that goes out, like no other."""
    return f'"{number}{"x" * 200}"'


def digest(payload: str) -> str:
    """How its blob is called."""
    return ref_of(payload.encode()).digest


@pytest.mark.parametrize("end", ENDS)
def test_blobs_go_when_their_results_do(tmp_path: Path, opened: Open, end: str) -> None:
    """In the same run, whatever the end was; not before, not in a dry run, and a second run finds nothing."""

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        made = await started(store, clock)
        for number in range(2):
            assert await store.record(made.lease, Partial(result_id=f"r-{number}", payload=large(number)))
        assert await store.record(made.lease, ENDS[end])
        other = await started(store, clock)
        assert await store.record(other.lease, Partial(result_id="lives", payload=large(9)))
        before = await keys_in(store)
        clock.pass_(7 * DAY - 60)
        await store.retire(WEEK, dry_run=False)
        assert await keys_in(store) == before
        clock.pass_(120)
        await store.retire(WEEK, dry_run=True)
        assert await keys_in(store) == before
        await store.retire(WEEK, dry_run=False)
        assert await keys_in(store) == [digest(large(9))]
        gone = await store.tenant(ORG).result("r-0", latest=False)
        assert gone is not None
        assert (gone.delivered.payload, gone.delivered.snapshot.removed_at) == (None, clock.now())
        await store.retire(WEEK, dry_run=False)
        assert await keys_in(store) == [digest(large(9))]

    play_with(tmp_path / "s.db", opened, scene)


def test_what_a_kept_snapshot_shares_with_a_removed_one_stays(tmp_path: Path) -> None:
    """A failed job's partials go apart: a blob goes with the last row that names it."""

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Partial(result_id="partial", payload=large(1)))
        assert await store.record(made.lease, Partial(result_id="other", payload=large(2)))
        assert await store.record(made.lease, Completed(result_id="final", payload=large(1)))
        clock.pass_(2 * DAY)
        await store.retire(FINALS_ONLY, dry_run=False)
        assert await keys_in(store) == [digest(large(1))]
        found = await store.tenant(ORG).result("final", latest=False)
        assert found is not None
        assert found.delivered.payload == large(1)

    play_with(tmp_path / "s.db", lambda: FileBlobs(tmp_path / "blobs"), scene)


def test_blobs_of_a_record_that_is_gone_go(tmp_path: Path) -> None:
    """Also where the record went together with its results."""

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Completed(result_id="r", payload=large(1)))
        clock.pass_(91 * DAY)
        await store.retire(WEEK, dry_run=False)
        assert await store.tenant(ORG).job(made.lease.job_id) is None
        assert await keys_in(store) == []

    play_with(tmp_path / "s.db", lambda: FileBlobs(tmp_path / "blobs"), scene)


async def _crash_before_commit(store: SqliteStore, lease: Lease, write: Partial) -> None:
    """As if the power went between the blob and its row: the first half of what `record` does."""
    assert store.blobs.wants(write)
    assert (await store.blobs.keep(lease, write)).payload is None


def test_a_blob_that_no_row_came_for_goes_after_its_jobs_end(tmp_path: Path, opened: Open) -> None:
    """While the job lives the row may still come; once it has ended it cannot, and then it needs no waiting."""

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        made = await started(store, clock)
        orphan, kept = Partial(result_id="r-1", payload=large(1)), Partial(result_id="r-2", payload=large(2))
        await _crash_before_commit(store, made.lease, orphan)
        assert await store.record(made.lease, kept)
        clock.pass_(LEASE_SECONDS + 1)
        await store.sweep(grace_seconds=5, backoff=Backoff(0, 0))
        await store.retire(WEEK, dry_run=False)
        assert await keys_in(store) == sorted(digest(large(number)) for number in (1, 2))
        [again] = await claim(store)
        assert await store.record(again.lease, Completed(result_id="r-3", payload="1"))
        await store.retire(WEEK, dry_run=False)
        assert await keys_in(store) == [digest(large(2))]

    play_with(tmp_path / "s.db", opened, scene)


def test_a_row_that_comes_late_finds_its_blob(tmp_path: Path) -> None:
    """Retention that runs between the blob and its row, however long that takes, leaves it alone."""

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        made = await started(store, clock)
        keep = store.blobs.keep

        async def late(lease: Lease, write: Partial | Completed) -> Partial | Completed:
            named = await keep(lease, write)
            await store.retire(WEEK, dry_run=False)
            return named

        store.blobs.keep = late  # type: ignore[method-assign]
        assert await store.record(made.lease, Completed(result_id="r", payload=large(1)))
        await store.retire(WEEK, dry_run=False)
        found = await store.tenant(ORG).result("r", latest=True)
        assert found is not None
        assert found.delivered.payload == large(1)

    play_with(tmp_path / "s.db", lambda: FileBlobs(tmp_path / "blobs"), scene)


def test_a_zombie_leaves_nothing_for_long(tmp_path: Path) -> None:
    """Its write is refused, what it had put there goes with the next run, and the true result stays."""

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        zombie = await started(store, clock)
        clock.pass_(LEASE_SECONDS + 1)
        await store.sweep(grace_seconds=5, backoff=Backoff(0, 0))
        [owner] = await claim(store)
        assert await store.record(owner.lease, Completed(result_id="r", payload=large(1)))
        assert not await store.record(zombie.lease, Completed(result_id="late", payload=large(2)))
        assert len(await keys_in(store)) == 2
        await store.retire(WEEK, dry_run=False)
        assert await keys_in(store) == [digest(large(1))]

    play_with(tmp_path / "s.db", lambda: FileBlobs(tmp_path / "blobs"), scene)


def test_a_file_that_never_became_whole_goes_too(tmp_path: Path) -> None:
    """What a crash left in the middle of writing is found like any other orphan; what is not ours is not touched."""

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Completed(result_id="r", payload=large(1)))
        [file] = [one for one in (tmp_path / "blobs").rglob("*") if one.is_file()]
        torn = file.with_name(f"{file.name}.{new_id()}")
        torn.write_bytes(b'"1x')
        foreign = [file.with_name("README.txt"), file.with_name(".hidden"), tmp_path / "blobs" / "lost+found"]
        for one in foreign:
            one.write_text("somebody else's")
        await store.retire(WEEK, dry_run=False)
        assert not torn.exists()
        assert all(one.exists() for one in (file, *foreign))

    play_with(tmp_path / "s.db", lambda: FileBlobs(tmp_path / "blobs"), scene)


def test_another_store_on_the_same_place_takes_nothing(tmp_path: Path, opened: Open) -> None:
    """A store that was mistyped, or is new, knows none of the jobs there: that makes them no garbage."""

    async def write(store: SqliteStore, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Completed(result_id="r", payload=large(1)))

    async def mistyped(store: SqliteStore, clock: SetClock) -> None:
        await write(store, clock)
        clock.pass_(91 * DAY)
        await store.retire(WEEK, dry_run=False)
        assert await keys_in(store) == []

    async def read(store: SqliteStore, _: SetClock) -> None:
        assert await keys_in(store) == [digest(large(1))]

    clock = SetClock()
    play_with(tmp_path / "right.db", opened, write, clock=clock)
    play_with(tmp_path / "wrong.db", opened, mistyped)
    play_with(tmp_path / "right.db", opened, read, clock=clock)


def test_a_copy_of_the_store_finds_its_blobs(tmp_path: Path) -> None:
    """A backup is put back under any name, with the place that it had."""

    async def write(store: SqliteStore, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Completed(result_id="r", payload=large(1)))

    async def read(store: SqliteStore, _: SetClock) -> None:
        found = await store.tenant(ORG).result("r", latest=True)
        assert found is not None
        assert found.delivered.payload == large(1)

    clock = SetClock()
    play_with(tmp_path / "s.db", lambda: FileBlobs(tmp_path / "blobs"), write, clock=clock)
    shutil.copy(tmp_path / "s.db", tmp_path / "restored.db")
    play_with(tmp_path / "restored.db", lambda: FileBlobs(tmp_path / "blobs"), read, clock=clock)


def test_retention_removes_the_rest_where_the_place_is_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The report is given, the log says that blobs wait, and they go with the next run."""
    path, clock = tmp_path / "s.db", SetClock()

    async def write(store: SqliteStore, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Completed(result_id="r", payload=large(1)))

    async def away(store: SqliteStore, clock: SetClock) -> None:
        clock.pass_(8 * DAY)
        report = await store.retire(WEEK, dry_run=False)
        assert report.results.delete_count == 1
        [told] = [record for record in caplog.records if record.getMessage() == "maintenance_failed"]
        assert told.fields["duty"] == "blobs"  # type: ignore[attr-defined]

    async def back(store: SqliteStore, _: SetClock) -> None:
        assert len(await keys_in(store)) == 1
        await store.retire(WEEK, dry_run=False)
        assert await keys_in(store) == []

    for opened, scene in ((lambda: FileBlobs(tmp_path / "blobs"), write), (SilentBlobs, away)):
        play_with(path, opened, scene, clock=clock, seconds=0.2)
    play_with(path, lambda: FileBlobs(tmp_path / "blobs"), back, clock=clock)


def test_a_result_that_goes_while_it_is_read_is_expired_and_not_lost(tmp_path: Path) -> None:
    """The row was read, then retention took row and blob: the reader is told what the row says by now."""

    async def scene(store: SqliteStore, clock: SetClock) -> None:
        made = await started(store, clock)
        assert await store.record(made.lease, Completed(result_id="r", payload=large(1)))
        clock.pass_(8 * DAY)
        assert store.blobs._payloads is not None
        read = store.blobs._payloads.read

        async def slowly(*place: str, seconds: float | None = None) -> str | None:
            await store.retire(WEEK, dry_run=False)
            return await read(*place, seconds=seconds)

        store.blobs._payloads.read = slowly  # type: ignore[method-assign, assignment]
        found = await store.tenant(ORG).result("r", latest=False)
        assert found is not None
        assert found.delivered.snapshot.removed_at == clock.now()
        assert (await read_job(store, made.lease.job_id)).job.result_expired_at == clock.now()

    play_with(tmp_path / "s.db", lambda: FileBlobs(tmp_path / "blobs"), scene)


Move = Callable[[SqliteStore, SetClock, list[Claim]], Awaitable[None]]


async def _partial(store: SqliteStore, clock: SetClock, claims: list[Claim]) -> None:
    for made in claims:
        await store.record(made.lease, Partial(result_id=new_id(), payload=large(clock.now() % 3)))


async def _torn(store: SqliteStore, clock: SetClock, claims: list[Claim]) -> None:
    for made in claims[-1:]:
        write = Partial(result_id=new_id(), payload=large(clock.now() % 3))
        await _crash_before_commit(store, made.lease, write)


async def _complete(store: SqliteStore, clock: SetClock, claims: list[Claim]) -> None:
    for made in claims[:1]:
        await store.record(made.lease, Completed(result_id=new_id(), payload=large(clock.now() % 5)))


async def _start(store: SqliteStore, clock: SetClock, claims: list[Claim]) -> None:
    claims.append(await started(store, clock, analysis=new_id()))


async def _lose(store: SqliteStore, clock: SetClock, _: list[Claim]) -> None:
    clock.pass_(LEASE_SECONDS + 1)
    await store.sweep(grace_seconds=5, backoff=Backoff(0, 0))


async def _age(_: SqliteStore, clock: SetClock, __: list[Claim]) -> None:
    clock.pass_(4 * DAY)


async def _retire(store: SqliteStore, _: SetClock, __: list[Claim]) -> None:
    await store.retire(WEEK, dry_run=False)


MOVES: dict[str, Move] = {
    "start": _start,
    "partial": _partial,
    "torn": _torn,
    "complete": _complete,
    "lose": _lose,
    "age": _age,
    "retire": _retire,
}


@settings(
    max_examples=at_scale(40, 20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.sampled_from(sorted(MOVES)), max_size=25))
def test_in_any_order_every_row_has_its_blob_and_every_ended_job_no_other(tmp_path: Path, moves: list[str]) -> None:
    """Whatever is written, torn, lost, ended and retired before."""

    async def main() -> None:
        clock = SetClock()
        store = await open_with(":memory:", clock, FileBlobs(tmp_path / "blobs"))
        claims: list[Claim] = []
        for move in ("start", *moves, "retire"):
            clock.pass_(0.001)
            await MOVES[move](store, clock, claims)
            lying = await _lying(store)
            assert await _named(store, claims) <= lying
        ended = {made.lease.job_id for made in claims if await _is_over(store, made)}
        assert {one for one in lying if one[0] in ended} == {
            one for one in await _named(store, claims) if one[0] in ended
        }
        await store.close()

    asyncio.run(main())


async def _lying(store: SqliteStore) -> set[tuple[str, str]]:
    """All blobs there are, by job and digest."""
    assert store.blobs._payloads is not None
    return {(place.job_id, place.name) async for page in store.blobs._payloads.pages() for place in page}


async def _named(store: SqliteStore, claims: list[Claim]) -> set[tuple[str, str]]:
    """All blobs that rows name, by job and digest."""
    jobs = [(ORG, made.lease.job_id) for made in claims]
    kept = await store.kept_payloads(jobs)
    return {(job_id, ref.split(":")[2]) for (_, job_id), job in kept.items() for ref in job.refs}


async def _is_over(store: SqliteStore, made: Claim) -> bool:
    view = await store.tenant(ORG).job(made.lease.job_id)
    return view is None or view.job.terminal
