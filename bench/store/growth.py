"""What a claim, a submission and a status cost beside many jobs on SQLite: files with few and many, asked in turns."""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import apsw
import uvloop

from bench.store.counting_store import CountingStore
from bench.store.figures import Compared, compare_medians
from bench.store.fill import Filling, fill
from langlauf.bench.rounds import RESULT, OnProgress, claim_request, new_job
from langlauf.clock import SystemClock, new_id
from langlauf.domain.attempt import Claim
from langlauf.domain.errors import LanglaufError
from langlauf.domain.outcome import Completed
from langlauf.hints import Hints

_ORGS, _ANALYSES = 1_000, 5
_SLOTS, _MOST_TAKEN = 50, 500
_POLLED = 1_000
_EVENTS, _INLINE = 100, 256 * 1024
_LEASE_SECONDS = 3_600.0
_chance = random.Random(7)  # noqa: S311 - which org submits is no secret


class _Site:
    """A file with what waits or has ended in it, and what was measured of it so far."""

    def __init__(self, label: str, path: Path, store: CountingStore, filling: Filling) -> None:
        self.label = label
        self.path = path
        self.taken: dict[str, list[float]] = defaultdict(list)
        #: processor time of the writer's thread
        self.used: dict[str, float] = defaultdict(float)
        self.store = store
        self.filling = filling
        self._clock = SystemClock()
        self._finished: list[tuple[str, str]] = []

    def labelled(self, label: str) -> "_Site":
        """Return the same file under another name, for what is measured later."""
        return _Site(label, self.path, self.store, self.filling)

    async def claim(self, name: str, slots: int) -> None:
        """Claim so many. They are completed, and as many submitted again: the queue stays as it is."""
        began, used = time.perf_counter(), self.store.writer_seconds
        claims = await self.take(slots)
        self._note(name, began, used, slots)
        await asyncio.gather(*(self._replace(claim) for claim in claims))

    async def take(self, slots: int) -> list[Claim]:
        """Claim exactly so many."""
        claims = await self.store.claim(claim_request(slots, self.filling.names, lease_seconds=_LEASE_SECONDS))
        if len(claims) != slots:
            raise LanglaufError(f"a claim of the benchmark got {len(claims)} jobs instead of {slots}")
        return claims

    async def submit(self, name: str) -> None:
        """Submit a job of any of the orgs."""
        new = new_job(self._clock, _chance.choice(self.filling.org_names), _chance.choice(self.filling.names))
        began, used = time.perf_counter(), self.store.writer_seconds
        await self.store.submit(new)
        self._note(name, began, used, 1)

    async def status(self, name: str) -> None:
        """Read the status of one of a thousand jobs from anywhere in the history."""
        org_id, job_id = _chance.choice(self._finished or self._some_finished())
        began = time.perf_counter()
        found = await self.store.tenant(org_id).status(job_id, events=_EVENTS, inline_limit=_INLINE)
        self.taken[name].append(time.perf_counter() - began)
        if found is None:
            raise LanglaufError("a finished job of the benchmark cannot be found")

    async def end(self, claim: Claim) -> None:
        """Complete a job."""
        await self.store.record(claim.lease, Completed(result_id=new_id(), payload=RESULT))

    def _some_finished(self) -> list[tuple[str, str]]:
        keys = _chance.sample(range(1, self.filling.jobs + 1), min(self.filling.jobs, _POLLED))
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            found = "SELECT org_id, job_id FROM job_rows JOIN orgs USING (org) WHERE job = ?"
            rows = [row for key in keys for row in connection.execute(found, (key,))]
            self._finished = [(str(org_id), str(job_id)) for org_id, job_id in rows]
        finally:
            connection.close()
        return self._finished

    def _note(self, name: str, began: float, used: float, jobs: int) -> None:
        self.taken[name].append((time.perf_counter() - began) / jobs)
        self.used[name] += self.store.writer_seconds - used

    async def _replace(self, claim: Claim) -> None:
        await self.end(claim)
        await self.store.submit(new_job(self._clock, claim.lease.org_id, claim.analysis))


#: What is measured: its name, how often, and how.
_Step = tuple[str, int, Callable[[_Site, str], Awaitable[None]]]


