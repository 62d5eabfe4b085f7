"""What a history costs: stores with few and with many finished jobs, asked the same things in turns.

Polling asks for the same jobs again and again: a thousand of them, drawn from the whole history. Over HTTP is what a
client pays; the read alone, and many reads at once, show what of it is the store's. A first look at other jobs comes
apart: in a large store their pages are in no cache of ours, and perhaps in none of the system's.
"""

import asyncio
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import apsw
import uvloop

from langlauf.bench.client import Connection
from langlauf.bench.figures import ORG, History, Polls, Ratios, Watch
from langlauf.bench.fill import Filling, fill
from langlauf.bench.http import serving
from langlauf.bench.work import claim_request, new_job
from langlauf.clock import SystemClock
from langlauf.domain.errors import LanglaufError
from langlauf.domain.views import JobFilter
from langlauf.hints import Hints
from langlauf.store.sqlite.driver import SqliteStore

_POLLED = 1_000
_AT_ONCE = 32
_ALONE = 1_000
_BURSTS = 200
_FIRST_LOOKS = 300
_SINGLE = 200
_EVENTS, _INLINE = 100, 256 * 1024
#: The history is spread over weeks: a server that cleaned it up meanwhile would be measured at that.
_KEPT = ("--async-job-results-retention-seconds", "--async-job-events-retention-seconds", "--jobs-retention")
_ONLY_READS = ("--workers", "0", *(word for flag in _KEPT for word in (flag, "3650d")))


class _Aged:
    """A filled store and what was measured of it so far, in seconds per operation."""

    def __init__(self, path: Path, store: SqliteStore, jobs: int, fill_seconds: float) -> None:
        self.path = path
        self.store = store
        self.jobs = jobs
        self.fill_seconds = fill_seconds
        ids = _some_ids(path, jobs)
        self.polled, self.others = ids[:_POLLED], ids[_POLLED:] or ids
        self.taken: dict[str, list[float]] = defaultdict(list)
        self.client: Connection | None = None

    def figures(self) -> History:
        """The medians."""
        cost = {name: round(statistics.median(seconds) * 1e6, 1) for name, seconds in self.taken.items()}
        return History(
            finished_jobs=self.jobs,
            fill_seconds=round(self.fill_seconds, 1),
            file_bytes=self.path.stat().st_size,
            status_us=cost["http"],
            status_read_us=cost["status"],
            status_at_once_us=cost["burst"],
            status_first_us=cost["first"],
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
        fill(path, Filling(jobs=size, finished=True), watch_fill)
        filled.append((path, size, time.perf_counter() - began))
    found = uvloop.run(_compare(filled, watch))
    return Polls(histories=found, ratios=ratios_of(found[0], found[-1]))


def ratios_of(small: History, large: History) -> Ratios:
    """What each figure is beside the large history, divided by what it is beside the small one."""
    return Ratios(
        status=round(large.status_us / small.status_us, 3),
        status_read=round(large.status_read_us / small.status_read_us, 3),
        status_at_once=round(large.status_at_once_us / small.status_at_once_us, 3),
        status_first=round(large.status_first_us / small.status_first_us, 3),
        first_page=round(large.first_page_us / small.first_page_us, 3),
        submit_and_claim=round(large.submit_and_claim_us / small.submit_and_claim_us, 3),
    )


async def _compare(filled: list[tuple[Path, int, float]], watch: Watch) -> list[History]:
    clock = SystemClock()
    stores = []
    async with AsyncExitStack() as stack:
        for path, size, seconds in filled:
            aged = _Aged(path, await SqliteStore.open(str(path), clock=clock, hints=Hints()), size, seconds)
            stack.push_async_callback(aged.store.close)
            aged.client = await Connection.open(await stack.enter_async_context(serving(path, *_ONLY_READS)))
            stack.push_async_callback(aged.client.close)
            stores.append(aged)
        for aged in stores:
            for job_id in aged.polled:
                await _status(aged, job_id)
                await _ask(aged, job_id)
        await _in_turns(stores, clock, watch)
        return [aged.figures() for aged in stores]


async def _in_turns(stores: list[_Aged], clock: SystemClock, watch: Watch) -> None:
    """Every store does the same thing before the next thing comes; who begins changes."""
    plan: list[tuple[int, Callable[[_Aged], Awaitable[None]]]] = [
        (_ALONE, _poll_over_http),
        (_ALONE, lambda aged: _poll(aged, "status", aged.polled)),
        (_BURSTS, lambda aged: _poll(aged, "burst", aged.polled, _AT_ONCE)),
        (_FIRST_LOOKS, lambda aged: _poll(aged, "first", aged.others)),
        (_SINGLE, _list_jobs),
        (_SINGLE, lambda aged: _submit_and_claim(aged, clock)),
    ]
    total, done = sum(times for times, _ in plan), 0
    for times, measure in plan:
        for number in range(times):
            for aged in stores if number % 2 else reversed(stores):
                await measure(aged)
            watch(done := done + 1, total)


async def _poll_over_http(aged: _Aged) -> None:
    job_id = random.choice(aged.polled)  # noqa: S311 - which job is polled is no secret
    began = time.perf_counter()
    await _ask(aged, job_id)
    aged.taken["http"].append(time.perf_counter() - began)


async def _ask(aged: _Aged, job_id: str) -> None:
    if aged.client is not None:
        await aged.client.get(f"/analyze/jobs/{job_id}")


async def _poll(aged: _Aged, name: str, ids: list[str], at_once: int = 1) -> None:
    wanted = random.choices(ids, k=at_once)  # noqa: S311 - which jobs are polled is no secret
    began = time.perf_counter()
    await asyncio.gather(*(_status(aged, job_id) for job_id in wanted))
    aged.taken[name].append((time.perf_counter() - began) / at_once)


async def _status(aged: _Aged, job_id: str) -> None:
    if await aged.store.tenant(ORG).status(job_id, events=_EVENTS, inline_limit=_INLINE) is None:
        raise LanglaufError("a finished job of the benchmark cannot be found")


async def _list_jobs(aged: _Aged) -> None:
    began = time.perf_counter()
    await aged.store.tenant(ORG).jobs(JobFilter())
    aged.taken["page"].append(time.perf_counter() - began)


async def _submit_and_claim(aged: _Aged, clock: SystemClock) -> None:
    new = new_job(clock)
    began = time.perf_counter()
    await aged.store.submit(new)
    claims = await aged.store.claim(claim_request(1))
    aged.taken["work"].append(time.perf_counter() - began)
    if len(claims) != 1:
        raise LanglaufError("a job of the benchmark cannot be claimed")


def _some_ids(path: Path, jobs: int) -> list[str]:
    """Jobs from anywhere in the history: those that are polled, and others."""
    wanted = min(jobs, _POLLED + _FIRST_LOOKS)
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        rows = random.sample(range(1, jobs + 1), wanted)
        return [str(connection.execute("SELECT job_id FROM job_rows WHERE job = ?", (row,)).get) for row in rows]
    finally:
        connection.close()
