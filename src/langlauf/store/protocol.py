"""What every store promises, in the order of a job's life.

Writes are outcomes, not errors: a lost lease gives False, a full queue gives `QueueFull`. A write that returned is on
disk. `StoreUnavailable` means that nothing of it was kept. Reads of tenant data exist on `TenantReads` alone, which is
bound to one org.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from langlauf.domain.attempt import Claim, ClaimRequest, Lease, Renewal, Write
from langlauf.domain.event import Event
from langlauf.domain.instant import Instant
from langlauf.domain.job import CanceledBy, Job, NewJob, Submitted
from langlauf.domain.notification import Channel, Notification
from langlauf.domain.result import Snapshot, StoredResult
from langlauf.domain.retry import Backoff
from langlauf.domain.state import Status


class CancelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wishes a job stopped."""

    org_id: str
    job_id: str
    by: CanceledBy
    reason: str
    request_id: str


class Swept(msgspec.Struct, frozen=True):
    """A job that the sweep found without a living worker, and what it did about it."""

    org_id: str
    job_id: str
    #: lost, retry, failed or canceled
    outcome: str


class JobView(msgspec.Struct, frozen=True):
    """A job with what is not in its row: until when a worker holds it."""

    job: Job
    lease_expires_at: Instant | None


class StatusView(msgspec.Struct, frozen=True):
    """All that a status answer shows. `result` is the final payload as JSON text, where it is small enough."""

    view: JobView
    events: list[Event]
    result: str | None


class ResultView(msgspec.Struct, frozen=True):
    """The snapshot that was asked for, and the one that is delivered for it."""

    job: Job
    requested: Snapshot
    delivered: StoredResult


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which of an org's jobs to list. `before` is the position after which the page starts."""

    status: Status | None = None
    analysis: str | None = None
    text: str | None = None
    before: tuple[Instant, str] | None = None
    limit: int = 50


class HistoryEntry(msgspec.Struct, frozen=True):
    """One line of an org's history: a result and what it was asked for."""

    result_id: str
    job_id: str
    created_at: Instant
    status: Status
    #: the input as JSON text
    payload: str


class Depth(msgspec.Struct, frozen=True):
    """How much there is to do: over the whole deployment."""

    waiting: int
    running: int


class RetentionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How long what is kept after a job's end, in seconds; None keeps it for ever."""

    final_results: float | None
    partial_results: float | None
    events: float | None
    jobs: float | None


class RetentionCount(msgspec.Struct, frozen=True, kw_only=True):
    """What retention removed, or would remove, of one kind of records."""

    delete_count: int
    kept_count: int
    #: ended jobs that have such records and are old enough
    eligible_terminal: int
    #: ended jobs without a usable time of their end
    skipped_missing_timestamp: int


class RetentionReport(msgspec.Struct, frozen=True, kw_only=True):
    """One run of retention."""

    dry_run: bool
    terminal_job_count: int
    results: RetentionCount
    events: RetentionCount
    jobs_deleted: int


class TenantReads(Protocol):
    """The one choke point for reads: everything here belongs to one org, anything else does not exist."""

    async def job(self, job_id: str) -> JobView | None:
        """One job by one index look-up."""

    async def status(self, job_id: str, *, events: int, inline_limit: int) -> StatusView | None:
        """One job with its latest events and, once completed, its result up to a size."""

    async def payload(self, job_id: str) -> str | None:
        """The input of a job as JSON text."""

    async def events(self, job_id: str, *, after: int, limit: int) -> list[Event]:
        """A job's events past a sequence number, ascending."""

    async def results(self, job_id: str) -> list[Snapshot]:
        """A job's snapshots, ascending."""

    async def result(self, result_id: str, *, latest: bool) -> ResultView | None:
        """A snapshot, or the newest one of its job: the final, else the last partial."""

    async def notifications(self, job_id: str, *, channel: Channel | None, limit: int) -> list[Notification]:
        """A job's messages, latest first."""

    async def jobs(self, which: JobFilter) -> list[JobView]:
        """The org's jobs, newest first."""

    async def history(self, *, limit: int, offset: int) -> tuple[list[HistoryEntry], int]:
        """The org's jobs that have a result, newest first, and how many there are."""

    async def chunk(self, job_id: str, key: str) -> str | None:
        """The stored value of a finished chunk as JSON text."""


class Store(Protocol):
    """Durable truth. Each verb is one atomic change."""

    async def submit(self, new: NewJob) -> Submitted:
        """Accepts a job with its input, its first event and its idempotency key."""

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        """Hands out as many jobs as there are free slots, in fair order, each with a lease."""

    async def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[Renewal]:
        """Extends the leases that are still held and tells which jobs are wished to stop."""

    async def record(self, lease: Lease, write: Write) -> bool:
        """Writes for an attempt; False where its lease is gone and the write was refused."""

    async def cancel(self, request: CancelRequest) -> JobView | None:
        """Ends a job that no worker holds, or asks its worker to stop. Idempotent."""

    async def sweep(self, *, grace_seconds: float, backoff: Backoff, limit: int = 100) -> list[Swept]:
        """Takes jobs back from workers that vanished or let them run out of time."""

    async def retire(self, policy: RetentionPolicy, *, dry_run: bool) -> RetentionReport:
        """Removes what is older than the policy, in small batches."""

    def tenant(self, org_id: str) -> TenantReads:
        """The reads of one org."""

    async def depth(self) -> Depth:
        """How many jobs wait and run."""

    async def pace(self, analysis: str) -> float | None:
        """What a run of the analysis took lately, in seconds."""

    async def check(self) -> None:
        """Raises `StoreUnavailable` unless the store answers and its schema is this program's."""

    async def close(self) -> None:
        """Finishes what waits and lets go."""
