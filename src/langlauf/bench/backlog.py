"""What a claim and a submission cost beside a long queue on SQLite: files with short and long ones, asked in turns."""

import asyncio
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop

from langlauf.bench.counting_store import CountingStore
from langlauf.bench.figures import Compared, Watch
from langlauf.bench.fill import Filling, fill
from langlauf.bench.work import RESULT, claim_request, new_job
from langlauf.clock import SystemClock, new_id
from langlauf.domain.attempt import Claim
from langlauf.domain.errors import LanglaufError
from langlauf.domain.outcome import Completed
from langlauf.hints import Hints

_ORGS, _ANALYSES = 1_000, 5
_SLOTS = 50
_LEASE_SECONDS = 3_600.0
_chance = random.Random(7)  # noqa: S311 - which org submits is no secret


class _Queue:
    """A file with what waits in it, and what was measured of it so far."""

    def __init__(self, store: CountingStore, filling: Filling) -> None:
        self.label = f"{filling.jobs:,} waiting"
        self.taken: dict[str, list[float]] = defaultdict(list)
        #: processor time of the writer's thread
        self.used: dict[str, float] = defaultdict(float)
        self._store = store
        self._filling = filling
        self._clock = SystemClock()

    async def claim(self, name: str, slots: int) -> None:
        """What it takes is completed, and as much submitted again: the queue stays as it is."""
        began, used = time.perf_counter(), self._store.writer_seconds
        claims = await self._store.claim(claim_request(slots, self._filling.names, lease_seconds=_LEASE_SECONDS))
        self._note(name, began, used, slots)
        if len(claims) != slots:
            raise LanglaufError(f"a claim of the benchmark got {len(claims)} jobs instead of {slots}")
        await asyncio.gather(*(self._replace(claim) for claim in claims))

    async def submit(self, name: str) -> None:
        """By any of the orgs."""
        new = new_job(self._clock, _chance.choice(self._filling.org_names), _chance.choice(self._filling.names))
        began, used = time.perf_counter(), self._store.writer_seconds
        await self._store.submit(new)
        self._note(name, began, used, 1)

    def _note(self, name: str, began: float, used: float, jobs: int) -> None:
        self.taken[name].append((time.perf_counter() - began) / jobs)
        self.used[name] += self._store.writer_seconds - used

    async def _replace(self, claim: Claim) -> None:
        await self._store.record(claim.lease, Completed(result_id=new_id(), payload=RESULT))
        await self._store.submit(new_job(self._clock, claim.lease.org_id, claim.analysis))


#: What is measured: its name, how often, and how.
_Step = tuple[str, int, Callable[[_Queue, str], Awaitable[None]]]


def measure_backlog(
    folder: Path, sizes: tuple[int, ...], samples: int, watch_fill: Watch, watch: Watch
) -> list[Compared]:
    """Queues of different length, of a thousand orgs and a few analyses."""
    filled = []
    for size in sorted(sizes):
        # As many lanes to each org, however many jobs there are: that number costs, and it is not what is asked.
        filling = Filling(jobs=size, orgs=max(1, min(_ORGS, size // _ANALYSES)), analyses=_ANALYSES)
        fill(folder / f"queue-{size}.db", filling, watch_fill)
        filled.append((folder / f"queue-{size}.db", filling))
    return uvloop.run(_compare(filled, samples, watch))


async def _compare(filled: list[tuple[Path, Filling]], samples: int, watch: Watch) -> list[Compared]:
    slots = min(_SLOTS, *(filling.jobs for _, filling in filled))
    steps: list[_Step] = [
        ("claim of one job", samples, lambda queue, name: queue.claim(name, 1)),
        (f"claim of {slots} jobs, each", max(1, samples // 6), lambda queue, name: queue.claim(name, slots)),
        ("submission of one job", samples, lambda queue, name: queue.submit(name)),
    ]
    async with AsyncExitStack() as stack:
        queues = []
        for path, filling in filled:
            store = await CountingStore.open(str(path), clock=SystemClock(), hints=Hints())
            stack.push_async_callback(store.close)
            queues.append(_Queue(store, filling))
        await _in_turns(queues, steps, watch)
    return [_compared(name, queues) for name, *_ in steps]


async def _in_turns(queues: Sequence[_Queue], steps: Sequence[_Step], watch: Watch) -> None:
    """Every file does the same thing before the next thing comes; who begins changes."""
    total, done = sum(times for _, times, _ in steps), 0
    for name, times, measure in steps:
        for number in range(times):
            for queue in queues if number % 2 else reversed(queues):
                await measure(queue, name)
            watch(done := done + 1, total)


def _compared(name: str, queues: Sequence[_Queue]) -> Compared:
    microseconds = [round(statistics.median(queue.taken[name]) * 1e6, 1) for queue in queues]
    return Compared(
        what=name,
        beside=[queue.label for queue in queues],
        figures=microseconds,
        ratio=round(microseconds[-1] / microseconds[0], 3),
        processor_ratio=round(queues[-1].used[name] / queues[0].used[name], 3),
        wanted="under 1.3",
    )
