"""The connections and threads of a SQLite store: one writer, one reader, one for long reads, one on the event loop.

Every write goes through one queue, with one transaction and one fsync per batch: the statements of a short one run on
the event loop, and a thread waits for the disk.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import apsw

from langlauf.clock import Clock, monotonic
from langlauf.domain.attempt import Claim, ClaimRequest
from langlauf.domain.errors import StoreError, StoreUnavailable, StoreUnhealthy
from langlauf.hints import Hints
from langlauf.store.commit_hints import announce, announce_batch
from langlauf.store.group_commit import BatchPace, GroupCommit, org_of, payload_length
from langlauf.store.health import StoreHealth, StoreProblem
from langlauf.store.retention import RetireBatch
from langlauf.store.shared_sql import shared_queries
from langlauf.store.sql import load_queries
from langlauf.store.sqlite.batch import Change, is_short, run_batch
from langlauf.store.sqlite.connection import (
    MEMORY,
    Checkpoints,
    LongReads,
    Patience,
    SteadyClock,
    cannot_open,
    migrate,
    open_connection,
)
from langlauf.store.sqlite.health import (
    QUICK_SECONDS,
    DamageScan,
    OpenedFile,
    probe_write,
    problem_of,
    scan_in_background,
)
from langlauf.store.sqlite.snapshot import refuse_unfinished
from langlauf.store.sqlite.transaction import Transaction
from langlauf.store.sqlite.writer_cache import WriterCache
from langlauf.store.standing_claims import StandingClaims
from langlauf.telemetry.log import LogEvent, log_event

T = TypeVar("T")
_log = logging.getLogger(__name__)
_FENCE = "attempt = :attempt AND lease_expires_at > :alive"

#: Above this size the write-ahead log is emptied while no reader runs; SQLite tries by itself long before.
LARGEST_LOG = 64 * 1024 * 1024
_COMMITS_BETWEEN_CHECKS = 64
#: The upper levels of the indexes, which every look-up by key needs.
_KEYED_CACHE_KIB = 8_192
#: Errors caused by one operation; every other error of SQLite means that the store is unavailable.
_REFUSED = (apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError, apsw.RangeError)

_FILES = tuple(
    f"{name}.sql" for name in ("writes", "reads", "lists", "retention", "admin", "overview", "deliveries", "schedules")
)


class Read(NamedTuple):
    """A read of one org, or of none."""

    org_id: str
    run: Callable[[apsw.Connection], Any]


class SqliteEngine:
    """Runs reads and batches of writes on one file. `:memory:` keeps nothing and has one connection for everything."""

    _writer: apsw.Connection
    _reader: apsw.Connection

    def __init__(self, path: str, *, clock: Clock, hints: Hints) -> None:
        self.path = path
        self.clock = clock
        own = load_queries("langlauf.store.sqlite", *_FILES)
        self._queries = {name: sql.replace("{fence}", _FENCE) for name, sql in own.items()} | shared_queries("sqlite")
        self._writer_thread = ThreadPoolExecutor(1, thread_name_prefix="langlauf-writer")
        in_memory = path == MEMORY
        self._reader_thread = self._writer_thread if in_memory else ThreadPoolExecutor(1, "langlauf-reader")
        self._long_reads = None if in_memory else LongReads(path)
        self._checkpoints = None if in_memory else Checkpoints(path)
        #: for a few rows by key; None where all share one connection
        self._keyed: apsw.Connection | None = None
        #: held while reads run; the writer takes it to empty the log
        self._no_reader = threading.RLock()
        self._patience = Patience()
        #: held while a task uses the connection for writes
        self._writing = asyncio.Lock()
        self._commits = 0
        self._cache = WriterCache()
        self._hints = hints
        self._standing = StandingClaims()
        #: what standing claims got from the batch that has just been committed
        self._handed: list[Claim] = []
        self._durable = True
        self.health = StoreHealth(self._probe, look=self._look, inspect=self._inspect)
        self._opened: OpenedFile | None = None
        self._damage_scan = DamageScan(path)
        self._scanning: threading.Thread | None = None
        # One thread writes and one reads, beside the event loop: while a batch runs, all other orgs wait.
        self._write_pace, self._read_pace = BatchPace(), BatchPace()
        self._writes: GroupCommit[Any, Any] = GroupCommit(
            self._commit,
            name="langlauf-writes",
            done=lambda done: announce_batch(hints, done, self._handed),
            pace=self._write_pace,
            size=payload_length,
            holder=org_of,
        )
        self._reads: GroupCommit[Read, Any] = GroupCommit(
            self._read_batch, name="langlauf-reads", pace=self._read_pace, holder=lambda read: read.org_id
        )

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._writer = self._reader = await loop.run_in_executor(self._writer_thread, self._open_writer)
            if self._long_reads is not None:
                self._reader = await loop.run_in_executor(self._reader_thread, open_connection, self.path)
                await self._long_reads.open()
                self._keyed = open_connection(self.path, waits=False)
                self._keyed.execute(f"PRAGMA cache_size = -{_KEYED_CACHE_KIB}")
                self._opened = OpenedFile(self.path)
        except BaseException:
            if self._long_reads is not None:
                self._long_reads.shut_down()
            self._writer_thread.shutdown(wait=False)
            self._reader_thread.shutdown(wait=False)
            raise

    def _open_writer(self) -> apsw.Connection:
        connection = open_connection(self.path)
        connection.set_busy_handler(self._patience)
        try:
            migrate(connection)
            refuse_unfinished(self.path, connection)
            if isinstance(self.clock, SteadyClock):
                self.clock.settle(connection)
        except apsw.Error as error:
            connection.close()
            raise cannot_open(self.path, error) from error
        if self._checkpoints is not None:
            self._checkpoints.observe(connection)
        return connection

    async def _close(self) -> None:
        await self._writes.finish()
        await self._reads.finish()
        self._damage_scan.stop()
        if self._scanning is not None:
            await asyncio.to_thread(self._scanning.join)
        loop = asyncio.get_running_loop()
        if self._long_reads is not None:
            await self._long_reads.close()
        if self._keyed is not None:
            self._keyed.close()
        if self._reader is not self._writer:
            await loop.run_in_executor(self._reader_thread, self._reader.close)
        if self._checkpoints is not None:
            await asyncio.to_thread(self._checkpoints.close)
        await loop.run_in_executor(self._writer_thread, self._writer.close)
        self._reader_thread.shutdown()
        self._writer_thread.shutdown()

    # -- health --------------------------------------------------------------------------------------------------------

    async def _probe(self) -> None:
        await self._writes.do(Change(probe_write))

    async def _look(self) -> None:
        """Report a file that was removed or replaced since it was opened. In a thread: a file system may hang."""
        with contextlib.suppress(StoreUnhealthy):
            await asyncio.get_running_loop().run_in_executor(self._reader_thread, self._refuse_replaced, 0)

    def _refuse_replaced(self, count: int) -> None:
        if self._opened is not None and (reason := self._opened.moved()) is not None:
            raise self.health.report(StoreProblem.REMOVED, reason, count=count)

    async def _inspect(self) -> None:
        """Look for damage: for a moment now, then at the remaining tables in the background."""
        if self.path == MEMORY:
            return
        damage = await asyncio.to_thread(self._damage_scan.run, QUICK_SECONDS)
        if damage is not None:
            raise self._damaged(damage)
        if not self._damage_scan.finished:
            self._scanning = scan_in_background(self._damage_scan, self._damaged)

    def _damaged(self, damage: str, count: int = 0) -> StoreUnhealthy:
        return self.health.report(StoreProblem.DAMAGED, f"the store {self.path} is damaged: {damage}", count=count)

    def _failed(self, error: apsw.Error, what: str, count: int) -> StoreUnavailable:
        """Return the error for so many failed operations, and report the problem of the file behind it, if any."""
        problem = problem_of(error)
        if problem is None:
            return StoreUnavailable(f"{what}: {error}")
        if problem is StoreProblem.DAMAGED:
            return self._damaged(str(error), count)
        return self.health.report(problem, f"{what}: {error}", count=count)

    # -- writes --------------------------------------------------------------------------------------------------------

    async def _commit(self, batch: Sequence[Any]) -> list[Any]:
        joining = self._standing.joining(batch)
        signals = self._hints.work_signals
        asked = [*batch, *(execution.request for execution in joining)]
        answers: list[Any] = [None] * len(asked)
        self._handed = []
        try:
            async with self._writing:
                answers = await self._write(asked)
        finally:
            for execution, claims in zip(joining, answers[len(batch) :], strict=True):
                made = claims if isinstance(claims, list) else []
                announce(self._hints, execution.request, made)
                self._handed += made
                emptied = bool(made) and self._none_waits(execution.request, made)
                execution.answer(made, emptied_at=signals if emptied else None)
        return answers[: len(batch)]

    def _none_waits(self, request: ClaimRequest, made: Sequence[Claim]) -> bool:
        """Whether a claim got all that it could have: a slot was left, and no limit kept a job from it."""
        limited = bool(request.limits) or request.max_running_org is not None
        cache = self._cache
        if limited or len(made) >= request.slots or cache.running is None or cache.running >= request.max_running:
            return False
        return cache.waiting == 0

    async def _write(self, batch: Sequence[Any]) -> list[Any]:
        """Run the statements of a short batch on the event loop, and wait for the disk in the thread.

        Each statement releases the interpreter lock. In a thread it then has to win the lock back from a busy event
        loop, which takes several times as long as the statement itself.
        """
        loop = asyncio.get_running_loop()
        if self._keyed is not None and is_short(batch):
            try:
                answers = self._run_statements(batch, waits=False)
                await loop.run_in_executor(self._writer_thread, self._finish, len(batch))
            except StoreUnavailable as error:
                return [error] * len(batch)
            except Exception as error:  # noqa: BLE001 - the thread can wait for another process, and finds what failed
                _log.debug("a batch is run again in the thread: %s", error)
            else:
                return answers
        return await loop.run_in_executor(self._writer_thread, self._run_batch, batch)

    def _run_batch(self, batch: Sequence[Any]) -> list[Any]:
        try:
            answers = self._run_statements(batch)
            self._finish(len(batch))
        except StoreUnavailable as error:
            return [error] * len(batch)
        except Exception as error:  # noqa: BLE001 - any error of one operation, which must not fail its neighbours
            if len(batch) == 1:
                _log.exception("a write failed")
                return [StoreError(f"the write was refused: {error}")]
        else:
            return answers
        # One operation fails the transaction of all: the batch is bisected, so that its neighbours get their answers.
        middle = len(batch) // 2
        return self._run_batch(batch[:middle]) + self._run_batch(batch[middle:])

    def _run_statements(self, batch: Sequence[Any], *, waits: bool = True) -> list[Any]:
        """Run a batch up to its commit; without `waits`, raise `BusyError` where another process writes."""
        connection = self._writer
        if self.health.damaged:
            raise self._damaged("nothing more is written over it", len(batch))
        try:
            self._synchronise(durable=not all(isinstance(operation, RetireBatch) for operation in batch))
            self._patience.waits = waits
            connection.execute("BEGIN IMMEDIATE")
            self._patience.waits = True
            if self._cache.follow(connection) and isinstance(self.clock, SteadyClock):
                self.clock.follow(connection)
            # Time of the processor: a machine that is busy with something else makes no operation slow.
            began = time.thread_time()
            answers = run_batch(Transaction(connection, self._queries, self.clock.now(), self._cache), batch)
            self._write_pace.observe(len(batch), time.thread_time() - began)
        except BaseException as error:
            self._abandon(error, len(batch), busy=not waits)
            raise
        return answers

    def _finish(self, count: int) -> None:
        """Commit the batch, and wait for the disk."""
        try:
            self._refuse_replaced(count)
            self._writer.execute("COMMIT")
            self._cache.committed(self._writer)
            self._commits += 1
        except BaseException as error:
            self._abandon(error, count)
            raise
        self._refuse_replaced(count)  # a file replaced meanwhile does not hold what was just written
        if self._commits % _COMMITS_BETWEEN_CHECKS == 0:
            self._bound_log()

    def _abandon(self, error: BaseException, count: int, *, busy: bool = False) -> None:
        """Roll a batch back; raise `StoreUnavailable` where the store failed and not an operation."""
        locked = busy and isinstance(error, apsw.BusyError)
        if locked and not self._writer.in_transaction:
            return  # another process writes, and nothing was begun
        self._cache.forget()
        if self._writer.in_transaction:
            with contextlib.suppress(apsw.Error):
                self._writer.execute("ROLLBACK")
        if isinstance(error, apsw.Error) and not locked and not isinstance(error, _REFUSED):
            raise self._failed(error, "the store did not take the write", count) from error

    def _synchronise(self, *, durable: bool) -> None:
        """Set whether a commit waits for the disk, before a transaction begins.

        Rows that retention removed may come back after a power cut and are removed again, so no commit waits for them.
        The next durable write syncs the log up to its own end.
        """
        if durable != self._durable:
            self._writer.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._durable = durable

    def _bound_log(self) -> None:
        """Empty a large write-ahead log: overlapping readers may have left SQLite no moment to do so."""
        log = Path(f"{self.path}-wal")
        try:
            if self._long_reads is None or not log.exists() or log.stat().st_size < LARGEST_LOG:
                return
            with self._no_reader, self._long_reads.no_reader:
                self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except (apsw.Error, OSError):
            # The batch is committed: it must neither be reported as failed nor run again.
            _log.warning(
                "the write-ahead log could not be emptied; it is tried again after the next commits", exc_info=True
            )

    async def _correct_clock(self) -> None:
        """Move the store's clock forward to the wall clock where that is ahead and no job runs."""
        if isinstance(self.clock, SteadyClock) and self.clock.slow:
            loop = asyncio.get_running_loop()
            async with self._writing:
                seconds = await loop.run_in_executor(self._writer_thread, self._settle, self.clock)
            if seconds:
                log_event(LogEvent.CLOCK_CORRECTED, seconds=round(seconds, 3))

    def _settle(self, clock: SteadyClock) -> float:
        try:
            return clock.settle(self._writer)
        except apsw.Error as error:
            raise StoreUnavailable(f"the store did not take the correction of its clock: {error}") from error

    # -- reads ---------------------------------------------------------------------------------------------------------

    def _read(self, read: Callable[[apsw.Connection], T], org_id: str = "", /) -> Awaitable[T]:
        return cast("Awaitable[T]", self._reads.do(Read(org_id, read)))

    async def _read_keyed(self, read: Callable[[apsw.Connection], T], org_id: str = "", /) -> T:
        """Read a few rows by key, on the event loop: that takes less time than waking a thread.

        It waits for no other read, however many there are, and a reader never waits for a writer.
        """
        keyed = self._keyed
        if keyed is None:
            return await self._read(read, org_id)
        try:
            keyed.execute("BEGIN")
            try:
                return read(keyed)
            finally:
                keyed.execute("COMMIT")
        except apsw.BusyError:  # another process recovers the log: a thread can wait for that
            return await self._read(read, org_id)
        except apsw.Error as error:
            raise self._failed(error, "the store did not answer", 1) from error

    async def _read_batch(self, batch: Sequence[Read]) -> list[Any]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._reader_thread, self._run_reads, batch)

    def _run_reads(self, batch: Sequence[Read]) -> list[Any]:
        """Run the waiting reads on one snapshot, and release it at once so that the log can be reset."""
        try:
            with self._no_reader:
                return self._run_reads_alone(batch)
        except apsw.Error as error:  # not of one read, but of the transaction around all
            raise self._failed(error, "the store cannot be read", len(batch)) from error

    def _run_reads_alone(self, batch: Sequence[Read]) -> list[Any]:
        answers: list[Any] = []
        connection = self._reader
        began = monotonic()
        connection.execute("BEGIN")
        try:
            for read in batch:
                try:
                    answers.append(read.run(connection))
                except apsw.Error as error:
                    answers.append(self._failed(error, "the store did not answer", 1))
                except Exception as error:  # noqa: BLE001 - the answer to this one caller
                    answers.append(error)
        finally:
            connection.execute("COMMIT")
        self._read_pace.observe(len(batch), monotonic() - began)
        return answers
