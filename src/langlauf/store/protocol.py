"""The protocol of every store, in the order of a job's life.

Writes are outcomes, not errors: a lost lease gives False, a full queue gives `QueueFull`. A write that returned is on
disk. `StoreUnavailable` means that nothing of it was kept. Reads of tenant data exist on `TenantReads` alone, which is
bound to one org.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from langlauf.clock import Clock
from langlauf.domain.attempt import Backoff, Claim, ClaimRequest, Lease, LeaseRenewal, Write, WriteResult
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
from langlauf.domain.failure import FailedJob
from langlauf.domain.instant import Instant
from langlauf.domain.job import NewJob, SubmitOutcome
from langlauf.domain.mail import MailMark
from langlauf.domain.provenance import TrailEntry
from langlauf.domain.read_models import (
    Backlog,
    CancelRequest,
    EventLogPage,
    HistoryEntry,
    InboxPage,
    JobFilter,
    JobFingerprint,
    JobView,
    KeptParts,
    MarkRead,
    Overview,
    PageOfJobs,
    PastRun,
    QueueDepth,
    ResultView,
    StatusView,
    StoreUsage,
    SweptJob,
)
from langlauf.domain.result import (
    HoldRequest,
    PayloadSource,
    ReferencedPayloads,
    ResultGone,
    RetentionPolicy,
    RetentionReport,
    Snapshot,
)
from langlauf.domain.schedule import Pause, PauseRequest, ResumeRequest, Schedule
from langlauf.domain.state import Status
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
from langlauf.store.health import StoreHealth
from langlauf.store.standing_claims import StandingClaim


class JobReads(Protocol):
    """Reads of single jobs, by id."""

    async def job(self, job_id: str) -> JobView | None:
        """Return one job by one index look-up."""

    async def status(self, job_id: str, *, events: int, inline_limit: int) -> StatusView | None:
        """Return one job with its latest events and, once completed, its result up to a size."""

    async def payload(self, job_id: str) -> str | None:
        """Return the input of a job as JSON text."""

    async def inputs(self, job_ids: Sequence[str], *, largest: int) -> dict[str, str]:
        """Return the inputs of some jobs as JSON text, those that are no larger than so many bytes."""

    async def events(self, job_id: str, *, after: int, limit: int) -> list[Event]:
        """Return a job's events past a sequence number, ascending."""

    async def log(self, job_id: str, *, after: int, limit: int, most_bytes: int) -> EventLogPage:
        """Return the next events past a sequence number, up to a count or a total of bytes."""

    async def results(self, job_id: str) -> list[Snapshot]:
        """Return a job's snapshots, ascending."""

    async def result(self, result_id: str, *, latest: bool, payload: bool = True) -> ResultView | None:
        """Return a snapshot, or the newest one of its job (final, else the last partial), with or without payload."""

    async def source(self, result_id: str) -> PayloadSource | None:
        """Return the payload of a snapshot, to be read in pieces; None where there is none, or none any more."""

    async def views(self, result_id: str) -> str | None:
        """Return the views of a snapshot as JSON text, without its payload."""

    async def notifications(self, job_id: str, *, channel: ChannelName | None, limit: int) -> list[Notification]:
        """Return a job's messages, latest first."""

    async def subscriptions(self, job_id: str) -> tuple[Subscription, ...]:
        """The subscriptions of a job to its end."""

    async def chunk(self, job_id: str, key: str) -> str | None:
        """Return the stored value of a finished chunk as JSON text."""

    async def chunks(self, job_id: str, keys: Sequence[str]) -> dict[str, str]:
        """Return the stored values of those chunks that are finished, as JSON text by key."""

    async def trail(self, job_id: str) -> list[TrailEntry]:
        """Return what is kept about how a job came about, beside its fields."""

    async def resumed(self, job_id: str) -> int:
        """Return with how many chunks of another job a job began."""

    async def kept_parts(self, job_id: str, *, most: int) -> KeptParts:
        """Return how many finished chunks of a job are stored, counted up to a limit, and of how many."""

    async def reruns(self, job_id: str, *, most: int) -> list[JobView]:
        """Return the jobs that repeat a job or started from its input, newest first."""


