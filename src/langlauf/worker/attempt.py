"""One attempt as the worker sees it: its lease, its writes, its processes, and the wish that it may stop."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from langlauf.analysis.chunks import Chunks
from langlauf.analysis.registry import Analysis
from langlauf.clock import monotonic
from langlauf.domain.attempt import Checkpoint, Claim, Partial, Progress, WriteResult
from langlauf.domain.errors import StaleAttempt, StoreUnavailable
from langlauf.settings import Settings
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.telemetry.tracing import TraceSpan, now_ns, record_span, start_span, trace_from
from langlauf.worker.attempt_store import AttemptStore, find_previous_result
from langlauf.worker.parallel_map import Executor, ParallelMap
from langlauf.worker.processes.pool import ProcessPool
from langlauf.worker.processes.process import ChildProcess

T = TypeVar("T")
#: The rest of a lease is for stopping the attempt before somebody else takes the job.
_RELIABLE_SHARE = 0.8
#: Code that blocks the event loop is interrupted here: the leases of its neighbours can then still be renewed.
_INTERRUPT_SHARE = 0.7
#: Past this share of a lease force is used: nothing may go on until its very end.
_FORCE_SHARE = 0.9
_WRITE_AGAIN_SECONDS = 0.5
_REFUSAL_SECONDS = 0.05
#: About what a write takes that is stored: an analysis that tells more than its bounds allow has the event loop no more
#: often than one that keeps to them.
_PAST_BOUNDS_SECONDS = 0.002
_LIMITS = {WriteResult.PARTIALS_FULL: "partials", WriteResult.EVENTS_FULL: "events"}


class StopReason(StrEnum):
    """Why an attempt is to stop before its function returned."""

    TIMEOUT = "timeout"
    CANCEL = "cancel"
    LOST = "lost"
    RELEASE = "release"


class RunningAttempt:
    """Implements what the handle needs. Its writes are refused once the lease is gone, or the attempt has ended."""

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
        self.trace = trace_from(claim.traceparent, claim.tracestate)
        #: the chunks that are being computed, and since when
        self._begun: dict[str, int] = {}
        self.transient_references = analysis.transient_references
        self.cancel_reason: str | None = None
        self.stop_requested: asyncio.Future[StopReason] = asyncio.get_running_loop().create_future()
        #: done when the worker has written the end, or given up writing it: whoever still runs is on their own
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._analysis = analysis
        self._store = store
        self._pool = pool
        self._executor = executor
        self._settings = settings
        self.asked_at = self._renewed_at = asked_at
        self._processes: set[ChildProcess] = set()
        #: the bound that the job is known to have reached
        self._reached = WriteResult.WRITTEN

    @property
    def facts(self) -> dict[str, Any]:
        """What is told of it."""
        ids = {"trace_id": self.trace_id, "request_id": self.claim.request_id}
        return {"job_id": self.job_id, "org_id": self.org_id, "attempt": self.number, **ids}

    @property
    def traceparent(self) -> str | None:
        """What the analysis carries on to other systems."""
        return self.trace.traceparent if self.trace else None

    @property
    def tracestate(self) -> str | None:
        """What belongs to it."""
        return self.trace.tracestate if self.trace else None

    @contextmanager
    def traced(self, **facts: str) -> Iterator[TraceSpan]:
        """Tells of the attempt while it runs; what it does belongs to it."""
        ids: dict[str, str | float] = {"job_id": self.job_id, "org_id": self.org_id, "attempt": self.number}
        with start_span("attempt", self.trace, "consumer", **ids, **facts) as span:
            self.trace = span.trace
            yield span
            for key, began in self._begun.items():
                record_span("chunk", self.trace, began, "unfinished", key=key, **ids)

    def begin(self, key: str) -> None:
        """A chunk is about to be computed."""
        self._begun[key] = now_ns()

    @property
    def canceled(self) -> bool:
        """Whether somebody asked the job to stop."""
        return self.cancel_reason is not None

    @property
    def lost(self) -> bool:
        """Whether its lease is known or taken to be gone."""
        return self.stop_requested.done() and self.stop_requested.result() is StopReason.LOST

    @property
    def lease_seems_over(self) -> bool:
        """Whether the lease must be taken for lost because no renewal came through in time."""
        return self.seconds_left <= 0

    @property
    def seconds_left(self) -> float:
        """Until when the lease can be relied on: a little less than it lasts, counted from when it was asked for."""
        return self._left(_RELIABLE_SHARE)

    @property
    def seconds_until_interrupt(self) -> float:
        """Until when code may have the event loop to itself."""
        return self._left(_INTERRUPT_SHARE)

    @property
    def seconds_until_force(self) -> float:
        """Until when anything of the attempt may go on at all."""
        return self._left(_FORCE_SHARE)

    def _left(self, share: float) -> float:
        return self._renewed_at + share * self._settings.lease_seconds - monotonic()

    def renewed(self, asked_at: float) -> None:
        """A heartbeat that was sent then came through."""
        self._renewed_at = asked_at
        self._pool.allow(self._processes, self.seconds_until_force)

    def stop(self, why: StopReason) -> None:
        """Asks the attempt to stop; the first reason counts."""
        if not self.stop_requested.done():
            self.stop_requested.set_result(why)

    def close(self) -> None:
        """Nothing more is written for it, and what still computes for it has no use."""
        if not self.over.done():
            self.over.set_result(None)

    async def write(self, write: Progress | Partial | Checkpoint) -> None:
        """Returns when the write is on disk, or past the bounds of the job; a stale attempt is told so."""
        await self._refuse_if_over()
        bounded = self._bounded(write)
        if bounded is None:
            await asyncio.sleep(_PAST_BOUNDS_SECONDS)
            return
        answer = await self._patiently(lambda: self._store.record(self.lease, bounded))
        if not answer:
            self.stop(StopReason.LOST)
            self.close()
            await self._refuse_if_over()
        if isinstance(write, Checkpoint):
            record_span("chunk", self.trace, self._begun.pop(write.key, 0), key=write.key, job_id=self.job_id)
        elif answer > self._reached:
            self._reached = answer
            log_event(LogEvent.JOB_LIMIT_REACHED, logging.WARNING, limit=_LIMITS[answer], **self.facts)
            if isinstance(write, Partial):
                # Its snapshot did not fit; how far the job is may be news all the same.
                await self.write(write)

    def _bounded(self, write: Progress | Partial | Checkpoint) -> Progress | Partial | Checkpoint | None:
        """The write with the bounds of the job; what is known to be past them is not even sent."""
        if isinstance(write, Checkpoint):
            return write
        if self._reached is WriteResult.EVENTS_FULL:
            return None
        bounds = self._settings.bounds
        if isinstance(write, Partial) and self._reached is WriteResult.PARTIALS_FULL:
            return Progress(percent=write.percent, step=write.step, replayed=write.replayed, bounds=bounds)
        return msgspec.structs.replace(write, bounds=bounds)

    async def chunk(self, key: str) -> str | None:
        """The stored value of a finished chunk; where there is none, whoever asks computes it."""
        found = await self._patiently(lambda: self._store.tenant(self.org_id).chunk(self.job_id, key))
        if found is None:
            self.begin(key)
        return found

    async def chunks(self, keys: Sequence[str]) -> dict[str, str]:
        """The stored values of those chunks that are finished, by key."""
        return await self._patiently(lambda: self._store.tenant(self.org_id).chunks(self.job_id, keys))

    async def previous(self, match: str) -> str | None:
        """What an earlier job with these values found."""
        return await self._patiently(
            lambda: find_previous_result(self._store.tenant(self.org_id), self._analysis, match)
        )

    async def map(self, chunks: Chunks, step: str | None) -> list[str]:
        """The values of all chunks, those that are missing computed side by side."""
        return await ParallelMap(self, self._executor, chunks, step).run()

    @asynccontextmanager
    async def process(self) -> AsyncIterator[ChildProcess]:
        """A process for a part of the attempt; it lives no longer than the lease."""
        await self._refuse_if_over()
        async with self._pool.process(self.facts) as process:
            self._processes.add(process)
            self._pool.allow((process,), self.seconds_until_force)
            try:
                yield process
            finally:
                self._processes.discard(process)

    async def _refuse_if_over(self) -> None:
        """Refuses with a pause: a coroutine that takes no refusal would otherwise keep the event loop to itself."""
        if self.over.done():
            await asyncio.sleep(_REFUSAL_SECONDS)
            raise StaleAttempt(f"attempt {self.number} of job {self.job_id} no longer holds its lease")

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Asks the store again while it is away and the lease lives: that is no failure of the analysis.

        Where the lease seems over, the attempt is given up for good: should a heartbeat come through after all, what
        the analysis was told must not end its job.
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
