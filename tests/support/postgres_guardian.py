"""A folder whose server does not outlive the process that made it, however that process ends.

The process holds a lock on a file in the folder. A guardian, a small process of its own, waits for that lock: when it
gets it, the holder has let go or is dead. It then ends the server and removes the folder. This file is also the
guardian's program, so it imports nothing but the standard library.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: Seconds after which a server that ignores the order to end is killed.
PATIENCE = 10.0


class Guarded:
    """A folder for one server, and the life of that server: until `end()`, or until this process is no more."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="langlauf-postgres-", dir=_reachable()))
        self.folder.chmod(0o755)  # the server may run as another user
        self._alive = (self.folder / "alive").open("w")
        fcntl.lockf(self._alive, fcntl.LOCK_EX)  # this kind is not shared with children that are forked off

    def end(self) -> None:
        """Lets the guardian end the server, and waits until it has; nothing is left."""
        with (self.folder / "guardian").open("w") as guardian:
            self._alive.close()
            fcntl.flock(guardian, fcntl.LOCK_EX)
        shutil.rmtree(self.folder, ignore_errors=True)


def guard(folder: Path) -> "subprocess.Popen[bytes]":
    """Starts the guardian of a folder; any process may, and it goes on when that process ends.

    It holds the lock `guardian` from its first moment to its last.
    """
    with (folder / "guardian").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return subprocess.Popen(
            [sys.executable, "-IS", __file__, str(folder)],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(lock.fileno(),),
            start_new_session=True,
        )


def data_of(folder: Path) -> Path:
    """Where the server in a folder has its data."""
    return folder / "server" / "data"


def pid_of(folder: Path) -> int | None:
    """The process of the server in a folder; None where none runs."""
    data = data_of(folder)
    try:
        pid = int((data / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[0])
        return pid if Path(f"/proc/{pid}/cwd").readlink() == data else None
    except (OSError, ValueError):
        return None


def _reachable() -> Path:
    """A folder for temporary files that other users can reach into as well."""
    usual = Path(tempfile.gettempdir()).resolve()
    closed = os.geteuid() == 0 and any(not place.stat().st_mode & 0o001 for place in (usual, *usual.parents))
    return Path("/tmp") if closed else usual  # noqa: S108  # the folder made in it has a random name


def processes_in(data: Path) -> set[int]:
    """All processes of a server: each works in its data folder. Those that the first one has left behind count, too."""
    found = set[int]()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended just now, or belongs to somebody else
            if (process / "cwd").readlink() == data:
                found.add(int(process.name))
    return found


def _end_server(folder: Path) -> None:
    """Ends the server at once, also one that is paused."""
    deadline = time.monotonic() + PATIENCE
    while pids := processes_in(data_of(folder)):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGQUIT if time.monotonic() < deadline else signal.SIGKILL)
                os.kill(pid, signal.SIGCONT)
        time.sleep(0.02)  # a process of others gives no sign when it ends


def _main(folder: Path) -> None:
    with (folder / "alive").open("w") as alive:
        fcntl.lockf(alive, fcntl.LOCK_EX)
    _end_server(folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
