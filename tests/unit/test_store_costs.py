"""What claims, submissions and reports cost: no more steps of SQLite where more waits or more is held back."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import apsw
import pytest

from langlauf.domain.attempt import Progress
from langlauf.domain.event import FeedRequest
from langlauf.domain.outcome import Released
from langlauf.store.sqlite.driver import SqliteStore
from tests.support.stores import SetClock, opened
from tests.support.submissions import accept, claim, new_job, started

MANY = 5_000
#: A few steps more or less for a deeper tree are no growth.
SAME = 1.3
KNOWN = ("survey", "narrow")
LIMITS = {"narrow": 1}
Fill = Callable[[SqliteStore, SetClock, int], Awaitable[None]]


def _copy(store: SqliteStore, job_id: str, count: int, **changed: str) -> None:
    """Copies a job so many times; `number` in a changed column is which copy it is."""
    connection = store._writer
    columns = [str(row[1]) for row in connection.execute("PRAGMA table_info(job_rows)")][1:]
    values = {
        "job_id": "printf('%s-%06d', job_id, number)",
        "queued_at": "queued_at + number",
        "ticket": "ticket + number",
        **changed,
    }
    connection.execute(
        f"""WITH RECURSIVE numbers (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < :count)
        INSERT INTO job_rows ({", ".join(columns)})
        SELECT {", ".join(values.get(name, name) for name in columns)} FROM job_rows CROSS JOIN numbers
        WHERE job_id = :job_id""",
        {"count": count, "job_id": job_id},
    )
    connection.execute(
        """INSERT INTO lane_rows (org, analysis, waiting, due_at)
        SELECT org, analysis, sum(started_at IS NULL), min(next_attempt_at) FROM job_rows WHERE finished_at IS NULL
        GROUP BY org, analysis
        ON CONFLICT (org, analysis) DO UPDATE SET waiting = excluded.waiting, due_at = excluded.due_at"""
    )
    connection.execute(
        """UPDATE analyses SET waiting = (
            SELECT coalesce(sum(waiting), 0) FROM lane_rows WHERE lane_rows.analysis = analyses.analysis)"""
    )
    connection.execute("INSERT OR IGNORE INTO orgs (org, org_id) SELECT DISTINCT org, 'org-' || org FROM job_rows")
    store._cache.forget()


async def _one_org(store: SqliteStore, clock: SetClock, count: int) -> None:
    job = await accept(store, clock, org="org-m")
    _copy(store, job.job_id, count)


async def _many_orgs(store: SqliteStore, clock: SetClock, count: int) -> None:
    job = await accept(store, clock, org="org-m")
    _copy(store, job.job_id, count, org="100 + number")


async def _many_orgs_at_a_limit(store: SqliteStore, clock: SetClock, count: int) -> None:
    job = await accept(store, clock, org="org-m", analysis="narrow")
    _copy(store, job.job_id, count, org="100 + number")


async def _due_of_a_full_org(store: SqliteStore, clock: SetClock, count: int) -> None:
    await _due(store, clock, count, analysis="survey")
    assert len(await claim(store, 1, analyses=("survey",))) == 1


async def _due_at_a_limit(store: SqliteStore, clock: SetClock, count: int) -> None:
    await _due(store, clock, count, analysis="narrow", org="100 + number")


async def _due_and_unknown(store: SqliteStore, clock: SetClock, count: int) -> None:
    await _due(store, clock, count, analysis="forgotten", org="100 + number")


async def _due(store: SqliteStore, clock: SetClock, count: int, *, analysis: str, **changed: str) -> None:
    job = await accept(store, clock, org="org-m", analysis=analysis)
    [made] = await claim(store, analyses=(analysis,))
    assert await store.record(made.lease, Released())
    # A copy of a job that has started counts as imported: those are not born queued.
    _copy(store, job.job_id, count, imported_at="1", next_attempt_at="next_attempt_at + number", **changed)
    clock.pass_(1)


QUEUES: dict[str, Fill] = {
    "one org": _one_org,
    "many orgs": _many_orgs,
    "many orgs at a limit": _many_orgs_at_a_limit,
    "due jobs of a full org": _due_of_a_full_org,
    "due jobs at a limit": _due_at_a_limit,
    "due jobs nobody knows": _due_and_unknown,
}


async def _steps(store: SqliteStore, do: Callable[[], Awaitable[Any]]) -> int:
    """How many steps SQLite's machine takes for it."""
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    store._writer.set_progress_handler(count, 1)
    await do()
    store._writer.set_progress_handler(None)
    return steps


