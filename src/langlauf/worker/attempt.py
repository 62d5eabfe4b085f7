"""A running attempt: its lease, its writes, its processes, and the request to stop it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from langlauf.analysis.chunks import Chunks
from langlauf.analysis.registry import Analysis
from langlauf.clock import monotonic
from langlauf.domain.attempt import Checkpoint, Claim, Partial, Progress, WriteResult
from langlauf.domain.errors import StaleAttempt, StoreUnavailable
from langlauf.domain.provenance import MOST_SOURCES, SOURCES, SOURCES_FULL, Source
from langlauf.settings import Settings
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.telemetry.tracing import TraceSpan, is_tracing, now_ns, record_span, start_span, trace_from
from langlauf.worker.attempt_store import AttemptStore, find_previous_result
from langlauf.worker.parallel_map import Executor, ParallelMap
from langlauf.worker.processes.pool import ProcessPool
from langlauf.worker.processes.process import ChildProcess

T = TypeVar("T")
#: The rest of a lease is for stopping the attempt before another worker can claim the job.
_RELIABLE_SHARE = 0.8
#: Code that blocks the event loop is interrupted here, so that the leases of other attempts can still be renewed.
_INTERRUPT_SHARE = 0.7
#: Past this share of a lease, processes are killed: none may run until its very end.
_FORCE_SHARE = 0.9
_WRITE_AGAIN_SECONDS = 0.5
_REFUSAL_SECONDS = 0.05
#: About the duration of a stored write, so that an analysis past its limits does not use the event loop more often.
_PAST_BOUNDS_SECONDS = 0.002
#: Further writes of an attempt wait here: in the store they would make the batches of all orgs longer.
_MOST_WRITING = 16
_LIMITS = {WriteResult.PARTIALS_FULL: "partials", WriteResult.EVENTS_FULL: "events"}


class StopReason(StrEnum):
    """Why an attempt is stopped before its function has returned."""

    TIMEOUT = "timeout"
    CANCEL = "cancel"
    LOST = "lost"
    RELEASE = "release"


class RunningAttempt:
    """Implements the job handle of an attempt. Writes are refused once the lease is lost or the attempt has ended."""

    def __init__(
        self,
        claim: Claim,
        analysis: Analysis,
        store: AttemptStore,
        pool: ProcessPool,
        executor: Executor,
        settings: Settings,
        *,
        asked_at: float,
    ) -> None:
        self.claim = claim
        self.lease = claim.lease
        self.org_id = claim.lease.org_id
        self.job_id = claim.lease.job_id
        self.number = claim.lease.attempt
        self.largest_result = settings.max_result
        self.trace_id = claim.trace_id
        self.planned_at = claim.planned_at
        self.trace = trace_from(claim.traceparent, claim.tracestate)
        #: the chunks under way, and when each was started
        self._chunk_starts: dict[str, int] = {}
        self.transient_references = analysis.transient_references
        self.cancel_reason: str | None = None
        loop = asyncio.get_running_loop()
        #: why the attempt is to stop
        self.stop_reason: StopReason | None = None
        #: done when its function has ended or is to be stopped
        self.settled: asyncio.Future[None] = loop.create_future()
        #: done when the end is written or given up: a function that still runs is abandoned
        self.over: asyncio.Future[None] = loop.create_future()
        self._analysis = analysis
        self._store = store
        self._pool = pool
        self._executor = executor
        self._settings = settings
        self.asked_at = self._renewed_at = asked_at
        self._processes: set[ChildProcess] = set()
        self._writing = asyncio.Semaphore(_MOST_WRITING)
        #: keys of all chunks that the function has asked for so far
        self._part_keys: set[str] = set()
        #: keys of the sources that the job has declared, and whether those of earlier attempts are among them
        self._sources: set[str] = set()
        self._sources_read = False
        #: the limit that the job is known to have reached
        self._reached = WriteResult.WRITTEN

    @property
    def facts(self) -> dict[str, Any]:
        """Ids for log events."""
        ids = {"trace_id": self.trace_id, "request_id": self.claim.request_id}
        return {"job_id": self.job_id, "org_id": self.org_id, "attempt": self.number, **ids}

    @property
    def traceparent(self) -> str | None:
        """The W3C traceparent that the analysis can pass on to other systems."""
        return self.trace.traceparent if self.trace else None

    @property
    def tracestate(self) -> str | None:
        """The W3C tracestate that belongs to it."""
        return self.trace.tracestate if self.trace else None

    def traced(self, **facts: str) -> AbstractContextManager[TraceSpan]:
        """Record the attempt as a span, the parent of its chunks."""
        return self._open_span(**facts) if is_tracing() else TraceSpan(self.trace)

    @contextmanager
    def _open_span(self, **facts: str) -> Iterator[TraceSpan]:
        ids: dict[str, str | float] = {"job_id": self.job_id, "org_id": self.org_id, "attempt": self.number}
        with start_span("attempt", self.trace, "consumer", **ids, **facts) as span:
            self.trace = span.trace
            yield span
            for key, began in self._chunk_starts.items():
                record_span("chunk", self.trace, began, "unfinished", key=key, **ids)

    def start_chunk(self, key: str) -> None:
        """Note that a chunk is about to be computed."""
        self._chunk_starts[key] = now_ns()

    @property
    def canceled(self) -> bool:
        """Whether the job was canceled."""
        return self.cancel_reason is not None

    @property
    def lost(self) -> bool:
        """Whether its lease is lost, or must be assumed lost."""
        return self.stop_reason is StopReason.LOST

    @property
    def lease_seems_over(self) -> bool:
        """Whether the lease must be assumed lost because it was not renewed in time."""
        return self.seconds_left <= 0

    @property
    def seconds_left(self) -> float:
        """Seconds for which the lease is reliable: a bit less than its length, counted from the request for it."""
        return self._left(_RELIABLE_SHARE)

    @property
    def seconds_until_interrupt(self) -> float:
        """Seconds until code that blocks the event loop is interrupted."""
        return self._left(_INTERRUPT_SHARE)

    @property
    def seconds_until_force(self) -> float:
        """Seconds until processes of the attempt are killed."""
        return self._left(_FORCE_SHARE)

    def _left(self, share: float) -> float:
        return self._renewed_at + share * self._settings.lease_seconds - monotonic()

    def renewed(self, asked_at: float) -> None:
        """Note that a renewal succeeded that was requested at this time."""
        self._renewed_at = asked_at
        self._pool.allow(self._processes, self.seconds_until_force)

    def stop(self, why: StopReason) -> None:
        """Request a stop; the first reason counts."""
        if self.stop_reason is None:
            self.stop_reason = why
            self.settle()

    def settle(self, _: object = None) -> None:
        """Wake the runner: the function has ended, or is to be stopped."""
        if not self.settled.done():
            self.settled.set_result(None)

    def close(self) -> None:
        """Refuse further writes, and release what still computes for the attempt."""
        if not self.over.done():
            self.over.set_result(None)

    async def write(self, write: Progress | Partial | Checkpoint) -> None:
        """Write; returns once it is on disk, or skipped past the limits of the job. Raises `StaleAttempt`."""
        await self._refuse_if_over()
        bounded = self._bounded(write)
        if bounded is None:
            await asyncio.sleep(_PAST_BOUNDS_SECONDS)
            return
        async with self._writing:
            answer = await self._retrying(lambda: self._store.record(self.lease, bounded))
        if not answer:
            self.stop(StopReason.LOST)
            self.close()
            await self._refuse_if_over()
        if isinstance(write, Checkpoint):
            record_span("chunk", self.trace, self._chunk_starts.pop(write.key, 0), key=write.key, job_id=self.job_id)
        elif answer > self._reached:
            self._reached = answer
            log_event(LogEvent.JOB_LIMIT_REACHED, logging.WARNING, limit=_LIMITS[answer], about=self)
            if isinstance(write, Partial):
                # The partial result did not fit; its progress may still be written.
                await self.write(write)

    def _bounded(self, write: Progress | Partial | Checkpoint) -> Progress | Partial | Checkpoint | None:
        """Return the write with the limits of the job, or None if it is known to exceed them."""
        if isinstance(write, Checkpoint):
            return write
        if self._reached is WriteResult.EVENTS_FULL:
            return None
        bounds = self._settings.bounds
        if isinstance(write, Partial) and self._reached is WriteResult.PARTIALS_FULL:
            return Progress(percent=write.percent, step=write.step, replayed=write.replayed, bounds=bounds)
        return msgspec.structs.replace(write, bounds=bounds)

    async def chunk(self, key: str) -> str | None:
        """Return the stored value of a finished chunk; None if the caller must compute it."""
        self._part_keys.add(key)
        found = await self._retrying(lambda: self._store.tenant(self.org_id).chunk(self.job_id, key))
        if found is None:
            self.start_chunk(key)
        return found

    async def chunks(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the stored values of finished chunks by key."""
        return await self._retrying(lambda: self._store.tenant(self.org_id).chunks(self.job_id, keys))

    async def source(self, source: Source) -> None:
        """Store a source that the function declares; one beyond the limit only leaves a note that there are more."""
        if not self._sources_read:
            stored = await self._retrying(lambda: self._store.tenant(self.org_id).trail(self.job_id))
            self._sources.update(entry.key for entry in stored if entry.key.startswith(SOURCES))
            self._sources_read = True
        if source.key in self._sources or SOURCES_FULL in self._sources:
            return
        full = len(self._sources) >= MOST_SOURCES
        if full:
            log_event(LogEvent.JOB_LIMIT_REACHED, logging.WARNING, limit="sources", about=self)
        key, payload = (SOURCES_FULL, "true") if full else (source.key, source.payload)
        self._sources.add(key)
        await self.write(Checkpoint(key=key, payload=payload))

    async def previous(self, match: str) -> str | None:
        """Return the result of an earlier job with these values, or None."""
        return await self._retrying(
            lambda: find_previous_result(self._store.tenant(self.org_id), self._analysis, match)
        )

    async def map(self, chunks: Chunks, step: str | None) -> list[str]:
        """Return the values of all chunks; missing ones are computed in parallel."""
        self._part_keys.update(chunks.keys)
        return await ParallelMap(self, self._executor, chunks, step, len(self._part_keys)).run()

    @asynccontextmanager
    async def process(self) -> AsyncIterator[ChildProcess]:
        """Provide a process that lives no longer than the lease."""
        await self._refuse_if_over()
        async with self._pool.process(self.facts) as process:
            self._processes.add(process)
            self._pool.allow((process,), self.seconds_until_force)
            try:
                yield process
            finally:
                self._processes.discard(process)

    async def _refuse_if_over(self) -> None:
        """Raise `StaleAttempt` after a pause: a coroutine that ignores it would otherwise block the event loop."""
        if self.over.done():
            await asyncio.sleep(_REFUSAL_SECONDS)
            raise StaleAttempt(f"attempt {self.number} of job {self.job_id} no longer holds its lease")

    async def _retrying(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Retry while the store is unavailable and the lease is valid, as that is no failure of the analysis.

        Once the lease seems over, the attempt is given up for good: even if a later heartbeat succeeds, the error that
        the analysis got must not end its job.
        """
        while True:
            try:
                return await ask()
            except StoreUnavailable:
                if self.lease_seems_over:
                    self.stop(StopReason.LOST)
                    self.close()
                await self._refuse_if_over()
                await asyncio.sleep(_WRITE_AGAIN_SECONDS)
