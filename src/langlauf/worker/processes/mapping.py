"""`job.map`: the chunks of one job, computed side by side in processes. A finished chunk is kept at once."""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from langlauf.analysis.chunking import STEP_SECONDS, Chunks
from langlauf.analysis.payload import decode
from langlauf.analysis.reporting import usable_step
from langlauf.clock import steady
from langlauf.domain.attempt import Checkpoint, Progress
from langlauf.domain.errors import LanglaufError
from langlauf.worker.processes.asking import error_from
from langlauf.worker.processes.pool import Process
from langlauf.worker.processes.wire import Broke, Returned, RunChunk, raw, text_of


class Site(Protocol):
    """The attempt that the chunks belong to."""

    largest_result: int
    transient_references: tuple[str, ...]
    chunk_slots: asyncio.Semaphore

    def process(self) -> AbstractAsyncContextManager[Process]:
        """A process that lives no longer than the attempt's lease."""

    async def chunks(self, keys: Sequence[str]) -> dict[str, str]:
        """The stored values of those chunks that are finished, as JSON text by key."""

    async def write(self, write: Checkpoint | Progress) -> None:
        """Returns when the write is on disk."""


class Mapping:
    """One map. Where a chunk fails, those that run are finished and kept, and the first failure is raised."""

    def __init__(self, site: Site, chunks: Chunks, step: str | None) -> None:
        self._site = site
        self._function = chunks.function
        self._keys = chunks.keys
        self._items = dict(zip(chunks.keys, chunks.items, strict=True))
        self._step = step
        self._found: dict[str, str] = {}
        self._missing: deque[str] = deque()
        self._failures: list[Exception] = []
        self._reported = (-1, 0.0)

    async def run(self, parallel: int) -> list[str]:
        """The values of all chunks as JSON text, in the order of the items."""
        self._found = await self._site.chunks(list(self._items))
        self._missing.extend(key for key in self._items if key not in self._found)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(parallel, len(self._missing))):
                group.create_task(self._work())
        if self._failures:
            raise self._failures[0]
        return [self._found[key] for key in self._keys]

    async def _work(self) -> None:
        while self._missing and not self._failures:
            key = self._missing.popleft()
            try:
                # One chunk at a time: jobs that map side by side take turns.
                async with self._site.chunk_slots:
                    payload = await self._compute(key)
                await self._site.write(Checkpoint(key=key, payload=payload))
                self._found[key] = payload
                await self._report(key)
            except Exception as error:  # noqa: BLE001 - the first one is raised once all have come to an end
                self._failures.append(error)

    async def _compute(self, key: str) -> str:
        task = RunChunk(
            function=self._function,
            transient=self._site.transient_references,
            item=raw(self._items[key]),
            largest_result=self._site.largest_result,
        )
        async with self._site.process() as process:
            await process.send(task)
            end = await process.hear()
            if isinstance(end, Returned):
                process.reusable = end.reusable
                return text_of(end.payload)
            process.reusable = isinstance(end, Broke) and end.reusable
        raise error_from(end.failure) if isinstance(end, Broke) else LanglaufError(f"a chunk ended with {end}")

    async def _report(self, key: str) -> None:
        if self._step is None:
            return
        percent = len(self._found) * 100 // len(self._items)
        shown_percent, shown_at = self._reported
        if percent == shown_percent and steady() - shown_at < STEP_SECONDS:
            return
        self._reported = percent, steady()
        step = self._step.format(decode(self._items[key]))
        await self._site.write(Progress(percent=percent, step=usable_step(step)))
