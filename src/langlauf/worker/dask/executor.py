"""Chunks on an existing Dask cluster, whose workers have langlauf and the application installed."""

import asyncio
import contextlib
import logging
import operator
import pkgutil
from collections.abc import Coroutine
from contextvars import Context
from typing import Any

import dask
from dask.task_spec import Task
from distributed import Client, KilledWorker
from distributed.client import ClosedClientError, FutureCancelledError

from langlauf.analysis.payload import LARGE_TEXT, run_in_thread
from langlauf.analysis.registry import reference_to
from langlauf.clock import new_id
from langlauf.domain.errors import AnalysisError, PermanentError, StaleAttempt, TransientError
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.worker.dask.chunk_server import (
    ChunkCall,
    ChunkProcessDied,
    ChunkReply,
    IncompatibleMessage,
    decode_reply,
    encode_message,
    run_chunk,
)
from langlauf.worker.dask.heartbeat import HeartbeatSender
from langlauf.worker.parallel_map import ChunkAttempt, chunk_value
from langlauf.worker.processes.child_protocol import RunChunk
from langlauf.worker.processes.process import ProcessDied

#: Tasks that a map has under way for each thread of the cluster: the next one is there when one ends.
_PER_THREAD = 2
#: And at least so many, so that a cluster that grows with its work sees some.
_LEAST = 8


