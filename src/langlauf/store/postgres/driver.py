"""The PostgreSQL store: concurrent writes of one kind are one statement over arrays, one round trip and one commit.

Submissions, claims, writes of attempts, heartbeats and cancels have a connection each, so none queues behind another
kind. Decisions are made in the database: by its functions, its clock and its locks.
"""

import asyncio
import socket
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any, Self, TypeGuard, cast
from uuid import uuid4

import msgspec

from langlauf.clock import Clock, monotonic
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
from langlauf.domain.errors import Overloaded, StoreUnavailable
from langlauf.domain.eta import QueueLoad
from langlauf.domain.health import WRITE_PROBE
from langlauf.domain.instant import Instant, after
from langlauf.domain.job import JobRecord, NewJob, SubmitOutcome
from langlauf.domain.outcome import CANCEL_MARGIN, MOST_LOST_LEASES, Completed
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
from langlauf.domain.state import Status
from langlauf.hints import Hints
from langlauf.store.admin import (
    AccessStore,
    DeliveryStore,
    DutyStore,
    MailStore,
    OrgStore,
    ScheduleStore,
    WorkerStore,
)
from langlauf.store.blobs.large import LargePayloads
from langlauf.store.blobs.owner import StoreIdentity
from langlauf.store.commit_hints import announce, announce_batch
from langlauf.store.group_commit import (
    MOST_WAITING,
    GroupCommit,
    Recording,
    org_of,
    payload_length,
)
from langlauf.store.health import StoreHealth
from langlauf.store.postgres import overview, record, submit
from langlauf.store.postgres.admin import (
    PostgresAccess,
    PostgresDuties,
    PostgresOrgs,
    PostgresRetention,
    PostgresSchedules,
    PostgresWorkers,
)
from langlauf.store.postgres.batch import key_of, run_rounds, storable_or_none
from langlauf.store.postgres.connection import DatabaseConnection, ReadPool, parse_url
from langlauf.store.postgres.deliveries import PostgresDeliveries, PostgresMail
from langlauf.store.postgres.migrate import DatabaseClock, identity, prepare
from langlauf.store.postgres.notify import NotificationListener, Notifier
from langlauf.store.postgres.reads import PayloadCache, PostgresTenantReads, StatusReads
from langlauf.store.protocol import TenantReads
from langlauf.store.retention import retire
from langlauf.store.sql import pause_from, view_from_database
from langlauf.store.standing_claims import StandingClaim, StandingClaims
from langlauf.store.tools.store_copy import half_copied
from langlauf.telemetry.metrics import count_end

#: Operations per batch: while one batch is written the next one fills, and jobs do not all move in step.
_MAX_BATCH = 250
#: Each has a connection.
_CONNECTIONS = ("submit", "claim", "record", "heartbeat", "control", "maintenance", "notify", "deliver", "schedule")
_FIND_TIMEOUT = 1.0


