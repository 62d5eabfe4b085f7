"""Progress on standard error, a line each."""

import sys
import time

_began = time.monotonic()
_PAUSE_SECONDS = 10.0


def elapsed() -> float:
    """Return the seconds since the start of this process."""
    return time.monotonic() - _began


def print_progress(words: str) -> None:
    """Print a line with the seconds since the start of this process."""
    print(f"{elapsed():7.1f} s  {words}", file=sys.stderr, flush=True)


class ProgressPrinter:
    """Called with the steps done and in all; prints them every few seconds."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._printed_at = elapsed()

    def __call__(self, done: int, total: int) -> None:
        if elapsed() - self._printed_at > _PAUSE_SECONDS:
            self._printed_at = elapsed()
            print_progress(f"{self._name}: {done} of {total}")
