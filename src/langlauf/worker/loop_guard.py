"""Guards the event loop of a worker against the code of analyses, and records which code crashed or blocked it.

`sys.exit` in a task of an analysis must not leave the event loop. Code that blocks the loop is interrupted, where
Python can interrupt it. Which attempt has the loop is recorded outside of the interpreter, in a file that the program
creates and maps into memory; behind it `faulthandler` writes the stacks when a signal ends the worker. Neither needs
the interpreter lock, so that the record is complete even where the process had to be killed.
"""

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
from types import CoroutineType, FrameType
from typing import Any, NamedTuple, TypeVar, cast

from langlauf.clock import monotonic
from langlauf.domain.attempt import Lease
from langlauf.domain.errors import AnalysisError, error_saying
from langlauf.domain.outcome import Crashed

T = TypeVar("T")
#: Job and attempt, set in the context of an attempt, and thereby in every task that its code starts.
INSIDE_ATTEMPT: ContextVar[bytes | None] = ContextVar("langlauf_inside_attempt", default=None)
#: The signal that interrupts; ignored by default in programs that do not handle it.
INTERRUPT = signal.SIGURG
_NAME_BYTES = 120
_STEP = struct.Struct(f"=d{_NAME_BYTES}s")
_OURS = str(Path(__file__).parents[1]) + os.sep
_BUNDLED = _OURS + "bundled" + os.sep
_STANDARD, _INSTALLED = str(Path(os.__file__).parent) + os.sep, os.sep + "site-packages" + os.sep
_SHOWN_PARTS = 2
_PAGE = mmap.PAGESIZE
_MOST_BYTES = 16_384
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in ', re.MULTILINE)
#: Signals that the code of a program causes itself.
_OWN = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
#: As a share of a lease: a step that had lasted this long when the worker ended had blocked the loop.
_BLOCKED = 0.5


class LoopBlocked(BaseException):
    """Raised inside code that blocks the event loop. Not an `Exception`, so that a function does not catch it."""


class LoopStep(NamedTuple):
    """The attempt whose code runs in the event loop, and since when by `monotonic`."""

    since: float
    attempt: str


class _StepRecord:
    """Where the current step is recorded: memory of this process, or memory that outlives it."""

    buffer: Any = bytearray(_STEP.size)


def record_steps_in(buffer: Any) -> None:
    """Record steps in this buffer from now on."""
    _StepRecord.buffer = buffer


def read_step(buffer: Any) -> LoopStep | None:
    """Return the recorded step, if code of an attempt runs."""
    since, attempt = _STEP.unpack_from(buffer)
    return LoopStep(since, attempt.rstrip(b"\0").decode(errors="replace")) if since else None


def is_step_of(step: LoopStep, job_id: str, attempt: int) -> bool:
    """Whether a step belongs to this attempt; long ids are compared by their beginning."""
    return _name(job_id, attempt) == step.attempt.encode()


def _name(job_id: str, attempt: int) -> bytes:
    return f"{attempt} {job_id}".encode()[:_NAME_BYTES]


def enter_attempt(job_id: str, attempt: int) -> None:
    """Mark this task, and those that it starts, as part of an attempt."""
    INSIDE_ATTEMPT.set(_name(job_id, attempt))


class _TrackedSteps:
    """Awaits a coroutine of an attempt, and records the start and end of each step."""

    __slots__ = ("_attempt", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], attempt: bytes) -> None:
        self._coroutine = coroutine
        self._attempt = attempt

    def __await__(self) -> Generator[Any, Any, Any]:
        return self  # it implements the generator protocol

    def __iter__(self) -> "_TrackedSteps":
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        buffer = _StepRecord.buffer
        _STEP.pack_into(buffer, 0, monotonic(), self._attempt)
        try:
            return self._coroutine.send(value)
        finally:
            _STEP.pack_into(buffer, 0, 0.0, b"")

    def throw(self, *error: Any) -> Any:
        buffer = _StepRecord.buffer
        _STEP.pack_into(buffer, 0, monotonic(), self._attempt)
        try:
            return self._coroutine.throw(*error)
        finally:
            _STEP.pack_into(buffer, 0, 0.0, b"")

    def close(self) -> None:
        self._coroutine.close()


async def contain(awaitable: Awaitable[T]) -> T:
    """Await an awaitable of an attempt; `SystemExit` and `KeyboardInterrupt` become an `AnalysisError`."""
    native = type(awaitable) is CoroutineType or isinstance(awaitable, Coroutine)
    coroutine: Any = awaitable if native else _as_coroutine(awaitable)
    try:
        return cast("T", await _TrackedSteps(coroutine, INSIDE_ATTEMPT.get() or b""))
    except (SystemExit, KeyboardInterrupt) as error:
        raise error_saying(AnalysisError, "ended_program", error=type(error).__name__) from error