class PostgresStore:
    """A store in one database, for any number of hosts."""

    def __init__(self, url: str, *, hints: Hints, clock: Clock | None = None, notify: bool = True) -> None:
        self._url = url
        self.health = StoreHealth(self._probe)
        self._connections = {name: DatabaseConnection(url, name, self.health) for name in _CONNECTIONS}
        #: for changes that other hosts may find later, such as retention
        self._hints = hints
        self._notifier = Notifier(hints, self._connections["notify"], others=notify)
        sender, heard = self._notifier.sender, self._notifier.expect_others
        self._listener = NotificationListener(url, hints, ignored_sender=sender, heard=heard) if notify else None
        self._database_clock = DatabaseClock()
        #: a test's clock, whose time is passed to the database
        self._test_clock = clock
        self.clock: Clock = clock or self._database_clock
        hint = partial(announce_batch, self._notifier)
        self._submits: GroupCommit[NewJob, Any] = GroupCommit(
            self._submit_batch,
            name="langlauf-submits",
            largest=_MAX_BATCH,
            done=lambda done: announce_batch(self._notifier, done, self._handed),
            holder=org_of,
        )
        self._records: GroupCommit[Recording, Any] = GroupCommit(
            self._record_batch,
            name="langlauf-records",
            largest=_MAX_BATCH,
            done=hint,
            size=payload_length,
            holder=org_of,
        )
        self._cancels: GroupCommit[CancelRequest, Any] = GroupCommit(
            self._cancel_batch, name="langlauf-cancels", done=hint, holder=org_of
        )
        self._standing = StandingClaims()
        #: what standing claims got from the submissions that have just been committed
        self._handed: list[Claim] = []
        self._payload_cache = PayloadCache()
        self._pool = pool = ReadPool(url, "read", health=self.health)
        self._statuses = StatusReads(pool)
        self.access: AccessStore = PostgresAccess(pool, lambda: self._at)
        self.deliveries: DeliveryStore = PostgresDeliveries(pool, self._connections["deliver"], lambda: self._at)
        self.schedules: ScheduleStore = PostgresSchedules(pool, self._connections["schedule"], lambda: self._at)
        self.mail: MailStore = PostgresMail(pool, lambda: self._at)
        self.orgs: OrgStore = PostgresOrgs(self._connections["maintenance"], lambda: self._at)
        self.workers: WorkerStore = PostgresWorkers(pool, lambda: self._at)
        self.duties: DutyStore = PostgresDuties(pool, lambda: self._at)
        self.blobs = LargePayloads(self)

    @classmethod
    async def open(cls, url: str, *, hints: Hints, clock: Clock | None = None, notify: bool = True) -> Self:
        """Connect to the database and migrate it.

        With `notify`, hosts notify each other of commits; without it they only poll.
        """
        store = cls(url, hints=hints, clock=clock, notify=notify)
        try:
            await store._connections["maintenance"].use(partial(prepare, url=parse_url(url)))
            await store._refuse_unfinished()
            await store._learn_time()
        except BaseException:
            await store.close()
            raise
        if store._listener is not None:
            store._listener.start()
        return store

    async def _refuse_unfinished(self) -> None:
        """Refuse to serve the target of an unfinished copy."""
        source = await self._connections["maintenance"].call("copied_from")
        if source is not None:
            raise StoreUnavailable(half_copied("the database", source))

    async def _probe(self) -> None:
        await self.duties.record_success(WRITE_PROBE, socket.gethostname())

    @property
    def _at(self) -> int | None:
        return None if self._test_clock is None else self._test_clock.now()

    async def _learn_time(self) -> None:
        sent_at = monotonic()
        database_time = await self._connections["heartbeat"].call("moment", None)
        self._database_clock.learn(database_time, sent_at, monotonic())

    # -- the life of a job ---------------------------------------------------------------------------------------------

    async def submit(self, new: NewJob) -> SubmitOutcome:
        if self._submits.waiting >= MOST_WAITING:
            raise Overloaded(f"{self._submits.waiting} writes wait already; nothing more is accepted")
        return cast("SubmitOutcome", await self._submits.do(new))

    async def _submit_batch(self, batch: Sequence[NewJob]) -> list[Any]:
        self._handed = []
        return await run_rounds(batch, submit.keys_of_batch(batch), submit.size_of, self._send_submits)

    async def _send_submits(self, batch: Sequence[NewJob]) -> Sequence[Any]:
        """Send submissions, together with a standing claim of this process if there is one."""
        execution = next(iter(self._standing.joining(batch, 1)), None)
        wanted = None if execution is None else record.request_of(execution.request)
        claims: list[Claim] = []
        emptied_at: int | None = None
        signals = self._hints.work_signals
        try:
            [(outcomes, rows)] = await self._connections["submit"].rows_once(
                "submit", self._at, *submit.parameters_of(batch), wanted
            )
            if execution is not None:
                claims = submit.started(batch, outcomes, execution.request)
                emptied_at = signals if claims else None
                claims = claims or self._claims_of(rows or ())
                announce(self._notifier, execution.request, claims)
                self._handed += claims
        finally:
            if execution is not None:
                execution.answer(claims, emptied_at=emptied_at)
        return await submit.read_outcomes(batch, outcomes, partial(self._find_jobs, "submit"))

    async def _find_jobs(self, connection: str, jobs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], JobRecord]:
        """Look jobs up after a commit, on the same connection, with a short timeout as other writes wait behind it."""
        orgs, ids = zip(*jobs, strict=True)
        keys = list(map(key_of, ids))
        rows = await self._connections[connection].rows("views_of", list(orgs), keys, timeout_seconds=_FIND_TIMEOUT)
        views = [view_from_database(row) for row in rows]
        return {(view.job.org_id, view.job.job_id): view.job for view in views}

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        rows = await self._connections["claim"].rows_once("claim", self._at, record.request_of(request))
        claims = self._claims_of(rows)
        announce(self._notifier, request, claims)
        return claims

    def _claims_of(self, rows: Sequence[Any]) -> list[Claim]:
        """Return the claims; a row without an attempt is a job that the claim canceled because it was too late."""
        found = [record.claim_of(tuple(row)) for row in rows]
        for late in [one for one in found if one.lease.attempt == 0]:
            announce(self._notifier, None, SweptJob(late.lease.org_id, late.lease.job_id, "canceled"))
            count_end(late.analysis, Status.CANCELED, None)
        return [one for one in found if one.lease.attempt > 0]

    async def next_start(self) -> Instant | None:
        return cast("Instant | None", await self._pool.call("next_start", self.clock.now()))

    def stand(self, claim: StandingClaim) -> None:
        self._standing.stand(claim)

    async def withdraw(self, claim: StandingClaim) -> None:
        await self._standing.withdraw(claim)

    async def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[LeaseRenewal]:
        if not leases:
            return []
        asked = sorted(leases, key=record.lock_order)
        orgs, jobs, attempts = zip(
            *((lease.org_id, key_of(lease.job_id), lease.attempt) for lease in asked), strict=True
        )
        answers = await self._connections["heartbeat"].call(
            "renew", self._at, list(orgs), list(jobs), list(attempts), after(0, lease_seconds)
        )
        found = dict(zip(asked, answers, strict=True))
        return [record.renewal_of(lease, found[lease]) for lease in leases]

    def record(self, lease: Lease, write: Write) -> Awaitable[WriteResult]:
        return self._record_large(lease, write) if self._is_large(write) else self._records.do(Recording(lease, write))

    def record_all(self, writes: Sequence[tuple[Lease, Write]]) -> Awaitable[list[WriteResult | Exception]]:
        if any(self._is_large(write) for _, write in writes):
            each = asyncio.gather(*(self.record(lease, write) for lease, write in writes), return_exceptions=True)
            return cast("Awaitable[list[WriteResult | Exception]]", each)
        return self._records.do_all([Recording(lease, write) for lease, write in writes])

    def _is_large(self, write: Write) -> TypeGuard[Partial | Completed]:
        """Whether a payload becomes a blob, or is not a text yet."""
        return isinstance(write, Partial | Completed) and (self.blobs.wants(write) or write.payload_data is not None)

    async def _record_large(self, lease: Lease, write: Partial | Completed) -> WriteResult:
        if self.blobs.wants(write):
            write = await self.blobs.keep(lease, write)
        if write.payload_data is not None:
            text = await asyncio.to_thread(str, write.payload_data, "utf-8")  # the driver takes texts
            write = msgspec.structs.replace(write, payload=text, payload_data=None)
        return cast("WriteResult", await self._records.do(Recording(lease, write)))

    async def _record_batch(self, batch: Sequence[Recording]) -> list[Any]:
        return await run_rounds(batch, record.keys_of, record.size_of, self._send_records)

    async def _send_records(self, batch: Sequence[Recording]) -> Sequence[Any]:
        order = sorted(range(len(batch)), key=lambda place: record.lock_order(batch[place].lease))
        values = record.parameters_of([batch[place] for place in order])
        texts = await self._connections["record"].call_once("record", self._at, uuid4(), *values)
        found = dict(zip(order, texts, strict=True))
        outcomes = [record.parse_outcome(found[place]) for place in range(len(batch))]
        return await record.accept_committed(batch, outcomes, partial(self._find_jobs, "record"))

    async def cancel(self, request: CancelRequest) -> JobView | None:
        return cast("JobView | None", await self._cancels.do(request))

    async def _cancel_batch(self, batch: Sequence[CancelRequest]) -> list[Any]:
        connection = self._connections["control"]
        orgs, ids = [one.org_id for one in batch], [key_of(one.job_id) for one in batch]
        details = [one.by for one in batch], [one.reason for one in batch], [one.request_id for one in batch]
        await connection.call("cancel", self._at, orgs, ids, *details)
        views = [view_from_database(row) for row in await connection.rows("views_of", orgs, ids)]
        found = {(view.job.org_id, view.job.job_id): view for view in views}
        return [found.get((one.org_id, one.job_id)) for one in batch]

    async def mark_read(self, request: MarkRead) -> bool:
        message = None if request.notification_id is None else storable_or_none(request.notification_id)
        changed = await self._connections["control"].call("mark_read", self._at, request.org_id, message, request.until)
        return cast("bool", changed)

    async def hold(self, request: HoldRequest) -> JobView | ResultGone | None:
        connection, result = self._connections["control"], storable_or_none(request.result_id)
        found = await connection.rows(
            "hold_result", self._at, request.org_id, result, request.held, request.by, request.reason
        )
        if not found:
            return None
        job_id, removed_at = found[0]
        if request.held and removed_at is not None:
            return ResultGone(job_id, removed_at)
        rows = await connection.rows("views_of", [request.org_id], [key_of(job_id)])
        views = [view_from_database(row) for row in rows]
        for view in views:
            announce(self._notifier, request, view)
        return views[0] if views else None

    async def pause(self, request: PauseRequest) -> Pause:
        values = (request.org_id, request.analysis, request.paused_until, request.because, request.paused_by)
        [row] = await self._connections["control"].rows("pause_analysis", self._at, *values)
        return pause_from(row)

    async def resume(self, request: ResumeRequest) -> bool:
        ended = await self._connections["control"].call("resume_analysis", self._at, request.org_id, request.analysis)
        self._notifier.work()
        return bool(ended)

    async def sweep(self, *, grace_seconds: float, backoff: Backoff, limit: int = 100) -> list[SweptJob]:
        swept: list[SweptJob] = []
        connection = self._connections["maintenance"]
        while True:
            rows = await connection.rows(
                "sweep",
                self._at,
                after(0, grace_seconds),
                after(0, grace_seconds + CANCEL_MARGIN),
                backoff.base,
                backoff.cap,
                MOST_LOST_LEASES,
                limit,
            )
            page = [SweptJob(*row) for row in rows]
            for one in page:
                announce(self._notifier, None, one)
            swept += page
            if len(page) < limit:
                break
        late = [SweptJob(*row) for row in await connection.rows("sweep_times", self._at)]
        for one in late:
            announce(self._notifier, None, one)
        swept += late
        await connection.call("tidy", self._at)
        await self._learn_time()
        return swept

    async def retire(self, policy: RetentionPolicy, *, dry_run: bool, counted: bool = True) -> RetentionReport:
        connection = DatabaseConnection(self._url, "retention")
        try:
            retention_store = PostgresRetention(connection, self._hints, self._at)
            report = await retire(retention_store, policy, self.clock.now(), dry_run=dry_run, counted=counted)
        finally:
            await connection.close()
        if not dry_run:
            await self.blobs.clean_up()
        return report

    # -- reading -------------------------------------------------------------------------------------------------------

    def tenant(self, org_id: str) -> TenantReads:
        return PostgresTenantReads(org_id, self._pool, self._statuses, self._payload_cache, self.blobs)

    async def kept_payloads(self, jobs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], ReferencedPayloads]:
        return await overview.kept_payloads(self._pool, jobs)

    async def pauses(self) -> list[Pause]:
        return [pause_from(row) for row in await self._pool.rows("all_pauses")]

    async def depth(self) -> QueueDepth:
        return await overview.depth(self._pool, self._at)

    async def paces(self) -> dict[str, float]:
        return await overview.paces(self._pool)

    async def load(self) -> QueueLoad:
        return await overview.load(self._pool, self._at)

    async def overview(self, *, since: Instant, most: int) -> Overview:
        return await overview.read_overview(self._pool.rows, "all", since, most)

    async def job_fingerprints(self, jobs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], JobFingerprint]:
        return await overview.job_fingerprints(self._pool, jobs)

    async def org_versions(self, org_ids: Sequence[str]) -> dict[str, str]:
        return await overview.org_versions(self._pool, org_ids)

    async def backlog(self, *, orgs: bool) -> Backlog:
        return await overview.backlog(self._pool, self._at, orgs=orgs)

    def usage(self) -> StoreUsage:
        connections = [*self._connections.values(), *self._pool.connections]
        return overview.usage((self._submits, self._records, self._cancels), connections)

    async def identity(self) -> StoreIdentity:
        return await self._connections["maintenance"].use(identity)

    async def check(self) -> None:
        await overview.check(self._pool)

    async def close(self) -> None:
        for queue in (self._submits, self._records, self._cancels, self._statuses.queue):
            await queue.finish()
        if self._listener is not None:
            await self._listener.close()
        await self._notifier.finish()
        await asyncio.gather(self._pool.close(), *(one.close() for one in self._connections.values()))
        await self.blobs.close()
