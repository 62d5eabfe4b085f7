"""One warm child process, the stream to it, and the log of its output."""

import asyncio
import contextlib
import logging
import os
import re
import signal
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from langlauf.domain.errors import LanglaufError
from langlauf.domain.outcome import Crashed
from langlauf.domain.redact import clean_text
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.worker.processes.child_protocol import CancelRequested, ChildStream, FromChild, FunctionEnd, ToChild
from langlauf.worker.processes.supervisor import SupervisedProcess, Supervisor

T = TypeVar("T")
#: How long messages that a process sent before its end may take to arrive.
_LAST_WORDS_SECONDS = 0.2
#: How long the exit status may take to arrive after the connection broke.
_DEATH_SECONDS = 2.0
_READ = 16_384
_LONGEST_LINE = 2_000
#: This much of a line is searched for secrets before it is cut; the rest of the line is dropped.
_LONGEST_SEARCHED = 32_768
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?!.*-----END)")
#: A line between the first and the last line of a private key.
_KEY_CONTINUES = re.compile(
    r"\s*(?:[A-Za-z0-9+/=]{0,80}|[A-Z][A-Za-z-]{1,20}: .{1,80})\s*(?:-----END [A-Z0-9 ]{1,60}-----.*)?"
)
_MOST_READS = 256
#: Beyond these limits the output of a call is read but not logged: a flood must not fill the log or block the worker.
_MOST_LINES = 1_000
_MOST_BYTES = 262_144


class OutputLog:
    """Logs what a process prints to one stream, line by line and with the ids of its job."""

    def __init__(self, stream: str, job: Mapping[str, Any]) -> None:
        self.stream = stream
        self._job = job
        self._rest = b""
        self._in_long_line = self._in_key = False
        self._lines = self._bytes = 0
        self._read_end, self.other = os.pipe()
        self._handed_over = False
        os.set_blocking(self._read_end, False)
        asyncio.get_running_loop().add_reader(self._read_end, self.read)

    def hand_over(self) -> None:
        """Close the write end here, once the process has it."""
        self._handed_over = True
        os.close(self.other)

    def begin(self) -> None:
        """Reset the limits for a new call."""
        self._lines = self._bytes = 0

    def read(self) -> bool:
        """Read what is available, without blocking; False if there was nothing."""
        try:
            data = os.read(self._read_end, _READ)
        except BlockingIOError:
            return False
        if not data:  # the process is gone
            asyncio.get_running_loop().remove_reader(self._read_end)
            return False
        if self._lines <= _MOST_LINES and self._bytes <= _MOST_BYTES:
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._log(line)
                self._in_long_line = False
            if len(self._rest) > _LONGEST_SEARCHED:
                self._log(self._rest)
                self._rest, self._in_long_line = b"", True
        return True

    def drain(self) -> None:
        """Log the rest of what a call printed, when it has ended."""
        for _ in range(_MOST_READS):  # a process that the function started may print for ever
            if not self.read():
                break
        if self._rest:
            self._log(self._rest)
            self._rest = b""
        self._in_long_line = self._in_key = False

    def close(self) -> None:
        """Close the stream."""
        self.drain()
        asyncio.get_running_loop().remove_reader(self._read_end)
        os.close(self._read_end)
        if not self._handed_over:
            os.close(self.other)

    def _log(self, line: bytes) -> None:
        if self._lines > _MOST_LINES or self._in_long_line:
            return
        self._lines += 1
        self._bytes += len(line)
        if self._lines > _MOST_LINES or self._bytes > _MOST_BYTES:
            self._lines = _MOST_LINES + 1
            log_event(LogEvent.ANALYSIS_OUTPUT, logging.WARNING, stream=self.stream, cut=True, **self._job)
            return
        text = line[:_LONGEST_SEARCHED].decode(errors="replace")
        if self._in_key and _KEY_CONTINUES.fullmatch(text):
            self._in_key = "-----END" not in text
            return
        self._in_key = _KEY_BEGINS.search(text) is not None
        text = clean_text(text, _LONGEST_LINE)
        if text:
            log_event(LogEvent.ANALYSIS_OUTPUT, stream=self.stream, text=text, **self._job)


class ProcessDied(LanglaufError):
    """The process ended before the function did. `own` unless it ended together with its supervisor."""

    def __init__(self, how: str, *, own: bool, deaths: int = 1) -> None:
        super().__init__(how)
        self.own = own
        self.deaths = deaths

    @property
    def crash(self) -> Crashed:
        """The outcome of the attempt."""
        return Crashed(str(self), own=self.own, deaths=self.deaths)


class ChildProcess:
    """One warm process and the stream to it."""

    def __init__(
        self,
        supervisor: Supervisor,
        supervised: SupervisedProcess,
        stream: ChildStream,
        job: dict[str, Any],
        outputs: tuple[OutputLog, ...],
    ) -> None:
        self.supervised = supervised
        self.reusable = True
        #: ends it after some idle time
        self.idle_timer: asyncio.TimerHandle | None = None
        self._supervisor = supervisor
        self._stream = stream
        self._job = job
        self._outputs = outputs

    async def send(self, message: ToChild) -> None:
        """Send a message. A process that is gone is noticed by `receive`."""
        with contextlib.suppress(ConnectionError):
            await self._stream.send(message)

    async def receive(self) -> FromChild:
        """Return the next message; raises `ProcessDied` if the process has ended."""
        try:
            message = await self.while_alive(self._stream.receive(), grace=_LAST_WORDS_SECONDS)
        except (EOFError, ConnectionError):
            await asyncio.wait({self.supervised.ended}, timeout=_DEATH_SECONDS)
            raise self._died() from None
        if isinstance(message, FunctionEnd):
            for output in self._outputs:
                output.drain()
        return message

    async def while_alive(self, work: Coroutine[Any, Any, T], *, grace: float = 0.0) -> T:
        """Await work that is of use only while the process lives; raises `ProcessDied` when it ends."""
        task = asyncio.ensure_future(work)
        try:
            either: set[asyncio.Future[Any]] = {task, self.supervised.ended}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await asyncio.wait({task}, timeout=grace)
            if task.done():
                return task.result()
            raise self._died()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    async def gone(self) -> None:
        """Wait for the end of a process that was ended."""
        await self._supervisor.ended(self.supervised)

    async def ask_to_stop(self) -> None:
        """Let the function see that its job was canceled."""
        await self.send(CancelRequested())

    def assign(self, job: Mapping[str, Any]) -> None:
        """Log the output from now on with the ids of this job."""
        self._job.clear()
        self._job.update(job)
        for output in self._outputs:
            output.begin()

    def _died(self) -> ProcessDied:
        status = self.supervised.ended.result() if self.supervised.ended.done() else None
        if status is None:
            return ProcessDied("its process was ended together with its supervisor", own=False)
        if status >= 0:
            return ProcessDied(f"its process ended itself with exit code {status}", own=True)
        hint = ", perhaps because memory ran out" if status == -signal.SIGKILL else ""
        return ProcessDied(f"its process was ended by {_signal_name(-status)}{hint}", own=True)

    def close(self) -> None:
        """Close the stream and the output."""
        self._stream.close()
        for output in self._outputs:
            output.close()


def _signal_name(number: int) -> str:
    """Return the name of a signal; some have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
