"""Retention in batches: no write is long, no page is skipped, and nothing is looked at twice."""

from pathlib import Path

import pytest

from langlauf.domain.retention import RetentionPolicy
from langlauf.store.sqlite import driver, retiring
from langlauf.store.sqlite.driver import SqliteStore
from langlauf.store.sqlite.transaction import Transaction
from langlauf.upkeep.retention import clean_up
from tests.support.stores import DAY, Maker, SetClock, play, query

WEEK = RetentionPolicy(final_results=7 * DAY, partial_results=7 * DAY, events=3 * DAY, jobs=90 * DAY)


def test_more_than_one_page_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs beyond the first page go too, also behind a page of jobs that are held."""
    path = tmp_path / "s.db"
    monkeypatch.setattr(retiring, "JOBS_PER_BATCH", 2)

    async def scene(store: SqliteStore, make: Maker, clock: SetClock) -> None:
        held = [await make.completed(0) for _ in range(3)]
        for job_id in held:
            query(path, "UPDATE notifications SET channel = 'email' WHERE job_id = ?", job_id)
        for _ in range(5):
            await make.completed(0)
        clock.pass_(100 * DAY)
        report = await clean_up(store, WEEK)
        assert (report.results.delete_count, report.results.kept_count, report.results.eligible_terminal) == (5, 3, 8)
        assert report.jobs_deleted == 5

    play(path, scene)


def test_batches_are_bounded_by_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write takes no more rows than its limit, unless a single job has more."""
    monkeypatch.setattr(retiring, "_ROWS_PER_BATCH", 8)
    sizes: list[int] = []
    take = retiring.retire_batch

    async def scene(store: SqliteStore, make: Maker, clock: SetClock) -> None:
        for _ in range(4):
            await make.completed(0)
        await make.completed(8)
        clock.pass_(4 * DAY)
        assert (await clean_up(store, WEEK)).events.delete_count == 28

    def watched(tx: Transaction, batch: retiring.RetireBatch) -> int:
        sizes.append(take(tx, batch))
        return sizes[-1]

    monkeypatch.setitem(driver._HANDLERS, retiring.RetireBatch, watched)
    play(tmp_path / "s.db", scene)
    assert sizes == [8, 8, 12]


def test_finding_uses_the_indexes_of_what_is_left(tmp_path: Path) -> None:
    """The finders walk only over jobs that still have something: a job that was retired is not looked at again."""
    path = tmp_path / "s.db"

    async def scene(store: SqliteStore, make: Maker, clock: SetClock) -> None:
        await make.completed(1)
        clock.pass_(8 * DAY)
        await clean_up(store, WEEK)

    play(path, scene)
    left = query(
        path,
        "SELECT count(*) FROM jobs INDEXED BY idx_jobs_results_kept"
        " WHERE finished_at IS NOT NULL AND result_id IS NOT NULL AND result_expired_at IS NULL"
        " UNION ALL SELECT count(*) FROM jobs INDEXED BY idx_jobs_events_kept"
        " WHERE finished_at IS NOT NULL AND events_expired_at IS NULL",
    )
    assert left == [(0,), (0,)]
