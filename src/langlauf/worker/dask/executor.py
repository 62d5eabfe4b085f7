"""Computes chunks on an existing Dask cluster, whose workers have langlauf and the application installed."""

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
from langlauf.domain.errors import AnalysisError, PermanentError, StaleAttempt, TransientError, error_saying
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.worker.dask.chunk_server import (
    ChunkCall,
    ChunkProcessDied,
    ChunkReply,
    HeartbeatSender,
    IncompatibleMessage,
    decode_reply,
    encode_message,
    run_chunk,
)
from langlauf.worker.parallel_map import ChunkAttempt, ChunkValue, chunk_value
from langlauf.worker.processes.child_protocol import RunChunk
from langlauf.worker.processes.process import ProcessDied

#: Tasks of a map per thread of the cluster: the next task is there when one ends.
_PER_THREAD = 2
#: The least number of tasks of a map, so that a cluster that scales with its load has some.
_LEAST = 8
#: Timeouts to connect to a scheduler, and to close a connection.
_CONNECT_SECONDS = 5.0
_CLOSE_SECONDS = 2.0
#: Options of Dask: no warning for large items, which may be as large as a result, and no source code in tasks.
_OPTIONS = {
    "distributed.admin.large-graph-warning-threshold": "1TiB",
    "distributed.diagnostics.computations.nframes": 0,
}
_FIND_RUNNER = Task(None, pkgutil.resolve_name, reference_to(run_chunk))


class DaskUnavailable(TransientError):
    """The Dask scheduler cannot be reached, or was lost; another attempt may succeed."""


class FunctionNotImportable(PermanentError):
    """The function is not in a module that the workers of the cluster can import."""

    default_code = "internal"


