"""The program in which `serve` and `worker` run jobs: started by them, never by people.

It works for as long as the line to the program that started it holds. Everything it needs comes over that line.
"""

import asyncio
import ctypes
import os
import signal
import socket
import sys

import uvloop

from langlauf.app import load_app
from langlauf.cli.interpreter import SWITCH_SECONDS, freeze_garbage, leave
from langlauf.clock import machine_time
from langlauf.domain.errors import LanglaufError
from langlauf.domain.instant import Instant
from langlauf.hints import Hints
from langlauf.settings import load_settings
from langlauf.telemetry.log import set_up_logging
from langlauf.telemetry.metrics import register_analyses, take_counts
from langlauf.telemetry.tracing import end_tracing, set_up_tracing
from langlauf.worker.black_box import write_to
from langlauf.worker.process_protocol import (
    Answer,
    Attention,
    Begin,
    Count,
    Counted,
    Drain,
    Hurry,
    Leaving,
    Line,
    Refusal,
    ToWorker,
    Unable,
    Working,
)
from langlauf.worker.remote_store import RemoteStore
from langlauf.worker.worker import Worker

_PR_SET_PDEATHSIG = 1
#: The program that started this one looks for work, as often as its settings say.
_LOOK_SECONDS = 60.0


class _StoreClock:
    """The store's clock, as far as this process needs it."""

    def __init__(self, shift: int) -> None:
        self._shift = shift
        self._since_boot = machine_time().since_boot

    def now(self) -> Instant:
        """Microseconds since 1970 in UTC, by the store's own reckoning."""
        return self._since_boot() + self._shift


class _Program:
    """What is done with each message."""

    def __init__(self, lifeline: int) -> None:
        self._lifeline = lifeline
        self._line: Line[ToWorker] = Line(self._heard, self._vanish, ToWorker)
        self._begin: asyncio.Future[Begin] = asyncio.get_running_loop().create_future()
        self._store: RemoteStore | None = None
        self._hints = Hints()
        self._worker: Worker | None = None
        self._drain = asyncio.Event()
        self._leaving = False

    async def run(self, connection: socket.socket) -> int:
        """Works until it is told to stop; returns the exit code."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self._line, sock=connection)
        loop.add_signal_handler(signal.SIGTERM, self._drain.set)
        try:
            worker = self._worker = await self._start(await self._begin)
        except LanglaufError as error:
            self._line.tell(Unable(str(error)))
            return self._leave(1)
        self._line.tell(Working())
        await self._drain.wait()
        await worker.stop()
        await asyncio.to_thread(end_tracing)
        self._line.tell(Counted(take_counts()))
        self._line.tell(Leaving(worker.running))
        return self._leave(int(worker.running > 0))

    def _leave(self, exit_code: int) -> int:
        self._leaving = True
        self._line.close()
        return exit_code

    def _vanish(self) -> None:
        """The program that started this one is gone: nothing that runs here counts any more."""
        if not self._leaving:
            os._exit(1)

    async def _start(self, begin: Begin) -> Worker:
        settings = load_settings({}, **begin.settings)
        set_up_logging(settings.log_format, settings.log_level)
        set_up_tracing()
        app = load_app(begin.target)
        app.use(settings)
        register_analyses(app.registry.names)
        store = self._store = RemoteStore(_StoreClock(begin.clock_shift))
        store.line = self._line
        worker = Worker(
            store,
            app.registry,
            settings,
            self._hints,
            store.clock,
            look_every=_LOOK_SECONDS,
            lifeline=self._lifeline,
        )
        await worker.start()
        freeze_garbage()
        return worker

    def _heard(self, message: ToWorker) -> None:
        match message:
            case Answer() | Refusal():
                if self._store is not None:
                    self._store.heard(message)
            case Begin():
                self._begin.set_result(message)
            case Attention():
                self._hints.attention()
            case Count():
                self._line.tell(Counted(take_counts()))
            case Drain():
                self._drain.set()
            case Hurry():
                if self._worker is not None:
                    self._worker.hurry()


def end_with(parent: int) -> None:
    """Has the system end this process with its parent, where it can, also while the interpreter is blocked."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def main() -> None:
    """Runs until it is told to stop. Signals from a terminal are the business of the program that started it."""
    line, lifeline, box, parent = map(int, sys.argv[1:])
    end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.setswitchinterval(SWITCH_SECONDS)
    for descriptor in (line, lifeline, box):
        os.set_inheritable(descriptor, False)
    write_to(box)

    async def run() -> int:
        code = await _Program(lifeline).run(socket.socket(fileno=line))
        leave(code)
        return code

    sys.exit(uvloop.run(run()))


if __name__ == "__main__":
    main()
