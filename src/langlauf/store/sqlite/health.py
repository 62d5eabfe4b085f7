"""Problems of a file: not writable, full, removed while in use, damaged, on a network file system."""

import contextlib
import os
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import apsw

from langlauf.clock import monotonic
from langlauf.store.blobs.owner import StoreIdentity
from langlauf.store.health import StoreProblem
from langlauf.store.sqlite.transaction import Transaction

#: How long a starting program scans for damage before it serves; the rest is scanned in the background.
QUICK_SECONDS = 0.25
_LOWEST_PRIORITY = 19
#: Steps of SQLite's virtual machine between two checks of the deadline.
_STEPS = 20_000
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
#: Checked from the top: the first match counts.
_AILMENTS: tuple[tuple[tuple[type[apsw.Error], ...], StoreProblem], ...] = (
    ((apsw.CorruptError, apsw.NotADBError), StoreProblem.DAMAGED),
    ((apsw.FullError,), StoreProblem.FULL),
    ((apsw.ReadOnlyError, apsw.PermissionsError), StoreProblem.READ_ONLY),
    (
        (apsw.IOError, apsw.CantOpenError, apsw.BusyError, apsw.LockedError, apsw.ConnectionClosedError),
        StoreProblem.AWAY,
    ),
)


def problem_of(error: BaseException) -> StoreProblem | None:
    """Return the problem of the file behind an error of SQLite; None where the error concerns one statement alone."""
    if isinstance(error, apsw.Error) and getattr(error, "extendedresult", 0) == apsw.SQLITE_READONLY_DBMOVED:
        return StoreProblem.REMOVED
    return next((problem for kinds, problem in _AILMENTS if isinstance(error, kinds)), None)


def why_unwritable(path: str | Path) -> str | None:
    """Return why this program cannot write to a file or beside it; None where nothing forbids it."""
    file = Path(path).absolute()
    for one in (file, file.parent):
        if not one.exists():
            continue
        if os.statvfs(one).f_flag & os.ST_RDONLY:
            return f"{one} lies on a file system that is mounted read-only"
        if not os.access(one, os.W_OK):
            return f"the user {os.geteuid()} may not write to {one}"
    return None


class OpenedFile:
    """The identity of the file and its log when they were opened: another file may be moved to their paths."""

    def __init__(self, path: str) -> None:
        self._known = {one: _identity(one) for one in (path, f"{path}-wal")}

    def moved(self) -> str | None:
        """Return which of them is not there any more, or is another one; None where both are as they were."""
        for path, known in self._known.items():
            if known is not None and (found := _identity(path)) != known:
                return f"{path} was {'removed' if found is None else 'replaced'} while it was in use"
        return None


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - at every commit: without making a path
    except OSError:
        return None
    return found.st_dev, found.st_ino


def file_identity(path: str) -> StoreIdentity:
    """Return the identity of a file: by host and path, which a restore keeps, and by inode, for a renamed host."""
    file = Path(path).resolve()
    found = _identity(str(file))
    return StoreIdentity(f"{file} on {socket.gethostname()}", f"{file}#{0 if found is None else found[1]}")


def probe_write(tx: Transaction) -> None:
    """Write a row of some pages, which needs free space, and delete it before the commit."""
    tx.run("probe_write", now=tx.now)
    tx.run("probe_erase")


class DamageScan:
    """Scans for damage table by table, each in a read of its own, so that the log is not held for long."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._left: list[str] | None = None
        self._stopping = threading.Event()

    @property
    def finished(self) -> bool:
        """Whether every table was looked at."""
        return self._left == []

    def stop(self) -> None:
        """End a look that is under way."""
        self._stopping.set()

    def run(self, seconds: float | None = None) -> str | None:
        """Return the first damage that is found, None where there is none within that time."""
        deadline = None if seconds is None else monotonic() + seconds

        def over() -> bool:
            return self._stopping.is_set() or (deadline is not None and monotonic() >= deadline)

        connection = apsw.Connection(self._path, flags=apsw.SQLITE_OPEN_READONLY)
        connection.set_progress_handler(over, _STEPS)
        try:
            return self._check_tables(connection, over)
        except (apsw.CorruptError, apsw.NotADBError) as error:
            return str(error)
        except apsw.Error:
            return None  # out of time, or locked: nothing is known
        finally:
            connection.close()

    def _check_tables(self, connection: apsw.Connection, over: Callable[[], bool]) -> str | None:
        if self._left is None:
            self._left = [str(name) for (name,) in connection.execute(_TABLES)]
        while self._left and not over():
            lines = connection.execute(f'PRAGMA quick_check("{self._left[0]}")').fetchall()
            if lines and lines[0] != ("ok",):
                return " ".join(str(lines[0][0]).split())  # one line, as every message
            del self._left[0]
        return None


def scan_in_background(scan: DamageScan, found: Callable[[str], object]) -> threading.Thread:
    """Scan the remaining tables at the lowest priority, in a thread of its own."""

    def run() -> None:
        with contextlib.suppress(OSError, AttributeError):  # not every system has priorities of threads
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)
        damage = scan.run()
        if damage is not None:
            found(damage)

    thread = threading.Thread(target=run, name="langlauf-damage-scan", daemon=True)
    thread.start()
    return thread


_MOUNTS = Path("/proc/self/mounts")
_OCTAL = re.compile(r"\\([0-7]{3})")
#: File systems over a network, on which SQLite's log and locks cannot be relied on.
NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "ceph", "glusterfs", "lustre", "9p", "gpfs", "beegfs"}
)
#: File systems in user space that are remote.
_THROUGH_PROGRAM = ("fuse.sshfs", "fuse.s3fs", "fuse.glusterfs", "fuse.cephfs", "fuse.rclone", "fuse.gcsfuse")


def file_system_of(path: Path, mounts: str | None = None) -> str:
    """Return the kind of the file system, as the system calls it; `unknown` where the system does not say."""
    try:
        text = _MOUNTS.read_text("utf-8") if mounts is None else mounts
    except OSError:
        return "unknown"
    where, best, kind = path.absolute().resolve(), -1, "unknown"
    for line in text.splitlines():
        _, place, name, *_ = line.split(" ")
        folder = Path(_OCTAL.sub(lambda match: chr(int(match[1], 8)), place))
        # The last mount at a path hides the others.
        if where.is_relative_to(folder) and len(folder.parts) >= best:
            best, kind = len(folder.parts), name
    return kind


def over_network(kind: str) -> bool:
    """Whether such a file system is one over a network."""
    return kind in NETWORK or kind in _THROUGH_PROGRAM
