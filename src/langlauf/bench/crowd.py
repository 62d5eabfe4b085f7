"""One round of jobs on any store: submitters, a claimer and what runs the jobs.

So many submitters keep that many jobs in flight; the claimer does what the worker's does and takes as many jobs as it
has free slots.
"""

import asyncio
import time

import msgspec

from langlauf.bench.work import ANALYSIS, ORG, RESULT, claim_request, new_job
from langlauf.clock import SystemClock, new_id
from langlauf.domain.attempt import Claim, Partial
from langlauf.domain.errors import LanglaufError
from langlauf.domain.job import Accepted
from langlauf.domain.outcome import Completed
from langlauf.hints import Hints
from langlauf.store.protocol import Store

#: Submitted, claimed, shown in part, completed.
WRITES_PER_JOB = 4


class Lived(msgspec.Struct, kw_only=True):
    """What one round took, in seconds."""

    jobs: int
    seconds: float
    submits: list[float]
    starts: list[float]
    #: processor time of the measuring process
    cpu_seconds: float = 0.0
    #: transactions that carried the four writes of all jobs; 0 where the store does not count them
    transactions: int = 0

    @property
    def jobs_per_second(self) -> float:
        return self.jobs / self.seconds

    @property
    def mean_batch(self) -> float:
        """How many writes of jobs went together."""
        return WRITES_PER_JOB * self.jobs / max(1, self.transactions)


class Crowd:
    """So many jobs, that many at once, of one org and one analysis."""

    def __init__(self, store: Store, hints: Hints, *, jobs: int, concurrency: int, analysis: str = ANALYSIS) -> None:
        self._store = store
        self._hints = hints
        self._jobs = self._to_submit = jobs
        self._slots = concurrency
        self._analysis = analysis
        self._clock = SystemClock()
        self._submits: list[float] = []
        self._starts: list[float] = []
        self._began: dict[str, float] = {}
        self._ends: dict[str, asyncio.Future[None]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._over = False

    async def live(self) -> Lived:
        """Return when every job has completed."""
        began, cpu_before = time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as group:
            claimer = group.create_task(self._claim_in_turn())
            async with asyncio.TaskGroup() as submitters:
                for _ in range(self._slots):
                    submitters.create_task(self._submit_in_turn())
            seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_before
            self._over = True
            self._hints.work()
            # What it has begun it ends: its connection stays, and what that cost can be read.
            await claimer
        return Lived(
            jobs=self._jobs,
            seconds=seconds,
            submits=self._submits,
            starts=self._starts,
            cpu_seconds=cpu_seconds,
        )

    async def _submit_in_turn(self) -> None:
        while self._to_submit > 0:
            self._to_submit -= 1
            new = new_job(self._clock, ORG, self._analysis)
            job_id = new.job.job_id
            ended = self._ends[job_id] = asyncio.get_running_loop().create_future()
            self._began[job_id] = began = time.perf_counter()
            if not isinstance(await self._store.submit(new), Accepted):
                raise LanglaufError("the store refused a job of the benchmark")
            self._submits.append(time.perf_counter() - began)
            await ended

    async def _claim_in_turn(self) -> None:
        while not self._over:
            free = self._slots - len(self._running)
            if not free:
                await self._wait_for_work()
                continue
            handed = await self._store.claim_next(claim_request(free, (self._analysis,)), self._wait_for_work)
            for claim in handed.claims:
                self._starts.append(time.perf_counter() - self._began.pop(claim.lease.job_id))
                task = asyncio.create_task(self._run(claim))
                self._running.add(task)
                task.add_done_callback(self._ended)

    async def _wait_for_work(self) -> None:
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
