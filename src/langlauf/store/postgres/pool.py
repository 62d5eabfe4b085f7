"""A small pool of connections for reads, so that reads do not queue behind each other.

When all are busy, callers queue, with a timeout. A query whose caller was canceled runs to its end: its connection
stays usable.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.instant import Instant
from langlauf.store.health import StoreHealth
from langlauf.store.postgres.connection import CALL_TIMEOUT, DatabaseConnection

T = TypeVar("T")
#: How many reads run at the same time.
POOL_SIZE = 4


class ReadPool:
    """Connections opened on demand; the one used last is taken first."""

    def __init__(self, url: str, name: str, size: int = POOL_SIZE, health: StoreHealth | None = None) -> None:
        self._free_places = asyncio.Semaphore(size)
        self.connections = [
            DatabaseConnection(url, f"{name}-{number}", health, for_requests=True) for number in range(1, size + 1)
        ]
        self._idle = list(reversed(self.connections))
        self._running: set[asyncio.Task[Any]] = set()

    async def call(self, function: str, *values: Any) -> Any:
        """Return the single value of a database function."""
        return await self._with_connection(lambda connection: connection.call(function, *values))

    async def rows(self, function: str, *values: Any) -> list[Any]:
        """Return the rows of a database function."""
        return await self._with_connection(lambda connection: connection.rows(function, *values))

    async def close(self) -> None:
        """Close the connections when running queries have ended."""
        if self._running:
            await asyncio.wait(self._running)
        await asyncio.gather(*(connection.close() for connection in self.connections))

    async def _with_connection(self, query: Callable[[DatabaseConnection], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                await self._free_places.acquire()
        except TimeoutError as error:
            raise StoreUnavailable("the database is busy: other reads wait already; try again") from error
        task = asyncio.ensure_future(self._run(query))
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    async def _run(self, query: Callable[[DatabaseConnection], Awaitable[T]]) -> T:
        connection = self._idle.pop()
        try:
            return await query(connection)
        finally:
            self._idle.append(connection)
            self._free_places.release()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved here because the caller may be gone


class PooledStore:
    """Base of the parts of a store that run over its pool. `at` returns a test's time, or None for the database's."""

    def __init__(self, pool: ReadPool, at: Callable[[], Instant | None]) -> None:
        self._pool = pool
        self._at = at
