"""Connections to the file, configured for durability, the migrations of its schema, and the clock of the store."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast
from urllib.parse import quote

import apsw

from langlauf.clock import TimeSource, machine_time, monotonic
from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.instant import SECOND, Instant
from langlauf.store.health import PROBLEM_TEXTS, StoreProblem
from langlauf.store.sql import load_queries, migrations_in, pending_migrations
from langlauf.store.sqlite.health import problem_of, why_unwritable

T = TypeVar("T")
MEMORY = ":memory:"
#: Below this, resetting a write-ahead log while another connection checkpoints can corrupt the file.
OLDEST_SAFE_SQLITE = (3, 51, 3)
#: How long a connection waits for another process that locks the file. A batch behind one that timed out waits as
#: long again: so a request is refused within ten seconds.
BUSY_MILLISECONDS = 4_000
#: Between two tries. SQLite's own handler waits up to 100 ms, and a process that writes batch after batch is then
#: always first: between two commits there is about a millisecond.
_RETRY_SECONDS = 0.0005
_WAL_BYTES_KEPT = 64 * 1024 * 1024
#: Pages of the file that a connection keeps at most.
CACHE_KIB = 65_536
#: Pages of the log between two checkpoints, and from how many on the writer itself does one.
CHECKPOINT_PAGES = 1_000
_PAGES_OF_WRITER = 8_000
#: Slots for prepared statements, as many as the driver has. It gives each execution the next slot, and drops what was
#: there: a statement that runs for many rows evicts the others.
_STATEMENTS_KEPT = 512


class Patience:
    """Busy handler of one connection: tries again at short intervals until the time is up."""

    def __init__(self) -> None:
        self._until = 0.0
        #: whether it waits at all
        self.waits = True

    def __call__(self, tries: int) -> bool:
        if not self.waits:
            return False
        now = monotonic()
        if not tries:
            self._until = now + BUSY_MILLISECONDS / 1_000
        time.sleep(_RETRY_SECONDS)
        return now < self._until


def open_connection(path: str, *, read_only: bool = False, waits: bool = True) -> apsw.Connection:
    """Return a connection with write-ahead log and full sync: a commit that returned survives a power cut.

    Without `waits` a file that another process has locked is an error at once.
    """
    if tuple(map(int, apsw.sqlite_lib_version().split("."))) < OLDEST_SAFE_SQLITE:
        raise StoreUnavailable(f"SQLite {apsw.sqlite_lib_version()} can corrupt its log: update the package apsw")
    try:
        if path != MEMORY and not read_only:
            _make_private(Path(path))
        connection = _connect(path, read_only=read_only)
        if waits:
            connection.set_busy_handler(Patience())
        # Without this guarantee SQLite plans many statements again at every execution, for the bound values.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        if not read_only:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
        connection.execute("PRAGMA temp_store = MEMORY")
    except (apsw.Error, OSError) as error:
        raise cannot_open(path, error) from error
    return connection


def _connect(path: str, *, read_only: bool) -> apsw.Connection:
    if read_only and _lies_alone(path):
        return open_untouched(Path(path))
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    return apsw.Connection(path, flags=flags, statementcachesize=_STATEMENTS_KEPT)


def open_untouched(file: Path) -> apsw.Connection:
    """Open a file that is not being written, without creating files beside it. Its log is not read."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return apsw.Connection(f"file:{quote(str(file.absolute()))}?immutable=1", flags=flags)


def _lies_alone(path: str) -> bool:
    """Whether a file can only be read as it is: SQLite could not create the shared memory that a log needs."""
    return path != MEMORY and not Path(f"{path}-shm").exists() and why_unwritable(path) is not None


def unseen_log(path: str) -> str | None:
    """Return what a reader of the file misses because nothing can be written beside it; None where it sees all."""
    log = Path(f"{path}-wal")
    if not _lies_alone(path) or not log.exists() or not log.stat().st_size:
        return None
    return (
        f"{log} could not be read, because nothing can be written beside it: the {log.stat().st_size} bytes of commits "
        "in it were not seen; copy the file and its log to a folder that can be written, and look there"
    )


