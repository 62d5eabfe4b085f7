"""Guards the event loop of a worker against the code of its analyses."""

import asyncio
import faulthandler
import mmap
import os
import re
import signal
import struct
import tempfile
from collections.abc import Awaitable, Coroutine, Generator
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, TypeVar, cast

from langlauf.clock import monotonic
from langlauf.domain.attempt import Lease
from langlauf.domain.outcome import Crashed

T = TypeVar("T")
#: The job and attempt, set in the context of an attempt, and so in every task that its code starts.
INSIDE_ATTEMPT: ContextVar[str | None] = ContextVar("langlauf_inside_attempt", default=None)
#: The signal that interrupts; it is ignored by programs that do not expect it.
INTERRUPT = signal.SIGURG
_NAME_BYTES = 120
_NOTE = struct.Struct(f"=d{_NAME_BYTES}s")
NOTE_BYTES = _NOTE.size
_OURS = str(Path(__file__).parents[1]) + os.sep
_BUNDLED = _OURS + "bundled" + os.sep
_STANDARD, _INSTALLED = str(Path(os.__file__).parent) + os.sep, os.sep + "site-packages" + os.sep
_SHOWN_PARTS = 2


class LoopBlocked(BaseException):
    """Raised inside code that blocks the event loop. Not an exception that a function could take for its own."""


class LoopStep(NamedTuple):
    """The attempt whose code has the event loop, and since when on the clock of `monotonic`."""

    since: float
    attempt: str


class _Noted:
    """Where the step is noted: memory of this process, or memory that outlives it."""

    buffer: Any = bytearray(NOTE_BYTES)


def record_steps_in(buffer: Any) -> None:
    """Notes steps there from now on."""
    _Noted.buffer = buffer


def read_step(buffer: Any) -> LoopStep | None:
    """The step that is noted there."""
    since, attempt = _NOTE.unpack_from(buffer)
    return LoopStep(since, attempt.rstrip(b"\0").decode(errors="replace")) if since else None


def is_step_of(step: LoopStep, job_id: str, attempt: int) -> bool:
    """Whether a step is one of this attempt; the note has room for an id of usual length."""
    return _name(job_id, attempt) == step.attempt.encode()


def _name(job_id: str, attempt: int) -> bytes:
    return f"{attempt} {job_id}".encode()[:_NAME_BYTES]


def enter_attempt(job_id: str, attempt: int) -> None:
    """From now on this task, and those that it starts, belong to an attempt."""
    INSIDE_ATTEMPT.set(_name(job_id, attempt).decode(errors="replace"))


class _TrackedSteps:
    """Awaits a coroutine of an attempt, and notes when each of its steps begins and ends."""

    __slots__ = ("_attempt", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], attempt: bytes) -> None:
        self._coroutine = coroutine
        self._attempt = attempt

    def __await__(self) -> Generator[Any, Any, Any]:
        return self  # it has what an iterator of awaited things needs

    def __iter__(self) -> "_TrackedSteps":
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        buffer = _Noted.buffer
        _NOTE.pack_into(buffer, 0, monotonic(), self._attempt)
        try:
            return self._coroutine.send(value)
        finally:
            _NOTE.pack_into(buffer, 0, 0.0, b"")

    def throw(self, *error: Any) -> Any:
        buffer = _Noted.buffer
        _NOTE.pack_into(buffer, 0, monotonic(), self._attempt)
        try:
            return self._coroutine.throw(*error)
        finally:
            _NOTE.pack_into(buffer, 0, 0.0, b"")

    def close(self) -> None:
        self._coroutine.close()


async def contain(made: Awaitable[T]) -> T:
    """Awaits what code of an attempt made; its wish to end the program becomes an error of its own."""
    coroutine = made if isinstance(made, Coroutine) else _as_coroutine(made)
    try:
        return cast("T", await _TrackedSteps(coroutine, (INSIDE_ATTEMPT.get() or "").encode()))
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(f"the analysis tried to end the program: {type(error).__name__}") from error


async def _as_coroutine(made: Awaitable[T]) -> T:
    return await made


