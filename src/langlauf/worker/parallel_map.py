"""`job.map`: the chunks of one job, computed in parallel by an executor."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

from langlauf.analysis.chunks import STEP_INTERVAL, Chunks, clean_step, format_step
from langlauf.analysis.payload import decode, run_in_thread
from langlauf.clock import monotonic
from langlauf.domain.attempt import Checkpoint, Progress
from langlauf.domain.errors import LanglaufError
from langlauf.domain.provenance import Source
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


class ChunkValue(NamedTuple):
    """What came of a chunk: its value as JSON text, and the sources that it declared."""

    payload: str
    sources: Sequence[Source]


class ChunkAttempt(Protocol):
    """The attempt of a chunk, as far as an executor needs it."""

    #: done when the attempt has ended, whatever its function still does
    over: asyncio.Future[None]

    @property
    def facts(self) -> Mapping[str, Any]:
        """Ids of job, org, attempt, trace and request for the log."""

    def process(self) -> AbstractAsyncContextManager[ChildProcess]:
        """Provide a process of this worker that lives no longer than the lease of the attempt."""


class Executor(Protocol):
    """Computes chunks in processes of this worker or on a Dask cluster. A canceled call stops its chunk."""

    async def parallel(self) -> int:
        """Return how many chunks of one map to have under way now."""

    async def compute(self, chunk: RunChunk, attempt: ChunkAttempt) -> ChunkValue:
        """Return the value of a chunk; raises `AnalysisError` or `ProcessDied`."""

    async def close(self) -> None:
        """Release connections and processes."""


async def chunk_value(end: FromChild) -> ChunkValue:
    """Return the value of a chunk that ended, or raise the error of its function."""
    if isinstance(end, FunctionReturned):
        large = is_large(end.payload)
        return ChunkValue(await run_in_thread(json_text, end.payload) if large else json_text(end.payload), end.sources)
    raise error_from(end.failure) if isinstance(end, FunctionRaised) else LanglaufError(f"a chunk ended with {end}")


class LocalExecutor:
    """Computes chunks in processes of this worker, with one limit for all its jobs."""

    def __init__(self, parallel: int) -> None:
        self._parallel = parallel
        self._slots = asyncio.Semaphore(parallel)

    async def parallel(self) -> int:
        """Return the number of processes for chunks."""
        return self._parallel

    async def compute(self, chunk: RunChunk, attempt: ChunkAttempt) -> ChunkValue:
        """Compute a chunk when a slot is free; concurrent maps take turns."""
        async with self._slots, attempt.process() as process:
            await process.send(chunk)
            end = await process.receive()
            process.reusable = getattr(end, "reusable", False)
        return await chunk_value(end)

    async def close(self) -> None:
        """Do nothing: the processes belong to the pool."""


class MapAttempt(ChunkAttempt, Protocol):
    """The attempt of a map."""

    largest_result: int
    transient_references: tuple[str, ...]

    async def chunks(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the stored values of finished chunks as JSON text by key."""

    def start_chunk(self, key: str) -> None:
        """Note that a chunk is about to be computed."""

    async def source(self, source: Source) -> None:
        """Store a source; returns once it is on disk."""

    async def write(self, write: Checkpoint | Progress) -> None:
        """Write; returns once it is on disk."""


class ParallelMap:
    """One map. Finished chunks are stored at once. After a failure, running chunks finish before it is raised."""

    def __init__(self, attempt: MapAttempt, executor: Executor, chunks: Chunks, step: str | None, total: int) -> None:
        self._attempt = attempt
        self._executor = executor
        self._function = chunks.function
        self._keys = chunks.keys
        self._items = dict(zip(chunks.keys, chunks.items, strict=True))
        self._step = step
        #: how many parts the job is known to have, with those of this map
        self._total = total
        self._found: dict[str, str] = {}
        self._missing: deque[str] = deque()
        self._workers = 0
        self._failures: list[Exception] = []
        self._reported = (-1, 0.0)

    async def run(self) -> list[str]:
        """Return the values of all chunks as JSON text, in the order of the items."""
        self._found = await self._attempt.chunks(list(self._items))
        self._missing.extend(key for key in self._items if key not in self._found)
        if self._missing:
            most = await self._executor.parallel()
            async with asyncio.TaskGroup() as group:
                self._start_workers(group, most)
        if self._failures:
            raise self._failures[0]
        return [self._found[key] for key in self._keys]

    def _start_workers(self, group: asyncio.TaskGroup, most: int) -> None:
        """Start tasks for missing chunks, up to a limit that may grow during the map."""
        wanted = min(most - self._workers, len(self._missing))
        for _ in range(wanted):
            self._workers += 1
            group.create_task(self._work(group))

    async def _work(self, group: asyncio.TaskGroup) -> None:
        while self._missing and not self._failures:
            key = self._missing.popleft()
            try:
                self._attempt.start_chunk(key)
                payload, sources = await self._executor.compute(self._chunk(key), self._attempt)
                for source in sources:  # before the chunk, which is not computed again once it is stored
                    await self._attempt.source(source)
                await self._attempt.write(Checkpoint(key=key, payload=payload, total=self._total))
                self._found[key] = payload
                await self._report(key)
                self._start_workers(group, await self._executor.parallel())
            except Exception as error:  # noqa: BLE001 - the first one is raised once all have ended
                self._failures.append(error)

    def _chunk(self, key: str) -> RunChunk:
        return RunChunk(
            function=self._function,
            transient=self._attempt.transient_references,
            item=raw_json(self._items[key]),
            largest_result=self._attempt.largest_result,
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
        await self._attempt.write(Progress(percent=percent, step=clean_step(step)))
