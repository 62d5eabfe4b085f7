"""The worker: claims as many jobs as it has free slots, and runs them side by side.

Modes: *working* from `start`; *draining* from `stop` on: no new claims, running attempts may finish within the grace,
then they are released; *stopped* when nothing runs any more.
"""

import asyncio
import logging

from langlauf.analysis.registry import Registry
from langlauf.clock import Clock, monotonic, new_id
from langlauf.domain.attempt import Claim, ClaimRequest
from langlauf.domain.errors import SettingsError
from langlauf.hints import Hints
from langlauf.settings import Settings
from langlauf.telemetry.log import LogEvent, log_event, log_store_failure
from langlauf.telemetry.tracing import now_ns, record_span, trace_from
from langlauf.worker.attempt import RunningAttempt, StopReason
from langlauf.worker.attempt_store import AttemptStore
from langlauf.worker.heartbeat import Heartbeat, PresenceReporter, Watchdog
from langlauf.worker.loop_guard import contain_attempts
from langlauf.worker.parallel_map import Executor, LocalExecutor
from langlauf.worker.processes.pool import ProcessPool, application_of, check_references
from langlauf.worker.processes.supervisor import Supervisor
from langlauf.worker.runner import Runner


class Worker:
    """One worker in this process. Its identity is fresh at each start."""

    def __init__(
        self,
        store: AttemptStore,
        registry: Registry,
        settings: Settings,
        hints: Hints,
        clock: Clock,
        *,
        look_every: float | None = None,
        lifeline: int | None = None,
    ) -> None:
        """With `look_every` it looks for work no more often than that, unless a hint says so."""
        self.worker_id = new_id()
        self._store = store
        self._registry = registry
        self._settings = settings
        self._hints = hints
        self._look_every = look_every or settings.poll_seconds
        self._runner = Runner(store, settings, clock)
        self._running: dict[RunningAttempt, asyncio.Task[None]] = {}
        lease = settings.lease_seconds
        self._heartbeat = Heartbeat(
            store, hints, lease_seconds=lease, every=settings.poll_seconds, attempts=self._running.keys
        )
        self._presence = PresenceReporter(
            store.workers,
            self.worker_id,
            analyses=registry.runnable,
            slots=settings.max_running,
            every=lease / 3,
            busy=lambda: len(self._running),
        )
        self._clock = clock
        self._supervisor = Supervisor(settings.child_env, lifeline)
        self._watchdog = Watchdog(self._supervisor, lease_seconds=lease, attempts=self._running.keys)
        self._pool = self._make_pool()
        self._executor = _make_executor(settings)
        self._loops: list[asyncio.Task[None]] = []
        self._draining = False
        self._hurried = asyncio.Event()

    @property
    def running(self) -> int:
        """How many attempts it holds."""
        return len(self._running)

    @property
    def alive(self) -> bool:
        """Whether it claims and beats."""
        return bool(self._loops) and not any(loop.done() for loop in self._loops)

    def _make_pool(self) -> ProcessPool:
        """Processes stand ready from the first call of a plain function on; `job.map` starts its own when it comes."""
        parallel, slots = self._settings.process_count, self._settings.max_running
        warm = min(parallel, slots) if any(analysis.plain for analysis in self._registry) else 0
        begin = application_of(self._registry, self._settings.process_memory)
        return ProcessPool(self._supervisor, begin, warm=warm, most=slots + parallel)

    async def start(self) -> None:
        """Begins to claim."""
        check_references(self._registry)
        contain_attempts(asyncio.get_running_loop())
        self._loops = [
            asyncio.create_task(self._claim_for_ever(), name="langlauf-claims"),
            asyncio.create_task(self._heartbeat.run(), name="langlauf-heartbeat"),
            self._presence.start(self._clock.now()),
        ]
        if self._settings.watchdog:
            self._loops.append(asyncio.create_task(self._watchdog.run(), name="langlauf-watchdog"))

    async def stop(self) -> None:
        """Drains: attempts may finish within the grace, then they are given back for another worker."""
        claims, *others = self._loops
        self._draining = True
        self._presence.stopping()
        self._hints.work()
        # A claim that is under way commits whatever happens to this task: its jobs are run or given back, not left.
        await asyncio.wait({claims}, timeout=self._settings.lease_seconds)
        await _end(claims)
        await self._wait_out_the_grace()
        for attempt in self._running:
            attempt.stop(StopReason.RELEASE)
        await self._wait_for_attempts(self._settings.cancel_grace + 1)
        await self._presence.leave()
        for other in others:
            await _end(other)
        self._loops = []
        await self._executor.close()
        await self._pool.close()
        await self._supervisor.close()

    def hurry(self) -> None:
        """Ends the grace of a stop: what still runs is given back now."""
        self._hurried.set()

    async def _wait_out_the_grace(self) -> None:
        ended = asyncio.create_task(self._wait_for_attempts(self._settings.shutdown_grace))
        hurried = asyncio.create_task(self._hurried.wait())
        await asyncio.wait({ended, hurried}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        hurried.cancel()

    async def _wait_for_attempts(self, seconds: float) -> None:
        if self._running:
            await asyncio.wait(self._running.values(), timeout=seconds)

    async def _claim_for_ever(self) -> None:
        while not self._draining:
            try:
                await self._claim_next()
            except Exception as error:  # noqa: BLE001 - a worker goes on claiming, whatever went wrong once
                log_store_failure(error, trace=True)
                # No claim stands, so no program looks for work meanwhile.
                await self._hints.wait_for_work(self._settings.poll_seconds)

    async def _wait_for_work(self) -> None:
        await self._hints.wait_for_work(self._look_every)

    async def _claim_next(self) -> None:
        """Claims what may start, or waits until something may."""
        free = self._settings.max_running - len(self._running)
        if free <= 0:
            await self._wait_for_work()
            return
        limits = {one.name: one.max_running for one in self._registry if one.max_running is not None}
        request = ClaimRequest(
            worker_id=self.worker_id,
            slots=free,
            analyses=self._registry.runnable,
            lease_seconds=self._settings.lease_seconds,
            max_running=self._settings.max_running,
            limits=limits,
            max_running_org=self._settings.max_running_org,
        )
        handed = await self._store.claim_next(request, self._wait_for_work)
        if handed.claims and self._heartbeat.late:  # before what is new can block the loop again
            await self._heartbeat.beat()
        began = now_ns() and now_ns() - round((monotonic() - handed.asked_at) * 1e9)  # not when it began to wait
        for claim in handed.claims:
            ids = {"job_id": claim.lease.job_id, "org_id": claim.lease.org_id, "worker_id": self.worker_id}
            record_span("claim", trace_from(claim.traceparent, claim.tracestate), began, **ids)
            self._run(claim, handed.asked_at)
        if handed.claims and self._settings.watchdog:
            self._watchdog.tell()

    def _run(self, claim: Claim, asked_at: float) -> None:
        analysis = self._registry.get(claim.analysis)
        if analysis is None:
            raise LookupError(f"the store gave out {claim.analysis}, which this worker did not ask for")
        attempt = RunningAttempt(
            claim, analysis, self._store, self._pool, self._executor, self._settings, asked_at=asked_at
        )
        task = asyncio.create_task(self._runner.run(analysis, attempt), name=f"attempt {claim.lease.job_id}")
        self._running[attempt] = task
        task.add_done_callback(lambda _: self._ended(attempt))

    def _ended(self, attempt: RunningAttempt) -> None:
        task = self._running.pop(attempt)
        if not task.cancelled() and (error := task.exception()):
            log_event(LogEvent.ATTEMPT_UNWRITTEN, logging.ERROR, error=error, job_id=attempt.job_id)
        self._hints.work()


def _make_executor(settings: Settings) -> Executor:
    """Where chunks are computed, as the settings say."""
    if settings.dask_scheduler is None:
        return LocalExecutor(settings.process_count)
    try:
        from langlauf.worker.dask.executor import DaskExecutor
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"LANGLAUF_EXECUTOR={settings.executor} needs the package {error.name}: pip install 'langlauf[dask]'"
        ) from error
    memory = settings.process_memory
    return DaskExecutor(settings.dask_scheduler, lease_seconds=settings.lease_seconds, memory=memory)


async def _end(task: asyncio.Task[None]) -> None:
    """Ends a loop, and tells if it had ended by itself before."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and (error := task.exception()):
        log_event(LogEvent.UPKEEP_FAILED, logging.ERROR, error=error, duty=task.get_name())
