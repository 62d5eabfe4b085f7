"""The three heartbeats of a worker."""

import asyncio
import contextlib
import faulthandler
import logging
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Collection

from langlauf.clock import monotonic
from langlauf.domain.errors import StoreUnhealthy
from langlauf.domain.health import WorkerReport
from langlauf.domain.instant import Instant
from langlauf.hints import Hints
from langlauf.telemetry.log import LogEvent, log_event, log_store_failure
from langlauf.version import VERSION
from langlauf.worker.attempt import RunningAttempt, StopReason
from langlauf.worker.attempt_store import AttemptStore, WorkerReports
from langlauf.worker.loop_guard import interrupt_after
from langlauf.worker.processes.supervisor import Supervisor

_SHORTEST_PAUSE = 0.01
#: A lease that has less of its time left, as a share of it, should have been renewed by now.
_LATE = 0.4


class Heartbeat:
    """Renews all leases of a worker in one write: at least three times per lease, and as often as it looks for work.

    That is how it hears of a cancel that another process took; in this process a hint asks for attention at once.
    """

    def __init__(
        self,
        store: AttemptStore,
        hints: Hints,
        *,
        lease_seconds: float,
        every: float,
        attempts: Callable[[], Collection[RunningAttempt]],
    ) -> None:
        self._store = store
        self._hints = hints
        self._lease_seconds = lease_seconds
        self._every = every
        self._attempts = attempts

    async def run(self) -> None:
        """Beats until it is canceled."""
        while True:
            await self._hints.wait_for_attention(min(self._every, self._patience()))
            await self.beat()

    def _held(self) -> list[RunningAttempt]:
        """The attempts that still have something to lose."""
        return [attempt for attempt in self._attempts() if not attempt.lost]

    def _patience(self) -> float:
        """A third of a lease, or less where one has less time left than that."""
        left = min((attempt.seconds_left for attempt in self._held()), default=self._lease_seconds)
        return max(_SHORTEST_PAUSE, min(self._lease_seconds / 3, left))

    @property
    def late(self) -> bool:
        """Whether a renewal is overdue, because the event loop was blocked or the store was slow."""
        return any(attempt.seconds_left < _LATE * self._lease_seconds for attempt in self._held())

    async def beat(self) -> None:
        """One renewal. A worker that cannot renew stops its attempts before their leases end."""
        running = {attempt.lease: attempt for attempt in self._held()}
        if not running:
            return
        asked_at = monotonic()
        try:
            async with asyncio.timeout(self._patience()):
                renewals = await self._store.renew(list(running), lease_seconds=self._lease_seconds)
        except Exception as error:  # noqa: BLE001 - the heart goes on beating, whatever went wrong once
            log_store_failure(error, otherwise="the heartbeat took too long")
            renewals = []
        for renewal in renewals:
            attempt = running[renewal.lease]
            if not renewal.held:
                attempt.stop(StopReason.LOST)
                continue
            attempt.renewed(asked_at)
            if renewal.cancel_reason is not None:
                attempt.cancel_reason = renewal.cancel_reason
                attempt.stop(StopReason.CANCEL)
        for attempt in running.values():
            if attempt.lease_seems_over:
                attempt.stop(StopReason.LOST)


#: How long a stop waits for the store to take the last report.
_LEAVE_SECONDS = 5.0


class PresenceReporter:
    """Reports until it is stopped, one report after the other, so that the last word is the last."""

    def __init__(
        self,
        store: WorkerReports,
        worker_id: str,
        *,
        analyses: tuple[str, ...],
        slots: int,
        every: float,
        busy: Callable[[], int],
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._analyses = analyses
        self._slots = slots
        self._every = every
        self._busy = busy
        self._started_at: Instant = 0
        self._stopping = False
        self._gone = False
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, now: Instant) -> asyncio.Task[None]:
        """Begins to report."""
        self._started_at = now
        self._task = asyncio.create_task(self._run(), name="langlauf-presence")
        return self._task

    def stopping(self) -> None:
        """From now on it takes nothing new; the store is told at once."""
        self._stopping = True
        self._news.set()

    async def leave(self) -> None:
        """Tells the store that it is gone. A store that is away does not hold up the stop."""
        self._gone = True
        self._news.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_LEAVE_SECONDS)
            self._task.cancel()

    async def _run(self) -> None:
        while not self._gone:
            await self._tell(self._store.note(self._report()))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    await self._news.wait()
            self._news.clear()
        await self._tell(self._store.forget(self._worker_id))

    async def _tell(self, telling: Awaitable[None]) -> None:
        try:
            await telling
        except StoreUnhealthy:
            return  # logged once, by the health of the store
        except Exception as error:  # noqa: BLE001 - the next report tries again
            log_event(LogEvent.UPKEEP_FAILED, logging.WARNING, duty="presence", reason=str(error))

    def _report(self) -> WorkerReport:
        return WorkerReport(
            worker_id=self._worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=VERSION,
            analyses=self._analyses,
            slots=self._slots,
            busy=self._busy(),
            every_seconds=self._every,
            started_at=self._started_at,
            stopping=self._stopping,
        )


#: How often it is told, and the least that is allowed for, as shares of a lease.
_EVERY = 0.05
_LEAST = 0.15
#: For attempts that have lost their leases and are being stopped: nothing depends on them any more but the loop itself.
_STOPPING = 0.5
_STOPPING_SECONDS = 2.0
#: Of a lease. A step of an attempt that is shorter has not blocked the loop, whatever came before it did.
_SHORTEST_BLOCK = 0.1


class Watchdog:
    """Beats towards the supervisor. A new attempt is told of at once: it may block the loop with its first line."""

    def __init__(
        self, supervisor: Supervisor, *, lease_seconds: float, attempts: Callable[[], Collection[RunningAttempt]]
    ) -> None:
        self._supervisor = supervisor
        self._lease_seconds = lease_seconds
        self._attempts = attempts
        self._watched = False

    async def run(self) -> None:
        """Tells it until it is canceled."""
        if not faulthandler.is_enabled():
            faulthandler.enable()  # the supervisor's first signal then shows where every thread stood
        if threading.current_thread() is threading.main_thread():
            interrupt_after(_SHORTEST_BLOCK * self._lease_seconds)
        while True:
            self.tell()
            await asyncio.sleep(_EVERY * self._lease_seconds)

    def tell(self) -> None:
        """The loop is alive now, and may be silent until the first lease is nearly over."""
        attempts = self._attempts()
        if attempts or self._watched:
            self._supervisor.watch(self._allowed(attempts) if attempts else None)
        self._watched = bool(attempts)

    def _allowed(self, attempts: Collection[RunningAttempt]) -> tuple[float, float]:
        """For how long the loop may be silent before its code is interrupted, and before the worker is ended."""
        held = [attempt for attempt in attempts if not attempt.lost]
        if not held:
            allowed = max(_STOPPING * self._lease_seconds, _STOPPING_SECONDS)
            return allowed / 2, allowed
        least = _LEAST * self._lease_seconds
        return (
            max(min(attempt.seconds_until_interrupt for attempt in held), least),
            max(min(attempt.seconds_until_force for attempt in held), 2 * least),
        )
