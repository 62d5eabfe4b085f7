"""Reads of an org's jobs for one caller, with the fields derived at the time of reading."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from langlauf.auth.caller import Caller
from langlauf.clock import Clock
from langlauf.domain.delivery import (
    ChannelName,
    DeliveryAttempt,
    DeliveryFilter,
    Notification,
    Subscription,
    WebhookEndpoint,
)
from langlauf.domain.eta import TicketRange, poll_seconds
from langlauf.domain.event import Event, FeedPage, FeedRequest
from langlauf.domain.failure import FailedJob
from langlauf.domain.instant import Instant
from langlauf.domain.job import JobRecord, Phase, phase
from langlauf.domain.mail import MailMark
from langlauf.domain.provenance import TrailEntry
from langlauf.domain.read_models import (
    EMPTY_OVERVIEW,
    EventLogPage,
    HistoryEntry,
    InboxPage,
    JobFilter,
    JobFingerprint,
    JobView,
    KeptParts,
    Overview,
    PageOfJobs,
    PastRun,
    ResultView,
    StatusView,
)
from langlauf.domain.result import PayloadSource, Snapshot
from langlauf.domain.schedule import Pause, Schedule
from langlauf.domain.state import Status
from langlauf.service.single_flight import BatchedReads
from langlauf.service.start_times import Estimates, Pauses
from langlauf.settings import Settings
from langlauf.store.admin import RecordOwner
from langlauf.store.health import PROBLEM_TEXTS
from langlauf.store.protocol import JobReads, Store, TenantReads

#: What a caller may read of a job: packages above this one do not import the store.
CallerReads = JobReads


class DerivedFields(msgspec.Struct, frozen=True):
    """Fields of a job that depend on the current time."""

    phase: Phase
    estimated_seconds: float | None
    #: whole seconds after which a poll is worthwhile
    poll_after: int
    #: the pause that it waits for, in the phase `paused`
    pause: Pause | None = None


class Reads:
    """Reads for one caller at a time, and the derived fields."""

    def __init__(self, store: Store, settings: Settings, estimates: Estimates, pauses: Pauses, clock: Clock) -> None:
        self._store = store
        self._pauses = pauses
        self._estimates = estimates
        self._settings = settings
        self._clock = clock
        self._fingerprints: BatchedReads[tuple[str, str], JobFingerprint] = BatchedReads(store.job_fingerprints)

    def of(self, caller: Caller) -> TenantReads:
        """Return the reads of everything that the caller may see, and nothing else."""
        return reads_for(self._store, caller)

    async def pulse(self, caller: Caller, job_id: str) -> JobFingerprint | None:
        """Return what changes with a job, or None where the caller cannot see it. Concurrent calls share one query."""
        only = None if caller.grant is None else caller.grant.job_id
        return await self._fingerprints.get((caller.org_id, job_id)) if only in (None, job_id) else None

    async def owner(self, kind: Literal["job", "result"], record_id: str) -> RecordOwner | None:
        """Return the owner of a record over all orgs, for callers without an org."""
        return await self._store.access.find(kind, record_id)

    async def check(self) -> None:
        """Raise where the store does not answer."""
        await self._store.check()

    async def unwell(self) -> str | None:
        """Return why the store takes no writes right now, in a sentence that names no path; None where it does."""
        problem = await self._store.health.look()
        return None if problem is None else PROBLEM_TEXTS[problem].sentence

    async def derived_fields(self, view: JobView) -> DerivedFields:
        """Return the phase and the estimates of a job."""
        remaining = await self._estimates.remaining(view, self._clock.now())
        return self._derived(view, remaining)

    def derived_fields_of_new(self, job: JobRecord) -> DerivedFields:
        """Return the same for a job that was just accepted, from the estimate made then."""
        return self._derived(JobView(job, None), job.estimated_seconds)

    def _derived(self, view: JobView, remaining: float | None) -> DerivedFields:
        phase = self.phase(view)
        pause = self._pauses.of(view.job) if phase is Phase.PAUSED else None
        return DerivedFields(phase, remaining, poll_seconds(view.job, remaining), pause)

    async def ahead(self, view: JobView) -> int | None:
        """Return about how many jobs of its org start before a waiting one."""
        return await self._estimates.ahead(view.job)

    def now(self) -> Instant:
        """Return the time to compare stored times with."""
        return self._clock.now()

    def phase(self, view: JobView) -> Phase:
        """Return the phase alone, without a query, by the pauses that were read last."""
        paused = view.lease_expires_at is None and self._pauses.of(view.job) is not None
        return phase(view.job, view.lease_expires_at, self._clock.now(), self._settings.lease_seconds, paused=paused)

    async def read_pauses(self) -> None:
        """Read which analyses are paused, where that is older than a second."""
        await self._pauses.read()


#: Finished parts are counted up to this.
_MOST_PARTS = 10_000


async def kept_parts(reads: TenantReads, job: JobRecord) -> KeptParts | None:
    """Return the finished parts that a resumed job would not compute again; None where there is nothing to resume."""
    if job.status not in (Status.FAILED, Status.CANCELED):
        return None
    found = await reads.kept_parts(job.job_id, most=_MOST_PARTS)
    return found if found.count else None


def reads_for(store: Store, caller: Caller) -> TenantReads:
    """Return the reads for a caller: the only way to records."""
    tenant = store.tenant(caller.org_id)
    job_id = None if caller.grant is None else caller.grant.job_id
    return tenant if job_id is None else OneJobReads(store, tenant, caller.org_id, job_id)


class OneJobReads:
    """The reads of an org restricted to one job. Any other job is not found, and not even queried."""

    def __init__(self, store: Store, tenant: TenantReads, org_id: str, job_id: str) -> None:
        self._store = store
        self._tenant = tenant
        self._owner = (org_id, job_id)
        self._job_id = job_id

    async def job(self, job_id: str) -> JobView | None:
        return await self._tenant.job(job_id) if job_id == self._job_id else None

    async def status(self, job_id: str, *, events: int, inline_limit: int) -> StatusView | None:
        if job_id != self._job_id:
            return None
        return await self._tenant.status(job_id, events=events, inline_limit=inline_limit)

    async def payload(self, job_id: str) -> str | None:
        return await self._tenant.payload(job_id) if job_id == self._job_id else None

    async def inputs(self, job_ids: Sequence[str], *, largest: int) -> dict[str, str]:
        return await self._tenant.inputs([one for one in job_ids if one == self._job_id], largest=largest)

    async def events(self, job_id: str, *, after: int, limit: int) -> list[Event]:
        return await self._tenant.events(job_id, after=after, limit=limit) if job_id == self._job_id else []

    async def log(self, job_id: str, *, after: int, limit: int, most_bytes: int) -> EventLogPage:
        if job_id != self._job_id:
            return EventLogPage([], more=False, over=True)
        return await self._tenant.log(job_id, after=after, limit=limit, most_bytes=most_bytes)

    async def feed(self, request: FeedRequest) -> FeedPage:  # noqa: ARG002 - the log of the job has its events
        return FeedPage([], None, more=False)

    async def results(self, job_id: str) -> list[Snapshot]:
        return await self._tenant.results(job_id) if job_id == self._job_id else []

    async def result(self, result_id: str, *, latest: bool, payload: bool = True) -> ResultView | None:
        # The owner is checked first: reading another job's result and dropping it would take longer than finding none.
        if await self._store.access.find("result", result_id) != self._owner:
            return None
        return await self._tenant.result(result_id, latest=latest, payload=payload)

    async def source(self, result_id: str) -> PayloadSource | None:
        if await self._store.access.find("result", result_id) != self._owner:
            return None
        return await self._tenant.source(result_id)

    async def views(self, result_id: str) -> str | None:
        if await self._store.access.find("result", result_id) != self._owner:
            return None
        return await self._tenant.views(result_id)

    async def notifications(self, job_id: str, *, channel: ChannelName | None, limit: int) -> list[Notification]:
        if job_id != self._job_id:
            return []
        return await self._tenant.notifications(job_id, channel=channel, limit=limit)

    async def endpoints(self) -> list[WebhookEndpoint]:
        return []

    async def schedules(self, name: str | None = None) -> list[Schedule]:  # noqa: ARG002 - they are no part of a job
        return []

    async def schedule_runs(self, name: str, *, limit: int) -> list[JobView]:  # noqa: ARG002
        return []

    async def deliveries(self, which: DeliveryFilter) -> list[Notification]:
        if which.job_id not in {None, self._job_id}:
            return []
        return await self._tenant.deliveries(msgspec.structs.replace(which, job_id=self._job_id))

    async def delivery(self, notification_id: str) -> Notification | None:
        found = await self._tenant.delivery(notification_id)
        return found if found is not None and found.job_id == self._job_id else None

    async def delivery_attempts(self, notification_id: str, *, limit: int) -> list[DeliveryAttempt]:
        found = await self._tenant.delivery_attempts(notification_id, limit=limit)
        return [one for one in found if one.job_id == self._job_id]

    async def subscriptions(self, job_id: str) -> tuple[Subscription, ...]:
        return await self._tenant.subscriptions(job_id) if job_id == self._job_id else ()

    async def mail_marks(self, address: str | None = None) -> list[MailMark]:  # noqa: ARG002 - they are no part of a job
        return []

    async def jobs(self, which: JobFilter) -> PageOfJobs:  # noqa: ARG002 - no list has it
        return PageOfJobs([], None)

    async def history(self, *, limit: int, offset: int) -> tuple[list[HistoryEntry], int]:  # noqa: ARG002
        return [], 0

    async def counts(self, *, most: int) -> dict[Status, int]:  # noqa: ARG002
        return {}

    async def failures(self, *, since: Instant, before: tuple[Instant, str] | None, limit: int) -> list[FailedJob]:  # noqa: ARG002
        return []

    async def inbox(self, *, before: tuple[Instant, str] | None, limit: int) -> InboxPage:  # noqa: ARG002
        return InboxPage([], None)

    async def unread(self, *, most: int) -> int:  # noqa: ARG002
        return 0

    async def held(self, *, before: tuple[Instant, str] | None, limit: int) -> list[JobView]:  # noqa: ARG002
        return []

    async def completed(
        self,
        analysis: str,  # noqa: ARG002
        *,
        before: tuple[Instant, str] | None,  # noqa: ARG002
        limit: int,  # noqa: ARG002
    ) -> list[PastRun]:
        return []

    async def ranks(self) -> list[TicketRange]:
        return await self._tenant.ranks()

    async def overview(self, *, since: Instant, most: int) -> Overview:  # noqa: ARG002 - no figure counts it
        return EMPTY_OVERVIEW

    async def trail(self, job_id: str) -> list[TrailEntry]:
        return await self._tenant.trail(job_id) if job_id == self._job_id else []

    async def resumed(self, job_id: str) -> int:
        return await self._tenant.resumed(job_id) if job_id == self._job_id else 0

    async def kept_parts(self, job_id: str, *, most: int) -> KeptParts:
        return await self._tenant.kept_parts(job_id, most=most) if job_id == self._job_id else KeptParts(0)

    async def reruns(self, job_id: str, *, most: int) -> list[JobView]:  # noqa: ARG002 - they are other jobs
        return []

    async def chunk(self, job_id: str, key: str) -> str | None:
        return await self._tenant.chunk(job_id, key) if job_id == self._job_id else None

    async def chunks(self, job_id: str, keys: Sequence[str]) -> dict[str, str]:
        return await self._tenant.chunks(job_id, keys) if job_id == self._job_id else {}
