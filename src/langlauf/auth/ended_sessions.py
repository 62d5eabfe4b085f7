"""Sessions that ended before their time, in memory: a copy of a cookie opens nothing once its session was ended.

The store numbers these ends. Once a second, and only while sessions are in use, it is asked for the ends past
the last number; every process therefore knows of a sign-out within about a second, and callers with keys pay nothing.
An end is forgotten when the session would have ended by itself.
"""

import asyncio

from langlauf.clock import Clock, monotonic
from langlauf.domain.instant import Instant
from langlauf.store.admin import AccessStore

#: How old what is known may be.
FRESH_SECONDS = 1.0


class EndedSessions:
    """The sessions that were ended, as they were within the last second."""

    def __init__(self, store: AccessStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._ends: dict[str, Instant] = {}
        self._number = 0
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()

    async def end(self, session_id: str, expires_at: Instant) -> None:
        """Ends a session for every process. Repeating it changes nothing."""
        await self._store.end_session(session_id, expires_at)
        self._ends[session_id] = expires_at

    async def has(self, session_id: str) -> bool:
        """Whether a session was ended."""
        if monotonic() - self._looked_at >= FRESH_SECONDS:
            async with self._looking:  # concurrent callers share one look
                if monotonic() - self._looked_at >= FRESH_SECONDS:
                    await self._look()
        return session_id in self._ends

    async def _look(self) -> None:
        began, now = monotonic(), self._clock.now()
        for one in await self._store.session_ends(self._number):
            self._ends[one.session_id] = one.expires_at
            self._number = one.number
        self._ends = {session_id: expires_at for session_id, expires_at in self._ends.items() if expires_at > now}
        self._looked_at = began
