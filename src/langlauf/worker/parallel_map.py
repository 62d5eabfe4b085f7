"""`job.map`: the chunks of one job, computed in parallel by an executor."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from langlauf.analysis.chunks import STEP_INTERVAL, Chunks, clean_step, format_step
from langlauf.analysis.payload import decode, run_in_thread
from langlauf.clock import monotonic
from langlauf.domain.attempt import Checkpoint, Progress
from langlauf.domain.errors import LanglaufError
from langlauf.worker.failure import error_from
from langlauf.worker.processes.child_protocol import (
    FromChild,
    FunctionRaised,
    FunctionReturned,
    RunChunk,
    is_large,
    json_text,
    raw_json,
)
from langlauf.worker.processes.process import ChildProcess


class ChunkAttempt(Protocol):
    """The attempt that a chunk belongs to, as far as whoever computes it must know."""

    #: done when the attempt has ended, whatever its function still does
    over: asyncio.Future[None]

    @property
    def facts(self) -> Mapping[str, Any]:
        """What is told of it: the ids of job, org, attempt, trace and request."""

    def process(self) -> AbstractAsyncContextManager[ChildProcess]:
        """A process of this worker that lives no longer than the attempt's lease."""


class Executor(Protocol):
    """Computes chunks, side by side. Whoever stops waiting for a chunk has it stopped."""

    async def parallel(self) -> int:
        """How many chunks of one map are worth having under way now."""

    async def compute(self, chunk: RunChunk, place: ChunkAttempt) -> str:
        """The value of a chunk as JSON text. Cancelled, it leaves nothing behind that computes."""

    async def close(self) -> None:
        """Lets go of what it holds."""


async def chunk_value(end: FromChild) -> str:
    """The value of a chunk that ended, as JSON text; where the function raised, that is raised here."""
    if isinstance(end, FunctionReturned):
        return await run_in_thread(json_text, end.payload) if is_large(end.payload) else json_text(end.payload)
    raise error_from(end.failure) if isinstance(end, FunctionRaised) else LanglaufError(f"a chunk ended with {end}")


class LocalExecutor:
    """So many chunks are computed side by side, over all jobs of this worker."""

    def __init__(self, parallel: int) -> None:
        self._parallel = parallel
        self._slots = asyncio.Semaphore(parallel)

    async def parallel(self) -> int:
        """As many as there may be processes for them."""
        return self._parallel

    async def compute(self, chunk: RunChunk, place: ChunkAttempt) -> str:
        """One chunk at a time has the slot: jobs that map side by side take turns."""
        async with self._slots, place.process() as process:
            await process.send(chunk)
            end = await process.receive()
            process.reusable = getattr(end, "reusable", False)
        return await chunk_value(end)

    async def close(self) -> None:
        """The processes are the pool's."""


class MapAttempt(ChunkAttempt, Protocol):
    """The attempt that the chunks belong to."""

    largest_result: int
    transient_references: tuple[str, ...]

    async def chunks(self, keys: Sequence[str]) -> dict[str, str]:
        """The stored values of those chunks that are finished, as JSON text by key."""

    def begin(self, key: str) -> None:
        """A chunk is about to be computed."""

    async def write(self, write: Checkpoint | Progress) -> None:
        """Returns when the write is on disk."""


class ParallelMap:
    """One map. Where a chunk fails, those that run are finished and kept, and the first failure is raised."""

    def __init__(self, site: MapAttempt, executor: Executor, chunks: Chunks, step: str | None) -> None:
        self._site = site
        self._executor = executor
        self._function = chunks.function
        self._keys = chunks.keys
        self._items = dict(zip(chunks.keys, chunks.items, strict=True))
        self._step = step
        self._found: dict[str, str] = {}
        self._missing: deque[str] = deque()
        self._hands = 0
        self._failures: list[Exception] = []
        self._reported = (-1, 0.0)

    async def run(self) -> list[str]:
        """The values of all chunks as JSON text, in the order of the items."""
        self._found = await self._site.chunks(list(self._items))
        self._missing.extend(key for key in self._items if key not in self._found)
        if self._missing:
            most = await self._executor.parallel()
            async with asyncio.TaskGroup() as group:
                self._hire(group, most)
        if self._failures:
            raise self._failures[0]
        return [self._found[key] for key in self._keys]

    def _hire(self, group: asyncio.TaskGroup, most: int) -> None:
        """Puts hands to what is missing: as many as are worth it now, which may grow while the map goes on."""
        wanted = min(most - self._hands, len(self._missing))
        for _ in range(wanted):
            self._hands += 1
            group.create_task(self._work(group))

    async def _work(self, group: asyncio.TaskGroup) -> None:
        while self._missing and not self._failures:
            key = self._missing.popleft()
            try:
                self._site.begin(key)
                payload = await self._executor.compute(self._chunk(key), self._site)
                await self._site.write(Checkpoint(key=key, payload=payload))
                self._found[key] = payload
                await self._report(key)
                self._hire(group, await self._executor.parallel())
            except Exception as error:  # noqa: BLE001 - the first one is raised once all have come to an end
                self._failures.append(error)

    def _chunk(self, key: str) -> RunChunk:
        return RunChunk(
            function=self._function,
            transient=self._site.transient_references,
            item=raw_json(self._items[key]),
            largest_result=self._site.largest_result,
        )

    async def _report(self, key: str) -> None:
        if self._step is None:
            return
        percent = len(self._found) * 100 // len(self._items)
        shown_percent, shown_at = self._reported
        if percent == shown_percent and monotonic() - shown_at < STEP_INTERVAL:
            return
        self._reported = percent, monotonic()
        step = format_step(self._step, decode(self._items[key]))
        await self._site.write(Progress(percent=percent, step=clean_step(step)))
