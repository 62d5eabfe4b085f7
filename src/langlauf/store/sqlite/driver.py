"""The SQLite store: the verbs of `Store`, each a read, or an operation of the next batch of writes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Self, TypeVar, cast

import apsw

from langlauf.clock import Clock, TimeSource, machine_time
from langlauf.domain.attempt import (
    Backoff,
    Claim,
    ClaimRequest,
    Lease,
    LeaseRenewal,
    Partial,
    Write,
    WriteResult,
)
from langlauf.domain.errors import Overloaded, StoreError, StoreUnavailable
from langlauf.domain.eta import QueueLoad
from langlauf.domain.instant import Instant
from langlauf.domain.job import NewJob, SubmitOutcome
from langlauf.domain.outcome import Completed
from langlauf.domain.read_models import (
    Backlog,
    CancelRequest,
    JobFingerprint,
    JobView,
    MarkRead,
    Overview,
    QueueDepth,
    StoreUsage,
    SweptJob,
)
from langlauf.domain.result import HoldRequest, ReferencedPayloads, ResultGone, RetentionPolicy, RetentionReport
from langlauf.domain.schedule import Pause, PauseRequest, ResumeRequest
from langlauf.hints import Hints
from langlauf.store.blobs.large import LargePayloads
from langlauf.store.blobs.owner import StoreIdentity
from langlauf.store.group_commit import MOST_WAITING, Recording
from langlauf.store.protocol import TenantReads
from langlauf.store.retention import retire
from langlauf.store.sql import json_text, migrations_in, pause_from
from langlauf.store.sqlite import admin, claim, deliveries, end, overview, retention
from langlauf.store.sqlite.admin import SqliteSchedules
from langlauf.store.sqlite.connection import SteadyClock, applied_migrations
from langlauf.store.sqlite.engine import SqliteEngine
from langlauf.store.sqlite.health import file_identity
from langlauf.store.sqlite.reads import SqliteTenantReads
from langlauf.store.sqlite.transaction import Row
from langlauf.store.standing_claims import StandingClaim
from langlauf.telemetry.log import LogEvent, log_event

T = TypeVar("T")
_JOBS_AT_ONCE = 1_000
#: Jobs that are read by key in less time than a thread takes to wake.
_FEW = 32


class SqliteStore(SqliteEngine):
    """A store in one file."""

    def __init__(self, path: str, *, clock: Clock, hints: Hints) -> None:
        super().__init__(path, clock=clock, hints=hints)
        self.access = admin.SqliteAccess(self._read, self._writes.do, self._queries)
        self.orgs = admin.SqliteOrgs(self._read, self._writes.do_later, self._queries)
        self.workers = admin.SqliteWorkers(self._read, self._writes.do, self._queries)
        self.deliveries = deliveries.SqliteDeliveries(self._read, self._writes.do, self._queries, clock.now)
        self.mail = deliveries.SqliteMail(self._read, self._writes.do, self._queries)
        self.schedules = SqliteSchedules(self._read, self._writes.do, self._queries)
        self.duties = admin.SqliteDuties(self._read, self._writes.do, self._queries)
        self.blobs = LargePayloads(self)

    @classmethod
    async def open(cls, path: str, *, hints: Hints, clock: Clock | None = None, time: TimeSource | None = None) -> Self:
        """Open the file, create it where it is missing and apply missing migrations.

        A given clock is used as it is; else the store has its own, made from the time of the machine.
        """
        store = cls(path, clock=clock or SteadyClock(time or machine_time()), hints=hints)
        await store._open()
        return store

    async def close(self) -> None:
        await self._close()
        await self.blobs.close()

    # -- the life of a job ---------------------------------------------------------------------------------------------

    async def submit(self, new: NewJob) -> SubmitOutcome:
        if self._writes.waiting >= MOST_WAITING:
            raise Overloaded(f"{self._writes.waiting} writes wait already; nothing more is accepted")
        return cast("SubmitOutcome", await self._writes.do(new))

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        return cast("list[Claim]", await self._writes.do(request))

    def stand(self, claim: StandingClaim) -> None:
        self._standing.stand(claim)

    async def withdraw(self, claim: StandingClaim) -> None:
        await self._standing.withdraw(claim)

    async def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[LeaseRenewal]:
        return cast("list[LeaseRenewal]", await self._writes.do(claim.RenewRequest(tuple(leases), lease_seconds)))

    def record(self, lease: Lease, write: Write) -> Awaitable[WriteResult]:
        return self._record_blob(lease, write) if self.blobs.wants(write) else self._writes.do(Recording(lease, write))

    def record_all(self, writes: Sequence[tuple[Lease, Write]]) -> Awaitable[list[WriteResult | Exception]]:
        if any(self.blobs.wants(write) for _, write in writes):
            each = asyncio.gather(*(self.record(lease, write) for lease, write in writes), return_exceptions=True)
            return cast("Awaitable[list[WriteResult | Exception]]", each)
        return self._writes.do_all([Recording(lease, write) for lease, write in writes])

    async def _record_blob(self, lease: Lease, write: Partial | Completed) -> WriteResult:
        return cast("WriteResult", await self._writes.do(Recording(lease, await self.blobs.keep(lease, write))))

    async def cancel(self, request: CancelRequest) -> JobView | None:
        return cast("JobView | None", await self._writes.do(request))

    async def mark_read(self, request: MarkRead) -> bool:
        return cast("bool", await self._writes.do(request))

    async def hold(self, request: HoldRequest) -> JobView | ResultGone | None:
        return cast("JobView | ResultGone | None", await self._writes.do(request))

    async def pause(self, request: PauseRequest) -> Pause:
        return cast("Pause", await self._writes.do(request))

    async def resume(self, request: ResumeRequest) -> bool:
        ended = await self._writes.do(request)
        self._hints.work()
        return cast("bool", ended)

    async def sweep(self, *, grace_seconds: float, backoff: Backoff, limit: int = 100) -> list[SweptJob]:
        swept: list[SweptJob] = []
        run = end.Sweep(self._read, self._writes.do, self._queries["sweepable"])
        try:
            async for taken in run.pages(self.clock.now(), grace_seconds=grace_seconds, backoff=backoff, limit=limit):
                swept += taken
            swept += await self._writes.do(claim.SettleTimes())
            await self._writes.do_later(end.TidyLanes())
            await self._correct_clock()
        except StoreError as error:
            if not swept:
                raise
            # Report what was swept all the same; the rest waits for the next sweep.
            log_event(LogEvent.MAINTENANCE_FAILED, logging.ERROR, duty="sweep", reason=str(error))
        return swept

    async def retire(self, policy: RetentionPolicy, *, dry_run: bool, counted: bool = True) -> RetentionReport:
        retention_store = retention.SqliteRetention(self.path, self._read, self._writes.do_later, self._queries)
        try:
            report = await retire(retention_store, policy, self.clock.now(), dry_run=dry_run, counted=counted)
        finally:
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

        def run_keyed(read: Callable[[apsw.Connection], T], /) -> Awaitable[T]:
            return self._read_keyed(read, org_id)

        run_long = run if self._long_reads is None else self._long_reads.run
        return SqliteTenantReads(org_id, run, self._queries, self.blobs, run_keyed=run_keyed, run_long=run_long)

    async def next_start(self) -> Instant | None:
        now = self.clock.now()

        def read(connection: apsw.Connection) -> Instant | None:
            return cast("Instant | None", connection.execute(self._queries["next_start"], {"now": now}).get)

        return await self._read(read)

    async def pauses(self) -> list[Pause]:
        rows = await self._read(lambda connection: connection.execute(self._queries["all_pauses"]).fetchall())
        return [pause_from(row) for row in rows]

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

        def read(connection: apsw.Connection) -> Overview:
            return overview.read_overview(partial(rows, connection), "all", since, most)

        return await self._read(read)

    async def job_fingerprints(self, jobs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], JobFingerprint]:
        def read(connection: apsw.Connection, some: Sequence[tuple[str, str]]) -> list[Row]:
            return connection.execute(self._queries["job_fingerprints"], {"jobs": json_text(some)}).fetchall()

        found: dict[tuple[str, str], JobFingerprint] = {}
        for start in range(0, len(jobs), _JOBS_AT_ONCE):  # other reads run in between
            some = jobs[start : start + _JOBS_AT_ONCE]
            rows = await (self._read_keyed if len(jobs) <= _FEW else self._read)(partial(read, some=some))
            found |= {
                (org_id, job_id): JobFingerprint(event_seq, bool(result_gone), bool(events_gone), lease_until, held_at)
                for org_id, job_id, event_seq, result_gone, events_gone, lease_until, held_at in rows
            }
        return found

    async def org_versions(self, org_ids: Sequence[str]) -> dict[str, str]:
        def read(connection: apsw.Connection) -> list[Row]:
            return connection.execute(self._queries["org_versions"], {"orgs": json_text(org_ids)}).fetchall()

        return dict(await self._read(read))

    async def backlog(self, *, orgs: bool) -> Backlog:
        now = self.clock.now()
        return await self._read(lambda connection: overview.backlog(connection, self._queries, now, orgs=orgs))

    def usage(self) -> StoreUsage:
        return overview.usage(self.path, (self._writes, self._reads))

    async def identity(self) -> StoreIdentity:
        return await asyncio.to_thread(file_identity, self.path)

    async def check(self) -> None:
        known = len(migrations_in("langlauf.store.sqlite"))
        found = await self._read(applied_migrations)
        if found != known:
            raise StoreUnavailable(f"the store has schema {found}, this program needs {known}")
