"""Cleaning up a large store beside submissions: `python -m tests.scale retention [--jobs 200000] [--postgres]`.

The store holds over a million rows that are too old, and others among them that are not, or whose delivery is pending.
Jobs are submitted at a steady rate, in rounds: by turns with nothing else going on, and while the clean-up works. What
the worst hundredth of submissions took in either kind of round is set against the other. Then the clean-up goes on to
its end, and it is looked at what it left: nothing of what was too old, everything of what was not, and nothing for a
second run.
"""

import asyncio
import contextlib
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from langlauf.bench.rounds import new_job
from langlauf.domain.result import RetentionPolicy, RetentionReport
from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.protocol import Store
from langlauf.store.sql import parse_queries
from langlauf.store.sqlite.driver import SqliteStore
from tests.scale.fixture import Scene, filled_in
from tests.support.postgres import fetch
from tests.support.stores import query

DAY = 86_400
POLICY = RetentionPolicy(final_results=7 * DAY, partial_results=7 * DAY, events=3 * DAY, jobs=90 * DAY)
MOST_SLOWER = 2.0
#: what the file's log may reach: SQLite's own limit, and what is written until that is looked at
LARGEST_LOG = 96 * 1024 * 1024
TABLES = ("jobs", "job_inputs", "job_results", "job_events", "notifications")
_SQL = parse_queries(Path(__file__).with_name("retention.sql").read_text("utf-8"))
_COUNT = (
    """SELECT kind, count(*) FROM (SELECT rtrim(job_id, '-0123456789') AS kind FROM {table}) AS named GROUP BY kind"""
)
#: Of these over a million rows go.
JOBS = 200_000
_PER_SECOND = 100
_ROUND_SECONDS = 4.0
_ROUNDS = 12
_APART = 1_000
#: which jobs there are, how long ago they ended, and how many for each hundred
_KINDS = {"ancient": (100 * DAY, 50), "old": (10 * DAY, 50), "young": (DAY // 24, 5), "sending": (100 * DAY, 1)}
#: the tables in which nothing is left of them; a result that went is a tombstone
_GOES = {"ancient": TABLES, "old": ("job_results", "job_events"), "young": (), "sending": ()}
Rows = dict[str, dict[str, int]]


class RetirableJob(NamedTuple):
    """What was measured, in seconds, rows and bytes."""

    #: what submissions took while nothing else went on, and while the clean-up worked
    without: list[float]
    during: list[float]
    #: what the clean-up took in all
    seconds: float
    #: rows by kind of job and table, before and after
    before: Rows
    after: Rows
    second: RetentionReport
    largest_log: int

    @property
    def ratio(self) -> float:
        """How much longer the worst hundredth of submissions took beside the clean-up."""
        return worst_hundredth(self.during) / worst_hundredth(self.without)

    def complaints(self) -> list[str]:
        """What is not as it should be, apart from times."""
        return complaints(self.before, self.after, self.second)


def complaints(before: Rows, after: Rows, second: RetentionReport) -> list[str]:
    """What a clean-up left or took that it should not have, and what a second one still found."""
    wrong = [
        f"{after[kind][table]} of {before[kind][table]} {kind} {table} are left"
        for kind in _KINDS
        for table in TABLES
        if after[kind][table] != (0 if table in _GOES[kind] else before[kind][table])
    ]
    again = second.results.delete_count + second.events.delete_count + second.jobs_deleted
    return wrong + [f"a second run removed {again} rows"] * bool(again)


def worst_hundredth(taken: list[float]) -> float:
    """The time that one in a hundred reaches."""
    return statistics.quantiles(taken, n=100)[98]


def _statements(jobs: int, postgres: bool) -> list[str]:
    more = ", queued_at" if postgres else ""
    words = {
        "now": f"CAST({time.time_ns() // 1_000} AS bigint)",
        "apart": str(_APART),
        "input_more": more,
        "input_values": more,
        "filler": "repeat('word ', 200)" if postgres else "replace(hex(zeroblob(500)), '00', 'wo')",
    }
    statements = []
    for name, (age, share) in _KINDS.items():
        named = {**words, "name": name, "age": f"CAST({age * 1_000_000} AS bigint)"}
        statements.append(filled_in(_SQL["fill_ended"], named, max(1, jobs * share // 100), postgres=postgres))
    rest = (sql for name, sql in _SQL.items() if name != "fill_ended")
    return statements + [filled_in(sql, words, jobs, postgres=postgres) for sql in rest]


SCENE = Scene("results, events and records that are too old", _statements, lambda _: ())


class Load:
    """Submissions at a steady rate, whatever the store takes: one that waits does not hold up the next."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self, seconds: float, over: Callable[[], bool] = lambda: False) -> list[float]:
        """What each of them took, for so many seconds or until something is over."""
        began = time.perf_counter()
        under_way: list[asyncio.Task[float]] = []
        for place in range(round(seconds * _PER_SECOND)):
            await asyncio.sleep(max(0.0, began + place / _PER_SECOND - time.perf_counter()))
            if over():
                break
            under_way.append(asyncio.create_task(self._one(), name="submission"))
        return list(await asyncio.gather(*under_way))

    async def _one(self) -> float:
        began = time.perf_counter()
        await self._store.submit(new_job(self._store.clock, "org-load"))
        return time.perf_counter() - began


class Cleaning:
    """A clean-up that is cut and goes on: cutting it is always safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._task: asyncio.Task[RetentionReport] | None = None
        self._began = 0.0
        self.seconds = 0.0

    def start(self) -> None:
        """Begins, or goes on."""
        self._began = time.perf_counter()
        self._task = asyncio.create_task(self._store.retire(POLICY, dry_run=False), name="clean-up")

    def over(self) -> bool:
        """Whether it has come to its end."""
        return self._task is not None and self._task.done()

    async def stop(self) -> None:
        """Cuts it, unless it is over."""
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self.seconds += time.perf_counter() - self._began

    async def finish(self) -> None:
        """Lets it come to its end."""
        self.start()
        assert self._task is not None
        await self._task
        self.seconds += time.perf_counter() - self._began


class Log:
    """How large the write-ahead log became."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.largest = 0

    async def watch(self) -> None:
        """Looks again and again."""
        while True:
            if self._path.exists():
                self.largest = max(self.largest, self._path.stat().st_size)
            await asyncio.sleep(0.05)


async def measure(place: str, *, rounds: int = _ROUNDS, seconds: float = _ROUND_SECONDS) -> RetirableJob:
    """Rounds by turns, then the rest, then once more."""
    before = rows_in(place)
    log = Log(Path(f"{place}-wal"))
    watching = asyncio.create_task(log.watch(), name="log")
    store = await open_store(place)
    try:
        load, cleaning = Load(store), Cleaning(store)
        without: list[float] = []
        during: list[float] = []
        await load.run(min(1.0, seconds))  # plans are made, and pages come into caches
        for _ in range(rounds):
            without += await load.run(seconds)
            cleaning.start()
            during += await load.run(seconds, cleaning.over)
            await cleaning.stop()
        await cleaning.finish()
        second = await store.retire(POLICY, dry_run=False)
    finally:
        watching.cancel()
        await store.close()
    return RetirableJob(without, during, cleaning.seconds, before, rows_in(place), second, log.largest)


async def open_store(place: str) -> Store:
    """The store at a path or URL."""
    if place.startswith("postgresql:"):
        return await PostgresStore.open(place, hints=Hints())
    return await SqliteStore.open(place, hints=Hints())


def rows_in(place: str) -> Rows:
    """How many rows there are of each kind of jobs, tombstones aside."""
    ask: Callable[[str], list[Any]] = partial(fetch if place.startswith("postgresql:") else query, place)
    schema = "langlauf." if place.startswith("postgresql:") else ""
    found: Rows = {kind: dict.fromkeys(TABLES, 0) for kind in _KINDS}
    for table in TABLES:
        left = "WHERE removed_at IS NULL" if table == "job_results" else ""
        for job_id, count in ask(_COUNT.format(table=f"{schema}{table} {left}")):
            if job_id in found:
                found[str(job_id)][table] = int(str(count))
    return found


def told(found: RetirableJob) -> list[str]:
    """What was measured, in lines."""
    removed = sum(sum(found.before[kind].values()) - sum(found.after[kind].values()) for kind in _KINDS)
    alone, beside = (worst_hundredth(times) * 1_000 for times in (found.without, found.during))
    usual = [statistics.median(times) * 1_000 for times in (found.without, found.during)]
    return [
        f"  {removed:,} rows removed in {found.seconds:.0f} s, {removed / found.seconds:,.0f} per s",
        f"  submit p99 {alone:.1f} ms without and {beside:.1f} ms beside it, ratio {beside / alone:.2f}",
        f"  medians {usual[0]:.1f} and {usual[1]:.1f} ms, {len(found.without):,} and {len(found.during):,} submissions",
        f"  largest log {found.largest_log / 1024 / 1024:.0f} MiB" if found.largest_log else "",
        *(f"  WRONG: {one}" for one in found.complaints()),
    ]
