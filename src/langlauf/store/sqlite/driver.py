"""The SQLite store: every write goes through one queue to one thread, one transaction and one fsync per batch."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar, cast

import apsw

from langlauf.clock import Clock, TimeSource, machine_time, monotonic
from langlauf.domain.attempt import Backoff, Claim, ClaimBatch, ClaimRequest, Lease, LeaseRenewal, Write, WriteResult
from langlauf.domain.errors import Overloaded, StoreError, StoreUnavailable, StoreUnhealthy
from langlauf.domain.eta import QueueLoad
from langlauf.domain.instant import Instant
from langlauf.domain.job import NewJob, SubmitOutcome
from langlauf.domain.overview import Backlog, Overview, StoreUsage
from langlauf.domain.read_models import CancelRequest, JobFingerprint, JobView, MarkRead, QueueDepth, SweptJob
from langlauf.domain.result import ReferencedPayloads
from langlauf.domain.retention import HoldRequest, ResultGone, RetentionPolicy, RetentionReport
from langlauf.hints import Hints
from langlauf.store.blobs.large import LargePayloads
from langlauf.store.blobs.owner import StoreIdentity
from langlauf.store.commit_hints import announce
from langlauf.store.group_commit import MOST_WAITING, GroupCommit, Recording, letters_of, org_of
from langlauf.store.health import StoreHealth, StoreProblem
from langlauf.store.migrate import migrations_in
from langlauf.store.protocol import TenantReads
from langlauf.store.queries import load
from langlauf.store.retention import RetireBatch, retire
from langlauf.store.rows import json_text
from langlauf.store.sqlite import admin, claim, deliveries, health, overview, retention, sweep
from langlauf.store.sqlite.batch import Change, run_batch
from langlauf.store.sqlite.clock import SteadyClock
from langlauf.store.sqlite.connection import MEMORY, applied_migrations, cannot_open, migrate, open_connection
from langlauf.store.sqlite.long_reads import LongReads
from langlauf.store.sqlite.reads import SqliteTenantReads
from langlauf.store.sqlite.snapshot import refuse_unfinished
from langlauf.store.sqlite.transaction import Row, Transaction
from langlauf.store.sqlite.writer_cache import WriterCache
from langlauf.store.standing_claims import StandingClaims
from langlauf.telemetry.log import LogEvent, log_event

T = TypeVar("T")


class Read(NamedTuple):
    """A read of one org, or of none."""

    org_id: str
    run: Callable[[apsw.Connection], Any]


_log = logging.getLogger(__name__)
_FENCE = "attempt = :attempt AND lease_expires_at > :alive"

#: Over this the log is emptied at a moment without readers; SQLite tries by itself long before.
LARGEST_LOG = 64 * 1024 * 1024
_COMMITS_BETWEEN_LOOKS = 64
#: With so many pages in the log a writer takes them over into the file: as usual, and while retention does it instead.
_PAGES, _PAGES_MEANWHILE = 1_000, 8_000
_JOBS_AT_ONCE = 1_000
#: Rows that are looked up in less time than a thread takes to wake.
_FEW = 32
#: Errors that one operation brought upon itself; every other one of SQLite's means that the store is away.
_REFUSED = (apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError, apsw.RangeError)

_FILES = ("writes.sql", "reads.sql", "lists.sql", "retention.sql", "admin.sql", "overview.sql", "deliveries.sql")


class SqliteStore:
    """Durable truth in one file. `:memory:` keeps nothing after exit and has one connection for everything."""

    def __init__(self, path: str, *, clock: Clock, hints: Hints) -> None:
        self.path = path
        self.clock = clock
        self._queries = {
            name: sql.replace("{fence}", _FENCE) for name, sql in load("langlauf.store.sqlite", *_FILES).items()
        }
        self._writer_thread = ThreadPoolExecutor(1, thread_name_prefix="langlauf-writer")
        in_memory = path == MEMORY
        self._reader_thread = self._writer_thread if in_memory else ThreadPoolExecutor(1, "langlauf-reader")
        self._long_reads = None if in_memory else LongReads(path)
        #: held while reads run; the writer takes it to empty the log
        self._no_reader = threading.RLock()
        self._commits = 0
        self._memory = WriterCache()
        self._hints = hints
        self._standing = StandingClaims()
        self._durably = True
        self.health = StoreHealth(self._probe, look=self._look, inspect=self._inspect)
        self._opened: health.OpenedFile | None = None
        self._inspection = health.Inspection(path)
        self._inspecting: threading.Thread | None = None
        self._writes: GroupCommit[Any, Any] = GroupCommit(
            self._commit, name="langlauf-writes", done=partial(announce, hints), size=letters_of, holder=org_of
        )
        self._reads: GroupCommit[Read, Any] = GroupCommit(
            self._read_batch, name="langlauf-reads", holder=lambda read: read.org_id
        )
        self.access = admin.SqliteAccess(self._read, self._writes.do, self._queries)
        self.orgs = admin.SqliteOrgs(self._read, self._writes.do_later, self._queries)
        self.workers = admin.SqliteWorkers(self._read, self._writes.do, self._queries)
        self.deliveries = deliveries.SqliteDeliveries(self._read, self._writes.do, self._queries, clock.now)
        self.mail = deliveries.SqliteMail(self._read, self._writes.do, self._queries)
        self.duties = admin.SqliteDuties(self._read, self._writes.do, self._queries)
        self.blobs = LargePayloads(self)

    @classmethod
    async def open(cls, path: str, *, hints: Hints, clock: Clock | None = None, time: TimeSource | None = None) -> Self:
        """Opens the file, creates it where it is missing and brings its schema up to date.

        A clock that is given is used as it is; else the store has its own, made from the time of the machine.
        """
        store = cls(path, clock=clock or SteadyClock(time or machine_time()), hints=hints)
        loop = asyncio.get_running_loop()
        try:
            store._writer = await loop.run_in_executor(store._writer_thread, store._open_writer)
            store._reader = (
                store._writer
                if path == MEMORY
                else await loop.run_in_executor(store._reader_thread, open_connection, path)
            )
            if store._long_reads is not None:
                await store._long_reads.open()
            if path != MEMORY:
                store._opened = health.OpenedFile(path)
        except BaseException:
            if store._long_reads is not None:
                store._long_reads.shut()
            store._writer_thread.shutdown(wait=False)
            store._reader_thread.shutdown(wait=False)
            raise
        return store

    _writer: apsw.Connection
    _reader: apsw.Connection

    def _open_writer(self) -> apsw.Connection:
        connection = open_connection(self.path)
        try:
            migrate(connection)
            refuse_unfinished(self.path, connection)
            if isinstance(self.clock, SteadyClock):
                self.clock.settle(connection)
        except apsw.Error as error:
            connection.close()
            raise cannot_open(self.path, error) from error
        return connection

    # -- its health ----------------------------------------------------------------------------------------------------

    async def _probe(self) -> None:
        await self._writes.do(Change(health.probe_write))

    async def _look(self) -> None:
        """Notices a file that is not the opened one any more. In a thread: a file system may hang."""
        with contextlib.suppress(StoreUnhealthy):
            await asyncio.get_running_loop().run_in_executor(self._reader_thread, self._refuse_moved, 0)

    def _refuse_moved(self, count: int) -> None:
        if self._opened is not None and (reason := self._opened.moved()) is not None:
            raise self.health.report(StoreProblem.REMOVED, reason, count=count)

    async def _inspect(self) -> None:
        """Looks for damage: for a moment now, and in the background at what is left."""
        if self.path == MEMORY:
            return
        damage = await asyncio.to_thread(self._inspection.look, health.QUICK_SECONDS)
        if damage is not None:
            raise self._damaged(damage)
        if not self._inspection.finished:
            self._inspecting = health.in_background(self._inspection, self._damaged)

    def _damaged(self, damage: str, count: int = 0) -> StoreUnhealthy:
        return self.health.report(StoreProblem.DAMAGED, f"the store {self.path} is damaged: {damage}", count=count)

    def _failed(self, error: apsw.Error, what: str, count: int) -> StoreUnavailable:
        """What so many failed operations say about the file, if anything."""
        problem = health.problem_of(error)
        if problem is None:
            return StoreUnavailable(f"{what}: {error}")
        if problem is StoreProblem.DAMAGED:
            return self._damaged(str(error), count)
        return self.health.report(problem, f"{what}: {error}", count=count)

    # -- the life of a job ---------------------------------------------------------------------------------------------

    async def submit(self, new: NewJob) -> SubmitOutcome:
        if self._writes.waiting >= MOST_WAITING:
            raise Overloaded(f"{self._writes.waiting} writes wait already; nothing more is accepted")
        return cast("SubmitOutcome", await self._writes.do(new))

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        return cast("list[Claim]", await self._writes.do(request))

    async def claim_next(self, request: ClaimRequest, idle: Callable[[], Coroutine[Any, Any, None]]) -> ClaimBatch:
        asked_at = monotonic()
        claims = await self.claim(request)
        return ClaimBatch(claims, asked_at) if claims else await self._standing.stand(request, idle)

    async def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[LeaseRenewal]:
        return cast("list[LeaseRenewal]", await self._writes.do(claim.RenewRequest(tuple(leases), lease_seconds)))

    async def record(self, lease: Lease, write: Write) -> WriteResult:
        if self.blobs.wants(write):
            write = await self.blobs.keep(lease, write)
        return cast("WriteResult", await self._writes.do(Recording(lease, write)))

    async def cancel(self, request: CancelRequest) -> JobView | None:
        return cast("JobView | None", await self._writes.do(request))

    async def mark_read(self, wish: MarkRead) -> bool:
        return cast("bool", await self._writes.do(wish))

    async def hold(self, wish: HoldRequest) -> JobView | ResultGone | None:
        return cast("JobView | ResultGone | None", await self._writes.do(wish))

    async def sweep(self, *, grace_seconds: float, backoff: Backoff, limit: int = 100) -> list[SweptJob]:
        swept: list[SweptJob] = []
        run = sweep.Sweep(self._read, self._writes.do, self._queries["sweepable"])
        try:
            async for taken in run.pages(self.clock.now(), grace_seconds=grace_seconds, backoff=backoff, limit=limit):
                swept += taken
            await self._writes.do(sweep.TidyLanes())
            await self._correct_clock()
        except StoreError as error:
            if not swept:
                raise
            # What was taken back is told all the same; the rest waits for the next sweep.
            log_event(LogEvent.UPKEEP_FAILED, logging.ERROR, duty="sweep", reason=str(error))
        return swept

    async def _correct_clock(self) -> None:
        """Lets the store's clock follow the wall clock where that has moved ahead and nothing runs."""
        if isinstance(self.clock, SteadyClock) and self.clock.slow:
            loop = asyncio.get_running_loop()
            seconds = await loop.run_in_executor(self._writer_thread, self._settle, self.clock)
            if seconds:
                log_event(LogEvent.CLOCK_CORRECTED, seconds=round(seconds, 3))

    def _settle(self, clock: SteadyClock) -> float:
        try:
            return clock.settle(self._writer)
        except apsw.Error as error:
            raise StoreUnavailable(f"the store did not take the correction of its clock: {error}") from error

    async def retire(self, policy: RetentionPolicy, *, dry_run: bool, counted: bool = True) -> RetentionReport:
        retention_store = retention.SqliteRetention(self.path, self._read, self._writes.do_later, self._queries)
        loop = asyncio.get_running_loop()
        # Retention fills the log, and takes it over into the file in its own thread: no writer is to stop for that.
        await loop.run_in_executor(self._writer_thread, self._writer.wal_autocheckpoint, _PAGES_MEANWHILE)
        try:
            report = await retire(retention_store, policy, self.clock.now(), dry_run=dry_run, counted=counted)
        finally:
            await loop.run_in_executor(self._writer_thread, self._writer.wal_autocheckpoint, _PAGES)
            await retention_store.close()
        if not dry_run:
            await self.blobs.clean_up()
        return report

    async def kept_payloads(self, jobs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], ReferencedPayloads]:
        return await retention.kept_payloads(self._read, self._queries, jobs)

    # -- reading -------------------------------------------------------------------------------------------------------

    def tenant(self, org_id: str) -> TenantReads:

        def run(read: Callable[[apsw.Connection], T], /) -> Awaitable[T]:
            return self._read(read, org_id)

        run_long = run if self._long_reads is None else self._long_reads.run
        return SqliteTenantReads(org_id, run, self._queries, self.blobs, run_long=run_long)

    async def depth(self) -> QueueDepth:
        now = self.clock.now()

        def read(connection: apsw.Connection) -> QueueDepth:
            waiting: Any = connection.execute(self._queries["waiting_of_all"]).get
            running: Any = connection.execute(self._queries["count_live_leases"], {"now": now}).get
            return QueueDepth(waiting, running)

        return await self._read(read)

    async def paces(self) -> dict[str, float]:
        return await self._read(lambda connection: overview.paces(connection, self._queries))

    async def load(self) -> QueueLoad:
        now = self.clock.now()
        return await self._read(lambda connection: overview.load(connection, self._queries, now))

    async def overview(self, *, since: Instant, most: int) -> Overview:
        def rows(connection: apsw.Connection, query: str, /, **values: int) -> list[Row]:
            return connection.execute(self._queries[query], values).fetchall()

        return await self._read(lambda connection: overview.look(partial(rows, connection), "all", since, most))

    async def pulses(self, jobs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], JobFingerprint]:
        def read(connection: apsw.Connection, some: Sequence[tuple[str, str]]) -> list[Row]:
            return connection.execute(self._queries["pulses"], {"jobs": json_text(some)}).fetchall()

        found: dict[tuple[str, str], JobFingerprint] = {}
        for start in range(0, len(jobs), _JOBS_AT_ONCE):  # other readers have their turn in between
            some = jobs[start : start + _JOBS_AT_ONCE]
            rows = await self._read_few(partial(read, some=some), len(jobs))
            found |= {
                (org_id, job_id): JobFingerprint(event_seq, bool(result_gone), bool(events_gone), lease_until, held_at)
                for org_id, job_id, event_seq, result_gone, events_gone, lease_until, held_at in rows
            }
        return found

    async def org_pulses(self, org_ids: Sequence[str]) -> dict[str, str]:
        def read(connection: apsw.Connection) -> list[Row]:
            return connection.execute(self._queries["org_pulses"], {"orgs": json_text(org_ids)}).fetchall()

        return dict(await self._read(read))

    async def backlog(self, *, orgs: bool) -> Backlog:
        now = self.clock.now()
        return await self._read(lambda connection: overview.backlog(connection, self._queries, now, orgs=orgs))

    def usage(self) -> StoreUsage:
        return overview.usage(self.path, (self._writes, self._reads))

    async def identity(self) -> StoreIdentity:
        return await asyncio.to_thread(health.identity, self.path)

    async def check(self) -> None:
        known = len(migrations_in("langlauf.store.sqlite"))
        found = await self._read(applied_migrations)
        if found != known:
            raise StoreUnavailable(f"the store has schema {found}, this program needs {known}")

    async def close(self) -> None:
        await self._writes.finish()
        await self._reads.finish()
        self._inspection.stop()
        if self._inspecting is not None:
            await asyncio.to_thread(self._inspecting.join)
        loop = asyncio.get_running_loop()
        if self._long_reads is not None:
            await self._long_reads.close()
        if self._reader is not self._writer:
            await loop.run_in_executor(self._reader_thread, self._reader.close)
        await loop.run_in_executor(self._writer_thread, self._writer.close)
        self._reader_thread.shutdown()
        self._writer_thread.shutdown()
        await self.blobs.close()

    # -- the threads ---------------------------------------------------------------------------------------------------

    async def _commit(self, batch: Sequence[Any]) -> list[Any]:
        loop = asyncio.get_running_loop()
        joined = self._standing.joining(batch)
        asked = [*batch, *(offer.request for offer in joined)]
        answers: list[Any] = [None] * len(asked)
        try:
            answers = await loop.run_in_executor(self._writer_thread, self._run_batch, asked)
        finally:
            self._standing.answer(joined, answers[len(batch) :])
        for offer, claims in zip(joined, answers[len(batch) :], strict=True):
            if isinstance(claims, list):
                announce(self._hints, offer.request, claims)
        return answers[: len(batch)]

    def _run_batch(self, batch: Sequence[Any]) -> list[Any]:
        try:
            return self._run_transaction(batch)
        except StoreUnavailable as error:
            return [error] * len(batch)
        except Exception as error:  # noqa: BLE001 - whatever it was, it must not spoil the neighbours
            if len(batch) == 1:
                _log.exception("a write failed")
                return [StoreError(f"the write was refused: {error}")]
        # One operation spoils the transaction of all: in halves, and halves of those, its neighbours get their answers.
        middle = len(batch) // 2
        return self._run_batch(batch[:middle]) + self._run_batch(batch[middle:])

    def _run_transaction(self, batch: Sequence[Any]) -> list[Any]:
        connection = self._writer
        if self.health.damaged:
            raise self._damaged("nothing more is written over it", len(batch))
        self._refuse_moved(len(batch))
        try:
            self._synchronise(durably=not all(isinstance(operation, RetireBatch) for operation in batch))
            connection.execute("BEGIN IMMEDIATE")
            if self._memory.follow(connection) and isinstance(self.clock, SteadyClock):
                self.clock.follow(connection)
            answers = run_batch(Transaction(connection, self._queries, self.clock.now(), self._memory), batch)
            connection.execute("COMMIT")
            self._memory.committed(connection)
            self._commits += 1
        except BaseException as error:
            self._memory.forget()
            if connection.in_transaction:
                with contextlib.suppress(apsw.Error):
                    connection.execute("ROLLBACK")
            if isinstance(error, apsw.Error) and not isinstance(error, _REFUSED):
                raise self._failed(error, "the store did not take the write", len(batch)) from error
            raise
        self._refuse_moved(len(batch))  # where it went meanwhile, what was written now will not be found
        if self._commits % _COMMITS_BETWEEN_LOOKS == 0:
            self._bound_log()
        return answers

    def _synchronise(self, *, durably: bool) -> None:
        """Whether a commit waits for the disk; said before a transaction begins, so that none begins with less.

        What retention took may come back after a power cut, and goes again: nobody has to wait for it. The next write
        that must be there brings the log to the disk up to its own end.
        """
        if durably != self._durably:
            self._writer.execute(f"PRAGMA synchronous = {'FULL' if durably else 'NORMAL'}")
            self._durably = durably

    def _bound_log(self) -> None:
        """Lets the log start again where readers that follow one another left it no moment to."""
        log = Path(f"{self.path}-wal")
        try:
            if self._long_reads is None or not log.exists() or log.stat().st_size < LARGEST_LOG:
                return
            with self._no_reader, self._long_reads.no_reader:
                self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except (apsw.Error, OSError):
            # The batch is on disk: nobody may be told that it failed, and nothing of it may run again.
            _log.warning("the log could not be emptied; the next look tries again", exc_info=True)

    def _read(self, read: Callable[[apsw.Connection], T], org_id: str = "", /) -> Awaitable[T]:
        return cast("Awaitable[T]", self._reads.do(Read(org_id, read)))

    async def _read_few(self, read: Callable[[apsw.Connection], T], count: int) -> T:
        """Reads rows by their keys: a few at once, without a thread, where no other read runs.

        That is over before a thread would have been woken; a reader waits for no writer.
        """
        if count > _FEW or self._reader is self._writer or not self._no_reader.acquire(blocking=False):
            return await self._read(read)
        try:
            return read(self._reader)
        except apsw.Error as error:
            raise self._failed(error, "the store did not answer", 1) from error
        finally:
            self._no_reader.release()

    async def _read_batch(self, batch: Sequence[Read]) -> list[Any]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._reader_thread, self._run_reads, batch)

    def _run_reads(self, batch: Sequence[Read]) -> list[Any]:
        """Runs what waits on one snapshot; it is let go at once, so that the log can be reset."""
        try:
            with self._no_reader:
                return self._run_reads_alone(batch)
        except apsw.Error as error:  # not of one read, but of what is around all of them
            raise self._failed(error, "the store cannot be read", len(batch)) from error

    def _run_reads_alone(self, batch: Sequence[Read]) -> list[Any]:
        answers: list[Any] = []
        connection = self._reader
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
        return answers
