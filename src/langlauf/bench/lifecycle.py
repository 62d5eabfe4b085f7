"""The life of jobs through the store: submitted side by side, claimed by one claimer, shown in part, completed.

So many submitters keep that many jobs in flight; the claimer does what the worker's does and takes as many jobs as it
has free slots. A round of the ceiling follows each round of the store, in groups as large as the store's were.
"""

import asyncio
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvloop

from langlauf.bench.ceiling import measure_ceiling
from langlauf.bench.figures import Lifecycle, Round, Watch, median_spread, spread
from langlauf.bench.work import RESULT, claim_request, new_job
from langlauf.clock import SystemClock, new_id
from langlauf.domain.attempt import Claim, Partial
from langlauf.domain.errors import LanglaufError
from langlauf.domain.job import Accepted
from langlauf.domain.outcome import Completed
from langlauf.hints import Hints
from langlauf.store.sqlite.driver import SqliteStore

_WRITES_PER_JOB = 4


class CountingStore(SqliteStore):
    """Counts its transactions."""

    transactions = 0

    def _run_transaction(self, batch: Sequence[Any]) -> list[Any]:
        self.transactions += 1
        return super()._run_transaction(batch)


def measure_lifecycle(folder: Path, *, jobs: int, concurrency: int, rounds: int, watch: Watch) -> Lifecycle:
    """Rounds of store and ceiling in turns, after one of each that only warms up."""
    done: list[Round] = []
    for number in range(rounds + 1):
        watch(number, rounds + 1)
        size = jobs if number else max(1, jobs // 4)
        lived = uvloop.run(_one_round(folder / f"store-{number}.db", size, concurrency))
        group = max(1, round(lived.mean_batch))
        ceiling = measure_ceiling(folder / f"ceiling-{number}.db", size, group)
        if number:
            done.append(lived.beside(ceiling))
    watch(rounds + 1, rounds + 1)
    jobs_per_second = statistics.median(one.jobs_per_second for one in done)
    ceiling = statistics.median(one.ceiling_jobs_per_second for one in done)
    return Lifecycle(
        jobs=jobs,
        concurrency=concurrency,
        jobs_per_second=round(jobs_per_second, 1),
        ceiling_jobs_per_second=round(ceiling, 1),
        ratio_to_ceiling=round(jobs_per_second / ceiling, 3),
        mean_batch=round(statistics.median(one.mean_batch for one in done), 1),
        submit_ms=median_spread([one.submit_ms for one in done]),
        submit_to_start_ms=median_spread([one.submit_to_start_ms for one in done]),
        rounds=done,
    )


class _Lived:
    """What one round of the store took."""

    def __init__(self, jobs: int, seconds: float, transactions: int) -> None:
        self.jobs_per_second = jobs / seconds
        self.mean_batch = _WRITES_PER_JOB * jobs / transactions
        self.submits: list[float] = []
        self.starts: list[float] = []

    def beside(self, ceiling: float) -> Round:
        """The round with its ceiling."""
        return Round(
            jobs_per_second=round(self.jobs_per_second, 1),
            ceiling_jobs_per_second=round(ceiling, 1),
            mean_batch=round(self.mean_batch, 1),
            submit_ms=spread(self.submits),
            submit_to_start_ms=spread(self.starts),
        )


async def _one_round(path: Path, jobs: int, concurrency: int) -> _Lived:
    clock, hints = SystemClock(), Hints()
    store = await CountingStore.open(str(path), clock=clock, hints=hints)
    try:
        crowd = _Crowd(store, hints, jobs, concurrency)
        began = time.perf_counter()
        await crowd.live()
        lived = _Lived(jobs, time.perf_counter() - began, store.transactions)
        lived.submits, lived.starts = crowd.submits, crowd.starts
        return lived
    finally:
        await store.close()


class _Crowd:
    """The jobs of one round and whoever submits, claims and runs them."""

    def __init__(self, store: SqliteStore, hints: Hints, jobs: int, concurrency: int) -> None:
        self.submits: list[float] = []
        self.starts: list[float] = []
        self._store = store
        self._hints = hints
        self._clock = SystemClock()
        self._to_submit = jobs
        self._slots = concurrency
        self._began: dict[str, float] = {}
        self._ends: dict[str, asyncio.Future[None]] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def live(self) -> None:
        """Returns when every job has completed."""
        claimer = asyncio.create_task(self._claim_for_ever())
        async with asyncio.TaskGroup() as submitters:
            for _ in range(self._slots):
                submitters.create_task(self._submit_in_turn())
        claimer.cancel()
        await asyncio.wait({claimer})

    async def _submit_in_turn(self) -> None:
        while self._to_submit > 0:
            self._to_submit -= 1
            new = new_job(self._clock)
            job_id = new.job.job_id
            ended = self._ends[job_id] = asyncio.get_running_loop().create_future()
            self._began[job_id] = began = time.perf_counter()
            if not isinstance(await self._store.submit(new), Accepted):
                raise LanglaufError("the store refused a job of the benchmark")
            self.submits.append(time.perf_counter() - began)
            await ended

    async def _claim_for_ever(self) -> None:
        while True:
            free = self._slots - len(self._running)
            for claim in await self._store.claim(claim_request(free)) if free else ():
                self.starts.append(time.perf_counter() - self._began.pop(claim.lease.job_id))
                task = asyncio.create_task(self._run(claim))
                self._running.add(task)
                task.add_done_callback(self._ended)
            await self._hints.wait_for_work(1.0)

    async def _run(self, claim: Claim) -> None:
        end = self._ends.pop(claim.lease.job_id)
        shown = await self._store.record(claim.lease, Partial(result_id=new_id(), payload=RESULT, percent=50))
        if shown and await self._store.record(claim.lease, Completed(result_id=new_id(), payload=RESULT)):
            end.set_result(None)
        else:
            end.set_exception(LanglaufError("an attempt of the benchmark lost its lease"))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._hints.work()
