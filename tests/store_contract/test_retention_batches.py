"""Retention in batches: no write is long, no page is skipped, and nothing is looked at twice."""

from collections import defaultdict
from functools import partial
from typing import Any

import pytest

from langlauf.domain.instant import SECOND
from langlauf.domain.result import RetentionPolicy
from langlauf.hints import Hints
from langlauf.maintenance.duties import apply_retention
from langlauf.store import retention
from langlauf.store.postgres.admin import PostgresRetention
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.protocol import Store
from langlauf.store.sqlite.driver import SqliteStore
from langlauf.store.sqlite.retention import SqliteRetention
from tests.support.outbox import leave_pending
from tests.support.store_kinds import StoreUnderTest
from tests.support.stores import DAY, JobFactory, SetClock

WEEK = RetentionPolicy(final_results=7 * DAY, partial_results=7 * DAY, events=3 * DAY, jobs=90 * DAY)
DAY_MICROS = round(DAY * SECOND)


def shelf_of(store: Store) -> retention.RetentionStore:
    """What retention asks a store for."""
    if isinstance(store, PostgresStore):
        return PostgresRetention(store._connections["maintenance"], Hints(), None)
    assert isinstance(store, SqliteStore)
    return SqliteRetention(store.path, store._read, store._writes.do, store._queries)


def test_more_than_one_page_is_taken(bed: StoreUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs beyond the first page go too, also behind a page of jobs that are held."""
    monkeypatch.setattr(retention, "JOBS_PER_PAGE", 2)

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        held = [await make.completed(0) for _ in range(3)]
        for job_id in held:
            leave_pending(bed, job_id, "email")
        for _ in range(5):
            await make.completed(0)
        clock.pass_(100 * DAY)
        report = await apply_retention(store, WEEK)
        assert (report.results.delete_count, report.results.kept_count, report.results.eligible_terminal) == (5, 3, 8)
        assert report.jobs_deleted == 5

    bed.play(scene)


def test_batches_are_bounded_by_rows(bed: StoreUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write takes no more rows than its limit, unless a single job has more."""
    monkeypatch.setattr(retention, "_MOST_ROWS", 8)
    monkeypatch.setattr(retention, "_FEWEST_ROWS", 8)
    store: Any = PostgresRetention if bed.kind == "postgres" else SqliteRetention
    sizes: list[int] = []
    take = store.take

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        for _ in range(4):
            await make.completed(0)
        await make.completed(8)
        clock.pass_(4 * DAY)
        assert (await apply_retention(store, WEEK)).events.delete_count == 28

    async def watched(self: object, batch: retention.RetireBatch) -> int:
        sizes.append(await take(self, batch))
        return sizes[-1]

    monkeypatch.setattr(store, "take", watched)
    bed.play(scene)
    assert sizes == [8, 8, 12]


def test_a_page_that_is_older_than_a_change_takes_nothing_more(bed: StoreUnderTest) -> None:
    """Whoever takes asks again: a job that is not old enough, or whose delivery is pending by now, keeps everything."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        held, young, running = await make.completed(1), await make.completed(1), await make.running()
        leave_pending(bed, held, "email")
        limits = retention.cutoffs_of(WEEK, clock.now())
        jobs = tuple((make.org_id, job_id) for job_id in (held, young, running.lease.job_id))
        later = retention.cutoffs_of(WEEK, clock.now() + 100 * DAY_MICROS)
        for kind in ("results", "events", "jobs"):
            batch = partial(retention.RetireBatch, kind=kind)
            assert await shelf_of(store).take(batch(jobs=jobs, cutoffs=limits)) == 0
            assert await shelf_of(store).take(batch(jobs=(jobs[0], jobs[2]), cutoffs=later)) == 0

    bed.play(scene)
    assert bed.query("SELECT count(*), count(result_expired_at), count(events_expired_at) FROM jobs") == [(3, 0, 0)]


def test_finding_uses_the_indexes_of_what_is_left(bed: StoreUnderTest) -> None:
    """The finders walk only over jobs that still have something: a job that was retired is not looked at again."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.completed(1)
        clock.pass_(8 * DAY)
        await apply_retention(store, WEEK)
        limits = retention.cutoffs_of(WEEK, clock.now())
        assert await shelf_of(store).page("results", limits, None, 10) == []
        assert await shelf_of(store).page("events", limits, None, 10) == []

    bed.play(scene)
    table, columns = _FINISHED[bed.kind]
    assert bed.query(f"SELECT kept FROM {table}") == [(0,)]
    assert bed.query(columns) == [("kept",), ("finished_at",)]


#: Where a store keeps what is left of a job, and the columns of the index over it.
_SQLITE = ("job_rows", "SELECT name FROM pragma_index_info('idx_jobs_finished') ORDER BY seqno")
_POSTGRES = (
    "jobs",
    "SELECT attname FROM pg_attribute WHERE attrelid = 'langlauf.idx_jobs_finished'::regclass ORDER BY attnum",
)
_FINISHED = defaultdict(lambda: _SQLITE, postgres=_POSTGRES)
