"""The PostgreSQL store: writes of one kind go together, as one statement over arrays, one round trip and one commit.

Submissions, claims, writes of attempts, heartbeats and wishes have a connection each: none of them waits for another
kind. What decides is in the database: its functions hold the rules, its clock the time, its locks the limits.
"""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Self, cast
from uuid import uuid4

from langlauf.clock import Clock, made_at, monotonic
from langlauf.domain.attempt import Claim, ClaimRequest, Handed, Lease, Renewal, Write
from langlauf.domain.backlog import Backlog, Usage
from langlauf.domain.bounds import Recorded
from langlauf.domain.duties import PROBE
from langlauf.domain.errors import Overloaded, StoreUnavailable
from langlauf.domain.holding import HoldRequest, ResultGone
from langlauf.domain.inbox import MarkRead
from langlauf.domain.instant import Instant, after
from langlauf.domain.job import JobRecord, NewJob, Submitted
from langlauf.domain.outcome import CANCEL_MARGIN, MOST_LOST_LEASES
from langlauf.domain.overview import Overview
from langlauf.domain.result import KeptPayloads
from langlauf.domain.retention import RetentionPolicy, RetentionReport
from langlauf.domain.retry import Backoff
from langlauf.domain.views import CancelRequest, Depth, JobView, Pulse, Swept
from langlauf.domain.waiting import Load
from langlauf.hints import Hints
from langlauf.store.admin import AccessStore, DutyStore, OrgStore, WorkerStore
from langlauf.store.blobs.large import LargePayloads
from langlauf.store.blobs.owner import Whereabouts
from langlauf.store.commit_hints import announce
from langlauf.store.deliveries import DeliveryStore, MailStore
from langlauf.store.group_commit import MOST_WAITING, GroupCommit, Recording, letters_of, org_of
from langlauf.store.health import StoreHealth
from langlauf.store.postgres import backlog, overview, recording, submitting
from langlauf.store.postgres.access import PostgresAccess
from langlauf.store.postgres.address import read_address
from langlauf.store.postgres.batching import run_rounds
from langlauf.store.postgres.clock import DatabaseClock
from langlauf.store.postgres.copies import Copies
from langlauf.store.postgres.deliveries import PostgresDeliveries
from langlauf.store.postgres.duties import PostgresDuties
from langlauf.store.postgres.link import Link
from langlauf.store.postgres.links import Links
from langlauf.store.postgres.listening import Listener
from langlauf.store.postgres.mail import PostgresMail
from langlauf.store.postgres.notifying import Notifier
from langlauf.store.postgres.opening import prepare, whereabouts
from langlauf.store.postgres.orgs import PostgresOrgs
from langlauf.store.postgres.reads import PostgresTenantReads
from langlauf.store.postgres.retiring import PostgresShelf
from langlauf.store.postgres.texts import key_of, name_of
from langlauf.store.postgres.workers import PostgresWorkers
from langlauf.store.protocol import TenantReads
from langlauf.store.retention import retire
from langlauf.store.rows import view_from_database
from langlauf.store.standing_claims import Offer, StandingClaims
from langlauf.store.tools.store_copy import half_copied

#: A batch holds no more, so that while one is written the next is made, and jobs do not all move in step.
_LARGEST = 250
#: A connection each.
_KINDS = ("submit", "claim", "record", "heartbeat", "control", "upkeep", "notify", "deliver")

_FIND_PATIENCE = 1.0


