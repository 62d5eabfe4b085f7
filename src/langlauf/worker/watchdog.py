"""Tells the keeper that the event loop is alive, for as long as leases depend on it.

The keeper counts outside this interpreter: code that blocks the loop is noticed and interrupted, early enough for its
neighbours to keep their leases. Where Python cannot interrupt it, because it holds the interpreter lock, the whole
worker is ended before anybody else may take over its jobs.
"""

import asyncio
import faulthandler
import threading
from collections.abc import Callable, Collection

from langlauf.worker.attempt import RunningAttempt
from langlauf.worker.loop_guard import interrupt_after
from langlauf.worker.processes.supervisor import Keeper

#: How often it is told, and the least that is allowed for, as shares of a lease.
_EVERY = 0.05
_LEAST = 0.15
#: For attempts that have lost their leases and are being stopped: nothing depends on them any more but the loop itself.
_STOPPING = 0.5
_STOPPING_SECONDS = 2.0
#: Of a lease. A step of an attempt that is shorter has not blocked the loop, whatever came before it did.
_SHORTEST_BLOCK = 0.1


class Watchdog:
    """Beats towards the keeper. A new attempt is told of at once: it may block the loop with its first line."""

    def __init__(
        self, keeper: Keeper, *, lease_seconds: float, attempts: Callable[[], Collection[RunningAttempt]]
    ) -> None:
        self._keeper = keeper
        self._lease_seconds = lease_seconds
        self._attempts = attempts
        self._watched = False

    async def run(self) -> None:
        """Tells it until it is canceled."""
        if not faulthandler.is_enabled():
            faulthandler.enable()  # the keeper's first signal then shows where every thread stood
        if threading.current_thread() is threading.main_thread():
            interrupt_after(_SHORTEST_BLOCK * self._lease_seconds)
        while True:
            self.tell()
            await asyncio.sleep(_EVERY * self._lease_seconds)

    def tell(self) -> None:
        """The loop is alive now, and may be silent until the first lease is nearly over."""
        attempts = self._attempts()
        if attempts or self._watched:
            self._keeper.watch(self._allowed(attempts) if attempts else None)
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
