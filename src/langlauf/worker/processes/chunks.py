"""Chunks on this machine: each in a warm process of the worker."""

import asyncio

from langlauf.worker.executor import Place, value_of
from langlauf.worker.processes.child_protocol import RunChunk


class LocalExecutor:
    """So many chunks are computed side by side, over all jobs of this worker."""

    def __init__(self, parallel: int) -> None:
        self._parallel = parallel
        self._slots = asyncio.Semaphore(parallel)

    async def parallel(self) -> int:
        """As many as there may be processes for them."""
        return self._parallel

    async def compute(self, chunk: RunChunk, place: Place) -> str:
        """One chunk at a time has the slot: jobs that map side by side take turns."""
        async with self._slots, place.process() as process:
            await process.send(chunk)
            end = await process.hear()
            process.reusable = getattr(end, "reusable", False)
        return await value_of(end)

    async def close(self) -> None:
        """The processes are the pool's."""
