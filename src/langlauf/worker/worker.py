"""The worker: claims as many jobs as it has free slots, and runs them concurrently.

Modes: *working* from `start`; *draining* from `stop` on: no new claims, running attempts may finish within the grace,
then they are released; *stopped* when no attempt runs.
"""

import asyncio
import logging

from langlauf.analysis.code import code_version
from langlauf.analysis.registry import Registry
from langlauf.background import BackgroundLoop
from langlauf.clock import Clock, monotonic, new_id
from langlauf.domain.attempt import Claim, ClaimBatch, ClaimRequest
from langlauf.domain.errors import SettingsError
from langlauf.domain.provenance import CodeVersion
from langlauf.hints import Hints
from langlauf.settings import Settings
from langlauf.telemetry.log import LogEvent, log_event, log_store_failure
from langlauf.telemetry.tracing import is_tracing, now_ns, record_span, trace_from
from langlauf.worker.attempt import RunningAttempt, StopReason
from langlauf.worker.attempt_store import AttemptStore
from langlauf.worker.heartbeat import Heartbeat, PresenceReporter, Watchdog
from langlauf.worker.loop_guard import contain_attempts
from langlauf.worker.parallel_map import Executor, LocalExecutor
from langlauf.worker.processes.pool import ProcessPool, application_of, check_references
from langlauf.worker.processes.supervisor import Supervisor
from langlauf.worker.runner import Runner

#: Retention keeps code for a day that a worker has said it runs.
_SAVE_CODES_SECONDS = 3_600.0


class Worker:
    """One worker in this process, with a new id for each instance."""

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
        """`look_every` is the pause between two claims without a hint; by default that of the settings."""
        self.worker_id = new_id()
        self._store = store
        self._registry = registry
        self._settings = settings
        self._hints = hints
        self._look_every = look_every or settings.poll_seconds
        self._runner = Runner(store, settings, clock)
        self._running: dict[RunningAttempt, asyncio.Task[None]] = {}
        #: whether a claim is pending, or none as no slot is free
        self._asks = False
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
            now=clock.now,
        )
        self._claims = BackgroundLoop(
            "langlauf-claims",
            self._claim_next,
            on_error=self._claim_failed,
            # A claim under way commits whatever happens to its task: its jobs are run or released, not left.
            grace=lease,
        )
        self._supervisor = Supervisor(settings.child_env, lifeline)
        self._watchdog = Watchdog(self._supervisor, lease_seconds=lease, attempts=self._running.keys)
        self._pool = self._make_pool()
        self._executor = _make_executor(settings)
        self._loops: list[BackgroundLoop] = []
        self._hurried = asyncio.Event()
        #: the code of each analysis as this process has loaded it, and when to store it again
        self._codes: list[CodeVersion] = []
        self._code_keys: dict[str, int] = {}
        self._codes_due = 0.0

    @property
    def running(self) -> int:
        """Number of running attempts."""
        return len(self._running)

    @property
    def alive(self) -> bool:
        """Whether it claims jobs and sends heartbeats."""
        return bool(self._loops) and all(loop.alive for loop in self._loops)

    def _make_pool(self) -> ProcessPool:
        """Keep processes warm from the first call of a plain function on; `job.map` starts its own on demand."""
        parallel, slots = self._settings.process_count, self._settings.max_running
        warm = min(parallel, slots) if any(analysis.plain for analysis in self._registry) else 0
        begin = application_of(self._registry, self._settings.process_memory)
        return ProcessPool(self._supervisor, begin, warm=warm, most=slots + parallel)

    async def start(self) -> None:
        """Start to claim jobs."""
        check_references(self._registry)
        contain_attempts(asyncio.get_running_loop())
        self._loops = [self._claims, self._heartbeat, self._presence]
        if self._settings.watchdog:
            self._loops.append(self._watchdog)
        for loop in self._loops:
            await loop.start()

    async def stop(self) -> None:
        """Drain: attempts may finish within the grace, then they are released for another worker."""
        self._claims.finish()
        self._presence.draining()
        self._hints.work()
        await self._claims.stop()
        await self._wait_out_the_grace()
        for attempt in self._running:
            attempt.stop(StopReason.RELEASE)
        await self._wait_for_attempts(self._settings.cancel_grace + 1)
        await self._presence.leave()
        for loop in self._loops:
            await loop.stop()
        self._loops = []
        await self._executor.close()
        await self._pool.close()
        await self._supervisor.close()

    def end_grace(self) -> None:
        """End the grace of a stop: release running attempts now."""
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

    async def _claim_failed(self, error: Exception) -> None:
        log_store_failure(error, trace=True)
        # Without a pending claim the program of a worker process does not look for work: poll as often as it would.
        await self._hints.wait_for_work(self._settings.poll_seconds)

    async def _wait_for_work(self) -> None:
        await self._hints.wait_for_work(self._look_every)

    async def _claim_next(self) -> None:
        """Claim jobs that can start, and run them; wait while there are none or no slot is free."""
        free = self._free_slots()
        self._asks = free > 0
        if not self._asks:
            await self._wait_for_work()
            return
        limits = {one.name: one.max_running for one in self._registry if one.max_running is not None}
        await self._save_codes()
        request = ClaimRequest(
            worker_id=self.worker_id,
            slots=free,
            analyses=self._registry.runnable,
            lease_seconds=self._settings.lease_seconds,
            max_running=self._settings.max_running,
            limits=limits,
            max_running_org=self._settings.max_running_org,
            codes=self._code_keys,
        )
        handed = await self._store.claim_next(request, self._wait_for_work, self._free_slots)
        if handed.claims and self._heartbeat.late:  # before a new attempt can block the loop again
            await self._heartbeat.beat()
        if is_tracing():
            self._record_claims(handed)
        for claim in handed.claims:
            self._run(claim, handed.asked_at)
        if handed.claims and self._settings.watchdog:
            self._watchdog.beat()

    def _record_claims(self, handed: ClaimBatch) -> None:
        began = now_ns() - round((monotonic() - handed.asked_at) * 1e9)
        for claim in handed.claims:
            ids = {"job_id": claim.lease.job_id, "org_id": claim.lease.org_id, "worker_id": self.worker_id}
            record_span("claim", trace_from(claim.traceparent, claim.tracestate), began, **ids)

    async def _save_codes(self) -> None:
        """Store which code this worker runs; retention removes what no worker runs and no job names."""
        if monotonic() < self._codes_due:
            return
        if not self._codes:
            known = [analysis for name in self._registry.runnable if (analysis := self._registry.get(name)) is not None]
            self._codes = [code_version(analysis) for analysis in known]
            self._code_keys = {one.analysis: one.key for one in self._codes}
        await self._store.workers.save_codes(self._codes)
        self._codes_due = monotonic() + _SAVE_CODES_SECONDS

    def _run(self, claim: Claim, asked_at: float) -> None:
        analysis = self._registry.get(claim.analysis)
        if analysis is None:
            raise LookupError(f"the store returned a job of {claim.analysis}, which this worker did not ask for")
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
        if not self._asks:  # a pending claim is for the slots that are free when it is executed
            self._hints.claim_again()

    def _free_slots(self) -> int:
        return max(0, self._settings.max_running - len(self._running))


def _make_executor(settings: Settings) -> Executor:
    """Return the executor of chunks that the settings name."""
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
