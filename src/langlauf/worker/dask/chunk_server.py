"""Runs chunks beside a Dask worker, in processes of their own, and the messages that bring them there.

A Dask worker cannot stop a running task, so no function of an application runs in it: it runs in a child process with a
supervisor, as on a worker of Langlauf, and a process can be ended. Messages are JSON as bytes, opaque to Dask.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from typing import Any

import msgspec
from distributed import Worker, get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from langlauf.domain.errors import sentence_meta, sentence_text
from langlauf.domain.outcome import Failure
from langlauf.settings import BY_NAME
from langlauf.settings_values import read_variables
from langlauf.telemetry.log import ensure_log_handler
from langlauf.worker.dask.heartbeat import HeartbeatMonitor
from langlauf.worker.failure import failure_of
from langlauf.worker.processes.child_protocol import (
    AttemptStale,
    FunctionRaised,
    FunctionReturned,
    LoadApplication,
    RunChunk,
)
from langlauf.worker.processes.pool import ProcessPool
from langlauf.worker.processes.process import ProcessDied
from langlauf.worker.processes.supervisor import Supervisor

#: Incremented when a message changes, so that incompatible versions report it.
PROTOCOL_VERSION = 1


class ChunkCall(msgspec.Struct, frozen=True, kw_only=True):
    """To a Dask worker: one chunk, its job, and the heartbeat of the worker that wants it."""

    version: int = PROTOCOL_VERSION
    chunk: RunChunk
    #: Dask's name of the task
    task: str
    #: ids of job, org, attempt, trace and request, for the log
    facts: Mapping[str, Any]
    #: the variable on the scheduler that the worker increments, and the length of its lease
    heartbeat: str
    lease_seconds: float
    #: memory limit of the process in bytes, if any
    memory: int | None


class ChunkProcessDied(msgspec.Struct, frozen=True, tag=True):
    """From a Dask worker: the process ended before the function returned, or was ended without a heartbeat."""

    how: str
    #: whether the chunk itself can be the cause
    own: bool


ChunkReply = FunctionReturned | FunctionRaised | AttemptStale | ChunkProcessDied
_encoder = msgspec.json.Encoder()
_call_decoder = msgspec.json.Decoder(ChunkCall)
_reply_decoder: msgspec.json.Decoder[ChunkReply] = msgspec.json.Decoder(ChunkReply)


class IncompatibleMessage(ValueError):
    """The message was written by another version of Langlauf."""


def encode_message(message: ChunkCall | ChunkReply) -> bytes:
    """Encode a message."""
    return _encoder.encode(message)


def decode_call(data: bytes) -> ChunkCall:
    """Decode a call; raises `IncompatibleMessage` for one of another version."""
    try:
        call = _call_decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise IncompatibleMessage(str(error)) from error
    if call.version != PROTOCOL_VERSION:
        raise IncompatibleMessage(f"version {call.version} is not version {PROTOCOL_VERSION}")
    return call


def decode_reply(data: object) -> ChunkReply:
    """Decode a reply; raises `IncompatibleMessage` for one of another version."""
    if not isinstance(data, bytes):
        raise IncompatibleMessage(f"{type(data).__name__} instead of bytes")
    try:
        return _reply_decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise IncompatibleMessage(str(error)) from error


_NAME = "langlauf"
#: The monitor of a worker without heartbeats for this long is dropped: nothing can wait for it.
_MONITOR_SECONDS = 3_600.0
_UNWANTED = ChunkProcessDied("its task was released", own=False)
_SILENT = ChunkProcessDied("the heartbeat of the worker that asked for it stopped", own=False)


class ChunkServer(WorkerPlugin):
    """A plugin of a Dask worker, so that it learns when a task is released and when the Dask worker closes."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        # The environment of analyses is set by the operator of the Dask worker.
        self._supervisor = Supervisor(read_variables(os.environ.get(BY_NAME["child_env"].environment, "")))
        self._pools: dict[int | None, ProcessPool] = {}
        self._monitors: dict[str, HeartbeatMonitor] = {}
        #: by task, done once the scheduler has released it
        self._released: dict[str, asyncio.Future[None]] = {}

    @classmethod
    async def of(cls, worker: Worker) -> "ChunkServer":
        """Return the chunk server of a Dask worker, which is set up with the first chunk."""
        found = worker.plugins.get(_NAME)
        if not isinstance(found, cls):
            ensure_log_handler()
            found = cls(worker)
            await worker.plugin_add(plugin=found, name=_NAME)
        return found

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:  # noqa: ARG002 - Dask's signature
        """Note that the scheduler released a task that runs here, because its client did or is gone."""
        released = self._released.get(key)
        if finish in ("released", "forgotten") and released is not None and not released.done():
            released.set_result(None)

    async def teardown(self, worker: Worker) -> None:  # noqa: ARG002 - Dask's signature
        """End all processes when the Dask worker closes."""
        for pool in self._pools.values():
            await pool.close()
        await self._supervisor.close()

    async def compute(self, call: ChunkCall) -> ChunkReply:
        """Run the chunk until it ends or its task is released."""
        task = self._worker.state.tasks.get(call.task)
        if task is None or task.state == "cancelled":
            return _UNWANTED
        released = self._released[call.task] = asyncio.get_running_loop().create_future()
        work = asyncio.create_task(self._run(call), name=f"langlauf chunk {call.task}")
        either: set[asyncio.Future[Any]] = {work, released}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else _UNWANTED
        finally:
            del self._released[call.task]
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({work})

    async def _run(self, call: ChunkCall) -> ChunkReply:
        monitor = self._monitor(call)
        async with monitor.watched():  # also during the start of a process, which may take long
            if not await monitor.is_alive():
                return _SILENT
            lapses = monitor.lapses
            try:
                async with self._pool(call.memory).process(call.facts) as process:
                    with monitor.bound(process.supervised):
                        await process.send(call.chunk)
                        end = await process.receive()
                        process.reusable = getattr(end, "reusable", False)
            except ProcessDied as died:
                in_time = monitor.left > 0 and monitor.lapses == lapses
                return ChunkProcessDied(str(died), died.own) if in_time else _SILENT
        if isinstance(end, FunctionReturned | FunctionRaised | AttemptStale):
            return end
        raise TypeError(f"a chunk ended with {type(end).__name__}")

    def _pool(self, memory: int | None) -> ProcessPool:
        """Return the pool for a memory limit; its processes are started on demand."""
        if memory not in self._pools:
            application = LoadApplication(
                path=list(sys.path), main_file=None, main_module=None, modules=[], memory=memory
            )
            self._pools[memory] = ProcessPool(self._supervisor, application, warm=0, most=self._worker.state.nthreads)
        return self._pools[memory]

    def _monitor(self, call: ChunkCall) -> HeartbeatMonitor:
        if call.heartbeat not in self._monitors:
            self._monitors = {name: one for name, one in self._monitors.items() if one.left > -_MONITOR_SECONDS}

            async def read(seconds: float) -> int:
                scheduler: Any = self._worker.scheduler
                found = await scheduler.variable_get(name=call.heartbeat, client=self._worker.id, timeout=seconds)
                return int(found["value"])

            self._monitors[call.heartbeat] = HeartbeatMonitor(read, call.lease_seconds, self._supervisor)
        return self._monitors[call.heartbeat]


def run_chunk(call: bytes) -> bytes:
    """Compute one chunk in a process beside this Dask worker, and return how it ended. Does not raise.

    Occupies a thread of the Dask worker meanwhile, as Dask schedules by free threads.
    """
    worker = get_worker()
    loop: Any = worker.loop
    return encode_message(asyncio.run_coroutine_threadsafe(_reply_to(call, worker), loop.asyncio_loop).result())


async def _reply_to(call: bytes, worker: Worker) -> ChunkReply:
    try:
        return await (await ChunkServer.of(worker)).compute(decode_call(call))
    except IncompatibleMessage:
        return FunctionRaised(failure=_OTHER_VERSION)
    except Exception as error:  # noqa: BLE001 - an exception would travel as a pickle; a failure is JSON
        return FunctionRaised(failure=failure_of(error, ()))


_OTHER_VERSION = Failure(
    code="internal",
    message=sentence_text("dask_other_version"),
    transient=False,
    meta=sentence_meta("dask_other_version"),
)
