"""What every store promises, in the order of a job's life.

Writes are outcomes, not errors: a lost lease gives False, a full queue gives `QueueFull`. A write that returned is on
disk. `StoreUnavailable` means that nothing of it was kept. Reads of tenant data exist on `TenantReads` alone, which is
bound to one org.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from langlauf.clock import Clock
from langlauf.domain.attempt import Backoff, Claim, ClaimBatch, ClaimRequest, Lease, LeaseRenewal, Write, WriteResult
from langlauf.domain.delivery import (
    ChannelName,
    DeliveryAttempt,
    DeliveryFilter,
    Notification,
    Subscription,
    WebhookEndpoint,
)
from langlauf.domain.eta import QueueLoad, TicketRange
from langlauf.domain.event import Event, FeedPage, FeedRequest
from langlauf.domain.failure_groups import FailedJob
from langlauf.domain.instant import Instant
from langlauf.domain.job import NewJob, SubmitOutcome
from langlauf.domain.mail import MailMark
from langlauf.domain.overview import Backlog, Overview, StoreUsage
from langlauf.domain.read_models import (
    CancelRequest,
    EventLogPage,
    HistoryEntry,
    InboxPage,
    JobFilter,
    JobFingerprint,
    JobView,
    MarkRead,
    PageOfJobs,
    PastRun,
    QueueDepth,
    ResultView,
    StatusView,
    SweptJob,
)
from langlauf.domain.result import PayloadSource, ReferencedPayloads, Snapshot
from langlauf.domain.retention import HoldRequest, ResultGone, RetentionPolicy, RetentionReport
from langlauf.domain.state import Status
from langlauf.store.admin import AccessStore, DutyStore, OrgStore, WorkerStore
from langlauf.store.blobs.large import LargePayloads
from langlauf.store.blobs.owner import StoreIdentity
from langlauf.store.deliveries import DeliveryStore, MailStore
from langlauf.store.health import StoreHealth


class JobReads(Protocol):
    """What there is of one job, or of some that are named."""

    async def job(self, job_id: str) -> JobView | None:
        """One job by one index look-up."""

    async def status(self, job_id: str, *, events: int, inline_limit: int) -> StatusView | None:
        """One job with its latest events and, once completed, its result up to a size."""

    async def payload(self, job_id: str) -> str | None:
        """The input of a job as JSON text."""

    async def inputs(self, job_ids: Sequence[str], *, largest: int) -> dict[str, str]:
        """The inputs of some jobs as JSON text, those that are no larger than so many bytes."""

    async def events(self, job_id: str, *, after: int, limit: int) -> list[Event]:
        """A job's events past a sequence number, ascending."""

    async def log(self, job_id: str, *, after: int, limit: int, most_bytes: int) -> EventLogPage:
        """The next events past a sequence number: so many, or up to the one with which they have so many bytes."""

    async def results(self, job_id: str) -> list[Snapshot]:
        """A job's snapshots, ascending."""

    async def result(self, result_id: str, *, latest: bool, payload: bool = True) -> ResultView | None:
        """A snapshot, or the newest one of its job: the final, else the last partial; or what is known of it alone."""

    async def source(self, result_id: str) -> PayloadSource | None:
        """The payload of a snapshot, to be read in pieces; None where there is none, or none any more."""

    async def views(self, result_id: str) -> str | None:
        """What people are to see of a snapshot, as JSON text, without its payload."""

    async def notifications(self, job_id: str, *, channel: ChannelName | None, limit: int) -> list[Notification]:
        """A job's messages, latest first."""

    async def subscriptions(self, job_id: str) -> tuple[Subscription, ...]:
        """Whom the submission of a job asked to be told of its end."""

    async def chunk(self, job_id: str, key: str) -> str | None:
        """The stored value of a finished chunk as JSON text."""

    async def chunks(self, job_id: str, keys: Sequence[str]) -> dict[str, str]:
        """The stored values of those chunks that are finished, as JSON text by key."""


class OrgReads(Protocol):
    """What there is of an org: its lists and its figures."""

    async def feed(self, wish: FeedRequest) -> FeedPage:
        """The next of the org's outbound events, over all jobs: none is ever passed over, however late it commits."""

    async def endpoints(self) -> list[WebhookEndpoint]:
        """Whom the org wants to be called, the oldest first."""

    async def deliveries(self, which: DeliveryFilter) -> list[Notification]:
        """The org's messages to the world outside, newest first."""

    async def delivery(self, notification_id: str) -> Notification | None:
        """One of them."""

    async def delivery_attempts(self, notification_id: str, *, limit: int) -> list[DeliveryAttempt]:
        """What became of one of them, the last attempt first."""

    async def mail_marks(self, address: str | None = None) -> list[MailMark]:
        """What the org knows of receivers of mail, by address: of one of them, or of all."""

    async def jobs(self, which: JobFilter) -> PageOfJobs:
        """The org's jobs, newest first; a page costs the same whatever the filter and the number of jobs."""

    async def counts(self, *, most: int) -> dict[Status, int]:
        """How many of the org's jobs are in each state, counted no further than told; only states with some."""

    async def failures(self, *, since: Instant, before: tuple[Instant, str] | None, limit: int) -> list[FailedJob]:
        """The org's failed jobs that were accepted since an instant, newest first."""

    async def history(self, *, limit: int, offset: int) -> tuple[list[HistoryEntry], int]:
        """The org's jobs that have a result, newest first, and how many there are."""

    async def inbox(self, *, before: tuple[Instant, str] | None, limit: int) -> InboxPage:
        """The org's messages for people, newest first."""

    async def unread(self, *, most: int) -> int:
        """How many of them nobody has seen, counted no further than told, among the newest ones."""

    async def held(self, *, before: tuple[Instant, str] | None, limit: int) -> list[JobView]:
        """The org's jobs whose results are held, the last that was held first, before a position."""

    async def completed(self, analysis: str, *, before: tuple[Instant, str] | None, limit: int) -> list[PastRun]:
        """Completed jobs of an analysis whose results are still there, the last to end first, before a position."""

    async def ranks(self) -> list[TicketRange]:
        """The first and the last waiting job of each analysis and class, found without a walk between them."""

    async def overview(self, *, since: Instant, most: int) -> Overview:
        """What waits, runs and ended since then, at most so many of each kind: for figures."""