def cannot_open(path: str, error: apsw.Error | OSError) -> StoreUnavailable:
    """Return the error for a file that cannot be opened, with the remedy where one is known."""
    problem = problem_of(error)
    unwritable = None if path == MEMORY or problem is StoreProblem.DAMAGED else why_unwritable(path)
    if unwritable is not None:
        return StoreUnavailable(
            f"the store {path} cannot be opened: {unwritable}: {PROBLEM_TEXTS[StoreProblem.READ_ONLY].remedy}"
        )
    remedy = "" if problem is None or problem is StoreProblem.AWAY else f": {PROBLEM_TEXTS[problem].remedy}"
    return StoreUnavailable(f"the store {path} cannot be opened: {error}{remedy}")


def _make_private(path: Path) -> None:
    """Create the file readable by its owner alone, since it holds tenants' data."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600, exist_ok=True)


def applied_migrations(connection: apsw.Connection) -> int:
    """Return how many migrations the file has."""
    return int(connection.pragma("user_version"))


def migrate(connection: apsw.Connection) -> list[str]:
    """Apply missing migrations, each with its number in one transaction; return their names."""
    known = migrations_in("langlauf.store.sqlite")
    done = []
    for step in pending_migrations(known, applied_migrations(connection)):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have been faster while this one waited for the lock.
            if applied_migrations(connection) < step.number:
                connection.execute(step.sql)
                connection.execute(f"PRAGMA user_version = {step.number}")
                done.append(f"{step.number:04d}_{step.name}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    return done


class Checkpoints:
    """Copies the write-ahead log into the file, in a thread of its own: a commit that did so would hold up all writes.

    The log begins anew only where all of it was copied and nothing was written meanwhile. Under constant load that
    never happens by itself, so that the writer does the last part at times.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, "langlauf-checkpoints")
        #: pages of the log, and at how many the next checkpoint begins
        self._pages, self._next = 0, CHECKPOINT_PAGES

    _connection: apsw.Connection

    def observe(self, writer: apsw.Connection) -> None:
        """Checkpoint from now on what this connection writes."""
        self._connection = open_connection(self._path)
        writer.set_wal_hook(self._committed)

    def _committed(self, writer: apsw.Connection, _: str, pages: int) -> int:
        if pages < self._pages:  # the log has begun anew
            self._next = CHECKPOINT_PAGES
        self._pages = pages
        if pages >= self._next:
            self._next = pages + CHECKPOINT_PAGES
            if pages < _PAGES_OF_WRITER:
                self._thread.submit(_checkpoint, self._connection)
            else:
                _checkpoint(writer)
        return apsw.SQLITE_OK

    def close(self) -> None:
        """Finish the checkpoint under way, and close the connection."""
        self._thread.shutdown()
        self._connection.close()


def _checkpoint(connection: apsw.Connection) -> None:
    """Copy what no reader needs as it was; what fails is tried again after the next pages."""
    with contextlib.suppress(apsw.Error):
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


class LongReads:
    """Slow reads on a connection and a thread of their own, so that short reads do not queue behind them."""

    def __init__(self, path: str, name: str = "langlauf-long-reader", *, cache_kib: int = CACHE_KIB) -> None:
        self._path = path
        self._cache_kib = cache_kib
        self._thread = ThreadPoolExecutor(1, name)
        #: held while one runs; the writer takes it to empty the log
        self.no_reader = threading.RLock()
        self._connection: apsw.Connection | None = None

    async def open(self) -> None:
        """Open the connection together with the store, so that the first read does not wait for it."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._open)

    def _open(self) -> apsw.Connection:
        if self._connection is None:
            self._connection = open_connection(self._path)
            self._connection.execute(f"PRAGMA cache_size = -{self._cache_kib}")
        return self._connection

    async def run(self, read: Callable[[apsw.Connection], T], /) -> T:
        """Run a function on the connection, on a snapshot of its own."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, read)

    def _run(self, read: Callable[[apsw.Connection], T]) -> T:
        try:
            connection = self._open()
            with self.no_reader:
                connection.execute("BEGIN")
                try:
                    return read(connection)
                finally:
                    connection.execute("COMMIT")
        except apsw.Error as error:
            raise StoreUnavailable(f"the store cannot be read: {error}") from error

    async def close(self) -> None:
        """Close the connection after the reads under way."""
        if self._connection is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
        self.shut_down()

    def shut_down(self) -> None:
        """End the thread, also where the connection could not be opened."""
        self._thread.shutdown(wait=False)


