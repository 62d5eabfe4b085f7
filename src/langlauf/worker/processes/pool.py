"""Warm child processes with the application loaded, reused while they end cleanly."""

import asyncio
import contextlib
import logging
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from langlauf.analysis.registry import Registry, reference_to, resolve
from langlauf.domain.errors import LanglaufError, RegistrationError, TransientError
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.worker.processes.child_protocol import ApplicationLoaded, ChildStream, LoadApplication
from langlauf.worker.processes.process import ChildProcess, OutputLog, ProcessDied
from langlauf.worker.processes.supervisor import Supervisor

#: Without the folder it is started in: a file there must not stand for a module of Python's own.
_COMMAND = (sys.executable, "-P", "-m", "langlauf.worker.processes.child")
#: How long a process beyond the warm ones is kept for the next rush.
_SPARE_SECONDS = 60.0


class ApplicationLoadFailed(LanglaufError):
    """The application cannot be loaded in a process."""


class ProcessStartFailed(TransientError):
    """A process could not be started, for a reason that may pass."""

    default_code = "internal"


class ProcessPool:
    """The processes of one worker."""

    def __init__(self, supervisor: Supervisor, begin: LoadApplication, *, warm: int, most: int) -> None:
        self._supervisor = supervisor
        self._begin = begin
        self._warm = warm
        self._most = most
        self._idle: list[ChildProcess] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._waiting: deque[asyncio.Future[ChildProcess]] = deque()
        self._closed = False

    def warm_up(self) -> None:
        """Starts as many processes as should stand ready, or as somebody waits for."""
        wanted = max(self._warm - len(self._idle), len(self._waiting))
        for _ in range(wanted - len(self._starting)):
            task = asyncio.create_task(self._start_idle(), name="langlauf-warm-process")
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def _start_idle(self) -> None:
        try:
            self._put(await self._start())
        except LanglaufError as error:
            if (waiting := self._next_waiting()) is not None:
                waiting.set_exception(error)
            else:
                log_event(LogEvent.PROCESS_DIED, logging.ERROR, reason=str(error))

    def _next_waiting(self) -> "asyncio.Future[ChildProcess] | None":
        """Whoever has waited longest for a process."""
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                return waiting
        return None

    @asynccontextmanager
    async def process(self, job: Mapping[str, Any]) -> AsyncIterator[ChildProcess]:
        """A process for one call. One that did not come to a tidy end is ended, with everything it started."""
        process = await self._take()
        process.works_for(job)
        try:
            yield process
        except BaseException:
            process.reusable = False
            raise
        finally:
            self._put(process)

    def allow(self, processes: Iterable[ChildProcess], seconds: float | None) -> None:
        """Lets processes run for so long."""
        self._supervisor.allow([process.kept for process in processes], seconds)

    async def close(self) -> None:
        """Ends every process that waits."""
        self._closed = True
        for task in list(self._starting):
            task.cancel()
        if self._starting:
            await asyncio.wait(self._starting)
        while self._idle:
            self._end(self._idle.pop())

    async def _take(self) -> ChildProcess:
        while self._idle:
            process = self._idle.pop()
            if process.spare is not None:
                process.spare.cancel()
            if not process.kept.ended.done():
                return process
            process.close()
        # Whichever comes first, one that somebody gives back or a new one; what comes too late stands ready for others.
        waiting: asyncio.Future[ChildProcess] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self.warm_up()
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                self._put(waiting.result())
            raise

    def _put(self, process: ChildProcess) -> None:
        """Takes a process back, or in for the first time: for whoever waits, else for later."""
        if not process.reusable or self._closed or process.kept.ended.done():
            self._end(process)
            if not self._closed:
                self.warm_up()
            return
        process.works_for({})
        self.allow([process], None)
        if (waiting := self._next_waiting()) is not None:
            waiting.set_result(process)
        elif len(self._idle) < self._most:
            self._idle.append(process)
            if len(self._idle) > self._warm:
                process.spare = asyncio.get_running_loop().call_later(_SPARE_SECONDS, self._end_spare, process)
        else:
            self._end(process)

    def _end_spare(self, process: ChildProcess) -> None:
        """Ends a process that nobody took for long, where more wait than should stand ready."""
        if process in self._idle and len(self._idle) > self._warm:
            self._idle.remove(process)
            self._end(process)

    def _end(self, process: ChildProcess) -> None:
        if process.spare is not None:
            process.spare.cancel()
        self._supervisor.end(process.kept)
        process.close()

    async def _start(self) -> ChildProcess:
        try:
            process = await self._open()
        except OSError as error:
            raise ProcessStartFailed(f"A process could not be started: {error.strerror or error}.") from error
        try:
            await process.send(self._begin)
            ready = await process.hear()
        except ProcessDied as died:
            self._end(process)
            raise ProcessStartFailed(f"A process could not be started: {died}.") from died
        except BaseException:
            self._end(process)
            raise
        if isinstance(ready, ApplicationLoaded) and ready.problem:
            self._end(process)
            raise ApplicationLoadFailed(ready.problem)
        return process

    async def _open(self) -> ChildProcess:
        """A new process and everything that connects it; nothing is left of it where one part cannot be had."""
        owner: dict[str, Any] = {}
        with contextlib.ExitStack() as undo:
            outputs = tuple(_opened(undo, OutputLog(stream, owner)) for stream in ("stdout", "stderr"))
            mine, other = socket.socketpair()
            undo.callback(mine.close)
            with other:
                kept = self._supervisor.start(_COMMAND, (other.fileno(), *(output.other for output in outputs)))
            undo.callback(self._supervisor.end, kept)
            for output in outputs:
                output.hand_over()
            await self._supervisor.started(kept)
            mine.setblocking(False)
            line = ChildStream(*await asyncio.open_unix_connection(sock=mine))
            undo.pop_all()
        return ChildProcess(self._supervisor, kept, line, owner, outputs)


def _opened(undo: contextlib.ExitStack, output: OutputLog) -> OutputLog:
    undo.callback(output.close)
    return output


_MAIN = "__main__"


def application_of(registry: Registry, memory: int | None) -> LoadApplication:
    """The modules of the analyses, and how to find them."""
    modules = {analysis.function.__module__ for analysis in registry}
    main = sys.modules[_MAIN] if _MAIN in modules else None
    spec = getattr(main, "__spec__", None)
    return LoadApplication(
        path=list(sys.path),
        main_module=None if spec is None else spec.name,
        main_file=getattr(main, "__file__", None),
        modules=sorted(modules - {_MAIN}),
        memory=memory,
    )


def check_references(registry: Registry) -> None:
    """Refuses a plain function that another process would not find under its name."""
    for analysis in registry:
        if analysis.plain:
            reference = reference_to(analysis.function)
            try:
                found = resolve(reference)
            except (ImportError, AttributeError):
                found = None
            if found is not analysis.function:
                raise RegistrationError(
                    f"{analysis.name}: {reference} is something else by now, so a process cannot run it; "
                    "put @app.analysis above all other decorators, and use each name once"
                )