class DaskExecutor:
    """Sends chunks to the cluster and waits for their values. What is no longer waited for is let go of, and ends."""

    def __init__(self, address: str, *, lease_seconds: float, memory: int | None) -> None:
        self._connection = DaskConnection(address, lease_seconds=lease_seconds)
        self._lease_seconds = lease_seconds
        self._memory = memory

    async def parallel(self) -> int:
        """Twice as many as the cluster has threads: enough to keep it busy, and never a million."""
        session = await self._connection.session()
        return max(_LEAST, _PER_THREAD * session.threads)

    async def compute(self, chunk: RunChunk, place: ChunkAttempt) -> str:
        """The value of a chunk as JSON text."""
        module, _, name = chunk.function.partition(":")
        if module == "__main__":
            raise PermanentError(
                f"{name} stands in the program that was started, where a Dask worker cannot find it: "
                "move it to a module that is installed on the cluster.",
                code="internal",
            )
        answer = await self._ask(f"{name}-{new_id()}", chunk, place)
        if isinstance(answer, ChunkProcessDied):
            raise ProcessDied(answer.how, own=answer.own)
        return await chunk_value(answer)

    async def close(self) -> None:
        """Hangs up; the cluster lets go of whatever is left."""
        await self._connection.close()

    async def _ask(self, task: str, chunk: RunChunk, place: ChunkAttempt) -> ChunkReply:
        session = await self._connection.session()
        call = ChunkCall(
            chunk=chunk,
            task=task,
            facts=place.facts,
            lease=session.lease,
            lease_seconds=self._lease_seconds,
            memory=self._memory,
        )
        try:
            said = await _while_it_lasts(place, session.ask(task, encode_message(call)))
            return (
                await run_in_thread(decode_reply, said)
                if isinstance(said, bytes) and len(said) > LARGE_TEXT
                else decode_reply(said)
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
        said = "another version answered" if isinstance(error, IncompatibleMessage) else type(error).__name__
        return AnalysisError(
            f"The Dask cluster at {self._connection.address} cannot run chunks ({said}): install langlauf, in the "
            "version of this worker, on all workers of the cluster, and start them again."
        )


async def _while_it_lasts(place: ChunkAttempt, asking: Coroutine[Any, Any, object]) -> object:
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


#: How long a scheduler may take to answer, and how long a connection may take to be closed.
_CONNECT_SECONDS = 5.0
_CLOSE_SECONDS = 2.0
#: An item may be as large as a result, and nobody's source code is sent along.
_QUIET = {
    "distributed.admin.large-graph-warning-threshold": "1TiB",
    "distributed.diagnostics.computations.nframes": 0,
}
_FIND_RUNNER = Task(None, pkgutil.resolve_name, reference_to(run_chunk))


class ClusterAway(TransientError):
    """The Dask scheduler cannot be reached, or was lost: the attempt is worth another one."""


class DaskSession:
    """One client, with its sign of life."""

    def __init__(self, client: Client, renewing: HeartbeatSender) -> None:
        self._client = client
        self._renewing = renewing

    @property
    def usable(self) -> bool:
        """Whether it is connected; one that lost its scheduler has lost its tasks as well."""
        return str(self._client.status) == "running"

    @property
    def lease(self) -> str:
        """The variable that says that this worker lives."""
        return self._renewing.name

    @property
    def threads(self) -> int:
        """How many tasks the cluster runs at once, as of some seconds ago."""
        return int(self._client.scheduler_info().get("total_threads", 0))

    async def ask(self, task: str, call: bytes) -> object:
        """Has the cluster run a task: the name of one function of ours, and bytes. It is let go of in any case.

        The name is text, and looked up in the thread that runs the task. A reference, as Dask itself would send it, is
        looked up wherever a message is read: there a missing package ends the whole Dask worker, with all it computes.
        """
        with dask.config.set(_QUIET):
            future: Any = self._client.submit(operator.call, _FIND_RUNNER, call, key=task, pure=False)
        try:
            return await future.result()
        finally:
            with contextlib.suppress(OSError, RuntimeError):  # where nobody is there any more, nothing is held
                future.release()

    async def close(self) -> None:
        """Takes the sign of life away and hangs up; a scheduler that is gone does not hold it up for long."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._renewing.stop()
                await self._client.close()


class DaskConnection:
    """Gives out the current session; those who need one while it is being opened wait together."""

    def __init__(self, address: str, *, lease_seconds: float) -> None:
        self.address = address
        self._lease_seconds = lease_seconds
        self._session: DaskSession | None = None
        self._opening: asyncio.Task[DaskSession] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def session(self) -> DaskSession:
        """A session that is connected; raises `ClusterAway` where there can be none now."""
        if self._session is not None and not self._session.usable:
            self._drop(self._session)
        if self._session is None:
            if self._opening is None or self._opening.done():
                # Not in the context of the attempt that happens to be first: it outlives that one.
                self._opening = asyncio.get_running_loop().create_task(self._open(), context=Context())
                self._opening.add_done_callback(_looked_at)
            opening = self._opening
            await asyncio.wait({opening})
            return opening.result()
        return self._session

    async def close(self) -> None:
        """Hangs up."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
        if self._session is not None:
            self._drop(self._session)
        if self._closing:
            await asyncio.wait(self._closing)

    def _drop(self, session: DaskSession) -> None:
        self._session = None
        task = asyncio.get_running_loop().create_task(session.close(), context=Context())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _open(self) -> DaskSession:
        client = Client(
            self.address, asynchronous=True, set_as_default=False, name="langlauf", timeout=_CONNECT_SECONDS
        )
        try:
            await client
            renewing = HeartbeatSender(client, self._lease_seconds)
            await renewing.start(_CONNECT_SECONDS)
        except BaseException as error:
            with contextlib.suppress(Exception):
                await client.close()
            if not isinstance(error, OSError):  # a time-out is one, and so is a connection that was closed
                raise
            log_event(LogEvent.EXECUTOR_LOST, logging.ERROR, address=self.address, reason=str(error))
            raise ClusterAway(f"The Dask scheduler at {self.address} cannot be reached; is it running?") from error
        session = self._session = DaskSession(client, renewing)
        log_event(LogEvent.EXECUTOR_CONNECTED, address=self.address, threads=session.threads)
        return session


def _looked_at(opening: "asyncio.Task[DaskSession]") -> None:
    """Takes an error for which nobody waited any more; it has been told."""
    if not opening.cancelled():
        opening.exception()