class RunRead(Protocol):
    """Runs a function on the connection for reads."""

    def __call__(self, read: Callable[[apsw.Connection], T], /) -> Awaitable[T]: ...


# -- clock -------------------------------------------------------------------------------------------------------------
# A wall clock is set by people and programs. A step forward would lose every lease, with a step back none would
# end. So the time of a store is the time since boot, which cannot be set, plus a shift. The first process
# that opens the store after a boot fixes the shift by its wall clock; the store keeps it, and every
# process of the same boot uses it, whatever the wall clock did meanwhile.
#
# Where the wall clock has moved ahead, the store follows it while no lease is live. Where it has moved back, the
# store stays ahead until the next boot.

#: How far the wall clock may be ahead before the store's clock follows it.
CLOCK_TOLERANCE = 2 * SECOND


def settled(shift: int | None, *, since_boot: Instant, wall: Instant, newest: Instant, busy: bool) -> int:
    """Return the shift to use: the stored one, if any, moved forward where that is due and no lease is live."""
    if shift is None:
        return max(wall, newest) - since_boot
    shift = max(shift, newest - since_boot)
    ahead = wall - (since_boot + shift)
    return shift + ahead if ahead > CLOCK_TOLERANCE and not busy else shift


class SteadyClock:
    """The time of one store. It must be settled before its first use."""

    def __init__(self, source: TimeSource) -> None:
        self._source = source
        self._shift = 0

    def now(self) -> Instant:
        """Microseconds since 1970 in UTC, by the store's own reckoning."""
        return self._source.since_boot() + self._shift

    @property
    def slow(self) -> bool:
        """Whether the wall clock has moved ahead."""
        return self._source.wall() - self.now() > CLOCK_TOLERANCE

    def follow(self, connection: apsw.Connection) -> None:
        """Read the stored shift inside a write, since another process may have moved it."""
        kept = self._kept(connection)
        if kept is not None:
            self._shift = kept

    def settle(self, connection: apsw.Connection) -> float:
        """Fix the shift, or move it forward where that is due; return by how many seconds it moved."""
        kept = self._kept(connection)
        if kept is not None and self._settled(connection, kept) == kept:
            self._shift = kept
            return 0.0
        connection.execute("BEGIN IMMEDIATE")
        try:
            kept = self._kept(connection)  # another process may have been faster
            self._shift = self._settled(connection, kept)
            connection.execute(_clock_queries()["clock_set"], {"boot_id": self._source.boot_id, "shift": self._shift})
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return 0.0 if kept is None else (self._shift - kept) / SECOND

    def look(self, connection: apsw.Connection) -> Instant:
        """Return the time of a store that is only read: nothing is fixed or moved."""
        kept = self._kept(connection)
        self._shift = self._settled(connection, None) if kept is None else kept
        return self.now()

    def _kept(self, connection: apsw.Connection) -> int | None:
        shift: Any = connection.execute(_clock_queries()["clock_shift"], {"boot_id": self._source.boot_id}).get
        return cast("int | None", shift)

    def _settled(self, connection: apsw.Connection, kept: int | None) -> int:
        newest: Any = connection.execute(_clock_queries()["clock_newest"]).get
        since_boot, wall = self._source.since_boot(), self._source.wall()
        busy: Any = connection.execute(_clock_queries()["clock_busy"], {"now": since_boot + (kept or 0)}).get
        return settled(kept, since_boot=since_boot, wall=wall, newest=newest, busy=bool(busy))


def clock_of(connection: apsw.Connection) -> SteadyClock:
    """Return the settled clock of an open store: due work must not wait for a wall clock that is ahead."""
    clock = SteadyClock(machine_time())
    clock.settle(connection)
    return clock


@cache
def _clock_queries() -> dict[str, str]:
    return load_queries("langlauf.store.sqlite", "clock.sql")
