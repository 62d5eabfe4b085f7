"""Warm processes: started ahead, with the application loaded, and used again for as long as they stay tidy."""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from langlauf.domain.errors import LanglaufError
from langlauf.telemetry import Fact, tell
from langlauf.worker.processes.keeping import Keeper, Kept
from langlauf.worker.processes.output import Output
from langlauf.worker.processes.wire import Begin, End, FromProcess, Ready, Stop, ToProcess, WorkerLine

_COMMAND = (sys.executable, "-m", "langlauf.worker.processes.child")
#: A process that says nothing for so long after its line broke has been ended, whatever the keeper says.
_DEATH_SECONDS = 2.0
#: How long a process beyond the warm ones is kept for the next rush.
_SPARE_SECONDS = 60.0


class ProcessDied(LanglaufError):
    """The process ended before the function did."""


class LoadingFailed(LanglaufError):
    """The application cannot be loaded in a process."""


class Process:
    """One warm process and the line to it."""

    def __init__(self, kept: Kept, line: WorkerLine, owner: dict[str, Any], outputs: tuple[Output, ...]) -> None:
        self.kept = kept
        self.reusable = True
        self._line = line
        self._owner = owner
        self._outputs = outputs

    async def send(self, message: ToProcess) -> None:
        """Returns once the message is on its way; one that is gone is noticed when it is heard."""
        with contextlib.suppress(ConnectionError):
            await self._line.send(message)

    async def hear(self) -> FromProcess:
        """The next message. Raises `ProcessDied`, saying how, where there will be none."""
        try:
            message = await self._line.receive()
        except (EOFError, ConnectionError):
            raise ProcessDied(await self._how_it_died()) from None
        if isinstance(message, End):
            for output in self._outputs:
                output.drain()
        return message

    async def ask_to_stop(self) -> None:
        """Lets the function see that the job was canceled."""
        await self.send(Stop())

    def works_for(self, job: Mapping[str, Any]) -> None:
        """A new call begins; what is printed from now on is told with these facts."""
        self._owner.clear()
        self._owner.update(job)
        for output in self._outputs:
            output.begin()

    async def _how_it_died(self) -> str:
        ended = self.kept.ended
        await asyncio.wait({ended}, timeout=_DEATH_SECONDS)
        status = ended.result() if ended.done() else None
        if status is None:
            return "its process was ended together with its keeper"
        if status < 0:
            name = signal.Signals(-status).name
            hint = ", perhaps because memory ran out" if name == "SIGKILL" else ""
            return f"its process was ended by {name}{hint}"
        return f"its process ended itself with exit code {status}"

    def close(self) -> None:
        """Lets go of what this side holds."""
        self._line.close()
        for output in self._outputs:
            output.close()


class Pool:
    """The processes of one worker."""

    def __init__(self, keeper: Keeper, begin: Begin, *, warm: int, most: int, parallel: int) -> None:
        #: so many chunks are computed side by side, over all jobs of this worker
        self.chunk_slots = asyncio.Semaphore(parallel)
        self._keeper = keeper
        self._begin = begin
        self._warm = warm
        self._most = most
        self._idle: list[Process] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._closed = False

    def warm_up(self) -> None:
        """Starts as many processes as should stand ready; whoever needs one before that starts its own."""
        for _ in range(self._warm - len(self._idle) - len(self._starting)):
            task = asyncio.create_task(self._start_idle(), name="langlauf-warm-process")
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def _start_idle(self) -> None:
        try:
            self._put(await self._start())
        except LanglaufError as error:
            tell(Fact.PROCESS_DIED, logging.ERROR, reason=str(error))

    @asynccontextmanager
    async def process(self, job: Mapping[str, Any]) -> AsyncIterator[Process]:
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

    def allow(self, processes: Iterable[Process], seconds: float | None) -> None:
        """Lets processes run for so long."""
        self._keeper.allow([process.kept for process in processes], seconds)

    async def close(self) -> None:
        """Ends every process that waits."""
        self._closed = True
        for task in list(self._starting):
            task.cancel()
        if self._starting:
            await asyncio.wait(self._starting)
        while self._idle:
            self._end(self._idle.pop())

    async def _take(self) -> Process:
        while self._idle:
            process = self._idle.pop()
            if not process.kept.ended.done():
                return process
            process.close()
        if self._starting:  # one is on its way: that is quicker than another start
            await asyncio.wait(self._starting, return_when=asyncio.FIRST_COMPLETED)
            if self._idle:
                return await self._take()
        return await self._start()

    def _put(self, process: Process) -> None:
        if process.reusable and not self._closed and len(self._idle) < self._most:
            process.works_for({})
            self.allow([process], None)
            self._idle.append(process)
            if len(self._idle) > self._warm:
                asyncio.get_running_loop().call_later(_SPARE_SECONDS, self._end_spare)
            return
        self._end(process)
        if not self._closed:
            self.warm_up()

    def _end_spare(self) -> None:
        """Ends the process that waited longest, where more wait than should stand ready."""
        if len(self._idle) > self._warm:
            self._end(self._idle.pop(0))

    def _end(self, process: Process) -> None:
        self._keeper.end(process.kept)
        process.close()

    async def _start(self) -> Process:
        mine, other = socket.socketpair()
        owner: dict[str, Any] = {}
        outputs = tuple(Output(stream, owner) for stream in ("stdout", "stderr"))
        with other:
            kept = self._keeper.start(_COMMAND, (other.fileno(), *(output.other for output in outputs)))
        for output in outputs:
            output.hand_over()
        mine.setblocking(False)
        process = Process(kept, WorkerLine(*await asyncio.open_unix_connection(sock=mine)), owner, outputs)
        try:
            await process.send(self._begin)
            ready = await process.hear()
        except BaseException:
            self._end(process)
            raise
        if isinstance(ready, Ready) and ready.problem:
            self._end(process)
            raise LoadingFailed(ready.problem)
        return process
