"""What Langlauf runs beside each Dask worker."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from typing import Any

import msgspec
from distributed import Worker, get_worker
from distributed.diagnostics.plugin import WorkerPlugin

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

#: Raised when one of the messages changes: two versions that do not understand each other say so.
PROTOCOL_VERSION = 1


class ChunkCall(msgspec.Struct, frozen=True, kw_only=True):
    """To the runner: one chunk, whose it is, and what says that it is still wanted."""

    version: int = PROTOCOL_VERSION
    chunk: RunChunk
    #: Dask's name of the task
    task: str
    #: ids of job, org, attempt, trace and request, for the log
    facts: Mapping[str, Any]
    #: the variable on the scheduler that the worker renews, and within what time
    lease: str
    lease_seconds: float
    #: bytes of memory that the process may have, where that is limited
    memory: int | None


class ChunkProcessDied(msgspec.Struct, frozen=True, tag=True):
    """From the runner: the process ended before the function did, or was ended because nobody renewed its lease."""

    how: str
    #: whether it can have been the chunk's own doing
    own: bool


ChunkReply = FunctionReturned | FunctionRaised | AttemptStale | ChunkProcessDied
_encoder = msgspec.json.Encoder()
_call = msgspec.json.Decoder(ChunkCall)
_answer: msgspec.json.Decoder[ChunkReply] = msgspec.json.Decoder(ChunkReply)


class IncompatibleMessage(ValueError):
    """The message was written by another version."""


def encode_message(message: ChunkCall | ChunkReply) -> bytes:
    """The message as bytes."""
    return _encoder.encode(message)


def decode_call(data: bytes) -> ChunkCall:
    """The call behind bytes; one of another version is refused."""
    try:
        call = _call.decode(data)
    except msgspec.MsgspecError as error:
        raise IncompatibleMessage(str(error)) from error
    if call.version != PROTOCOL_VERSION:
        raise IncompatibleMessage(f"version {call.version} is not version {PROTOCOL_VERSION}")
    return call


def decode_reply(data: object) -> ChunkReply:
    """The answer behind bytes."""
    if not isinstance(data, bytes):
        raise IncompatibleMessage(f"{type(data).__name__} instead of bytes")
    try:
        return _answer.decode(data)
    except msgspec.MsgspecError as error:
        raise IncompatibleMessage(str(error)) from error


_NAME = "langlauf"
#: A worker that gave no sign for so long is forgotten: nothing of it can be waiting any more.
_REMEMBERED_SECONDS = 3_600.0
_UNWANTED = ChunkProcessDied("nobody waits for it any more", own=False)
_SILENT = ChunkProcessDied("the worker that asked for it gave no sign of life", own=False)


class ChunkServer(WorkerPlugin):
    """As a plugin it hears what becomes of the worker's tasks, and when the worker closes."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        # What analyses may see there is up to the one who runs the Dask worker.
        self._supervisor = Supervisor(read_variables(os.environ.get(BY_NAME["child_env"].environment, "")))
        self._pools: dict[int | None, ProcessPool] = {}
        self._leases: dict[str, HeartbeatMonitor] = {}
        #: by task: done once nobody wants it any more
        self._unwanted: dict[str, asyncio.Future[None]] = {}

    @classmethod
    async def of(cls, worker: Worker) -> "ChunkServer":
        """The station of a Dask worker; it is set up with the first chunk."""
        found = worker.plugins.get(_NAME)
        if not isinstance(found, cls):
            ensure_log_handler()
            found = cls(worker)
            await worker.plugin_add(plugin=found, name=_NAME)
        return found

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:  # noqa: ARG002 - Dask's signature
        """The scheduler has let go of a task that runs here: the client did, or is gone."""
        unwanted = self._unwanted.get(key)
        if finish in ("released", "forgotten") and unwanted is not None and not unwanted.done():
            unwanted.set_result(None)

    async def teardown(self, worker: Worker) -> None:  # noqa: ARG002 - Dask's signature
        """The Dask worker closes: nothing of it goes on."""
        for pool in self._pools.values():
            await pool.close()
        await self._supervisor.close()

    async def compute(self, call: ChunkCall) -> ChunkReply:
        """Runs the chunk for as long as somebody wants it."""
        task = self._worker.state.tasks.get(call.task)
        if task is None or task.state == "cancelled":
            return _UNWANTED
        unwanted = self._unwanted[call.task] = asyncio.get_running_loop().create_future()
        work = asyncio.create_task(self._run(call), name=f"langlauf chunk {call.task}")
        either: set[asyncio.Future[Any]] = {work, unwanted}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else _UNWANTED
        finally:
            del self._unwanted[call.task]
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({work})

    async def _run(self, call: ChunkCall) -> ChunkReply:
        lease = self._lease(call)
        with lease.watched():  # also while a process is started, which may take its time
            if not await lease.holds():
                return _SILENT
            lapses = lease.lapses
            try:
                async with self._pool(call.memory).process(call.facts) as process:
                    with lease.holding(process.kept):
                        await process.send(call.chunk)
                        end = await process.hear()
                        process.reusable = getattr(end, "reusable", False)
            except ProcessDied as died:
                in_time = lease.left > 0 and lease.lapses == lapses
                return ChunkProcessDied(str(died), died.own) if in_time else _SILENT
        if isinstance(end, FunctionReturned | FunctionRaised | AttemptStale):
            return end
        raise TypeError(f"a chunk ended with {type(end).__name__}")

    def _pool(self, memory: int | None) -> ProcessPool:
        """Processes are started when they are wanted, and stay for a while."""
        if memory not in self._pools:
            begin = LoadApplication(path=list(sys.path), main_file=None, main_module=None, modules=[], memory=memory)
            self._pools[memory] = ProcessPool(self._supervisor, begin, warm=0, most=self._worker.state.nthreads)
        return self._pools[memory]

    def _lease(self, call: ChunkCall) -> HeartbeatMonitor:
        if call.lease not in self._leases:
            self._leases = {name: lease for name, lease in self._leases.items() if lease.left > -_REMEMBERED_SECONDS}

            async def read(patience: float) -> int:
                scheduler: Any = self._worker.scheduler
                found = await scheduler.variable_get(name=call.lease, client=self._worker.id, timeout=patience)
                return int(found["value"])

            self._leases[call.lease] = HeartbeatMonitor(read, call.lease_seconds, self._supervisor)
        return self._leases[call.lease]


def run_chunk(call: bytes) -> bytes:
    """Computes one chunk in a process beside this Dask worker, and answers however it ended. It does not raise.

    It takes one of the worker's threads for as long as the chunk takes, for that is what Dask counts.
    """
    worker = get_worker()
    loop: Any = worker.loop
    return encode_message(asyncio.run_coroutine_threadsafe(_answer_to(call, worker), loop.asyncio_loop).result())


async def _answer_to(call: bytes, worker: Worker) -> ChunkReply:
    """The same on the worker's event loop."""
    try:
        return await (await ChunkServer.of(worker)).compute(decode_call(call))
    except IncompatibleMessage:
        return FunctionRaised(failure=_OTHER_VERSION)
    except Exception as error:  # noqa: BLE001 - an exception would travel as a pickle; a failure is JSON
        return FunctionRaised(failure=failure_of(error, ()))


_OTHER_VERSION = Failure(
    code="internal",
    message="A Dask worker has another version of langlauf than the worker that asks: install the same one there.",
    transient=False,
)