def contain_attempts(loop: asyncio.AbstractEventLoop) -> None:
    """Makes the loop contain the tasks of attempts; all others are made as before."""
    before = loop.get_task_factory()
    if hasattr(before, "contains_attempts"):
        return

    def make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Future[Any]:
        if INSIDE_ATTEMPT.get() is not None and asyncio.iscoroutine(coroutine):
            coroutine = contain(coroutine)
        if before is not None:
            return before(loop, coroutine, **options)
        return asyncio.Task(coroutine, loop=loop, **options)

    make_task.contains_attempts = True  # type: ignore[attr-defined]  # a mark for the next one who comes here
    loop.set_task_factory(make_task)


def interrupt_after(seconds: float) -> None:
    """Has the signal interrupt code of an attempt that has the loop for so long; in the main thread alone."""

    def interrupt(_: int, frame: FrameType | None) -> None:
        step = read_step(_Noted.buffer)
        if step is None or frame is None or monotonic() - step.since < seconds:
            return
        place = _place(frame)
        if place is not None:
            raise LoopBlocked(blocked(monotonic() - step.since, place))

    signal.signal(INTERRUPT, interrupt)


def blocked(seconds: float, place: str) -> str:
    """What is told of it, as the end of a sentence."""
    return f"its event loop blocked for {seconds:.1f} s in {place}"


def _place(frame: FrameType) -> str | None:
    """Where the code of the attempt stands; nothing where code of ours stands above it, which must not be broken."""
    frames: list[tuple[str, int]] = []
    one: FrameType | None = frame
    while one is not None:
        file = one.f_code.co_filename
        if file == __file__:
            return describe_place(frames)
        if file.startswith(_OURS) and not file.startswith(_BUNDLED):
            return None
        frames.append((file, one.f_lineno))
        one = one.f_back
    return None


def _is_library(file: str) -> bool:
    return file.startswith((_STANDARD, "<")) or _INSTALLED in file


def describe_place(frames: list[tuple[str, int]]) -> str | None:
    """The innermost line of code that is not a library's, as `FILE:LINE`; the innermost of all where there is none."""
    if not frames:
        return None
    file, line = next((one for one in frames if not _is_library(one[0])), frames[0])
    return f"{'/'.join(Path(file).parts[-_SHOWN_PARTS:])}:{line}"


_PAGE = mmap.PAGESIZE
_MOST_BYTES = 16_384
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in ', re.MULTILINE)
#: Signals that a program brings upon itself.
_OWN = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
#: Of a lease. Code that had the event loop for so long when its worker ended had blocked it.
_BLOCKED = 0.5


def record_crashes_in(descriptor: int) -> None:
    """In the worker: notes steps and, at its end, where every thread stands."""
    record_steps_in(mmap.mmap(descriptor, _PAGE))
    os.lseek(descriptor, _PAGE, os.SEEK_SET)
    faulthandler.enable(descriptor)


def _new_file() -> int:
    """A file without a name; in memory, where the system has that."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("langlauf-worker")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class CrashRecord:
    """In the program: made before a worker is started, and read when it has ended."""

    def __init__(self) -> None:
        self.descriptor = _new_file()
        os.write(
            self.descriptor, bytes(_PAGE)
        )  # now, not by the first note: where there is no room that would be fatal

    def close(self) -> None:
        """Lets go of it."""
        os.close(self.descriptor)

    @property
    def stacks(self) -> str:
        """Where every thread stood, as it was written."""
        return os.pread(self.descriptor, _MOST_BYTES, _PAGE).decode(errors="replace")

    def judge(self, lease: Lease, status: int, how: str, *, lease_seconds: float) -> Crashed:
        """How an attempt ended with its worker: by its own doing where its code had the event loop."""
        step = read_step(os.pread(self.descriptor, _PAGE, 0))
        if step is None or not is_step_of(step, lease.job_id, lease.attempt):
            return Crashed(f"its worker ended: {how}", own=False)
        seconds = monotonic() - step.since
        place = self._place(step)
        if seconds >= _BLOCKED * lease_seconds:
            return Crashed(blocked(seconds, place))
        if status >= 0 or -status in _OWN:
            return Crashed(f"its worker ended with {how} in {place}")
        return Crashed(f"its worker ended: {how}", own=False)

    def _place(self, step: LoopStep) -> str:
        """Where the code of the attempt stood, if that was written."""
        for thread in self.stacks.split("\n\n"):
            frames: list[tuple[str, int]] = []
            for file, line in _FRAME.findall(thread):
                if file == __file__:
                    return describe_place(frames) or step.attempt
                frames.append((file, int(line)))
        return "code of the analysis"
