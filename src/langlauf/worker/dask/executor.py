"""Chunks on an existing Dask cluster, whose workers have langlauf and the application installed."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from distributed import KilledWorker
from distributed.client import ClosedClientError, FutureCancelledError

from langlauf.analysis.payload import LARGE, aside
from langlauf.clock import new_id
from langlauf.domain.errors import AnalysisError, PermanentError, StaleAttempt
from langlauf.worker.dask.connection import ClusterAway, Connection
from langlauf.worker.dask.wire import Answer, Call, Died, UnknownForm, read_answer, write
from langlauf.worker.executor import Place, value_of
from langlauf.worker.processes.child_protocol import RunChunk
from langlauf.worker.processes.pool import ProcessDied

#: Tasks that a map has under way for each thread of the cluster: the next one is there when one ends.
_PER_THREAD = 2
#: And at least so many, so that a cluster that grows with its work sees some.
_LEAST = 8


class DaskExecutor:
    """Sends chunks to the cluster and waits for their values. What is no longer waited for is let go of, and ends."""

    def __init__(self, address: str, *, lease_seconds: float, memory: int | None) -> None:
        self._connection = Connection(address, lease_seconds=lease_seconds)
        self._lease_seconds = lease_seconds
        self._memory = memory

    async def parallel(self) -> int:
        """Twice as many as the cluster has threads: enough to keep it busy, and never a million."""
        session = await self._connection.session()
        return max(_LEAST, _PER_THREAD * session.threads)

    async def compute(self, chunk: RunChunk, place: Place) -> str:
        """The value of a chunk as JSON text."""
        module, _, name = chunk.function.partition(":")
        if module == "__main__":
            raise PermanentError(
                f"{name} stands in the program that was started, where a Dask worker cannot find it: "
                "move it to a module that is installed on the cluster.",
                code="internal",
            )
        answer = await self._ask(f"{name}-{new_id()}", chunk, place)
        if isinstance(answer, Died):
            raise ProcessDied(answer.how, own=answer.own)
        return await value_of(answer)

    async def close(self) -> None:
        """Hangs up; the cluster lets go of whatever is left."""
        await self._connection.close()

    async def _ask(self, task: str, chunk: RunChunk, place: Place) -> Answer:
        session = await self._connection.session()
        call = Call(
            chunk=chunk,
            task=task,
            facts=place.facts,
            lease=session.lease,
            lease_seconds=self._lease_seconds,
            memory=self._memory,
        )
        try:
            said = await _while_it_lasts(place, session.ask(task, write(call)))
            return (
                await aside(read_answer, said) if isinstance(said, bytes) and len(said) > LARGE else read_answer(said)
            )
        except StaleAttempt:
            raise
        except KilledWorker as killed:
            deaths = killed.allowed_failures + 1
            raise ProcessDied(
                f"{deaths} Dask workers died while they computed one chunk", own=True, deaths=deaths
            ) from None
        except (FutureCancelledError, ClosedClientError, OSError) as error:
            raise ClusterAway(f"The Dask cluster at {self._connection.address} was lost while it computed.") from error
        except Exception as error:
            raise self._unable(error) from error

    def _unable(self, error: Exception) -> AnalysisError:
        """Our own function never raises: what arrives here is what kept Dask from calling it."""
        said = "another version answered" if isinstance(error, UnknownForm) else type(error).__name__
        return AnalysisError(
            f"The Dask cluster at {self._connection.address} cannot run chunks ({said}): install langlauf, in the "
            "version of this worker, on all workers of the cluster, and start them again."
        )


async def _while_it_lasts(place: Place, asking: Coroutine[Any, Any, object]) -> object:
    """Awaits an answer until the attempt has ended: a function that was left alone may still be waiting for it."""
    asked = asyncio.create_task(asking)
    either: set[asyncio.Future[Any]] = {asked, place.over}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            return asked.result()
        raise StaleAttempt("the attempt has ended; its chunks are computed no longer")
    finally:
        asked.cancel()
        await asyncio.wait({asked})
