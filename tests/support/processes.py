"""Processes seen from outside, and signals to them."""

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw

T = TypeVar("T")


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended but was not waited for does not."""
    return state(pid) not in ("", "Z")


def parent(pid: int) -> int:
    """Whose child a process is."""
    return int(_status(pid)[1])


def worker_processes(pid: int) -> list[int]:
    """The worker processes of a program that serves or works."""
    return [child for child in _children(pid) if "langlauf.cli.worker_process" in _command(child)]


def _children(pid: int) -> list[int]:
    return [int(child) for child in _read(f"/proc/{pid}/task/{pid}/children").split()]


def _command(pid: int) -> list[str]:
    return _read(f"/proc/{pid}/cmdline").split("\0")


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def state(pid: int) -> str:
    """What the system says it does: R, S, T, Z …; nothing where it is gone."""
    return (_status(pid) or [""])[0]


def stopped(pid: int) -> bool:
    """Whether every thread of it is paused. A signal to stop reaches one of them first, and the others go on."""
    return all(
        _read(f"{thread}/stat").rpartition(")")[2].split()[0] == "T" for thread in Path(f"/proc/{pid}/task").iterdir()
    )


def _status(pid: int) -> list[str]:
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def eventually(look: Callable[[], T | None], seconds: float = 60) -> T:
    """Return what `look` gives as soon as that is true; fail after the limit.

    For what gives no signal: files, processes and servers of others. The limit is for a busy machine: where a time is
    promised, pass it.
    """
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"it was not so within {seconds:g} s"
        time.sleep(0.01)
    return found


def signal_without_lock(process: subprocess.Popen[str], how: signal.Signals, store: Path) -> None:
    """Pause or kill a process while it does not hold the write lock of the store, which a paused one would keep."""
    connection = apsw.Connection(str(store))
    connection.set_busy_timeout(60_000)
    connection.execute("BEGIN IMMEDIATE")
    process.send_signal(how)
    eventually(lambda: state(process.pid) in "TZ")
    connection.close()
