"""Progress on standard error, a line each."""

import sys
import time

_began = time.monotonic()
_PAUSE_SECONDS = 10.0


def elapsed() -> float:
    """Return the seconds since the start of this process."""
    return time.monotonic() - _began


def say(words: str) -> None:
    """Print a line with the seconds since the start of this process."""
    print(f"{elapsed():7.1f} s  {words}", file=sys.stderr, flush=True)


class Watch:
    """Is told steps done and steps in all, and says it every few seconds."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._said = elapsed()

    def __call__(self, done: int, total: int) -> None:
        if elapsed() - self._said > _PAUSE_SECONDS:
            self._said = elapsed()
            say(f"{self._name}: {done} of {total}")
