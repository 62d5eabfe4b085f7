"""A worker in a process of its own, and who looks after it: the program that serves or works.

What blocks, breaks or ends the worker does not touch the program. A worker that ended is replaced after a short pause,
and what it held is given back at once: it is known to be gone, so no lease has to run out first. The worker ends with
the program, however that ended.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

from langlauf.clock import machine_time
from langlauf.domain.attempt import Claim, Lease
from langlauf.domain.errors import LanglaufError, StoreError
from langlauf.domain.outcome import Crashed
from langlauf.hints import Hints
from langlauf.settings import Settings
from langlauf.store.protocol import Store
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.telemetry.metrics import add_counts
from langlauf.worker.loop_guard import CrashRecord
from langlauf.worker.process_protocol import (
    CancelHint,
    Drain,
    EndGrace,
    FromWorker,
    MessageConnection,
    MetricsReport,
    RequestMetrics,
    StartWorker,
    StoreCall,
    WithdrawClaim,
    WorkerReady,
    WorkerStopped,
    WorkerUnable,
)
from langlauf.worker.remote_store import StoreServer
from langlauf.worker.runner import count_crash

#: Without the folder it is started in: a file there must not stand for a module of Python's own.
_COMMAND = (sys.executable, "-P", "-m", "langlauf.cli.worker_process")
#: The pause before a worker that had worked is replaced; before one that could not even start it grows up to the other.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0
#: For the worker's supervisor and its processes to be gone as well, for a stop that is under way, and for a count.
_GONE_SECONDS = 2.0
_STOP_SECONDS = 5.0
_COUNT_SECONDS = 0.5


class WorkerProcess:
    """Keeps one worker process running from `start` to `stop`."""

    def __init__(self, store: Store, settings: Settings, hints: Hints, target: str) -> None:
        self._store = store
        self._settings = settings
        self._hints = hints
        self._target = target
        self._running: _Running | None = None
        self._supervising: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._hurried = asyncio.Event()
        #: attempts that the last worker could not give back
        self.running = 0

    @property
    def alive(self) -> bool:
        """Whether a worker claims, and would be replaced."""
        watched = self._supervising is not None and not self._supervising.done()
        return watched and self._running is not None and self._running.alive

    async def start(self) -> None:
        """Returns when the first worker claims; raises where it cannot."""
        first = _Running(self._store, self._hints, self._settings)
        self._running = first
        self._supervising = asyncio.create_task(self._supervise(first), name="langlauf-worker-process")
        await asyncio.wait({first.working, first.gone}, return_when=asyncio.FIRST_COMPLETED)
        if not first.working.done():
            await self.stop()
            raise LanglaufError(first.problem or f"the worker process ended at its start: {first.how}")

    async def stop(self) -> None:
        """Lets the worker drain; one that does not end in time is ended."""
        self._stopping.set()
        if self._supervising is not None:
            await self._supervising

    def hurry(self) -> None:
        """Ends the grace of a stop."""
        self._hurried.set()

    async def count(self) -> None:
        """Adds what the worker counted to what is counted here; one that does not answer in time is left out."""
        if self._running is not None:
            await self._running.count()

    async def _supervise(self, first: "_Running") -> None:
        pause, running = _SHORTEST_PAUSE, first
        while True:
            await running.run(self._target, self._stopping, self._hurried)
            self.running = running.kept
            self._running = None
            if self._stopping.is_set() or (running is first and not running.working.done()):
                return
            log_event(LogEvent.WORKER_DIED, logging.ERROR, reason=running.how, held=running.lost)
            pause = _SHORTEST_PAUSE if running.working.done() else min(2 * pause, _LONGEST_PAUSE)
            if await _within(pause, self._stopping.wait()):
                return
            running = self._running = _Running(self._store, self._hints, self._settings)


class _Running:
    """One worker process from its start until nothing of it is left."""

    def __init__(self, store: Store, hints: Hints, settings: Settings) -> None:
        loop = asyncio.get_running_loop()
        self._store = store
        self._hints = hints
        self._settings = settings
        self._store_server = StoreServer(store, hints, poll_seconds=settings.poll_seconds)
        self._box = CrashRecord()
        self._hung_up = asyncio.Event()
        self._connection: MessageConnection[FromWorker] = MessageConnection(self._heard, self._hung_up.set, FromWorker)
        self.working: asyncio.Future[None] = loop.create_future()
        self.gone: asyncio.Future[None] = loop.create_future()
        self._counted: asyncio.Future[None] | None = None
        #: why it could not start, how it ended, and how many attempts it lost and could not give back
        self.problem: str | None = None
        self.how = "it could not be started"
        self.lost = 0
        self.kept = 0
        self._over = False

    @property
    def alive(self) -> bool:
        """Whether it claims."""
        return self.working.done() and not self._over

    async def run(self, target: str, stopping: asyncio.Event, hurried: asyncio.Event) -> None:
        """Returns when the process and all of its own are gone, and what it held is given back."""
        try:
            process, lifeline = await self._start(target)
        except OSError as error:
            self.how = f"it could not be started: {error}"
            self._box.close()
            self.gone.set_result(None)
            return
        attention = asyncio.create_task(self._pass_attention_on())
        ended = asyncio.create_task(_ended(process))
        try:
            await self._stop_in_time(process, ended, stopping, hurried)
        finally:
            attention.cancel()
            if not ended.done():  # this program is being torn down
                process.kill()
            status = await ended
            self._over = True
            self.how = describe_exit(status)
            await _within(_GONE_SECONDS, self._hung_up.wait())  # what it sent before its end is heard first
            self._connection.close()
            await self._store_server.close()
            await self._give_back(lifeline, status)
            self._box.close()
            self.gone.set_result(None)

    async def _start(self, target: str) -> tuple[subprocess.Popen[bytes], int]:
        mine, other = socket.socketpair()
        box = self._box.descriptor
        lifeline, held = os.pipe()
        os.set_blocking(lifeline, False)
        with other, _closed(held):
            process = subprocess.Popen(  # noqa: ASYNC220, S603 - our own program; uvloop would start it from another thread
                [*_COMMAND, str(other.fileno()), str(held), str(box), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                pass_fds=(other.fileno(), held, box),
                start_new_session=True,
            )
        mine.setblocking(False)
        await asyncio.get_running_loop().create_connection(lambda: self._connection, sock=mine)
        self._store_server.connection = self._connection
        shift = self._store.clock.now() - machine_time().since_boot()
        self._connection.tell(StartWorker(target, self._settings.passed_on, shift))
        return process, lifeline

    async def _pass_attention_on(self) -> None:
        while True:
            await self._hints.wait_for_attention(3_600.0)
            self._connection.tell(CancelHint())

    async def _stop_in_time(
        self,
        process: subprocess.Popen[bytes],
        ended: asyncio.Task[int],
        stopping: asyncio.Event,
        hurried: asyncio.Event,
    ) -> None:
        """Returns when the process has ended; once it is to stop, after its grace at the latest."""
        settings = self._settings
        steps = ((stopping, Drain(), settings.shutdown_grace), (hurried, EndGrace(), 0.0))
        limit = None
        for event, message, grace in steps:
            told = asyncio.create_task(event.wait())
            await asyncio.wait({ended, told}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if not told.done():
                told.cancel()
                break
            self._connection.tell(message)
            limit = grace + settings.cancel_grace + settings.lease_seconds + _STOP_SECONDS
        else:
            await asyncio.wait({ended}, timeout=limit)
        if not ended.done():
            process.kill()
            await asyncio.wait({ended})

    async def count(self) -> None:
        """Has the worker tell what it counted."""
        if not self.alive:
            return
        if self._counted is None:
            self._counted = asyncio.get_running_loop().create_future()
            self._connection.tell(RequestMetrics())
        await asyncio.wait({self._counted}, timeout=_COUNT_SECONDS)

    def _heard(self, message: FromWorker) -> None:
        match message:
            case StoreCall() | WithdrawClaim():
                self._store_server.heard(message)
            case WorkerReady():
                self.working.set_result(None)
            case WorkerUnable(problem=problem):
                self.problem = problem
            case WorkerStopped(kept=kept):
                self.kept = kept
            case MetricsReport(counts=counts):
                add_counts(counts)
                if self._counted is not None:
                    self._counted.set_result(None)
                    self._counted = None

    async def _give_back(self, lifeline: int, status: int) -> None:
        """Gives back what the worker held, once nothing can compute for it any more; else the leases run out."""
        with _closed(lifeline):
            if not self._store_server.held or not await _within(_GONE_SECONDS, _readable(lifeline)):
                return
        self.lost = len(self._store_server.held)
        seconds = self._settings.lease_seconds
        for lease, claim in self._store_server.held.items():
            await self._lose(lease, claim, self._box.judge(lease, status, self.how, lease_seconds=seconds))

    async def _lose(self, lease: Lease, claim: Claim, end: Crashed) -> None:
        if end.own:
            self.how = end.how
            log_event(
                LogEvent.PROCESS_DIED, logging.ERROR, job_id=lease.job_id, reason=end.how, stacks=self._box.stacks
            )
        with contextlib.suppress(StoreError):  # then its lease runs out
            if await self._store.record(lease, end):
                await count_crash(claim.analysis, lease, end, self._store)


async def _ended(process: subprocess.Popen[bytes]) -> int:
    """How the process ended, as soon as it has."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        return await asyncio.to_thread(process.wait)
    with _closed(descriptor):
        await _readable(descriptor)
    return process.wait()


async def _within(seconds: float, awaited: Awaitable[object]) -> bool:
    """Whether it came in time."""
    try:
        async with asyncio.timeout(seconds):
            await awaited
    except TimeoutError:
        return False
    return True


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_reader(descriptor, event.set)
    try:
        await event.wait()
    finally:
        loop.remove_reader(descriptor)


def describe_exit(status: int) -> str:
    """Return how a process ended, in words."""
    if status >= 0:
        return f"exit code {status}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-status).name
    return f"signal {-status}"


@contextmanager
def _closed(descriptor: int) -> Iterator[Any]:
    try:
        yield
    finally:
        os.close(descriptor)
