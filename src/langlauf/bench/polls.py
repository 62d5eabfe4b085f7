"""What a history costs: stores with few and with many finished jobs, asked the same things in turns.

A status is asked for as a server under load asks: many at once, so that the way to the reader's thread and back is
shared and what is left is the read itself. Once any job of the whole history is asked for, which finds no page in the
store's cache when there are many, and once the latest thousand, which is what people poll.
"""

import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import uvloop

from langlauf.bench.figures import ORG, History, Polls, Ratios, Watch
from langlauf.bench.fill import fill
from langlauf.bench.work import claim_request, new_job
from langlauf.clock import SystemClock
from langlauf.domain.errors import LanglaufError
from langlauf.domain.views import JobFilter
from langlauf.hints import Hints
from langlauf.store.sqlite.driver import SqliteStore

_RECENT = 1_000
_AT_ONCE = 32
_BURSTS = 200
_SINGLE = 200
_EVENTS, _INLINE = 100, 256 * 1024


class _Aged:
    """A filled store and what was measured of it so far, in seconds per operation."""

    def __init__(self, path: Path, store: SqliteStore, jobs: int, fill_seconds: float) -> None:
        self.path = path
        self.store = store
        self.jobs = jobs
        self.fill_seconds = fill_seconds
        self.any_ids, self.recent_ids = _ids(path, jobs)
        self.taken: dict[str, list[float]] = {"status": [], "recent": [], "page": [], "work": []}

    def figures(self) -> History:
        """The medians."""
        cost = {name: round(statistics.median(seconds) * 1e6, 1) for name, seconds in self.taken.items()}
        return History(
            finished_jobs=self.jobs,
            fill_seconds=round(self.fill_seconds, 1),
            file_bytes=self.path.stat().st_size,
            status_us=cost["status"],
            status_recent_us=cost["recent"],
            first_page_us=cost["page"],
            submit_and_claim_us=cost["work"],
        )


def measure_polls(folder: Path, histories: tuple[int, ...], watch_fill: Watch, watch: Watch) -> Polls:
    """Fills one store per size, then compares them; the ratios are those of the largest to the smallest."""
    sizes = sorted(histories)
    filled = []
    for size in sizes:
        path = folder / f"history-{size}.db"
        began = time.perf_counter()
        fill(path, size, watch_fill)
        filled.append((path, size, time.perf_counter() - began))
    found = uvloop.run(_compare(filled, watch))
    small, large = found[0], found[-1]
    ratios = Ratios(
        status=round(large.status_us / small.status_us, 3),
        status_recent=round(large.status_recent_us / small.status_recent_us, 3),
        first_page=round(large.first_page_us / small.first_page_us, 3),
        submit_and_claim=round(large.submit_and_claim_us / small.submit_and_claim_us, 3),
    )
    return Polls(histories=found, ratios=ratios)


async def _compare(filled: list[tuple[Path, int, float]], watch: Watch) -> list[History]:
    clock = SystemClock()
    stores = []
    try:
        for path, size, seconds in filled:
            stores.append(_Aged(path, await SqliteStore.open(str(path), clock=clock, hints=Hints()), size, seconds))
        for number in range(_BURSTS + _SINGLE):
            watch(number + 1, _BURSTS + _SINGLE)
            # Whoever comes second finds the processor as the first one left it: take turns.
            for aged in stores if number % 2 else reversed(stores):
                await (_burst(aged) if number < _BURSTS else _single(aged, clock))
        return [aged.figures() for aged in stores]
    finally:
        for aged in stores:
            await aged.store.close()


async def _burst(aged: _Aged) -> None:
    await _timed(aged.taken["status"], lambda: _poll(aged.store, aged.any_ids), _AT_ONCE)
    await _timed(aged.taken["recent"], lambda: _poll(aged.store, aged.recent_ids), _AT_ONCE)


async def _single(aged: _Aged, clock: SystemClock) -> None:
    await _timed(aged.taken["page"], lambda: aged.store.tenant(ORG).jobs(JobFilter()))
    await _timed(aged.taken["work"], lambda: _submit_and_claim(aged.store, clock))


async def _timed(taken: list[float], run: Callable[[], Awaitable[object]], count: int = 1) -> None:
    began = time.perf_counter()
    await run()
    taken.append((time.perf_counter() - began) / count)


async def _poll(store: SqliteStore, ids: list[str]) -> None:
    reads = store.tenant(ORG)
    wanted = random.choices(ids, k=_AT_ONCE)  # noqa: S311 - which jobs are polled is no secret
    found = await asyncio.gather(
        *(reads.status(job_id, events=_EVENTS, inline_limit=_INLINE) for job_id in wanted)
    )
    if not all(found):
        raise LanglaufError("a finished job of the benchmark cannot be found")


async def _submit_and_claim(store: SqliteStore, clock: SystemClock) -> None:
    await store.submit(new_job(clock))
    if len(await store.claim(claim_request(1))) != 1:
        raise LanglaufError("a job of the benchmark cannot be claimed")


def _ids(path: Path, jobs: int) -> tuple[list[str], list[str]]:
    """Jobs from anywhere in the history, and the latest ones."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        rows = random.sample(range(1, jobs + 1), min(jobs, _AT_ONCE * _BURSTS))
        anywhere = [connection.execute("SELECT job_id FROM jobs WHERE rowid = ?", (row,)).get for row in rows]
        latest = connection.execute(
            "SELECT job_id FROM jobs WHERE org_id = ? ORDER BY job_id DESC LIMIT ?", (ORG, _RECENT)
        ).fetchall()
    finally:
        connection.close()
    return [str(job_id) for job_id in anywhere], [str(row[0]) for row in latest]
