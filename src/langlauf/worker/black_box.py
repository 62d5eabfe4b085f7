"""What is left of a worker process that ended: whose code had the event loop, since when, and where every thread stood.

It is a file that the program makes and the worker writes to: the step in its first bytes, by memory that both share,
and behind them what `faulthandler` writes when a signal ends the worker. Neither needs the interpreter lock.
"""

import faulthandler
import mmap
import os
import re
import signal
import tempfile

from langlauf.clock import monotonic
from langlauf.domain.attempt import Lease
from langlauf.domain.outcome import Crashed
from langlauf.worker import loop_guard
from langlauf.worker.loop_guard import Step, blocked, is_of, note_in, place_in, read_step

_PAGE = mmap.PAGESIZE
_MOST_BYTES = 16_384
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in ', re.MULTILINE)
#: Signals that a program brings upon itself.
_OWN = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
#: Of a lease. Code that had the event loop for so long when its worker ended had blocked it.
_BLOCKED = 0.5


def write_to(descriptor: int) -> None:
    """In the worker: notes steps and, at its end, where every thread stands."""
    note_in(mmap.mmap(descriptor, _PAGE))
    os.lseek(descriptor, _PAGE, os.SEEK_SET)
    faulthandler.enable(descriptor)


def _new_file() -> int:
    """A file without a name; in memory, where the system has that."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("langlauf-worker")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class BlackBox:
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
        if step is None or not is_of(step, lease.job_id, lease.attempt):
            return Crashed(f"its worker ended: {how}", own=False)
        seconds = monotonic() - step.since
        place = self._place(step)
        if seconds >= _BLOCKED * lease_seconds:
            return Crashed(blocked(seconds, place))
        if status >= 0 or -status in _OWN:
            return Crashed(f"its worker ended with {how} in {place}")
        return Crashed(f"its worker ended: {how}", own=False)

    def _place(self, step: Step) -> str:
        """Where the code of the attempt stood, if that was written."""
        for thread in self.stacks.split("\n\n"):
            frames: list[tuple[str, int]] = []
            for file, line in _FRAME.findall(thread):
                if file == loop_guard.__file__:
                    return place_in(frames) or step.attempt
                frames.append((file, int(line)))
        return "code of the analysis"
