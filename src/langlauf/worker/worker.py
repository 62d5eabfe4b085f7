"""The worker: claims as many jobs as it has free slots, and runs them concurrently.

Modes: *working* from `start`; *draining* from `stop` on: no new claims, running attempts may finish within the grace,
then they are released; *stopped* when no attempt runs.
"""

import asyncio
import logging
from collections.abc import Callable

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
from langlauf.worker.attempt_store import AttemptStore, JobSource
from langlauf.worker.heartbeat import Heartbeat, PresenceReporter, Watchdog
from langlauf.worker.loop_guard import contain_attempts
from langlauf.worker.parallel_map import Executor, LocalExecutor
from langlauf.worker.processes.pool import ProcessPool, application_of, check_references
from langlauf.worker.processes.supervisor import Supervisor
from langlauf.worker.runner import Runner

#: Makes what hands jobs to a worker, from its request, its free slots, and where the jobs go.
SourceOfJobs = Callable[[ClaimRequest, Callable[[], int], Callable[[ClaimBatch], None]], JobSource]
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
        source: SourceOfJobs,
        *,
        lifeline: int | None = None,
    ) -> None:
        """`source` makes what hands it jobs, from its request, its free slots, and where they go."""
        self.worker_id = new_id()
        self._store = store
        self._registry = registry
        self._settings = settings
        self._hints = hints
        self._runner = Runner(store, settings, clock)
        self._running: dict[RunningAttempt, asyncio.Task[bool]] = {}
        self._make_source = source
        self._source: JobSource | None = None
        #: jobs that start as soon as the leases of others are renewed
        self._starting: set[asyncio.Task[None]] = set()
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
        self._code_saver = BackgroundLoop("langlauf-codes", self._save_codes, on_error=self._codes_not_saved)
        self._supervisor = Supervisor(settings.child_env, lifeline)
        self._watchdog = Watchdog(self._supervisor, lease_seconds=lease, attempts=self._running.keys)
        self._pool = self._make_pool()
        self._executor = _make_executor(settings)
        self._loops: list[BackgroundLoop] = []
        self._hurried = asyncio.Event()
        #: the code of each analysis as this process has loaded it
        self._codes: list[CodeVersion] = []

    @property
    def running(self) -> int:
        """Number of running attempts."""
        return len(self._running)

    @property
    def alive(self) -> bool:
        """Whether it claims jobs and sends heartbeats."""
        loops = bool(self._loops) and all(loop.alive for loop in self._loops)
        return loops and (self._source is None or self._source.alive)

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
        self._loops = [self._code_saver, self._heartbeat, self._presence]
        if self._settings.watchdog:
            self._loops.append(self._watchdog)
        for loop in self._loops:
            await loop.start()

    async def stop(self) -> None:
        """Drain: attempts may finish within the grace, then they are released for another worker."""
        self._presence.draining()
        await self._code_saver.stop()
        if self._source is not None:
            await self._source.stop()
        if self._starting:
            await asyncio.wait(self._starting)
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

    async def _save_codes(self) -> None:
        """Store which code this worker runs, as retention removes what no worker runs; then begin to claim."""
        if not self._codes:
            known = [analysis for name in self._registry.runnable if (analysis := self._registry.get(name)) is not None]
            self._codes = [code_version(analysis) for analysis in known]
        await self._store.workers.save_codes(self._codes)
        if self._source is None:
            self._source = self._make_source(self._request(), self._free_slots, self._take)
            await self._source.start()
        await asyncio.sleep(_SAVE_CODES_SECONDS)

    async def _codes_not_saved(self, error: Exception) -> None:
        log_store_failure(error, trace=True)
        await asyncio.sleep(self._settings.poll_seconds)

    def _request(self) -> ClaimRequest:
        return ClaimRequest(
            worker_id=self.worker_id,
            slots=self._settings.max_running,
            analyses=self._registry.runnable,
            lease_seconds=self._settings.lease_seconds,
            max_running=self._settings.max_running,
            limits={one.name: one.max_running for one in self._registry if one.max_running is not None},
            max_running_org=self._settings.max_running_org,
            codes={one.analysis: one.key for one in self._codes},
        )

    def _take(self, handed: ClaimBatch) -> None:
        """Run claimed jobs. Where a heartbeat is overdue it comes first: a new attempt may block the loop again."""
        if is_tracing():
            self._record_claims(handed)
        if not self._heartbeat.late:
            self._run_all(handed)
            return
        task = asyncio.create_task(self._beat_and_run(handed), name="claimed jobs")
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _beat_and_run(self, handed: ClaimBatch) -> None:
        await self._heartbeat.beat()
        self._run_all(handed)

    def _run_all(self, handed: ClaimBatch) -> None:
        for claim in handed.claims:
            self._run(claim, handed.asked_at)
        if self._settings.watchdog:
            self._watchdog.beat()

    def _record_claims(self, handed: ClaimBatch) -> None:
        began = now_ns() - round((monotonic() - handed.asked_at) * 1e9)
        for claim in handed.claims:
            ids = {"job_id": claim.lease.job_id, "org_id": claim.lease.org_id, "worker_id": self.worker_id}
            record_span("claim", trace_from(claim.traceparent, claim.tracestate), began, **ids)

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
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            log_event(LogEvent.ATTEMPT_UNWRITTEN, logging.ERROR, error=error, job_id=attempt.job_id)
        if self._source is not None:
            self._source.ended(attempt.lease, written=error is None and task.result())

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
