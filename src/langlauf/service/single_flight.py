"""Shared reads: concurrent callers of the same read share one query."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
#: Slow reads are cached longer: reading takes at most a sixth of the time.
_KEPT_PER_SECOND_OF_LOOKING = 5
_LONGEST_KEPT = 5.0


class SingleFlight(Generic[T]):
    """Lets concurrent callers with the same key join a read in progress.

    That read began before they came, so it may have missed what they wait for: where it found no `news`, they read
    again. What it did find is valid for them, because a log is append-only.
    """

    def __init__(self, news: Callable[[T], bool]) -> None:
        self._news = news
        self._under_way: dict[Hashable, asyncio.Task[T]] = {}

    async def get(self, key: Hashable, read: Callable[[], Awaitable[T]]) -> T:
        """Return what is read under a key. A caller that is cancelled does not affect the others."""
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
                task.exception()  # retrieved, also when no caller is left

        task = self._under_way[key] = asyncio.create_task(run(), name="shared read")
        task.add_done_callback(forget)
        return task


class BatchedReads(Generic[K, T]):
    """Batches reads by key: callers during a read go into the next batch."""

    def __init__(self, read: Callable[[Sequence[K]], Awaitable[Mapping[K, T]]]) -> None:
        self._read = read
        self._waiting: list[tuple[K, asyncio.Future[T | None]]] = []
        self._reading: asyncio.Task[None] | None = None

    async def get(self, key: K) -> T | None:
        """Return the current value of a key; None where there is none."""
        future: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, future))
        if self._reading is None:
            self._reading = asyncio.create_task(self._run(), name="batched reads")
        return await future

    async def _run(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(0)  # callers of the same loop iteration join the batch
                batch, self._waiting = self._waiting, []
                await self._answer(batch)
        finally:
            self._reading = None

    async def _answer(self, batch: list[tuple[K, asyncio.Future[T | None]]]) -> None:
        found: Mapping[K, T] = {}
        failed: Exception | None = None
        try:
            found = await self._read(list({key for key, _ in batch}))
        except Exception as error:  # noqa: BLE001 - every caller of the batch gets it
            failed = error
        for key, future in batch:
            if future.done():  # its caller was cancelled
                continue
            if failed is None:
                future.set_result(found.get(key))
            else:
                future.set_exception(failed)


class CachedRead(Generic[T]):
    """A value that is read at most once a second; concurrent callers share one read.

    During a read the last value stays valid for a few more seconds, and a value that is used all the time is read
    again in the background: a slow read delays only the first caller after a pause.
    """

    def __init__(self, look: Callable[[], Awaitable[T]], fresh_seconds: float) -> None:
        self._look = look
        self._fresh_seconds = fresh_seconds
        self._kept: T | None = None
        self._found_at = float("-inf")
        self._until = float("-inf")
        self._looking: asyncio.Task[T] | None = None

    async def get(self, enough: Callable[[T], bool] = lambda _: True) -> T:
        """Return the cached value where it is recent and satisfies `enough`; else read it."""
        kept, now = self._kept, time.monotonic()
        if kept is not None and enough(kept) and self._fresh_seconds:
            if now < self._until:
                return kept
            if self._looking is None and now < self._until + self._fresh_seconds:
                self._start()
            if self._looking is not None and now < self._found_at + _LONGEST_KEPT:
                return kept
        if self._looking is not None:
            found = await asyncio.shield(self._looking)  # it began before this call
            if self._fresh_seconds and enough(found):
                return found
        return await asyncio.shield(self._looking or self._start())

    def forget(self) -> None:
        """Read again for the next caller: the value was changed here."""
        self._kept = None

    def _start(self) -> asyncio.Task[T]:
        self._looking = asyncio.create_task(self._look_now(), name="estimates")
        self._looking.add_done_callback(self._looked)
        return self._looking

    async def _look_now(self) -> T:
        began = time.monotonic()
        found = await self._look()
        self._kept, self._found_at = found, time.monotonic()
        kept = min(_LONGEST_KEPT, (self._found_at - began) * _KEPT_PER_SECOND_OF_LOOKING)
        self._until = self._found_at + max(self._fresh_seconds, kept)
        return found

    def _looked(self, task: asyncio.Task[T]) -> None:
        self._looking = None
        if not task.cancelled():
            task.exception()  # retrieved, also when no caller is left