class OrgReads(Protocol):
    """Lists and figures of an org."""

    async def feed(self, request: FeedRequest) -> FeedPage:
        """Return the next outbound events of the org over all jobs; none is skipped, however late it commits."""

    async def endpoints(self) -> list[WebhookEndpoint]:
        """Return the webhook endpoints of the org, oldest first."""

    async def deliveries(self, which: DeliveryFilter) -> list[Notification]:
        """Return the org's messages to the world outside, newest first."""

    async def delivery(self, notification_id: str) -> Notification | None:
        """Return one delivery."""

    async def delivery_attempts(self, notification_id: str, *, limit: int) -> list[DeliveryAttempt]:
        """Return the attempts of one delivery, the last one first."""

    async def mail_marks(self, address: str | None = None) -> list[MailMark]:
        """Return what the org knows of receivers of mail, by address: of one of them, or of all."""

    async def schedules(self, name: str | None = None) -> list[Schedule]:
        """Return the org's schedules by name, or the one of a name."""

    async def schedule_runs(self, name: str, *, limit: int) -> list[JobView]:
        """Return the newest runs of a schedule."""

    async def jobs(self, which: JobFilter) -> PageOfJobs:
        """Return the org's jobs, newest first; a page costs the same whatever the filter and the number of jobs."""

    async def counts(self, *, most: int) -> dict[Status, int]:
        """Return how many of the org's jobs are in each state, counted up to a limit; empty states are missing."""

    async def failures(self, *, since: Instant, before: tuple[Instant, str] | None, limit: int) -> list[FailedJob]:
        """Return the org's failed jobs that were accepted since an instant, newest first."""

    async def history(self, *, limit: int, offset: int) -> tuple[list[HistoryEntry], int]:
        """Return the org's jobs that have a result, newest first, and how many there are."""

    async def inbox(self, *, before: tuple[Instant, str] | None, limit: int) -> InboxPage:
        """Return the org's messages for people, newest first."""

    async def unread(self, *, most: int) -> int:
        """Return how many of the newest messages are unread, counted up to a limit."""

    async def held(self, *, before: tuple[Instant, str] | None, limit: int) -> list[JobView]:
        """Return the org's jobs whose results are held, the last that was held first, before a position."""

    async def completed(self, analysis: str, *, before: tuple[Instant, str] | None, limit: int) -> list[PastRun]:
        """Return completed jobs of an analysis that still have results, the last to end first, before a position."""

    async def ranks(self) -> list[TicketRange]:
        """Return the first and the last waiting job of each analysis and class, found without a walk between them."""

    async def overview(self, *, since: Instant, most: int) -> Overview:
        """Return jobs that wait, run or ended since then, at most so many of each kind."""


class TenantReads(JobReads, OrgReads, Protocol):
    """Reads of one org: records of other orgs do not exist here."""