async def _as_coroutine(awaitable: Awaitable[T]) -> T:
    return await awaitable


def contain_attempts(loop: asyncio.AbstractEventLoop) -> None:
    """Install a task factory that contains the tasks of attempts, and creates all others as before."""
    before = loop.get_task_factory()
    if hasattr(before, "contains_attempts"):
        return

    def make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Future[Any]:
        if INSIDE_ATTEMPT.get() is not None and asyncio.iscoroutine(coroutine):
            coroutine = contain(coroutine)
        if before is not None:
            return before(loop, coroutine, **options)
        return asyncio.Task(coroutine, loop=loop, **options)

    make_task.contains_attempts = True  # type: ignore[attr-defined]  # marks that it is installed
    loop.set_task_factory(make_task)


def interrupt_after(seconds: float) -> None:
    """Let the signal interrupt code of an attempt whose step has lasted this long; only in the main thread."""

    def interrupt(_: int, frame: FrameType | None) -> None:
        step = read_step(_StepRecord.buffer)
        if step is None or frame is None or monotonic() - step.since < seconds:
            return
        place = _interruptible_place(frame)
        if place is not None:
            raise LoopBlocked(_describe_block(monotonic() - step.since, place))

    signal.signal(INTERRUPT, interrupt)


def _describe_block(seconds: float, place: str) -> str:
    return f"its event loop blocked for {seconds:.1f} s in {place}"


def _interruptible_place(frame: FrameType) -> str | None:
    """Return where code of the attempt runs; None inside code of Langlauf, which must not be interrupted."""
    frames: list[tuple[str, int]] = []
    one: FrameType | None = frame
    while one is not None:
        file = one.f_code.co_filename
        if file == __file__:
            return _describe_place(frames)
        if file.startswith(_OURS) and not file.startswith(_BUNDLED):
            return None
        frames.append((file, one.f_lineno))
        one = one.f_back
    return None


def _is_library(file: str) -> bool:
    return file.startswith((_STANDARD, "<")) or _INSTALLED in file


def _describe_place(frames: list[tuple[str, int]]) -> str | None:
    """Return the innermost frame outside of libraries as `FILE:LINE`; the innermost of all if there is none."""
    if not frames:
        return None
    file, line = next((one for one in frames if not _is_library(one[0])), frames[0])
    return f"{'/'.join(Path(file).parts[-_SHOWN_PARTS:])}:{line}"


def record_crashes_in(descriptor: int) -> None:
    """Record steps, and the stacks of all threads at a crash. Called in the worker process."""
    record_steps_in(mmap.mmap(descriptor, _PAGE))
    os.lseek(descriptor, _PAGE, os.SEEK_SET)
    faulthandler.enable(descriptor)


def _new_file() -> int:
    """Create a file without a name; in memory, where the system supports it."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("langlauf-worker")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class CrashRecord:
    """The record of a worker process: created by the program before its start, and read after its end."""

    def __init__(self) -> None:
        self.descriptor = _new_file()
        # Allocated now: without space, the first record of a step would be a fatal SIGBUS.
        os.write(self.descriptor, bytes(_PAGE))

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)

    @property
    def stacks(self) -> str:
        """The stacks of all threads at the crash, if they were written."""
        return os.pread(self.descriptor, _MOST_BYTES, _PAGE).decode(errors="replace")

    def outcome(self, lease: Lease, status: int, how: str, *, lease_seconds: float) -> Crashed:
        """Return how an attempt ended with its worker: it is the cause if its code had the event loop."""
        step = read_step(os.pread(self.descriptor, _PAGE, 0))
        if step is None or not is_step_of(step, lease.job_id, lease.attempt):
            return Crashed(f"its worker ended: {how}", own=False)
        seconds = monotonic() - step.since
        place = self._place(step)
        if seconds >= _BLOCKED * lease_seconds:
            return Crashed(_describe_block(seconds, place))
        if status >= 0 or -status in _OWN:
            return Crashed(f"its worker ended with {how} in {place}")
        return Crashed(f"its worker ended: {how}", own=False)

    def _place(self, step: LoopStep) -> str:
        """Return where code of the attempt ran, if the stacks were written."""
        for thread in self.stacks.split("\n\n"):
            frames: list[tuple[str, int]] = []
            for file, line in _FRAME.findall(thread):
                if file == __file__:
                    return _describe_place(frames) or step.attempt
                frames.append((file, int(line)))
        return "code of the analysis"
