"""Background loops of this process: one shape to start them, stop them, ask whether they are alive, and repeat them."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable

from langlauf.clock import monotonic
from langlauf.domain.errors import StoreUnhealthy
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.telemetry.metrics import DUTIES

#: A success is not recorded again within this many seconds.
RECORD_SECONDS = 10.0


class BackgroundLoop:
    """Repeats an action in a task of its own until it is stopped.

    Between two rounds it awaits `pause`, where there is one. `on_error` handles the exception of a round, and the loop
    goes on. Without it an exception ends the loop: `alive` is False from then on, and `stop` logs the exception.
    """

    def __init__(
        self,
        name: str,
        action: Callable[[], Awaitable[object]],
        *,
        pause: Callable[[], Awaitable[object]] | None = None,
        on_error: Callable[[Exception], Awaitable[object]] | None = None,
        grace: float = 0.0,
    ) -> None:
        """`grace` is how long `stop` waits for the round that is under way before it cancels it."""
        self.name = name
        self._action = action
        self._pause = pause
        self._on_error = on_error
        self._grace = grace
        self._task: asyncio.Task[None] | None = None
        self._finishing = False

    @property
    def alive(self) -> bool:
        """Whether it was started and has not ended."""
        return self._task is not None and not self._task.done()

    async def start(self) -> None:
        """Start the first round."""
        self._task = asyncio.create_task(self._run(), name=self.name)

    def finish(self) -> None:
        """Make the current round the last one."""
        self._finishing = True

    async def ended(self) -> None:
        """Return when the loop has ended."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def stop(self) -> None:
        """Return when the loop has ended. A round that outlasts the grace is canceled: actions are safe to repeat."""
        self.finish()
        if self._task is None:
            return
        if self._grace:
            await asyncio.wait({self._task}, timeout=self._grace)
        self._task.cancel()
        await asyncio.wait({self._task})
        if not self._task.cancelled() and (error := self._task.exception()):
            log_event(LogEvent.MAINTENANCE_FAILED, logging.ERROR, error=error, duty=self.name)

    async def _run(self) -> None:
        # Checked after each round as well: a library may turn the cancellation into an error of its own.
        while not self._finishing:
            try:
                await self._action()
            except Exception as error:
                if self._on_error is None:
                    raise
                await self._on_error(error)
            if self._pause is not None and not self._finishing:
                await self._pause()


def until_tick(every: float) -> float:
    """Return the seconds until the next multiple of an interval: looks of a process come together, as one read."""
    return every - monotonic() % every


class PeriodicDuty(BackgroundLoop):
    """A maintenance loop: counts its rounds, remembers its last success, and logs and repeats a round that failed.

    Runs at once and then every `every` seconds, or sooner where `pause` returns early. `on_success` gets its name.
    """

    def __init__(
        self,
        name: str,
        every: float,
        action: Callable[[], Awaitable[object]],
        *,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
        on_success: Callable[[str], Awaitable[object]] | None = None,
        grace: float = 0.0,
    ) -> None:
        super().__init__(name, self._round, pause=lambda: pause(until_tick(every)), on_error=self._failed, grace=grace)
        self.every = every
        #: when a round last succeeded, by `monotonic`; before the first success, the time of the start
        self.succeeded_at = monotonic()
        self._duty = action
        self._on_success = on_success

    async def start(self) -> None:
        """Start the first round."""
        self.succeeded_at = monotonic()
        for outcome in ("done", "failed"):
            DUTIES.initialize(self.name, outcome)
        await super().start()

    async def _round(self) -> None:
        await self._duty()
        self.succeeded_at = monotonic()
        DUTIES.add(self.name, "done")
        if self._on_success is not None:
            await self._on_success(self.name)

    async def _failed(self, error: Exception) -> None:
        DUTIES.add(self.name, "failed")
        if not isinstance(error, StoreUnhealthy):  # that is logged once, by the health of the store
            log_event(LogEvent.MAINTENANCE_FAILED, logging.ERROR, error=error, duty=self.name)


class DutyRecorder:
    """Records successes of this process in the store, at most every few seconds per duty.

    A store that is unavailable costs a record; the duty itself has succeeded.
    """

    def __init__(self, write: Callable[[str, str], Awaitable[object]], *, every: float = RECORD_SECONDS) -> None:
        """`write` gets the name of a duty and of this host."""
        self._write = write
        self._every = every
        self._recorded: dict[str, float] = {}

    async def record(self, name: str) -> None:
        """Record that a duty has just succeeded."""
        now = monotonic()
        if name in self._recorded and now - self._recorded[name] < self._every:
            return
        try:
            await self._write(name, socket.gethostname())
        except StoreUnhealthy:
            return  # logged once, by the health of the store
        except Exception as error:  # noqa: BLE001 - the next success tries again
            log_event(LogEvent.MAINTENANCE_FAILED, logging.WARNING, duty=name, reason=str(error))
            return
        self._recorded[name] = now