class Store(Protocol):
    """The durable store. Each verb is one atomic change."""

    @property
    def clock(self) -> Clock:
        """The clock of the store: the only one to compare with stored times."""

    @property
    def access(self) -> AccessStore:
        """API keys, ended sessions and signing secrets."""

    @property
    def orgs(self) -> OrgStore:
        """Orgs as a whole, for operators."""

    @property
    def workers(self) -> WorkerStore:
        """Workers and their reports."""

    @property
    def duties(self) -> DutyStore:
        """When maintenance duties last succeeded."""

    @property
    def health(self) -> StoreHealth:
        """Whether the store accepts writes, and why not."""

    @property
    def blobs(self) -> LargePayloads:
        """Large payloads, stored outside of the rows."""

    @property
    def deliveries(self) -> DeliveryStore:
        """The outbox and webhook endpoints."""

    @property
    def schedules(self) -> ScheduleStore:
        """Schedules of all orgs, for those who fire and change them."""

    @property
    def mail(self) -> MailStore:
        """Receivers of e-mail and their rate limits."""

    async def submit(self, new: NewJob) -> SubmitOutcome:
        """Accept a job with its input, its first event and its idempotency key."""

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        """Hand out as many jobs as there are free slots, in fair order, each with a lease."""

    def stand(self, claim: StandingClaim) -> None:
        """Let a claim stand: a job that this process submits may be claimed for it as it is accepted, by one commit."""

    async def withdraw(self, claim: StandingClaim) -> None:
        """Let it stand no more; returns when it has got what was claimed for it."""

    async def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[LeaseRenewal]:
        """Extend the leases that are still held, and return which jobs are to stop."""

    def record(self, lease: Lease, write: Write) -> Awaitable[WriteResult]:
        """Write for an attempt; the result is false where its lease is lost and the write was refused.

        Beyond the limits of the job, progress and partials change nothing, and the result says so.
        """

    def record_all(self, writes: Sequence[tuple[Lease, Write]]) -> Awaitable[list[WriteResult | Exception]]:
        """Do several writes as `record` does, each by itself, and return the result or the error of each."""

    async def cancel(self, request: CancelRequest) -> JobView | None:
        """End a job that no worker holds, or ask its worker to stop. Idempotent."""

    async def mark_read(self, request: MarkRead) -> bool:
        """Mark messages as read; False where they were read already, or where there are none."""

    async def hold(self, request: HoldRequest) -> JobView | ResultGone | None:
        """Keep the job of a result from retention, or no longer; None where there is no such result. Idempotent."""

    async def pause(self, request: PauseRequest) -> Pause:
        """Let no job of an analysis start, from this commit on. Repeating it changes the reason and the end."""

    async def resume(self, request: ResumeRequest) -> bool:
        """End a pause; False where none holds. Idempotent."""

    async def sweep(self, *, grace_seconds: float, backoff: Backoff, limit: int = 100) -> list[SweptJob]:
        """Take jobs back from workers that vanished, exceeded the time limit or did not stop when asked.

        Jobs that did not start in time are canceled, and those whose time has come enter the line.
        """

    async def next_start(self) -> Instant | None:
        """Return the next time at which a job that waits for it may start, or is too late; None where none waits."""

    async def retire(self, policy: RetentionPolicy, *, dry_run: bool, counted: bool = True) -> RetentionReport:
        """Remove records older than the policy, in small batches.

        With `counted` the report includes totals, which takes a full scan and long where there is
        much.
        """

    async def kept_payloads(self, jobs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], ReferencedPayloads]:
        """Return the blobs that these jobs, by org and id, still reference; a job that does not exist is missing.

        Read from the present state, not from a snapshot: garbage collection depends on it.
        """

    def tenant(self, org_id: str) -> TenantReads:
        """Return the reads of one org."""

    async def pauses(self) -> list[Pause]:
        """Return all pauses by analysis, also those whose time is over."""

    async def depth(self) -> QueueDepth:
        """Return how many jobs wait and run."""

    async def paces(self) -> Mapping[str, float]:
        """Return the recent mean run time in seconds of each analysis that has completed a run."""

    async def load(self) -> QueueLoad:
        """Return all that waits and runs over all orgs, lane by lane: for estimates, not for every poll."""

    async def overview(self, *, since: Instant, most: int) -> Overview:
        """Return jobs that wait, run or ended since then over all orgs, at most so many of each kind, for operators."""

    async def job_fingerprints(self, jobs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], JobFingerprint]:
        """Return how many jobs are doing, by org and id, in one look; one that does not exist is not there.

        Used to wake followers, which then read for themselves.
        """

    async def org_versions(self, org_ids: Sequence[str]) -> Mapping[str, str]:
        """Return a version of each org that differs whenever any of its jobs has changed, in one query."""

    async def backlog(self, *, orgs: bool) -> Backlog:
        """Return counts of waiting and running jobs over all orgs, and by org on request, for metrics."""

    def usage(self) -> StoreUsage:
        """Return queue lengths and sizes of this process, without a query."""

    async def identity(self) -> StoreIdentity:
        """Return the identity of the store, which differs for every copy."""

    async def check(self) -> None:
        """Raise `StoreUnavailable` unless the store answers and its schema is this program's."""

    async def close(self) -> None:
        """Finish pending operations and close."""
