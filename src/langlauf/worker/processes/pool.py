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
from langlauf.domain.errors import LanglaufError, RegistrationError, TransientError, error_saying
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.worker.processes.child_protocol import ApplicationLoaded, ChildStream, LoadApplication
from langlauf.worker.processes.process import ChildProcess, OutputLog, ProcessDied
from langlauf.worker.processes.supervisor import Supervisor

#: `-P` keeps the working folder out of `sys.path`: a file there must not shadow a module of the standard library.
_COMMAND = (sys.executable, "-P", "-m", "langlauf.worker.processes.child")
_MAIN = "__main__"
#: How long an idle process beyond the warm ones is kept.
_IDLE_SECONDS = 60.0


class ApplicationLoadFailed(LanglaufError):
    """The application cannot be loaded in a process."""


class ProcessStartFailed(TransientError):
    """A process could not be started; another attempt may succeed."""

    default_code = "internal"


class ProcessPool:
    """The processes of one worker."""

    def __init__(self, supervisor: Supervisor, application: LoadApplication, *, warm: int, most: int) -> None:
        self._supervisor = supervisor
        self._application = application
        self._warm = warm
        self._most = most
        self._idle: list[ChildProcess] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._waiting: deque[asyncio.Future[ChildProcess]] = deque()
        self._closed = False

    def warm_up(self) -> None:
        """Start processes up to the warm number, or as many as callers wait for."""
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
        """Return the future of the caller that has waited longest."""
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                return waiting
        return None

    @asynccontextmanager
    async def process(self, job: Mapping[str, Any]) -> AsyncIterator[ChildProcess]:
        """Provide a process for one call. Unless the call ends cleanly, the process and all it started are ended."""
        process = await self._take()
        process.assign(job)
        try:
            yield process
        except BaseException:
            process.reusable = False
            raise
        finally:
            self._put(process)

    def allow(self, processes: Iterable[ChildProcess], seconds: float | None) -> None:
        """Let processes run for this long; None is without limit."""
        self._supervisor.allow([process.supervised for process in processes], seconds)

    async def close(self) -> None:
        """End all idle processes."""
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
            if process.idle_timer is not None:
                process.idle_timer.cancel()
            if not process.supervised.ended.done():
                return process
            process.close()
        # The first of a returned and a new process; the other one stays idle for the next call.
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
        """Take a new or returned process: for the caller that has waited longest, else as an idle one."""
        if not process.reusable or self._closed or process.supervised.ended.done():
            self._end(process)
            if not self._closed:
                self.warm_up()
            return
        process.assign({})
        self.allow([process], None)
        if (waiting := self._next_waiting()) is not None:
            waiting.set_result(process)
        elif len(self._idle) < self._most:
            self._idle.append(process)
            if len(self._idle) > self._warm:
                process.idle_timer = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._end_idle, process)
        else:
            self._end(process)

    def _end_idle(self, process: ChildProcess) -> None:
        """End a process that was idle for long, if more than the warm ones are idle."""
        if process in self._idle and len(self._idle) > self._warm:
            self._idle.remove(process)
            self._end(process)

    def _end(self, process: ChildProcess) -> None:
        if process.idle_timer is not None:
            process.idle_timer.cancel()
        self._supervisor.end(process.supervised)
        process.close()

    async def _start(self) -> ChildProcess:
        try:
            process = await self._open()
        except OSError as error:
            raise error_saying(
                ProcessStartFailed, "process_not_started", detail=error.strerror or str(error)
            ) from error
        try:
            await process.send(self._application)
            ready = await process.receive()
        except ProcessDied as died:
            self._end(process)
            raise error_saying(ProcessStartFailed, "process_not_started", detail=str(died)) from died
        except BaseException:
            self._end(process)
            raise
        if isinstance(ready, ApplicationLoaded) and ready.problem:
            self._end(process)
            raise ApplicationLoadFailed(ready.problem)
        return process

    async def _open(self) -> ChildProcess:
        """Start a process with its socket and pipes; all are closed where one of them cannot be opened."""
        job: dict[str, Any] = {}
        with contextlib.ExitStack() as undo:
            outputs = tuple(_opened(undo, OutputLog(stream, job)) for stream in ("stdout", "stderr"))
            ours, theirs = socket.socketpair()
            undo.callback(ours.close)
            with theirs:
                descriptors = (theirs.fileno(), *(output.other for output in outputs))
                supervised = self._supervisor.start(_COMMAND, descriptors)
            undo.callback(self._supervisor.end, supervised)
            for output in outputs:
                output.hand_over()
            await self._supervisor.started(supervised)
            ours.setblocking(False)
            stream = ChildStream(*await asyncio.open_unix_connection(sock=ours))
            undo.pop_all()
        return ChildProcess(self._supervisor, supervised, stream, job, outputs)


def _opened(undo: contextlib.ExitStack, output: OutputLog) -> OutputLog:
    undo.callback(output.close)
    return output


def application_of(registry: Registry, memory: int | None) -> LoadApplication:
    """Return the modules of the analyses, and how a process finds them."""
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
    """Raise `RegistrationError` for a plain function that another process cannot import by its name."""
    for analysis in registry:
        if analysis.plain:
            reference = reference_to(analysis.function)
            try:
                found = resolve(reference)
            except (ImportError, AttributeError):
                found = None
            if found is not analysis.function:
                raise RegistrationError(
                    f"{analysis.name}: {reference} no longer refers to this function, so a process cannot import it; "
                    "put @app.analysis above all other decorators, and use each name once"
                )
