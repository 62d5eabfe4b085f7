"""Looking at processes from outside."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended but was not waited for does not."""
    return state(pid) not in ("", "Z")


def parent(pid: int) -> int:
    """Whose child a process is."""
    return int(_status(pid)[1])


def state(pid: int) -> str:
    """What the system says it does: R, S, T, Z …; nothing where it is gone."""
    return (_status(pid) or [""])[0]


def _status(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def eventually(look: Callable[[], T], seconds: float = 60) -> T:
    """Return what `look` gives as soon as that is true; fail after the limit.

    For what gives no signal: files, processes and servers of others. The limit is for a busy machine: where a time is
    promised, pass it.
    """
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"it was not so within {seconds:g} s"
        time.sleep(0.01)
    return found
