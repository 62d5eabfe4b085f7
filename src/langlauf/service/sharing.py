"""Reads that several want at the same moment, done once."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedReads(Generic[T]):
    """Lets those who want the same join a read that is under way.

    Such a read began before they came, so what it did not find may be there by now: where it is not `news`, they read
    again. Whatever it found is as good for them, because a log is only appended to.
    """

    def __init__(self, news: Callable[[T], bool]) -> None:
        self._news = news
        self._under_way: dict[Hashable, asyncio.Task[T]] = {}

    async def get(self, key: Hashable, read: Callable[[], Awaitable[T]]) -> T:
        """What is read under a key. Who leaves early disturbs nobody."""
        joined = self._under_way.get(key)
        if joined is not None:
            found = await asyncio.shield(joined)
            if self._news(found):
                return found
        return await asyncio.shield(self._under_way.get(key) or self._start(key, read))

    def _start(self, key: Hashable, read: Callable[[], Awaitable[T]]) -> asyncio.Task[T]:
        async def run() -> T:
            return await read()

        def forget(task: asyncio.Task[T]) -> None:
            del self._under_way[key]
            if not task.cancelled():
                task.exception()  # seen here, also where nobody waits for it any more

        task = self._under_way[key] = asyncio.create_task(run(), name="shared read")
        task.add_done_callback(forget)
        return task
