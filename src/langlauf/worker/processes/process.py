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
#: What a process said before its end is read first; it has been on its way for long.
_LAST_WORDS_SECONDS = 0.2
#: A line that broke is soon followed by word of how the process ended.
_DEATH_SECONDS = 2.0
_READ = 16_384
_LONGEST_LINE = 2_000
#: So much of a line is looked at for secrets before it is cut; what follows in that line is not told.
_LONGEST_LOOKED_AT = 32_768
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?!.*-----END)")
#: A line between the first and the last of a private key.
_KEY_GOES_ON = re.compile(
    r"\s*(?:[A-Za-z0-9+/=]{0,80}|[A-Z][A-Za-z-]{1,20}: .{1,80})\s*(?:-----END [A-Z0-9 ]{1,60}-----.*)?"
)
_MOST_READS = 256
#: Past that a call is read but not logged any more: a flood must not drown the log or the worker.
_MOST_LINES = 1_000
_MOST_BYTES = 262_144


class OutputLog:
    """Reads one stream of a process without holding up the event loop."""

    def __init__(self, stream: str, owner: Mapping[str, Any]) -> None:
        self.stream = stream
        self._owner = owner
        self._rest = b""
        self._in_long_line = self._in_key = False
        self._lines = self._bytes = 0
        self._mine, self.other = os.pipe()
        self._handed_over = False
        os.set_blocking(self._mine, False)
        asyncio.get_running_loop().add_reader(self._mine, self.read)

    def hand_over(self) -> None:
        """The process has its end now."""
        self._handed_over = True
        os.close(self.other)

    def begin(self) -> None:
        """A new call has the whole allowance."""
        self._lines = self._bytes = 0

    def read(self) -> bool:
        """Takes what is there now; False where there was nothing."""
        try:
            data = os.read(self._mine, _READ)
        except BlockingIOError:
            return False
        if not data:  # the process is gone
            asyncio.get_running_loop().remove_reader(self._mine)
            return False
        if self._lines <= _MOST_LINES and self._bytes <= _MOST_BYTES:
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._tell(line)
                self._in_long_line = False
            if len(self._rest) > _LONGEST_LOOKED_AT:
                self._tell(self._rest)
                self._rest, self._in_long_line = b"", True
        return True

    def drain(self) -> None:
        """A call ended: what it printed before is its own, up to the last letter."""
        for _ in range(_MOST_READS):  # a process of the function's own may go on printing for ever
            if not self.read():
                break
        if self._rest:
            self._tell(self._rest)
            self._rest = b""
        self._in_long_line = self._in_key = False

    def close(self) -> None:
        """Lets go of the stream."""
        self.drain()
        asyncio.get_running_loop().remove_reader(self._mine)
        os.close(self._mine)
        if not self._handed_over:
            os.close(self.other)

    def _tell(self, line: bytes) -> None:
        if self._lines > _MOST_LINES or self._in_long_line:
            return
        self._lines += 1
        self._bytes += len(line)
        if self._lines > _MOST_LINES or self._bytes > _MOST_BYTES:
            self._lines = _MOST_LINES + 1
            log_event(LogEvent.ANALYSIS_OUTPUT, logging.WARNING, stream=self.stream, cut=True, **self._owner)
            return
        text = line[:_LONGEST_LOOKED_AT].decode(errors="replace")
        if self._in_key and _KEY_GOES_ON.fullmatch(text):
            self._in_key = "-----END" not in text
            return
        self._in_key = _KEY_BEGINS.search(text) is not None
        text = clean_text(text, _LONGEST_LINE)
        if text:
            log_event(LogEvent.ANALYSIS_OUTPUT, stream=self.stream, text=text, **self._owner)


class ProcessDied(LanglaufError):
    """The process ended before the function did. `own` unless it went together with its supervisor."""

    def __init__(self, how: str, *, own: bool, deaths: int = 1) -> None:
        super().__init__(how)
        self.own = own
        self.deaths = deaths

    @property
    def crash(self) -> Crashed:
        """How the attempt ended thereby."""
        return Crashed(str(self), own=self.own, deaths=self.deaths)


class ChildProcess:
    """One warm process and the line to it."""

    def __init__(
        self,
        supervisor: Supervisor,
        kept: SupervisedProcess,
        line: ChildStream,
        owner: dict[str, Any],
        outputs: tuple[OutputLog, ...],
    ) -> None:
        self.kept = kept
        self.reusable = True
        #: ends it where it is spare for long
        self.spare: asyncio.TimerHandle | None = None
        self._supervisor = supervisor
        self._line = line
        self._owner = owner
        self._outputs = outputs

    async def send(self, message: ToChild) -> None:
        """Returns once the message is on its way; one that is gone is noticed when it is heard."""
        with contextlib.suppress(ConnectionError):
            await self._line.send(message)

    async def hear(self) -> FromChild:
        """The next message. Raises `ProcessDied`, saying how, where there will be none."""
        try:
            message = await self.while_alive(self._line.receive(), grace=_LAST_WORDS_SECONDS)
        except (EOFError, ConnectionError):
            await asyncio.wait({self.kept.ended}, timeout=_DEATH_SECONDS)
            raise self._death() from None
        if isinstance(message, FunctionEnd):
            for output in self._outputs:
                output.drain()
        return message

    async def while_alive(self, work: Coroutine[Any, Any, T], *, grace: float = 0.0) -> T:
        """Awaits something that has a meaning only while the process lives."""
        task = asyncio.ensure_future(work)
        try:
            either: set[asyncio.Future[Any]] = {task, self.kept.ended}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await asyncio.wait({task}, timeout=grace)
            if task.done():
                return task.result()
            raise self._death()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    async def gone(self) -> None:
        """Returns when it is; whoever asks has had it ended."""
        await self._supervisor.ended(self.kept)

    async def ask_to_stop(self) -> None:
        """Lets the function see that the job was canceled."""
        await self.send(CancelRequested())

    def works_for(self, job: Mapping[str, Any]) -> None:
        """A new call begins; what is printed from now on is told with these facts."""
        self._owner.clear()
        self._owner.update(job)
        for output in self._outputs:
            output.begin()

    def _death(self) -> ProcessDied:
        status = self.kept.ended.result() if self.kept.ended.done() else None
        if status is None:
            return ProcessDied("its process was ended together with its supervisor", own=False)
        if status >= 0:
            return ProcessDied(f"its process ended itself with exit code {status}", own=True)
        hint = ", perhaps because memory ran out" if status == -signal.SIGKILL else ""
        return ProcessDied(f"its process was ended by {_name(-status)}{hint}", own=True)

    def close(self) -> None:
        """Lets go of what this side holds."""
        self._line.close()
        for output in self._outputs:
            output.close()


def _name(number: int) -> str:
    """What a signal is called; some have no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
