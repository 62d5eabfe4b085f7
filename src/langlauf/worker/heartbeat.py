"""The heartbeats of a worker: its leases and its presence to the store, its event loop to the supervisor."""

import asyncio
import contextlib
import faulthandler
import logging
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Collection

from langlauf.background import BackgroundLoop
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
#: A renewal is overdue where less than this share of a lease is left.
_LATE = 0.4
#: How long a shutdown waits for the store to write the last report.
_LEAVE_SECONDS = 5.0
#: How often the supervisor gets a heartbeat, and the shortest deadline it gets, as shares of a lease.
_EVERY = 0.05
_LEAST = 0.15
#: As a share of a lease: so soon after a heartbeat no other is needed, as leases that are newer end later.
_RECENT = 0.01
#: The deadline while only attempts without a lease are being stopped: nothing but the loop depends on them.
_STOPPING = 0.5
_STOPPING_SECONDS = 2.0
#: As a share of a lease: a shorter step of an attempt has not blocked the loop, whatever came before it did.
_SHORTEST_BLOCK = 0.1


class Heartbeat(BackgroundLoop):
    """Renews all leases of a worker in one write: at least three times per lease, and as often as it looks for work.

    A renewal also returns cancels that another process wrote; for those of this process a hint wakes the loop at once.
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
        super().__init__("langlauf-heartbeat", self._wait_and_beat)
        self._store = store
        self._hints = hints
        self._lease_seconds = lease_seconds
        self._every = every
        self._attempts = attempts

    async def _wait_and_beat(self) -> None:
        await self._hints.wait_for_attention(min(self._every, self._timeout()))
        await self.beat()

    def _with_lease(self) -> list[RunningAttempt]:
        return [attempt for attempt in self._attempts() if not attempt.lost]

    def _timeout(self) -> float:
        """Return a third of a lease, or less where a lease has less time left."""
        left = min((attempt.seconds_left for attempt in self._with_lease()), default=self._lease_seconds)
        return max(_SHORTEST_PAUSE, min(self._lease_seconds / 3, left))

    @property
    def late(self) -> bool:
        """Whether a renewal is overdue, because the event loop was blocked or the store was slow."""
        # One renewal is for all leases: the oldest attempt that has one tells for the rest.
        oldest = next((attempt for attempt in self._attempts() if not attempt.lost), None)
        return oldest is not None and oldest.seconds_left < _LATE * self._lease_seconds

    async def beat(self) -> None:
        """Renew the leases. Attempts whose lease cannot be renewed are stopped before it expires."""
        running = {attempt.lease: attempt for attempt in self._with_lease()}
        if not running:
            return
        asked_at = monotonic()
        try:
            async with asyncio.timeout(self._timeout()):
                renewals = await self._store.renew(list(running), lease_seconds=self._lease_seconds)
        except Exception as error:  # noqa: BLE001 - the next heartbeat tries again
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


class PresenceReporter(BackgroundLoop):
    """Reports to the store that the worker is there, until it leaves.

    What operators see depends on it, and the program of a worker process stops claiming for one that reports its stop.

    Reports are written one after another, so that the last one stands. A failed write costs a report, nothing else.
    """

    def __init__(
        self,
        store: WorkerReports,
        worker_id: str,
        *,
        analyses: tuple[str, ...],
        slots: int,
        every: float,
        busy: Callable[[], int],
        now: Callable[[], Instant],
    ) -> None:
        super().__init__("langlauf-presence", self._report, pause=self._wait_for_change)
        self._store = store
        self._worker_id = worker_id
        self._analyses = analyses
        self._slots = slots
        self._every = every
        self._busy = busy
        self._now = now
        self._started_at: Instant | None = None
        self._draining = False
        self._changed = asyncio.Event()

    def draining(self) -> None:
        """Report at once that the worker takes no new jobs."""
        self._draining = True
        self._changed.set()

    async def leave(self) -> None:
        """Remove the worker from the store, after the report under way. An unavailable store delays it briefly."""
        self.finish()
        self._changed.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self.ended()
                await self._write(self._store.remove(self._worker_id))

    async def _report(self) -> None:
        if self._started_at is None:
            self._started_at = self._now()
        report = WorkerReport(
            worker_id=self._worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=VERSION,
            analyses=self._analyses,
            slots=self._slots,
            busy=self._busy(),
            every_seconds=self._every,
            started_at=self._started_at,
            stopping=self._draining,
        )
        await self._write(self._store.save_report(report))

    async def _wait_for_change(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._every):
                await self._changed.wait()
        self._changed.clear()

    async def _write(self, write: Awaitable[None]) -> None:
        try:
            await write
        except StoreUnhealthy:
            return  # logged once, by the health of the store
        except Exception as error:  # noqa: BLE001 - the next report tries again
            log_event(LogEvent.MAINTENANCE_FAILED, logging.WARNING, duty="presence", reason=str(error))


class Watchdog(BackgroundLoop):
    """Sends the supervisor heartbeats of the event loop, each with the deadline of the next one.

    The supervisor runs outside this interpreter: it interrupts code that blocks the loop, early enough for the other
    attempts to keep their leases. Where Python cannot interrupt it, because it holds the interpreter lock, the
    supervisor ends the whole worker before its leases expire.
    """

    def __init__(
        self, supervisor: Supervisor, *, lease_seconds: float, attempts: Callable[[], Collection[RunningAttempt]]
    ) -> None:
        async def beat() -> None:
            self.beat()

        super().__init__("langlauf-watchdog", beat, pause=lambda: asyncio.sleep(_EVERY * lease_seconds))
        self._supervisor = supervisor
        self._lease_seconds = lease_seconds
        self._attempts = attempts
        self._watched = False
        #: until when the deadlines of the last heartbeat suit attempts that have just been claimed
        self._suit_until = 0.0

    async def start(self) -> None:
        """Install the handlers of the supervisor's signals, and start."""
        if not faulthandler.is_enabled():
            faulthandler.enable()  # SIGABRT, which the supervisor sends first, then shows the stack of every thread
        if threading.current_thread() is threading.main_thread():
            interrupt_after(_SHORTEST_BLOCK * self._lease_seconds)
        await super().start()

    def beat(self) -> None:
        """Send a heartbeat. Also called right after a claim: a new attempt may block the loop with its first line.

        Its deadlines count from the last renewal, and those of the last heartbeat may be from before it.
        """
        if monotonic() < self._suit_until:
            return
        attempts = self._attempts()
        held = [attempt for attempt in attempts if not attempt.lost]
        self._suit_until = monotonic() + _RECENT * self._lease_seconds if held else 0.0
        if attempts or self._watched:
            self._supervisor.watch(self._deadlines(held) if attempts else None)
        self._watched = bool(attempts)

    def _deadlines(self, held: Collection[RunningAttempt]) -> tuple[float, float]:
        """Return after how much silence the code in the loop is interrupted, and the worker is ended."""
        if not held:
            deadline = max(_STOPPING * self._lease_seconds, _STOPPING_SECONDS)
            return deadline / 2, deadline
        least = _LEAST * self._lease_seconds
        return (
            max(min(attempt.seconds_until_interrupt for attempt in held), least),
            max(min(attempt.seconds_until_force for attempt in held), 2 * least),
        )
