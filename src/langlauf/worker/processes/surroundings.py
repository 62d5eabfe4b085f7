"""What a function finds in its process, and finds again after another one: the next job may be of another org."""

import contextlib
import os
import signal
import sys
import threading
from typing import Any

_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


class Surroundings:
    """Everything of a process that a function may have changed, as far as it can be put back."""

    def __init__(self) -> None:
        self._folder = os.getcwd()  # noqa: PTH109 - a path object would be no nearer to what the system has
        self._environment = dict(os.environ)
        self._streams = (sys.stdout, sys.stderr)
        self._handlers = _handlers()
        self._threads = threading.active_count()

    def restore(self) -> bool:
        """Puts it back; False where something is left that cannot be: then the process is not used again."""
        try:
            for timer in _TIMERS:
                signal.setitimer(timer, 0)
            for number, handler in _handlers().items():
                if handler is not self._handlers[number]:
                    signal.signal(number, self._handlers[number])
            self._restore_streams()
            if dict(os.environ) != self._environment:
                os.environ.clear()
                os.environ.update(self._environment)
            os.chdir(self._folder)
        except (OSError, ValueError, TypeError):
            return False
        return threading.active_count() <= self._threads and not _has_children()

    def _restore_streams(self) -> None:
        """Also lets out what is still held back, which is the job's own."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # whatever the function put there
                stream.flush()
        sys.stdout, sys.stderr = self._streams
        sys.stdout.flush()
        sys.stderr.flush()


def _handlers() -> dict[int, Any]:
    """What is done at each signal."""
    return {number: signal.getsignal(number) for number in signal.valid_signals()}


def _has_children() -> bool:
    """Whether processes are left, orphans of theirs included."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
