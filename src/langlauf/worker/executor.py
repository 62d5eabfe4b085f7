"""Where the chunks of `job.map` are computed. There are two such places: processes of this worker, and a Dask cluster.

A mapping does not know which one it has. What both take is the same message, and both end in the same ways: with the
value, with the function's failure as an `AnalysisError`, or with `ProcessDied`.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from langlauf.analysis.payload import aside
from langlauf.domain.errors import LanglaufError
from langlauf.worker.processes.asking import error_from
from langlauf.worker.processes.child_protocol import Broke, FromProcess, Returned, RunChunk, is_large, text_of
from langlauf.worker.processes.pool import Process


class Place(Protocol):
    """The attempt that a chunk belongs to, as far as whoever computes it must know."""

    #: done when the attempt has ended, whatever its function still does
    over: asyncio.Future[None]

    @property
    def facts(self) -> Mapping[str, Any]:
        """What is told of it: the ids of job, org, attempt, trace and request."""

    def process(self) -> AbstractAsyncContextManager[Process]:
        """A process of this worker that lives no longer than the attempt's lease."""


class Executor(Protocol):
    """Computes chunks, side by side. Whoever stops waiting for a chunk has it stopped."""

    async def parallel(self) -> int:
        """How many chunks of one map are worth having under way now."""

    async def compute(self, chunk: RunChunk, place: Place) -> str:
        """The value of a chunk as JSON text. Cancelled, it leaves nothing behind that computes."""

    async def close(self) -> None:
        """Lets go of what it holds."""


async def value_of(end: FromProcess) -> str:
    """The value of a chunk that ended, as JSON text; where the function raised, that is raised here."""
    if isinstance(end, Returned):
        return await aside(text_of, end.payload) if is_large(end.payload) else text_of(end.payload)
    raise error_from(end.failure) if isinstance(end, Broke) else LanglaufError(f"a chunk ended with {end}")