class PostgresStore:
    """Durable truth in one database, for any number of hosts."""

    def __init__(self, url: str, *, hints: Hints, clock: Clock | None = None, notify: bool = True) -> None:
        self._url = url
        self.health = StoreHealth(self._probe)
        self._links = {name: Link(url, name, self.health) for name in _KINDS}
        #: for what is no hurry elsewhere, such as retention
        self._hints = hints
        self._wakes = Notifier(hints, self._links["notify"], others=notify)
        self._listener = Listener(url, hints, deaf_to=self._wakes.sender) if notify else None
        self._own_clock = DatabaseClock()
        #: tests bring a clock of their own, which the database is then told
        self._set_clock = clock
        self.clock: Clock = clock or self._own_clock
        tell = partial(announce, self._wakes)
        self._submits: GroupCommit[NewJob, Any] = GroupCommit(
            self._submit_batch, name="langlauf-submits", largest=_LARGEST, done=tell, holder=org_of
        )
        self._records: GroupCommit[Recording, Any] = GroupCommit(
            self._record_batch, name="langlauf-records", largest=_LARGEST, done=tell, size=letters_of, holder=org_of
        )
        self._cancels: GroupCommit[CancelRequest, Any] = GroupCommit(
            self._cancel_batch, name="langlauf-cancels", done=tell, holder=org_of
        )
        self._standing = StandingClaims()
        self._copies = Copies()
        self._readers = Links(url, "read", health=self.health)
        self.access: AccessStore = PostgresAccess(self._readers, lambda: self._at)
        self.deliveries: DeliveryStore = PostgresDeliveries(self._readers, self._links["deliver"], lambda: self._at)
        self.mail: MailStore = PostgresMail(self._readers, lambda: self._at)
        self.orgs: OrgStore = PostgresOrgs(self._links["upkeep"], lambda: self._at)
        self.workers: WorkerStore = PostgresWorkers(self._readers, lambda: self._at)
        self.duties: DutyStore = PostgresDuties(self._readers, lambda: self._at)
        self.blobs = LargePayloads(self)

    @classmethod
    async def open(cls, url: str, *, hints: Hints, clock: Clock | None = None, notify: bool = True) -> Self:
        """Connects to the database and brings its schema up to date.

        With `notify`, hosts tell each other what they committed; without it each of them looks by itself.
        """
        store = cls(url, hints=hints, clock=clock, notify=notify)
        try:
            await store._links["upkeep"].use(partial(prepare, address=read_address(url)))
            await store._refuse_unfinished()
            await store._learn_time()
        except BaseException:
            await store.close()
            raise
        if store._listener is not None:
            store._listener.start()
        return store

    async def _refuse_unfinished(self) -> None:
        """A store into which another one is being copied is not served."""
        source = await self._links["upkeep"].call("copied_from")
        if source is not None:
            raise StoreUnavailable(half_copied("the database", source))

    async def _probe(self) -> None:
        await self.duties.note(PROBE, socket.gethostname())

    @property
    def _at(self) -> int | None:
        return None if self._set_clock is None else self._set_clock.now()

    async def _learn_time(self) -> None:
        asked_at = monotonic()
        told = await self._links["heartbeat"].call("moment", None)
        self._own_clock.learn(told, asked_at, monotonic())

    # -- the life of a job ---------------------------------------------------------------------------------------------

    async def submit(self, new: NewJob) -> Submitted:
        if self._submits.waiting >= MOST_WAITING:
            raise Overloaded(f"{self._submits.waiting} writes wait already; nothing more is accepted")
        return cast("Submitted", await self._submits.do(new))

    async def _submit_batch(self, batch: Sequence[NewJob]) -> list[Any]:
        return await run_rounds(batch, submitting.keys_in(batch), submitting.size_of, self._send_submits)

    async def _send_submits(self, batch: Sequence[NewJob]) -> Sequence[Any]:
        values = (self._at, *submitting.columns_of(batch))
        offer, *others = self._standing.joining(batch) or (None,)
        self._standing.answer(others, [None] * len(others))
        if offer is None:
            answers = await self._links["submit"].told("submit", *values)
        else:
            answers = await self._submit_and_claim(values, offer)
        return await submitting.submitted(batch, answers, partial(self._find_jobs, "submit"))

    async def _submit_and_claim(self, values: Sequence[Any], offer: Offer) -> Sequence[str]:
        """Sends submissions together with a claim of this process that stands."""
        claims: list[Claim] | None = None
        try:
            answers, rows = await self._links["submit"].submit_and_claim(values, _claim_values(offer.request))
            claims = [_claim_of(tuple(row)) for row in rows]
            announce(self._wakes, offer.request, claims)
        finally:
            self._standing.answer([offer], [claims])
        return cast("Sequence[str]", answers)

    async def _find_jobs(self, link: str, jobs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], JobRecord]:
        """Looks jobs up after a commit, on the same connection. Others wait behind it: it has little time."""
        orgs, ids = zip(*jobs, strict=True)
        rows = await self._links[link].rows("views_of", list(orgs), list(map(key_of, ids)), patience=_FIND_PATIENCE)
        views = [view_from_database(row) for row in rows]
        return {(view.job.org_id, view.job.job_id): view.job for view in views}

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        rows = await self._links["claim"].claims("claim", self._at, *_claim_values(request))
        claims = [_claim_of(tuple(row)) for row in rows]
        announce(self._wakes, request, claims)
        return claims

    async def claim_next(self, request: ClaimRequest, idle: Callable[[], Coroutine[Any, Any, None]]) -> Handed:
        asked_at = monotonic()
        # What is about to be submitted takes the claim along.
        claims = [] if self._submits.waiting else await self.claim(request)
        return Handed(claims, asked_at) if claims else await self._standing.stand(request, idle)

    async def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[Renewal]:
        if not leases:
            return []
        asked = sorted(leases, key=recording.order_of_locks)
        orgs, jobs, attempts = zip(
            *((lease.org_id, key_of(lease.job_id), lease.attempt) for lease in asked), strict=True
        )
        answers = await self._links["heartbeat"].call(
            "renew", self._at, list(orgs), list(jobs), list(attempts), after(0, lease_seconds)
        )
        found = dict(zip(asked, answers, strict=True))
        return [_renewal_of(lease, found[lease]) for lease in leases]

    async def record(self, lease: Lease, write: Write) -> Recorded:
        if self.blobs.wants(write):
            write = await self.blobs.keep(lease, write)
        return cast("Recorded", await self._records.do(Recording(lease, write)))

    async def _record_batch(self, batch: Sequence[Recording]) -> list[Any]:
        return await run_rounds(batch, recording.keys_in, recording.size_of, self._send_records)

    async def _send_records(self, batch: Sequence[Recording]) -> Sequence[Any]:
        order = sorted(range(len(batch)), key=lambda place: recording.order_of_locks(batch[place].lease))
        values = recording.values_of([batch[place] for place in order])
        answers = await self._links["record"].told("record", self._at, uuid4(), *values)
        found = dict(zip(order, answers, strict=True))
        answered = [recording.answer_of(found[place]) for place in range(len(batch))]
        return await recording.written(batch, answered, partial(self._find_jobs, "record"))

    async def cancel(self, request: CancelRequest) -> JobView | None:
        return cast("JobView | None", await self._cancels.do(request))

    async def _cancel_batch(self, batch: Sequence[CancelRequest]) -> list[Any]:
        link = self._links["control"]
        orgs, ids = [one.org_id for one in batch], [key_of(one.job_id) for one in batch]
        details = [one.by for one in batch], [one.reason for one in batch], [one.request_id for one in batch]
        await link.call("cancel", self._at, orgs, ids, *details)
        views = [view_from_database(row) for row in await link.rows("views_of", orgs, ids)]
        found = {(view.job.org_id, view.job.job_id): view for view in views}
        return [found.get((one.org_id, one.job_id)) for one in batch]

    async def mark_read(self, wish: MarkRead) -> bool:
        message = None if wish.notification_id is None else name_of(wish.notification_id)
        changed = await self._links["control"].call("mark_read", self._at, wish.org_id, message, wish.until)
        return cast("bool", changed)

    async def hold(self, wish: HoldRequest) -> JobView | ResultGone | None:
        link, result = self._links["control"], name_of(wish.result_id)
        found = await link.rows("hold_result", self._at, wish.org_id, result, wish.held, wish.by, wish.reason)
        if not found:
            return None
        job_id, removed_at = found[0]
        if wish.held and removed_at is not None:
            return ResultGone(job_id, removed_at)
        views = [view_from_database(row) for row in await link.rows("views_of", [wish.org_id], [key_of(job_id)])]
        for view in views:
            announce(self._wakes, wish, view)
        return views[0] if views else None

    async def sweep(self, *, grace_seconds: float, backoff: Backoff, limit: int = 100) -> list[Swept]:
        swept: list[Swept] = []
        link = self._links["upkeep"]
        while True:
            rows = await link.rows(
                "sweep",
                self._at,
                after(0, grace_seconds),
                after(0, grace_seconds + CANCEL_MARGIN),
                backoff.base,
                backoff.cap,
                MOST_LOST_LEASES,
                limit,
            )
            page = [Swept(*row) for row in rows]
            for one in page:
                announce(self._wakes, None, one)
            swept += page
            if len(page) < limit:
                break
        await link.call("tidy", self._at)
        await self._learn_time()
        return swept

    async def retire(self, policy: RetentionPolicy, *, dry_run: bool, counted: bool = True) -> RetentionReport:
        link = Link(self._url, "retention")
        try:
            shelf = PostgresShelf(link, self._hints, self._at)
            report = await retire(shelf, policy, self.clock.now(), dry_run=dry_run, counted=counted)
        finally:
            await link.close()
        if not dry_run:
            await self.blobs.clean_up()
        return report

    # -- reading -------------------------------------------------------------------------------------------------------

    def tenant(self, org_id: str) -> TenantReads:
        return PostgresTenantReads(org_id, self._readers, self._copies, self.blobs)

    async def kept_payloads(self, jobs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], KeptPayloads]:
        return await overview.kept_payloads(self._readers, jobs)

    async def depth(self) -> Depth:
        return await overview.depth(self._readers, self._at)

    async def paces(self) -> dict[str, float]:
        return await overview.paces(self._readers)

    async def load(self) -> Load:
        return await overview.load(self._readers, self._at)

    async def overview(self, *, since: Instant, most: int) -> Overview:
        return await overview.look(self._readers.rows, "all", since, most)

    async def pulses(self, jobs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Pulse]:
        return await overview.pulses(self._readers, jobs)

    async def org_pulses(self, org_ids: Sequence[str]) -> dict[str, str]:
        return await overview.org_pulses(self._readers, org_ids)

    async def backlog(self, *, orgs: bool) -> Backlog:
        return await backlog.backlog(self._readers, self._at, orgs=orgs)

    def usage(self) -> Usage:
        links = [*self._links.values(), *self._readers.all]
        return backlog.usage((self._submits, self._records, self._cancels), links)

    async def whereabouts(self) -> Whereabouts:
        return await self._links["upkeep"].use(whereabouts)

    async def check(self) -> None:
        await overview.check(self._readers)

    async def close(self) -> None:
        for queue in (self._submits, self._records, self._cancels):
            await queue.finish()
        if self._listener is not None:
            await self._listener.close()
        await self._wakes.finish()
        await asyncio.gather(self._readers.close(), *(link.close() for link in self._links.values()))
        await self.blobs.close()


