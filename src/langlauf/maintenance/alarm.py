"""Wakes workers at the time for which a job waits, whichever process has accepted it."""

import asyncio

from langlauf.domain.instant import seconds_between
from langlauf.hints import Hints
from langlauf.store.protocol import Store

#: The longest pause between two looks. Jobs that are accepted meanwhile, in other processes, are found by polling.
EVERY_SECONDS = 5.0


class Alarm:
    """Looks for the next time at which a job may start, and signals it then."""

    def __init__(self, store: Store, hints: Hints) -> None:
        self._store = store
        self._hints = hints
        self._rings_in: float | None = None

    async def look(self) -> None:
        """Read the next time from the store."""
        at = await self._store.next_start()
        self._rings_in = None if at is None else seconds_between(self._store.clock.now(), at)

    async def pause(self, seconds: float) -> None:
        """Wait for that time, or for so many seconds, and signal it."""
        if self._rings_in is None or self._rings_in > seconds:
            await asyncio.sleep(seconds)
            return
        await asyncio.sleep(max(0.0, self._rings_in))
        self._hints.work()
        self._hints.overdue()
