"""Something that is done again and again until the program stops. A failure is told and tried again next time."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from langlauf.clock import monotonic
from langlauf.domain.errors import StoreUnhealthy
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.telemetry.metrics import DUTIES


class Periodic:
    """Runs an action at once and then every so many seconds, or sooner where the `pause` between ends early.

    `done` is told its name after each success.
    """

    def __init__(
        self,
        name: str,
        every: float,
        action: Callable[[], Awaitable[object]],
        *,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
        done: Callable[[str], Awaitable[object]] | None = None,
    ) -> None:
        self.name = name
        self.every = every
        #: when it last ended well, on the clock of `monotonic`; the time of its start before that
        self.succeeded_at = monotonic()
        self._action = action
        self._pause = pause
        self._done = done
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def alive(self) -> bool:
        """Whether it goes on."""
        return self._task is not None and not self._task.done()

    async def start(self) -> None:
        """Begins."""
        self.succeeded_at = monotonic()
        for outcome in ("done", "failed"):
            DUTIES.initialize(self.name, outcome)
        self._task = asyncio.create_task(self._loop(), name=self.name)

    async def stop(self) -> None:
        """Ends, in the middle of the action if need be: every action is safe to cut and to repeat."""
        if self._task is None:
            return
        self._stopping = True
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _loop(self) -> None:
        while True:
            try:
                await self._action()
                self.succeeded_at = monotonic()
                DUTIES.add(self.name, "done")
                if self._done is not None:
                    await self._done(self.name)
            except StoreUnhealthy:
                DUTIES.add(self.name, "failed")  # why is logged once, by the health of the store
            except Exception as error:  # noqa: BLE001 - upkeep outlives whatever goes wrong in one round
                DUTIES.add(self.name, "failed")
                log_event(LogEvent.UPKEEP_FAILED, logging.ERROR, error=error, duty=self.name)
            if self._stopping:  # an error that the cancel led to stands in for it
                return
            await self._pause(self.every)