class DaskSession:
    """One client and the heartbeat of this worker."""

    def __init__(self, client: Client, heartbeat: HeartbeatSender) -> None:
        self._client = client
        self._heartbeat = heartbeat

    @property
    def usable(self) -> bool:
        """Whether it is connected; a client that lost its scheduler has lost its tasks as well."""
        return str(self._client.status) == "running"

    @property
    def heartbeat(self) -> str:
        """Name of the variable on the scheduler that this worker increments."""
        return self._heartbeat.name

    @property
    def threads(self) -> int:
        """Number of threads of the cluster, as of some seconds ago."""
        return int(self._client.scheduler_info().get("total_threads", 0))

    async def run(self, task: str, call: bytes) -> object:
        """Run a task on the cluster: the name of one function of ours, and bytes. The task is released in any case.

        The name is text, resolved in the thread that runs the task. A pickled reference, as Dask itself would send it,
        is resolved wherever a message is read: there a missing package ends the whole Dask worker with all its tasks.
        """
        with dask.config.set(_OPTIONS):
            future: Any = self._client.submit(operator.call, _FIND_RUNNER, call, key=task, pure=False)
        try:
            return await future.result()
        finally:
            with contextlib.suppress(OSError, RuntimeError):  # the scheduler is gone, and the task with it
                future.release()

    async def close(self) -> None:
        """Stop the heartbeat and disconnect; a scheduler that is gone delays it only briefly."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._heartbeat.stop()
                await self._client.close()


class DaskConnection:
    """Holds the current session: opens it on demand, once for concurrent callers, and replaces one that broke."""

    def __init__(self, address: str, *, lease_seconds: float) -> None:
        self.address = address
        self._lease_seconds = lease_seconds
        self._session: DaskSession | None = None
        self._opening: asyncio.Task[DaskSession] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def session(self) -> DaskSession:
        """Return a connected session, or raise `DaskUnavailable`."""
        if self._session is not None and not self._session.usable:
            self._drop(self._session)
        if self._session is None:
            if self._opening is None or self._opening.done():
                # Not in the context of the attempt that is first: the session outlives it.
                self._opening = asyncio.get_running_loop().create_task(self._open(), context=Context())
                self._opening.add_done_callback(_retrieve_error)
            opening = self._opening
            await asyncio.wait({opening})
            return opening.result()
        return self._session

    async def close(self) -> None:
        """Disconnect."""
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
            heartbeat = HeartbeatSender(client, self._lease_seconds)
            await heartbeat.start(_CONNECT_SECONDS)
        except BaseException as error:
            with contextlib.suppress(Exception):
                await client.close()
            if not isinstance(error, OSError):  # also a timeout, and a connection that was closed
                raise
            log_event(LogEvent.EXECUTOR_LOST, logging.ERROR, address=self.address, reason=str(error))
            raise error_saying(DaskUnavailable, "dask_unreachable", address=self.address) from error
        session = self._session = DaskSession(client, heartbeat)
        log_event(LogEvent.EXECUTOR_CONNECTED, address=self.address, threads=session.threads)
        return session


def _retrieve_error(opening: "asyncio.Task[DaskSession]") -> None:
    """Retrieve the error of a task without waiters, which asyncio would report; it has been logged."""
    if not opening.cancelled():
        opening.exception()


class DaskExecutor:
    """Sends chunks to the cluster and awaits their values. A canceled call releases its task, which ends it."""

    def __init__(self, address: str, *, lease_seconds: float, memory: int | None) -> None:
        self._connection = DaskConnection(address, lease_seconds=lease_seconds)
        self._lease_seconds = lease_seconds
        self._memory = memory

    async def parallel(self) -> int:
        """Return twice the number of threads: enough to keep the cluster busy, with a bound."""
        session = await self._connection.session()
        return max(_LEAST, _PER_THREAD * session.threads)

    async def compute(self, chunk: RunChunk, attempt: ChunkAttempt) -> ChunkValue:
        """Return the value of a chunk."""
        module, _, name = chunk.function.partition(":")
        if module == "__main__":
            raise error_saying(FunctionNotImportable, "dask_main_program", function=name)
        reply = await self._run(f"{name}-{new_id()}", chunk, attempt)
        if isinstance(reply, ChunkProcessDied):
            raise ProcessDied(reply.how, own=reply.own)
        return await chunk_value(reply)

    async def close(self) -> None:
        """Disconnect; the cluster releases what is left."""
        await self._connection.close()

    async def _run(self, task: str, chunk: RunChunk, attempt: ChunkAttempt) -> ChunkReply:
        session = await self._connection.session()
        call = ChunkCall(
            chunk=chunk,
            task=task,
            facts=attempt.facts,
            heartbeat=session.heartbeat,
            lease_seconds=self._lease_seconds,
            memory=self._memory,
        )
        try:
            data = await _until_attempt_ends(attempt, session.run(task, encode_message(call)))
            return (
                await run_in_thread(decode_reply, data)
                if isinstance(data, bytes) and len(data) > LARGE_TEXT
                else decode_reply(data)
            )
        except StaleAttempt:
            raise
        except KilledWorker as killed:
            deaths = killed.allowed_failures + 1
            raise ProcessDied(
                f"{deaths} Dask workers died while they computed one chunk", own=True, deaths=deaths
            ) from None
        except (FutureCancelledError, ClosedClientError, OSError) as error:
            raise error_saying(DaskUnavailable, "dask_lost", address=self._connection.address) from error
        except Exception as error:
            raise self._incompatible(error) from error

    def _incompatible(self, error: Exception) -> AnalysisError:
        """Return the error to raise where Dask could not call our function, which itself never raises."""
        reason = "another version replied" if isinstance(error, IncompatibleMessage) else type(error).__name__
        return error_saying(AnalysisError, "dask_incompatible", address=self._connection.address, detail=reason)


async def _until_attempt_ends(attempt: ChunkAttempt, call: Coroutine[Any, Any, object]) -> object:
    """Await a reply until the attempt has ended: an abandoned function may still wait for it."""
    task = asyncio.create_task(call)
    either: set[asyncio.Future[Any]] = {task, attempt.over}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise StaleAttempt("the attempt has ended; its chunks are no longer computed")
    finally:
        task.cancel()
        await asyncio.wait({task})
