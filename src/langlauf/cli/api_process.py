"""One of the API processes of `langlauf serve --processes N`: started by that command, not by people."""

import asyncio
import itertools
import os
import socket
import sys

import msgspec
import uvloop

from langlauf.app import Langlauf
from langlauf.auth.rates import SharedMemory
from langlauf.cli.api_supervisor import ApiServing, ScrapeRequest, ScrapeText, StartApi, ToApiProcess
from langlauf.cli.interpreter import SWITCH_SECONDS
from langlauf.cli.options import CommandError
from langlauf.cli.serve import prepare, serve_until_stopped
from langlauf.cli.worker_process import die_with_parent
from langlauf.domain.errors import LanglaufError
from langlauf.settings import Settings, load_settings
from langlauf.telemetry.log import set_up_logging
from langlauf.telemetry.metrics import take_counts
from langlauf.worker.process_protocol import MessageConnection, MetricsReport, RequestMetrics, WorkerUnable


class _ApiProcess:
    """Serves what the supervisor says, and exchanges counts with it."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._connection: MessageConnection[ToApiProcess] = MessageConnection(
            self._on_message, lambda: os._exit(1), ToApiProcess
        )
        self._start: asyncio.Future[StartApi] = asyncio.get_running_loop().create_future()
        self._app: Langlauf | None = None
        self._scrapes: dict[int, asyncio.Future[bytes]] = {}
        self._scrape_numbers = itertools.count()
        self._counting: set[asyncio.Task[None]] = set()

    async def run(self, connection: socket.socket, listening: socket.socket) -> int:
        """Serve until a signal; return the exit code."""
        await asyncio.get_running_loop().create_connection(lambda: self._connection, sock=connection)
        start = await self._start
        try:
            settings = share_of(load_settings(**start.flags), start.number, start.processes)
            set_up_logging(settings.log_format, settings.log_level)
            app = self._app = prepare(settings, start.target)
            app.use(settings, start.target, SharedMemory(self._memory, start.number, start.processes))
            await serve_until_stopped(
                app, listening, allow_open=start.allow_open, welcome=start.welcome, started=self._serving
            )
        except (LanglaufError, CommandError) as error:
            self._connection.send(WorkerUnable(str(error)))
            await asyncio.sleep(0)
            return 1
        return 0

    def _serving(self) -> None:
        if self._app is not None and self._app.runtime is not None:
            self._app.runtime.services.metrics.shared_counts = self._scrape
        self._connection.send(ApiServing())

    async def _scrape(self, openmetrics: bool) -> bytes:
        number = next(self._scrape_numbers)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._scrapes[number] = answer
        self._connection.send(ScrapeRequest(number, openmetrics))
        try:
            return await answer
        finally:
            del self._scrapes[number]

    def _on_message(self, message: ToApiProcess) -> None:
        match message:
            case StartApi():
                self._start.set_result(message)
            case RequestMetrics():
                task = asyncio.create_task(self._send_counts())
                self._counting.add(task)
                task.add_done_callback(self._counting.discard)
            case ScrapeText(number=number, text=text):
                if (answer := self._scrapes.get(number)) is not None and not answer.done():
                    answer.set_result(text)

    async def _send_counts(self) -> None:
        """Include what the workers of this process have counted."""
        if self._app is not None and self._app.runtime is not None:
            await self._app.runtime.services.metrics.gather_counts()
        self._connection.send(MetricsReport(take_counts()))


def share_of(settings: Settings, number: int, processes: int) -> Settings:
    """Return the settings of one of several processes: its share of workers, connections and memory for results."""
    workers = settings.workers // processes + (number < settings.workers % processes)
    return msgspec.structs.replace(
        settings,
        workers=workers,
        max_connections=max(1, settings.max_connections // processes),
        max_sending=max(1, settings.max_sending // processes),
        max_sending_org=max(1, settings.max_sending_org // processes),
    )


def main() -> None:
    """Run one API process."""
    line, listening, memory, parent = map(int, sys.argv[1:])
    die_with_parent(parent)
    sys.setswitchinterval(SWITCH_SECONDS)
    for descriptor in (line, listening, memory):
        os.set_inheritable(descriptor, False)

    async def run() -> int:
        return await _ApiProcess(memory).run(socket.socket(fileno=line), socket.socket(fileno=listening))

    sys.exit(uvloop.run(run()))


if __name__ == "__main__":
    main()