async def _measured(fill: Fill, count: int) -> tuple[int, int]:
    """Steps of a claim and of a submission, where so many wait and each limit is reached."""
    clock = SetClock()
    async with opened(":memory:", clock) as store:
        await accept(store, clock, org="org-a", analysis="narrow")
        assert len(await claim(store, 1, analyses=KNOWN)) == 1
        await fill(store, clock, count)
        for _ in range(3):
            await accept(store, clock, org="org-z")

        async def take() -> None:
            taken = await claim(store, 3, analyses=KNOWN, limits=LIMITS, max_running_org=1)
            assert taken

        new = new_job(clock, max_waiting_org=MANY * 2, max_waiting_all=MANY * 4, max_waiting_analysis=MANY * 4)
        return await _steps(store, take), await _steps(store, lambda: store.submit(new))


@pytest.mark.parametrize("queue", QUEUES)
def test_neither_claims_nor_submissions_grow_with_the_queue(queue: str) -> None:
    """A hundred times as many jobs, and the same number of steps."""
    few = asyncio.run(_measured(QUEUES[queue], MANY // 100))
    many = asyncio.run(_measured(QUEUES[queue], MANY))
    print(f"{queue}: claim {few[0]} and {many[0]} steps, submission {few[1]} and {many[1]}")
    assert many[0] < few[0] * SAME
    assert many[1] < few[1] * SAME


def test_the_place_of_a_job_is_found_without_counting() -> None:
    """A status poll of a waiting job looks at the ends of its queue, however long it is."""

    async def measured(count: int) -> int:
        clock = SetClock()
        async with opened(":memory:", clock) as store:
            await _one_org(store, clock, count)
            return await _steps(store, store.tenant("org-m").ranks)

    few, many = asyncio.run(measured(MANY // 100)), asyncio.run(measured(MANY))
    assert many < few * SAME


def test_figures_look_at_the_newest_of_a_queue_alone() -> None:
    """As many rows as are shown, however many wait before them."""

    async def measured(count: int) -> tuple[int, int]:
        clock = SetClock()
        async with opened(":memory:", clock) as store:
            await _one_org(store, clock, count)
            mine = await _steps(store, lambda: store.tenant("org-m").overview(since=0, most=10))
            return mine, await _steps(store, lambda: store.overview(since=0, most=10))

    few, many = asyncio.run(measured(MANY // 100)), asyncio.run(measured(MANY))
    assert many[0] < few[0] * SAME
    assert many[1] < few[1] * SAME


def test_a_page_of_the_feed_is_one_walk_from_its_place() -> None:
    """However many jobs there are, and wherever the page begins; nothing is sorted."""

    async def measured(count: int) -> tuple[int, int]:
        clock = SetClock()
        async with opened(":memory:", clock) as store:
            jobs = [new_job(clock, max_waiting_org=count, max_waiting_all=count) for _ in range(count)]
            await asyncio.gather(*map(store.submit, jobs))
            reads = store.tenant("org-a")
            middle = (await reads.feed(FeedRequest(limit=count // 2))).after
            first = await _steps(store, lambda: reads.feed(FeedRequest(limit=10)))
            return first, await _steps(store, lambda: reads.feed(FeedRequest(after=middle, limit=10)))

    few, many = asyncio.run(measured(MANY // 100)), asyncio.run(measured(MANY))
    assert many[0] < few[0] * SAME
    assert many[1] < few[1] * SAME


def test_a_report_is_one_statement_and_its_event() -> None:
    """Without news a second one asks whether the lease is held."""

    async def main() -> None:
        clock = SetClock()
        async with opened(":memory:", clock) as store:
            made = await started(store, clock)
            verbs: list[str] = []
            store._writer.trace_v2(apsw.SQLITE_TRACE_PROFILE, lambda event: verbs.append(_verb(event["sql"])))
            # The last of the first says that something of the org has changed.
            for percent, expected in ((10, ["SELECT", "UPDATE", "INSERT", "UPDATE"]), (10, ["SELECT", "SELECT"])):
                verbs.clear()
                assert await store.record(made.lease, Progress(percent=percent))
                assert verbs == ["BEGIN", *expected, "COMMIT"]

    asyncio.run(main())


def _verb(sql: str) -> str:
    """What a statement does: its first word, past the comment that says why."""
    return next(line for line in sql.splitlines() if not line.startswith("--")).split(maxsplit=1)[0]
