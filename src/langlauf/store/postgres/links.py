"""A few connections for reads, so that nobody who asks waits for a stranger's answer.

Whoever comes while all are busy waits in line, and not for ever. A caller that goes away leaves its question to be
answered to the end: the connection is then as good as before for the next.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.instant import Instant
from langlauf.store.health import StoreHealth
from langlauf.store.postgres.link import PATIENCE, Link

T = TypeVar("T")
#: How many reads run at the same time.
READERS = 4


class Links:
    """Connections by one name, opened when they are needed; the one that was used last is taken first."""

    def __init__(self, url: str, name: str, size: int = READERS, health: StoreHealth | None = None) -> None:
        self._places = asyncio.Semaphore(size)
        self.all = [Link(url, f"{name}-{number}", health, of_callers=True) for number in range(1, size + 1)]
        self._idle = list(reversed(self.all))
        self._under_way: set[asyncio.Task[Any]] = set()

    async def call(self, function: str, *values: Any) -> Any:
        """The one value that a function of the schema gives."""
        return await self._with_one(lambda link: link.call(function, *values))

    async def rows(self, function: str, *values: Any) -> list[Any]:
        """The rows that a function of the schema gives."""
        return await self._with_one(lambda link: link.rows(function, *values))

    async def close(self) -> None:
        """Lets go of the connections when what is under way has ended."""
        if self._under_way:
            await asyncio.wait(self._under_way)
        await asyncio.gather(*(link.close() for link in self.all))

    async def _with_one(self, ask: Callable[[Link], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._places.acquire()
        except TimeoutError as error:
            raise StoreUnavailable("the database is busy: other reads wait already") from error
        task = asyncio.ensure_future(self._asked(ask))
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    async def _asked(self, ask: Callable[[Link], Awaitable[T]]) -> T:
        link = self._idle.pop()
        try:
            return await ask(link)
        finally:
            self._idle.append(link)
            self._places.release()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may be gone: then nobody else looks at it


class Desk:
    """A part of a store, over its connections. `at` tells the time to act at; none is the database's."""

    def __init__(self, links: Links, at: Callable[[], Instant | None]) -> None:
        self._links = links
        self._at = at
