"""Retention beside others, small and not timed: `python -m tests.scale retention` does the same with a million rows."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import apsw
import pytest

from langlauf.bench.rounds import new_job
from langlauf.domain.errors import StoreError
from langlauf.domain.read_models import JobFilter
from langlauf.domain.result import RetentionPolicy, RetentionReport
from langlauf.maintenance.duties import apply_retention
from langlauf.store import retention as store_retention
from langlauf.store.group_commit import GroupCommit
from langlauf.store.postgres.admin import PostgresRetention
from langlauf.store.protocol import Store
from langlauf.store.retention import Pace, RetentionStore, RetireBatch
from langlauf.store.sqlite.retention import SqliteRetention
from tests.scale import retention
from tests.scale.__main__ import postgres_store, sqlite_store
from tests.support.store_kinds import StoreUnderTest
from tests.support.stores import DAY, JobFactory, SetClock

AT_ONCE = RetentionPolicy(final_results=0, partial_results=0, events=0, jobs=DAY)
#: rows that one batch of the clean-up may take: far fewer than a page of jobs has
MOST_ROWS = 40
STORES = {"postgres": postgres_store, "sqlite": sqlite_store}


class Held:
    """The batches of a clean-up, which waits before the second until it may go on, and before the fifth to be cut."""

    def __init__(self, take: Callable[[Any, RetireBatch], Awaitable[int]]) -> None:
        self._take = take
        self.rows: list[int] = []
        self.before_second, self.may_go_on, self.before_fifth = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def take(self, driver_retention: RetentionStore, batch: RetireBatch) -> int:
        """Take a batch when it is time, and note how many rows it had."""
        if len(self.rows) == 1:
            self.before_second.set()
            await self.may_go_on.wait()
        if len(self.rows) == 4 and not self.before_fifth.is_set():
            self.before_fifth.set()
            await asyncio.Event().wait()  # until the clean-up is cut
        self.rows.append(await self._take(driver_retention, batch))
        return self.rows[-1]


@pytest.mark.parametrize("kind", sorted(STORES))
def test_all_that_is_old_goes_and_nothing_else_while_jobs_come(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way to end, in bounded batches, cut and gone on with; a pending delivery and what is young stay to the row.

    Jobs are accepted between two batches and beside others, and all of them are there in the end.
    """
    monkeypatch.setattr(store_retention, "_MOST_ROWS", MOST_ROWS)
    driver_retention: Any = PostgresRetention if kind == "postgres" else SqliteRetention
    held = Held(driver_retention.take)
    monkeypatch.setattr(driver_retention, "take", lambda self, batch: held.take(self, batch))  # noqa: PLW0108 - a method

    async def submit(store: Store, number: int) -> None:
        await asyncio.gather(*(store.submit(new_job(store.clock, "org-load")) for _ in range(number)))

    async def scene(place: str) -> tuple[RetentionReport, int]:
        store = await retention.open_store(place)
        try:
            cleaning = retention.Cleaning(store)
            cleaning.start()
            await held.before_second.wait()
            await submit(store, 1)
            held.may_go_on.set()
            await submit(store, 15)
            await held.before_fifth.wait()
            await cleaning.stop()
            await cleaning.finish()
            again = await store.retire(retention.POLICY, dry_run=False)
            return again, len((await store.tenant("org-load").jobs(JobFilter())).views)
        finally:
            await store.close()

    made: AbstractContextManager[str] = STORES[kind](retention.SCENE, 300)
    with made as place:
        before = retention.rows_in(place)
        again, accepted = asyncio.run(scene(place))
        after = retention.rows_in(place)
    assert retention.complaints(before, after, again) == []
    assert sum(before["old"].values()) > 1_000
    assert accepted == 16
    assert 0 < max(held.rows) <= MOST_ROWS


def test_the_benchmark_counts_submissions_and_computes_their_ratio() -> None:
    """As many submissions as its rate gives for the time without a clean-up; the ratio is of the worst hundredth."""
    with sqlite_store(retention.SCENE, 20) as place:
        found = asyncio.run(retention.measure(place, rounds=1, seconds=0.02))
    assert found.complaints() == []
    assert (len(found.without), 1 <= len(found.during) <= 2) == (2, True)
    given = found._replace(without=[0.001] * 99 + [0.01], during=[0.001] * 98 + [0.03] * 2)
    assert given.ratio == pytest.approx(0.03 / 0.01, rel=0.02)


