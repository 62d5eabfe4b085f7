"""Runs a worker in a process of its own, and replaces it when it ends.

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

from langlauf.background import BackgroundLoop
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
    AttemptLost,
    CancelHint,
    Drain,
    EndGrace,
    FromWorker,
    JobsTaken,
    MessageConnection,
    MetricsReport,
    RequestMetrics,
    StartWorker,
    StoreCall,
    WorkerReady,
    WorkerStopped,
    WorkerUnable,
)
from langlauf.worker.runner import count_crash
from langlauf.worker.store_server import StoreServer

#: `-P` keeps the working folder out of `sys.path`: a file there must not shadow a module of the standard library.
_COMMAND = (sys.executable, "-P", "-m", "langlauf.cli.worker_process")
#: The pause before a worker is replaced; for one that could not start it doubles up to the longest one.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0
#: Timeouts of the end of its supervisor and processes, of a stop beyond its graces, and of a metrics report.
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
        self._running: _ProcessRun | None = None
        self._supervising: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._hurried = asyncio.Event()
        #: attempts that the last worker could not release
        self.running = 0

    @property
    def alive(self) -> bool:
        """Whether a worker claims jobs, and would be replaced."""
        watched = self._supervising is not None and not self._supervising.done()
        return watched and self._running is not None and self._running.alive

    async def start(self) -> None:
        """Return when the first worker claims jobs; raises `LanglaufError` if it cannot start."""
        first = _ProcessRun(self._store, self._hints, self._settings)
        self._running = first
        self._supervising = asyncio.create_task(self._supervise(first), name="langlauf-worker-process")
        await asyncio.wait({first.working, first.gone}, return_when=asyncio.FIRST_COMPLETED)
        if not first.working.done():
            await self.stop()
            raise LanglaufError(first.problem or f"the worker process ended at its start: {first.how}")

    async def stop(self) -> None:
        """Drain the worker; one that does not end in time is killed."""
        self._stopping.set()
        if self._supervising is not None:
            await self._supervising

    def end_grace(self) -> None:
        """End the grace of a stop."""
        self._hurried.set()

    async def count(self) -> None:
        """Add the counts of the worker to those of this process; skipped if it does not reply in time."""
        if self._running is not None:
            await self._running.count()

    async def _supervise(self, first: "_ProcessRun") -> None:
        # Not a BackgroundLoop: a round must not be canceled, as it ends with the release of all attempts.
        pause, running = _SHORTEST_PAUSE, first
        while True:
            await running.run(self._target, self._stopping, self._hurried)
            self.running = running.unreleased
            self._running = None
            if self._stopping.is_set() or (running is first and not running.working.done()):
                return
            log_event(LogEvent.WORKER_DIED, logging.ERROR, reason=running.how, held=running.lost)
            pause = _SHORTEST_PAUSE if running.working.done() else min(2 * pause, _LONGEST_PAUSE)
            if await _within(pause, self._stopping.wait()):
                return
            running = self._running = _ProcessRun(self._store, self._hints, self._settings)


class _ProcessRun:
    """One worker process, from its start until it and its child processes are gone."""

    def __init__(self, store: Store, hints: Hints, settings: Settings) -> None:
        loop = asyncio.get_running_loop()
        self._store = store
        self._hints = hints
        self._settings = settings
        self._store_server = StoreServer(store, hints, poll_seconds=settings.poll_seconds)
        self._crash_record = CrashRecord()
        self._disconnected = asyncio.Event()
        self._connection: MessageConnection[FromWorker] = MessageConnection(
            self._receive, self._disconnected.set, FromWorker
        )
        self.working: asyncio.Future[None] = loop.create_future()
        self.gone: asyncio.Future[None] = loop.create_future()
        self._counted: asyncio.Future[None] | None = None
        #: why it could not start, how it ended, and how many attempts it lost and could not release
        self.problem: str | None = None
        self.how = "it could not be started"
        self.lost = 0
        self.unreleased = 0
        self._over = False

    @property
    def alive(self) -> bool:
        """Whether it claims jobs."""
        return self.working.done() and not self._over

    async def run(self, target: str, stopping: asyncio.Event, hurried: asyncio.Event) -> None:
        """Return when the process and its child processes are gone, and its attempts are released."""
        try:
            process, lifeline = await self._start(target)
        except OSError as error:
            self.how = f"it could not be started: {error}"
            self._crash_record.close()
            self.gone.set_result(None)
            return
        hints = BackgroundLoop("langlauf-cancel-hints", self._forward_cancel_hint)
        await hints.start()
        ended = asyncio.create_task(_ended(process))
        try:
            await self._stop_in_time(process, ended, stopping, hurried)
        finally:
            if not ended.done():  # this task was canceled
                process.kill()
            status = await ended
            await hints.stop()
            self._over = True
            self.how = describe_exit(status)
            await _within(_GONE_SECONDS, self._disconnected.wait())  # its last messages are handled first
            self._connection.close()
            await self._store_server.close()
            await self._release_attempts(lifeline, status)
            self._crash_record.close()
            self.gone.set_result(None)

    async def _start(self, target: str) -> tuple[subprocess.Popen[bytes], int]:
        ours, theirs = socket.socketpair()
        record = self._crash_record.descriptor
        lifeline, held = os.pipe()
        os.set_blocking(lifeline, False)
        with theirs, _closed(held):
            process = subprocess.Popen(  # noqa: ASYNC220, S603 - our own program; uvloop would start it from another thread
                [*_COMMAND, str(theirs.fileno()), str(held), str(record), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), held, record),
                start_new_session=True,
            )
        ours.setblocking(False)
        await asyncio.get_running_loop().create_connection(lambda: self._connection, sock=ours)
        self._store_server.connection = self._connection
        shift = self._store.clock.now() - machine_time().since_boot()
        self._connection.send(StartWorker(target, self._settings.passed_on, shift))
        return process, lifeline

    async def _forward_cancel_hint(self) -> None:
        await self._hints.wait_for_attention(3_600.0)
        self._connection.send(CancelHint())

    async def _stop_in_time(
        self,
        process: subprocess.Popen[bytes],
        ended: asyncio.Task[int],
        stopping: asyncio.Event,
        hurried: asyncio.Event,
    ) -> None:
        """Return when the process has ended; after a stop request, within its graces at the latest."""
        settings = self._settings
        steps = ((stopping, Drain(), settings.shutdown_grace), (hurried, EndGrace(), 0.0))
        limit = None
        for event, message, grace in steps:
            requested = asyncio.create_task(event.wait())
            await asyncio.wait({ended, requested}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if not requested.done():
                requested.cancel()
                break
            self._connection.send(message)
            self._store_server.drain()
            limit = grace + settings.cancel_grace + settings.lease_seconds + _STOP_SECONDS
        else:
            await asyncio.wait({ended}, timeout=limit)
        if not ended.done():
            process.kill()
            await asyncio.wait({ended})

    async def count(self) -> None:
        """Request a metrics report, and wait for it briefly."""
        if not self.alive:
            return
        if self._counted is None:
            self._counted = asyncio.get_running_loop().create_future()
            self._connection.send(RequestMetrics())
        await asyncio.wait({self._counted}, timeout=_COUNT_SECONDS)

    def _receive(self, message: FromWorker) -> None:
        match message:
            case StoreCall() | JobsTaken() | AttemptLost():
                self._store_server.receive(message)
            case WorkerReady():
                self.working.set_result(None)
            case WorkerUnable(problem=problem):
                self.problem = problem
            case WorkerStopped(unreleased=unreleased):
                self.unreleased = unreleased
            case MetricsReport(counts=counts):
                add_counts(counts)
                if self._counted is not None:
                    self._counted.set_result(None)
                    self._counted = None

    async def _release_attempts(self, lifeline: int, status: int) -> None:
        """Release the attempts of the worker, once all its processes are gone; otherwise their leases expire."""
        with _closed(lifeline):
            if not self._store_server.held or not await _within(_GONE_SECONDS, _readable(lifeline)):
                return
        self.lost = len(self._store_server.held)
        seconds = self._settings.lease_seconds
        for lease, claim in self._store_server.held.items():
            await self._end_attempt(
                lease, claim, self._crash_record.outcome(lease, status, self.how, lease_seconds=seconds)
            )

    async def _end_attempt(self, lease: Lease, claim: Claim, end: Crashed) -> None:
        if end.own:
            self.how = end.how
            log_event(
                LogEvent.PROCESS_DIED,
                logging.ERROR,
                job_id=lease.job_id,
                reason=end.how,
                stacks=self._crash_record.stacks,
            )
        with contextlib.suppress(StoreError):  # then its lease expires
            if await self._store.record(lease, end):
                await count_crash(claim.analysis, lease, end, self._store)


async def _ended(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end of the process; return its status."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        return await asyncio.to_thread(process.wait)
    with _closed(descriptor):
        await _readable(descriptor)
    return process.wait()


async def _within(seconds: float, awaited: Awaitable[object]) -> bool:
    """Whether an awaitable was done in time."""
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
