"""Runs chunks beside a Dask worker, in processes of their own, while the heartbeat of the langlauf worker goes on."""

import asyncio
import contextlib
import itertools
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec
from distributed import Client, Variable, Worker, get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from langlauf.background import BackgroundLoop
from langlauf.clock import monotonic, new_id
from langlauf.domain.errors import sentence_meta, sentence_text
from langlauf.domain.outcome import Failure
from langlauf.settings import BY_NAME
from langlauf.settings_values import read_variables
from langlauf.telemetry.log import LogEvent, ensure_log_handler, log_event
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
from langlauf.worker.processes.supervisor import SupervisedProcess, Supervisor

# -- heartbeat of a worker on the scheduler ----------------------------------------------------------------------------
# Dask reports when a task is no longer wanted, but not when the worker that wants it is paused or cut off. So the
# worker increments a variable on the scheduler, Dask workers read it, and their supervisor ends the processes of a
# count that stands still, even where the Dask worker itself is blocked or cannot reach the scheduler.

#: As shares of a lease: the interval at which the count is raised and read, and how long a new count is valid. A read
#: may come just before the next count and return an old one: the sum stays below the share at which a local attempt is
#: ended by force.
EVERY_SHARE = 0.2
_VALID_SHARE = 0.6


class HeartbeatMonitor:
    """The heartbeat of one worker, and the processes that may run while it is seen."""

    def __init__(self, read: Callable[[float], Awaitable[int]], seconds: float, supervisor: Supervisor) -> None:
        """`read` returns the count within a timeout; `seconds` is the length of a lease."""
        self._read = read
        self._seconds = seconds
        self._every = EVERY_SHARE * seconds
        self._valid = _VALID_SHARE * seconds
        self._supervisor = supervisor
        #: how often a heartbeat came too late: processes were ended then, through no fault of their own
        self.lapses = 0
        self._count: int | None = None
        self._until = 0.0
        self._held: set[SupervisedProcess] = set()
        self._watchers = 0
        self._loop: BackgroundLoop | None = None

    @property
    def left(self) -> float:
        """Seconds for which the last heartbeat is valid; 0 or less once it has expired."""
        return self._until - monotonic()

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Read the heartbeat in the background meanwhile."""
        self._watchers += 1
        if self._loop is None:
            self._loop = BackgroundLoop("langlauf-heartbeat-monitor", self._wait_and_check)
            await self._loop.start()
        try:
            yield
        finally:
            self._watchers -= 1
            if not self._watchers:
                loop, self._loop = self._loop, None
                await loop.stop()

    async def is_alive(self) -> bool:
        """Whether a new process may start. Without a recent heartbeat, waits up to a lease for one.

        Nothing computes meanwhile, and a scheduler may be busy when a cluster starts a large job.
        """
        if self.left < self._valid - self._every:
            await self._check()
        deadline = monotonic() + self._seconds
        while self.left <= 0 and monotonic() < deadline:
            await self._wait_and_check()
        return self.left > 0

    @contextmanager
    def bound(self, process: SupervisedProcess) -> Iterator[None]:
        """Let a process run as long as there are heartbeats."""
        self._held.add(process)
        self._supervisor.allow([process], self.left)
        try:
            yield
        finally:
            self._held.discard(process)

    async def _wait_and_check(self) -> None:
        await asyncio.sleep(self._every)
        await self._check()

    async def _check(self) -> None:
        asked_at = monotonic()
        try:
            async with asyncio.timeout(2 * self._every):
                count = await self._read(self._every)
        except Exception:  # noqa: BLE001 - a heartbeat that cannot be read is a missing one
            return
        if count != self._count:
            self.lapses += self.left <= 0
            self._count, self._until = count, asked_at + self._valid
            self._supervisor.allow(list(self._held), self.left)


class HeartbeatSender:
    """Raises the count while the event loop runs: a worker that is paused, blocked or gone does not."""

    def __init__(self, client: Client, lease_seconds: float) -> None:
        self.name = f"langlauf-{new_id()}"
        self._every = EVERY_SHARE * lease_seconds
        self._client = client
        self._variable = Variable(self.name, client=client)
        self._counts = itertools.count(1)
        self._loop = BackgroundLoop("langlauf-dask-heartbeat", self._wait_and_beat, on_error=self._failed)
        self._started = self._failing = False

    async def start(self, timeout: float) -> None:  # noqa: ASYNC109 - Dask takes it as a value, too
        """Send the first heartbeat, and repeat it in the background."""
        await self._beat(timeout)
        await self._loop.start()
        self._started = True

    async def stop(self) -> None:
        """Send no more heartbeats, and delete the variable."""
        if self._started:
            await self._loop.stop()
            self._variable.delete()

    async def _wait_and_beat(self) -> None:
        await asyncio.sleep(self._every)
        if str(self._client.status) == "closed":  # Dask gave the client up; a new one is opened for the next chunk
            self._loop.finish()
            return
        await self._beat(2 * self._every)
        self._failing = False

    async def _failed(self, error: Exception) -> None:
        if not self._failing:
            log_event(LogEvent.EXECUTOR_LOST, logging.WARNING, reason=f"the heartbeat could not be written: {error!r}")
        self._failing = True

    async def _beat(self, timeout: float) -> None:  # noqa: ASYNC109 - Dask takes it as a value, too
        async with asyncio.timeout(timeout):
            written: Any = self._variable.set(next(self._counts), timeout=timeout)
            await written


# -- chunks ------------------------------------------------------------------------------------------------------------
# A Dask worker cannot stop a running task, so no function of an application runs in it: it runs in a child process with
# a supervisor, as on a worker of Langlauf, and a process can be ended. Messages are JSON as bytes, opaque to Dask.

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