def test_a_job_that_cannot_go_is_told_and_the_others_go(bed: StoreUnderTest, caplog: pytest.LogCaptureFixture) -> None:
    """Its neighbours of the same batch are taken; the run is no success, and the next one tries again."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        jobs = [await make.completed(1) for _ in range(5)]
        clock.pass_(2 * DAY)
        _refuse(bed, jobs[2])
        with pytest.raises(StoreError, match="1 jobs could not be cleaned up"):
            await apply_retention(store, AT_ONCE)
        left = [job_id for job_id in jobs if await store.tenant("org-a").job(job_id) is not None]
        assert left == [jobs[2]]
        told = [record.__dict__["fields"] for record in caplog.records if record.getMessage() == "maintenance_failed"]
        assert [(one["duty"], one["kind"], one["job_id"]) for one in told] == [("retention", "jobs", jobs[2])]
        assert "retention_ran" not in caplog.text
        _allow(bed)
        assert (await apply_retention(store, AT_ONCE)).jobs_deleted == 1

    with caplog.at_level(logging.INFO):
        bed.play(scene)


def _refuse(bed: StoreUnderTest, job_id: str) -> None:
    if bed.kind == "postgres":
        bed.query(
            f"CREATE TRIGGER unwilling BEFORE DELETE ON langlauf.job_rows FOR EACH ROW WHEN (OLD.job = '{job_id}') "
            "EXECUTE FUNCTION langlauf.refuse('this one stays')"
        )
    else:
        bed.query(
            f"CREATE TRIGGER unwilling BEFORE DELETE ON job_rows WHEN OLD.job_id = '{job_id}' "
            "BEGIN SELECT RAISE(ABORT, 'this one stays'); END"
        )


def _allow(bed: StoreUnderTest) -> None:
    bed.query("DROP TRIGGER unwilling" + (" ON langlauf.job_rows" if bed.kind == "postgres" else ""))


def test_what_can_wait_goes_behind_everybody_and_yet_goes() -> None:
    """It runs alone when nobody waits, and after some batches of others where somebody always does."""
    batches: list[list[str]] = []

    async def main() -> None:
        coming: list[asyncio.Future[str]] = []

        async def run(batch: Sequence[str]) -> list[str]:
            batches.append(list(batch))
            if batch == ["busy"] and ["late"] not in batches:  # somebody else comes while this one is under way
                coming.append(queue.do("busy"))
            await asyncio.sleep(0)
            return list(batch)

        queue: GroupCommit[str, str] = GroupCommit(run, name="test")
        waiting = [queue.do("first"), queue.do_later("late"), *(queue.do(f"other-{number}") for number in range(3))]
        await asyncio.gather(*waiting)
        assert (batches[0], batches[-1]) == (["first", "other-0", "other-1", "other-2"], ["late"])
        batches.clear()
        await asyncio.gather(queue.do("busy"), queue.do_later("late"))
        assert 5 < batches.index(["late"]) < 50
        await asyncio.gather(*coming)

    asyncio.run(main())


def test_a_write_holds_as_much_as_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick writes grow, slow ones shrink, and neither without end."""

    async def main() -> None:
        pace = Pace()
        few = pace.rows
        for _ in range(30):
            await pace.rest(pace.rows, 0.0001)
        many = pace.rows
        for _ in range(30):
            await pace.rest(pace.rows, 0.5)
        assert (pace.rows, few < many <= 500) == (few, True)

    async def at_once(_: float) -> None:
        return

    monkeypatch.setattr(asyncio, "sleep", at_once)
    asyncio.run(main())


def test_the_hourly_run_counts_nothing_in_all(bed: StoreUnderTest) -> None:
    """It says what went; what is kept is for those who ask."""

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.completed(1)
        clock.pass_(60)
        report = await apply_retention(store, AT_ONCE, counted=False)
        assert (report.results.delete_count, report.results.kept_count, report.terminal_job_count) == (2, None, None)

    bed.play(scene)


def test_finding_does_not_hold_up_readers(tmp_path: Path) -> None:
    """A file is looked through on a connection of its own, which is let go at the end."""
    bed = StoreUnderTest("sqlite", str(tmp_path / "s.db"))

    async def scene(store: Store, make: JobFactory, clock: SetClock) -> None:
        await make.completed(1)
        clock.pass_(60)
        before = len(apsw.connections())
        await apply_retention(store, AT_ONCE)
        assert len(apsw.connections()) == before

    bed.play(scene)