def measure_backlog(folder: Path, sizes: tuple[int, ...], samples: int, watch: OnProgress) -> list[Compared]:
    """Compare queues of different length, of a thousand orgs and a few analyses."""
    slots = min(_SLOTS, *sizes)
    steps: list[_Step] = [
        ("claim of one job", samples, lambda site, name: site.claim(name, 1)),
        (f"claim of {slots} jobs, each", max(1, samples // 6), lambda site, name: site.claim(name, slots)),
        ("submission of one job", samples, lambda site, name: site.submit(name)),
    ]
    # As many lanes to each org, however many jobs there are: that number costs, and it is not what is asked.
    fillings = {
        f"{size:,} waiting": Filling(jobs=size, orgs=max(1, min(_ORGS, size // _ANALYSES)), analyses=_ANALYSES)
        for size in sorted(sizes)
    }
    return _measure(folder, fillings, steps, watch)


def measure_history(folder: Path, sizes: tuple[int, ...], samples: int, watch: OnProgress) -> list[Compared]:
    """Compare stores with few and with many finished jobs."""
    steps: list[_Step] = [
        ("status of a job", 5 * samples, lambda site, name: site.status(name)),
        ("submission of one job", samples, lambda site, name: site.submit(name)),
    ]
    fillings = {
        f"{size:,} finished": Filling(jobs=size, orgs=min(_ORGS, size), finished=True) for size in sorted(sizes)
    }
    return _measure(folder, fillings, steps, watch)


def measure_dead(folder: Path, taken: int, samples: int, watch: OnProgress) -> list[Compared]:
    """Compare claims before and after so many jobs were taken while a transaction that reads is held open."""
    path = folder / "dead.db"
    filling = Filling(jobs=taken + 2 * samples)
    fill(path, filling, watch)
    try:
        return [uvloop.run(_beside_a_reader(path, filling, taken, samples, watch))]
    finally:
        _remove(path)


def _measure(folder: Path, fillings: dict[str, Filling], steps: list[_Step], watch: OnProgress) -> list[Compared]:
    filled: list[tuple[str, Path, Filling]] = []
    try:
        for number, (label, filling) in enumerate(fillings.items()):
            filled.append((label, folder / f"growth-{number}.db", filling))
            fill(filled[-1][1], filling, watch)
        return uvloop.run(_compare(filled, steps, watch))
    finally:
        for _, path, _ in filled:
            _remove(path)


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


async def _compare(filled: list[tuple[str, Path, Filling]], steps: list[_Step], watch: OnProgress) -> list[Compared]:
    async with AsyncExitStack() as stack:
        sites = [_Site(label, path, await _opened(stack, path), filling) for label, path, filling in filled]
        await _in_turns(sites, steps, watch)
    return [compare_medians(name, sites) for name, *_ in steps]


async def _beside_a_reader(path: Path, filling: Filling, taken: int, samples: int, watch: OnProgress) -> Compared:
    async with AsyncExitStack() as stack:
        before = _Site("nothing taken", path, await _opened(stack, path), filling)
        after = before.labelled(f"{taken:,} taken beside a long transaction")
        reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        stack.callback(reader.close)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM orgs").fetchall()
        steps: list[_Step] = [("claim of one job", samples, lambda site, name: site.claim(name, 1))]
        await _in_turns([before], steps, watch)
        done = 0
        while done < taken:
            claims = await before.take(min(_MOST_TAKEN, taken - done))
            await asyncio.gather(*(before.end(claim) for claim in claims))
            watch(done := done + len(claims), taken)
        await _in_turns([after], steps, watch)
        return compare_medians("claim of one job", [before, after])


async def _opened(stack: AsyncExitStack, path: Path) -> CountingStore:
    store = await CountingStore.open(str(path), clock=SystemClock(), hints=Hints())
    stack.push_async_callback(store.close)
    return store


async def _in_turns(sites: Sequence[_Site], steps: Sequence[_Step], watch: OnProgress) -> None:
    """Every file does the same thing before the next thing comes; which one begins changes."""
    total, done = sum(times for _, times, _ in steps), 0
    for name, times, measure in steps:
        for number in range(times):
            for site in sites if number % 2 else reversed(sites):
                await measure(site, name)
            watch(done := done + 1, total)