class TenantReads(JobReads, OrgReads, Protocol):
    """The one choke point for reads: everything here belongs to one org, anything else does not exist."""


class Store(Protocol):
    """Durable truth. Each verb is one atomic change."""

    @property
    def clock(self) -> Clock:
        """The store's time. Whoever compares something with a time that is stored asks this clock and no other."""

    @property
    def access(self) -> AccessStore:
        """Keys, and what else is kept about who may call."""

    @property
    def orgs(self) -> OrgStore:
        """Orgs as a whole, for operators."""

    @property
    def workers(self) -> WorkerStore:
        """Who works."""

    @property
    def duties(self) -> DutyStore:
        """When upkeep last succeeded."""

    @property
    def health(self) -> StoreHealth:
        """Whether it takes writes, and why not."""

    @property
    def blobs(self) -> LargePayloads:
        """What does not lie in its rows."""

    @property
    def deliveries(self) -> DeliveryStore:
        """The outbox, and who is called."""

    @property
    def mail(self) -> MailStore:
        """Who may be written to by e-mail, and how often."""

    async def submit(self, new: NewJob) -> SubmitOutcome:
        """Accepts a job with its input, its first event and its idempotency key."""

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        """Hands out as many jobs as there are free slots, in fair order, each with a lease."""

    async def claim_next(self, request: ClaimRequest, idle: Callable[[], Coroutine[Any, Any, None]]) -> ClaimBatch:
        """The same, and where nothing may start the request stands while `idle()` lasts.

        What is submitted in this process meanwhile may be claimed for it in the transaction that accepts it.
        """

    async def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[LeaseRenewal]:
        """Extends the leases that are still held and tells which jobs are wished to stop."""

    async def record(self, lease: Lease, write: Write) -> WriteResult:
        """Writes for an attempt; false where its lease is gone and the write was refused.

        Past the bounds of the job, progress and partials change nothing, and the answer says so.
        """

    async def cancel(self, request: CancelRequest) -> JobView | None:
        """Ends a job that no worker holds, or asks its worker to stop. Idempotent."""

    async def mark_read(self, wish: MarkRead) -> bool:
        """Remembers that messages were seen; False where that was known, or where there are none."""

    async def hold(self, wish: HoldRequest) -> JobView | ResultGone | None:
        """Keeps the job of a result from retention, or no longer; None where there is no such result. Idempotent."""

    async def sweep(self, *, grace_seconds: float, backoff: Backoff, limit: int = 100) -> list[SweptJob]:
        """Takes jobs back from workers that vanished, let them run out of time or did not stop them when asked to."""

    async def retire(self, policy: RetentionPolicy, *, dry_run: bool, counted: bool = True) -> RetentionReport:
        """Removes what is older than the policy, in small batches.

        With `counted` it also tells how much there is in all: a walk over everything, which takes long where that is
        much.
        """

    async def kept_payloads(self, jobs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], ReferencedPayloads]:
        """What these jobs, by org and id, still name outside of the store; one that does not exist is not there.

        For whoever removes what nobody names: it is read as it is now, not as it was a moment ago.
        """

    def tenant(self, org_id: str) -> TenantReads:
        """The reads of one org."""

    async def depth(self) -> QueueDepth:
        """How many jobs wait and run."""

    async def paces(self) -> Mapping[str, float]:
        """What a run of each analysis took lately, in seconds; one that never completed is not there."""

    async def load(self) -> QueueLoad:
        """All that waits and runs over all orgs, lane by lane: for estimates, not for every poll."""

    async def overview(self, *, since: Instant, most: int) -> Overview:
        """What waits, runs and ended over all orgs since then, at most so many of each kind: for operators."""

    async def pulses(self, jobs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], JobFingerprint]:
        """How many jobs are doing, by org and id, in one look; one that does not exist is not there.

        For whoever wakes those that follow them: what followers see, they read for themselves.
        """

    async def org_pulses(self, org_ids: Sequence[str]) -> Mapping[str, str]:
        """A mark of each org that is another one whenever any of its jobs has changed, in one look."""

    async def backlog(self, *, orgs: bool) -> Backlog:
        """What waits and runs in figures, over all orgs, and by org where that is asked for: for metrics."""

    def usage(self) -> StoreUsage:
        """What the store has in hand in this process, without asking anybody."""

    async def identity(self) -> StoreIdentity:
        """Where it is, which no copy of it is."""

    async def check(self) -> None:
        """Raises `StoreUnavailable` unless the store answers and its schema is this program's."""

    async def close(self) -> None:
        """Finishes what waits and lets go."""
