"""Large payloads of a database: read once, whole, and shared by all who read the same at the same time.

A database has no cheap way to a part of a large text: for each piece it would unpack all of it again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from weakref import WeakValueDictionary

from langlauf.domain.errors import PayloadGone
from langlauf.store.source import PIECE

#: So many are brought at once: the other connections are for those who ask for little.
_AT_ONCE = 2


class Copy:
    """The bytes of one payload, for as long as an answer reads it."""

    def __init__(self, fetch: Callable[[], Awaitable[bytes | None]], turn: asyncio.Semaphore) -> None:
        self._fetch = fetch
        self._turn = turn
        self._alone = asyncio.Lock()
        self._data: bytes | None = None

    async def data(self) -> bytes:
        """All of it; concurrent callers share one fetch."""
        async with self._alone:
            if self._data is None:
                async with self._turn:
                    self._data = await self._fetch()
            if self._data is None:
                raise PayloadGone("a payload was removed before it was read")
            return self._data


class Copies:
    """The copies that are being read."""

    def __init__(self) -> None:
        self._kept: WeakValueDictionary[tuple[str, str], Copy] = WeakValueDictionary()
        self._turn = asyncio.Semaphore(_AT_ONCE)

    def copy(self, org_id: str, result_id: str, fetch: Callable[[], Awaitable[bytes | None]]) -> Copy:
        """The one that others read already, or a new one, which is fetched when it is first read."""
        return self._kept.setdefault((org_id, result_id), Copy(fetch, self._turn))


class Shared:
    """A payload of which all who read it share one copy."""

    def __init__(self, size: int, share: Hashable, copy: Copy) -> None:
        self.size = self.holds = size
        self.whole: bytes | None = None
        self.share: Hashable | None = share
        self._copy = copy

    async def read(self, start: int) -> bytes | memoryview:
        return memoryview(await self._copy.data())[start : start + PIECE]
