"""Reads that several want at the same moment, done once."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
#: What takes long to find out is kept longer: looking takes at most a sixth of the time.
_KEPT_PER_SECOND_OF_LOOKING = 5
_LONGEST_KEPT = 5.0


class SingleFlight(Generic[T]):
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


class BatchedReads(Generic[K, T]):
    """Reads many things by their keys at once: who asks while a read is under way goes with the next."""

    def __init__(self, read: Callable[[Sequence[K]], Awaitable[Mapping[K, T]]]) -> None:
        self._read = read
        self._waiting: list[tuple[K, asyncio.Future[T | None]]] = []
        self._reading: asyncio.Task[None] | None = None

    async def get(self, key: K) -> T | None:
        """What is there now under a key; None where nothing is."""
        future: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, future))
        if self._reading is None:
            self._reading = asyncio.create_task(self._run(), name="batched reads")
        return await future

    async def _run(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(0)  # who comes in the same turn of the loop goes with it
                batch, self._waiting = self._waiting, []
                await self._answer(batch)
        finally:
            self._reading = None

    async def _answer(self, batch: list[tuple[K, asyncio.Future[T | None]]]) -> None:
        found: Mapping[K, T] = {}
        failed: Exception | None = None
        try:
            found = await self._read(list({key for key, _ in batch}))
        except Exception as error:  # noqa: BLE001 - it is the answer to each who asked
            failed = error
        for key, future in batch:
            if future.done():  # who asked went away
                continue
            if failed is None:
                future.set_result(found.get(key))
            else:
                future.set_exception(failed)


class CachedRead(Generic[T]):
    """Something that is looked up at most once a second; concurrent callers share one look.

    While a look is under way the last value is good enough for a few seconds more: a slow read holds up one caller.
    """

    def __init__(self, look: Callable[[], Awaitable[T]], fresh_seconds: float) -> None:
        self._look = look
        self._fresh_seconds = fresh_seconds
        self._kept: T | None = None
        self._found_at = float("-inf")
        self._until = float("-inf")
        self._looking: asyncio.Task[T] | None = None

    async def get(self, enough: Callable[[T], bool] = lambda _: True) -> T:
        """What was found a moment ago, where that is enough; else what is found now."""
        kept, now = self._kept, time.monotonic()
        if kept is not None and enough(kept):
            usable = self._until if self._looking is None else self._found_at + _LONGEST_KEPT
            if self._fresh_seconds and now < usable:
                return kept
        if self._looking is not None:
            found = await asyncio.shield(self._looking)  # it began before this caller came
            if self._fresh_seconds and enough(found):
                return found
        return await asyncio.shield(self._looking or self._start())

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
            task.exception()  # seen here, also where its callers have gone
