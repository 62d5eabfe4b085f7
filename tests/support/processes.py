"""Looking at processes from outside."""

import time
from collections.abc import Callable
from pathlib import Path


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


def wait_until(reached: Callable[[], bool], seconds: float = 60) -> None:
    """Looks again and again at what gives no signal: files and processes of others."""
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.01)
