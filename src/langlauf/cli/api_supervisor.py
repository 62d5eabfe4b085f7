"""`langlauf serve --processes N`: N API processes behind one listening socket, started and replaced by this process.

This process opens no store and answers no request: it holds the socket, the memory in which the API processes count
rates and slots together, and the sum of what they count for `/metrics`. A process that dies is replaced; its slots are
free again, and its connections are the only ones that are lost. All of them end with this process.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from langlauf.auth.rates import SharedMemory, make_shared_memory
from langlauf.cli.process import handle_signals
from langlauf.domain.errors import LanglaufError
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.telemetry.metrics import Scrape, add_counts, render
from langlauf.worker.process_protocol import MessageConnection, MetricsReport, RequestMetrics, WorkerUnable
from langlauf.worker.worker_process import describe_exit

#: -P: a file in the current folder must not shadow a module of the standard library.
_COMMAND = (sys.executable, "-P", "-m", "langlauf.cli.api_process")
#: The pause before a process is replaced; it doubles up to the second value while new ones cannot start.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0
#: A process that does not send its counts in time is left out of a scrape.
_COUNT_SECONDS = 0.5
#: How long the last messages of a process that has ended are waited for.
_LAST_SECONDS = 1.0


class StartApi(msgspec.Struct, frozen=True, tag=True):
    """To an API process: what to serve. `flags` are those of the command line."""

    target: str
    flags: dict[str, Any]
    allow_open: bool
    number: int
    processes: int
    #: whether to print what to open and what to try
    welcome: bool


class ScrapeRequest(msgspec.Struct, frozen=True, tag=True):
    """From an API process: asks for the counts of all processes as text for Prometheus."""

    number: int
    openmetrics: bool


class ScrapeText(msgspec.Struct, frozen=True, tag=True):
    """To an API process: the text that it asked for."""

    number: int
    text: bytes


class ApiServing(msgspec.Struct, frozen=True, tag=True):
    """From an API process: it accepts connections."""


ToApiProcess = StartApi | RequestMetrics | ScrapeText
FromApiProcess = ApiServing | WorkerUnable | MetricsReport | ScrapeRequest


_ScrapeFunction = Callable[[bool], Awaitable[bytes]]


class ApiSupervisor:
    """Keeps a number of API processes running until a signal."""

    def __init__(
        self,
        count: int,
        target: str,
        flags: Mapping[str, Any],
        *,
        allow_open: bool,
        environment: Mapping[str, str],
        listening: socket.socket,
    ) -> None:
        self._count = count
        self._target = target
        self._flags = {name: value for name, value in flags.items() if value is not None}
        self._allow_open = allow_open
        self._environment = environment
        self._listening = listening
        self._descriptor = make_shared_memory(count)
        self._memory = SharedMemory(self._descriptor, 0, count)
        self._running: dict[int, _ApiChild] = {}
        self._stopping = asyncio.Event()
        self._problem: str | None = None

    async def run(self) -> None:
        """Return when all processes have ended; raise if one cannot start, or ended with an error."""
        # A thread waits for each process: the default pool has fewer threads than there may be processes.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(self._count))
        with handle_signals(self._stop, self._signal_all):
            ends = await asyncio.gather(*(self._supervise(number) for number in range(self._count)))
        os.close(self._descriptor)
        if self._problem is not None:
            raise LanglaufError(self._problem)
        if any(ends):
            raise LanglaufError(f"{sum(map(bool, ends))} API processes ended with an error; see the log")

    def _stop(self) -> None:
        self._stopping.set()
        self._listening.close()
        self._signal_all()

    def _signal_all(self) -> None:
        """Pass a signal on: the first one drains, the second one ends the grace period."""
        for process in self._running.values():
            process.signal(signal.SIGTERM)

    async def _supervise(self, number: int) -> int:
        """Run one process after another under a number, and return the exit status of the last one."""
        pause, first = _SHORTEST_PAUSE, True
        while not self._stopping.is_set():
            process = self._running[number] = _ApiChild(self._scrape)
            start = StartApi(self._target, self._flags, self._allow_open, number, self._count, first and number == 0)
            status = await process.run(start, self._environment, self._listening, self._descriptor)
            del self._running[number]
            self._memory.forget(number)
            if self._stopping.is_set():
                # One that has not served yet does not drain: the signal ends it, and that is no error.
                return 0 if status == -signal.SIGTERM and not process.served else status
            reason = process.problem or describe_exit(status)
            if first and not process.served:
                self._problem = f"an API process could not start: {reason}"
                self._stop()
                return status
            log_event(LogEvent.API_PROCESS_DIED, logging.ERROR, reason=reason)
            first, pause = False, _SHORTEST_PAUSE if process.served else min(2 * pause, _LONGEST_PAUSE)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
        return 0

    async def _scrape(self, openmetrics: bool) -> bytes:
        """Return the counts of all processes since the start, those of processes that died included."""
        await asyncio.gather(*(process.count() for process in list(self._running.values())))
        return render(Scrape(()), openmetrics=openmetrics)


class _ApiChild:
    """One API process from its start to its end."""

    def __init__(self, scrape: _ScrapeFunction) -> None:
        self._scrape = scrape
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = asyncio.Event()
        self._connection: MessageConnection[FromApiProcess] = MessageConnection(
            self._on_message, self._closed.set, FromApiProcess
        )
        self._counted: asyncio.Future[None] | None = None
        self._scraping: set[asyncio.Task[None]] = set()
        self.served = False
        self.problem: str | None = None

    async def run(self, start: StartApi, environment: Mapping[str, str], listening: socket.socket, memory: int) -> int:
        """Run the process, and return its exit status."""
        mine, other = socket.socketpair()
        descriptors = (other.fileno(), listening.fileno(), memory)
        with other:
            process = self._process = subprocess.Popen(  # noqa: ASYNC220, S603 - our own program; uvloop would start it from another thread
                [*_COMMAND, *map(str, descriptors), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                env=environment,
                pass_fds=descriptors,
                start_new_session=True,
            )
        mine.setblocking(False)
        await asyncio.get_running_loop().create_connection(lambda: self._connection, sock=mine)
        self._connection.send(start)
        try:
            return await asyncio.to_thread(process.wait)
        finally:
            self._process = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_SECONDS):
                    await self._closed.wait()  # what it sent last is read before that
            self._connection.close()

    def signal(self, number: int) -> None:
        """Send a signal; without effect once the process has ended."""
        if self._process is not None:
            self._process.send_signal(number)

    async def count(self) -> None:
        """Add what the process counted since the last call to the sum of all."""
        if not self.served:
            return
        if self._counted is None:
            self._counted = asyncio.get_running_loop().create_future()
            self._connection.send(RequestMetrics())
        await asyncio.wait({self._counted}, timeout=_COUNT_SECONDS)

    def _on_message(self, message: FromApiProcess) -> None:
        match message:
            case ApiServing():
                self.served = True
            case WorkerUnable(problem=problem):
                self.problem = problem
            case MetricsReport(counts=counts):
                add_counts(counts)
                if self._counted is not None:
                    self._counted.set_result(None)
                    self._counted = None
            case ScrapeRequest(number=number, openmetrics=openmetrics):
                task = asyncio.create_task(self._answer(number, openmetrics))
                self._scraping.add(task)
                task.add_done_callback(self._scraping.discard)

    async def _answer(self, number: int, openmetrics: bool) -> None:
        self._connection.send(ScrapeText(number, await self._scrape(openmetrics)))
