"""A time limit that fails a test and shows what every thread and every child process was doing."""

import faulthandler
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import psutil
import pytest

#: A test that swallows the exception gets it again after so many seconds.
_AGAIN = 5.0
_PY_SPY = Path(sysconfig.get_path("scripts")) / "py-spy"
_DUMP_SECONDS = 10


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Fail what runs inside once the limit is over. For the main thread alone: that is where signals arrive."""
    shown = False

    def over(_signal: int, _frame: FrameType | None) -> None:
        nonlocal shown
        if not shown:
            shown = True
            print(describe_threads(), describe_children(), sep="\n", file=sys.stderr)
        pytest.fail(f"over its time limit of {seconds:g} s; threads and children are on standard error", pytrace=True)

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def describe_threads() -> str:
    """Return the stacks of all threads of this process."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return f"== threads of the test process\n{file.read()}"


def describe_children() -> str:
    """Return, for every process below this one, its command, its state and, where it is Python, its stacks."""
    return "\n".join(_describe(child) for child in psutil.Process().children(recursive=True)) or "== no children"


def _describe(child: psutil.Process) -> str:
    try:
        with child.oneshot():
            head = f"== child {child.pid} of {child.ppid()}, {child.status()}: {' '.join(child.cmdline())}"
            python = "python" in child.name()
    except psutil.NoSuchProcess:
        return f"== child {child.pid} has ended"
    return f"{head}\n{_stacks(child.pid)}" if python else head


def _stacks(pid: int) -> str:
    """Return the stacks of another Python process, or why they cannot be seen (that takes the right to trace it)."""
    words = [str(_PY_SPY), "dump", "--nonblocking", "--pid", str(pid)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_DUMP_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"no stacks: {error}"
    return done.stdout or f"no stacks: {done.stderr.strip()}"
