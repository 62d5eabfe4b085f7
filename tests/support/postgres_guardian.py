"""A folder whose server does not outlive the process that created it, however that process ends.

The process holds a lock on a file in the folder. A guardian process waits for that lock: when it gets it, the holder
has released it or is dead. It then stops the server and removes the folder. This file is also the guardian's program,
so it only imports the standard library.
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

#: Seconds after which a server that ignores the stop is killed.
PATIENCE = 10.0


class Guarded:
    """A folder for one server, which lives until `end()` or until this process ends."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="langlauf-postgres-", dir=_reachable()))
        self.folder.chmod(0o755)  # the server may run as another user
        self._alive = (self.folder / "alive").open("w")
        fcntl.lockf(self._alive, fcntl.LOCK_EX)  # this kind is not inherited by forked children

    def end(self) -> None:
        """Let the guardian stop the server, and wait for it."""
        with (self.folder / "guardian").open("w") as guardian:
            self._alive.close()
            fcntl.flock(guardian, fcntl.LOCK_EX)
        shutil.rmtree(self.folder, ignore_errors=True)


def guard(folder: Path) -> "subprocess.Popen[bytes]":
    """Start the guardian of a folder; it outlives this process.

    It holds the lock `guardian` from its start to its end.
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
    """Return the data folder of the server in a folder."""
    return folder / "server" / "data"


def pid_of(folder: Path) -> int | None:
    """Return the pid of the server in a folder, or None."""
    data = data_of(folder)
    try:
        pid = int((data / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[0])
        return pid if Path(f"/proc/{pid}/cwd").readlink() == data else None
    except (OSError, ValueError):
        return None


def _reachable() -> Path:
    """Return a temporary folder that other users can reach."""
    usual = Path(tempfile.gettempdir()).resolve()
    closed = os.geteuid() == 0 and any(not place.stat().st_mode & 0o001 for place in (usual, *usual.parents))
    return Path("/tmp") if closed else usual  # noqa: S108  # the folder made in it has a random name


def processes_in(data: Path) -> set[int]:
    """Return all processes of a server, which work in its data folder, also orphaned ones."""
    found = set[int]()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended, or belongs to another user
            if (process / "cwd").readlink() == data:
                found.add(int(process.name))
    return found


def _end_server(folder: Path) -> None:
    """Stop the server at once, also a paused one."""
    deadline = time.monotonic() + PATIENCE
    while pids := processes_in(data_of(folder)):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGQUIT if time.monotonic() < deadline else signal.SIGKILL)
                os.kill(pid, signal.SIGCONT)
        time.sleep(0.02)  # a process that is no child gives no notice when it ends


def _main(folder: Path) -> None:
    with (folder / "alive").open("w") as alive:
        fcntl.lockf(alive, fcntl.LOCK_EX)
    _end_server(folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
