"""What is known about how long things take, remembered for a moment: estimates need not be newer than that."""

import time

from langlauf.domain.eta import expected_wait
from langlauf.store.protocol import Store

_FRESH_SECONDS = 1.0


class Estimates:
    """Recent run times and the depth of the queue, read from the store at most once a second."""

    def __init__(self, store: Store, slots: int) -> None:
        self._store = store
        self._slots = slots
        self._paces: dict[str, tuple[float, float | None]] = {}
        self._waiting: tuple[float, int] = (float("-inf"), 0)

    async def typical_run(self, analysis: str) -> float | None:
        """What a run of the analysis took lately, in seconds."""
        read_at, seconds = self._paces.get(analysis, (float("-inf"), None))
        if seconds is None or time.monotonic() - read_at > _FRESH_SECONDS:  # nothing known is worth another look
            seconds = await self._store.pace(analysis)
            self._paces[analysis] = (time.monotonic(), seconds)
        return seconds

    async def until_end(self, analysis: str) -> float | None:
        """How long a job that is accepted now probably takes, with the queue before it."""
        typical = await self.typical_run(analysis)
        if typical is None:
            return None
        read_at, waiting = self._waiting
        if time.monotonic() - read_at > _FRESH_SECONDS:
            waiting = (await self._store.depth()).waiting
            self._waiting = (time.monotonic(), waiting)
        return expected_wait(waiting, self._slots, typical)
