"""Keeps the leases of running attempts alive, and carries the wish to stop back to them."""

import asyncio
from collections.abc import Callable, Collection

from langlauf.clock import monotonic
from langlauf.hints import Hints
from langlauf.telemetry.log import log_store_failure
from langlauf.worker.attempt import RunningAttempt, Stop
from langlauf.worker.attempt_store import WorkStore

_SHORTEST_PAUSE = 0.01
#: A lease that has less of its time left, as a share of it, should have been renewed by now.
_LATE = 0.4


class Heartbeat:
    """Renews all leases of a worker in one write: at least three times per lease, and as often as it looks for work.

    That is how it hears of a cancel that another process took; in this process a hint asks for attention at once.
    """

    def __init__(
        self,
        store: WorkStore,
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
                attempt.stop(Stop.LOST)
                continue
            attempt.renewed(asked_at)
            if renewal.cancel_reason is not None:
                attempt.cancel_reason = renewal.cancel_reason
                attempt.stop(Stop.CANCEL)
        for attempt in running.values():
            if attempt.lease_seems_over:
                attempt.stop(Stop.LOST)
