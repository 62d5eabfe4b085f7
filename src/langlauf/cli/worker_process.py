"""The child process in which `serve` and `worker` run jobs; not a command for people.

It runs as long as the connection to its parent process is open. Everything it needs comes over that connection.
"""

import asyncio
import ctypes
import os
import signal
import socket
import sys

import uvloop

from langlauf.app import load_app
from langlauf.cli.interpreter import SWITCH_SECONDS, exit_soon, freeze_garbage
from langlauf.clock import machine_time
from langlauf.domain.errors import LanglaufError
from langlauf.domain.instant import Instant
from langlauf.hints import Hints
from langlauf.settings import load_settings
from langlauf.telemetry.log import set_up_logging
from langlauf.telemetry.metrics import register_analyses, take_counts
from langlauf.telemetry.tracing import end_tracing, set_up_tracing
from langlauf.worker.loop_guard import record_crashes_in
from langlauf.worker.process_protocol import (
    CancelHint,
    ClaimedJobs,
    Drain,
    EndGrace,
    MessageConnection,
    MetricsReport,
    RequestMetrics,
    StartWorker,
    StoreErrorReply,
    StoreReply,
    ToWorker,
    WorkerReady,
    WorkerStopped,
    WorkerUnable,
)
from langlauf.worker.processes.supervisor_program import give_way
from langlauf.worker.remote_store import RemoteStore
from langlauf.worker.worker import Worker

_PR_SET_PDEATHSIG = 1


class _StoreClock:
    """The store's clock: the machine's clock, shifted as the parent process says."""

    def __init__(self, shift: int) -> None:
        self._shift = shift
        self._since_boot = machine_time().since_boot

    def now(self) -> Instant:
        """Return microseconds since 1970 in UTC, by the store's clock."""
        return self._since_boot() + self._shift


class _WorkerProcess:
    """Handles the messages of the parent process."""

    def __init__(self, lifeline: int) -> None:
        self._lifeline = lifeline
        self._connection: MessageConnection[ToWorker] = MessageConnection(
            self._on_message, self._on_disconnect, ToWorker
        )
        self._begin: asyncio.Future[StartWorker] = asyncio.get_running_loop().create_future()
        self._store: RemoteStore | None = None
        self._hints = Hints()
        self._worker: Worker | None = None
        self._drain = asyncio.Event()
        self._leaving = False

    async def run(self, connection: socket.socket) -> int:
        """Run jobs until a drain message or SIGTERM; return the exit code."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self._connection, sock=connection)
        loop.add_signal_handler(signal.SIGTERM, self._drain.set)
        try:
            worker = self._worker = await self._start(await self._begin)
        except LanglaufError as error:
            self._connection.send(WorkerUnable(str(error)))
            return self._close(1)
        self._connection.send(WorkerReady())
        await self._drain.wait()
        await worker.stop()
        await asyncio.to_thread(end_tracing)
        self._connection.send(MetricsReport(take_counts()))
        self._connection.send(WorkerStopped(worker.running))
        return self._close(int(worker.running > 0))

    def _close(self, exit_code: int) -> int:
        self._leaving = True
        self._connection.close()
        return exit_code

    def _on_disconnect(self) -> None:
        """Exit at once: the parent process is gone, and its attempts cannot be recorded any more."""
        if not self._leaving:
            os._exit(1)

    async def _start(self, begin: StartWorker) -> Worker:
        settings = load_settings({}, **begin.settings)
        set_up_logging(settings.log_format, settings.log_level)
        set_up_tracing()
        app = load_app(begin.target)
        app.use(settings)
        register_analyses(app.registry.names)
        store = self._store = RemoteStore(_StoreClock(begin.clock_shift))
        store.connection = self._connection
        worker = Worker(
            store,
            app.registry,
            settings,
            self._hints,
            store.clock,
            store.source,
            lifeline=self._lifeline,
        )
        await worker.start()
        freeze_garbage()
        return worker

    def _on_message(self, message: ToWorker) -> None:
        match message:
            case StoreReply() | StoreErrorReply() | ClaimedJobs():
                if self._store is not None:
                    self._store.receive(message)
            case StartWorker():
                self._begin.set_result(message)
            case CancelHint():
                self._hints.attention()
            case RequestMetrics():
                self._connection.send(MetricsReport(take_counts()))
            case Drain():
                self._drain.set()
            case EndGrace():
                if self._worker is not None:
                    self._worker.end_grace()


def die_with_parent(parent: int) -> None:
    """On Linux, have the kernel kill this process when its parent ends, even while the interpreter is blocked."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def main() -> None:
    """Run until the parent process says to stop. Ignores Ctrl-C of a terminal, which the parent process handles."""
    line, lifeline, box, parent = map(int, sys.argv[1:])
    die_with_parent(parent)
    give_way()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.setswitchinterval(SWITCH_SECONDS)
    for descriptor in (line, lifeline, box):
        os.set_inheritable(descriptor, False)
    record_crashes_in(box)

    async def run() -> int:
        code = await _WorkerProcess(lifeline).run(socket.socket(fileno=line))
        exit_soon(code)
        return code

    sys.exit(uvloop.run(run()))


if __name__ == "__main__":
    main()