def _renewal_of(lease: Lease, said: str | None) -> Renewal:
    reason = said[5:] if said and said.startswith("stop ") else None
    return Renewal(lease, held=said is not None, cancel_reason=reason)


def _claim_values(request: ClaimRequest) -> tuple[Any, ...]:
    """What the database is told of a claim, behind the time."""
    return (
        uuid4(),
        request.worker_id,
        request.slots,
        list(request.analyses),
        after(0, request.lease_seconds),
        request.max_running,
        list(request.limits),
        list(request.limits.values()),
        request.max_running_org,
    )


def _claim_of(row: tuple[Any, ...]) -> Claim:
    (org_id, job_id, attempt, analysis, payload, started_at, expires_at, timeout_seconds, *rest) = row
    progress_percent, retry_count, max_retries, trace_id, request_id, traceparent, tracestate = rest
    return Claim(
        lease=Lease(org_id, job_id, attempt),
        analysis=analysis,
        payload=payload,
        started_at=started_at,
        expires_at=expires_at,
        timeout_seconds=timeout_seconds,
        progress_percent=progress_percent,
        retry_count=retry_count,
        max_retries=max_retries,
        trace_id=trace_id,
        request_id=request_id,
        traceparent=traceparent,
        tracestate=tracestate,
        queued_at=made_at(job_id),
    )
