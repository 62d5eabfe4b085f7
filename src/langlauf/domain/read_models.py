"""What a store returns besides the records themselves, and the requests that select or change it."""

import msgspec

from langlauf.domain.delivery import Notification
from langlauf.domain.event import Event
from langlauf.domain.instant import Instant
from langlauf.domain.job import CanceledBy, JobRecord
from langlauf.domain.result import Snapshot, StoredResult
from langlauf.domain.state import Status


class CancelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to cancel a job."""

    org_id: str
    job_id: str
    by: CanceledBy
    reason: str
    request_id: str


class SweptJob(msgspec.Struct, frozen=True):
    """A job that the sweep found without a live worker, and what the sweep did."""

    org_id: str
    job_id: str
    #: lost, retry, failed or canceled
    outcome: str


class JobView(msgspec.Struct, frozen=True):
    """A job with the end of its lease, which is not in its row."""

    job: JobRecord
    lease_expires_at: Instant | None


class StatusView(msgspec.Struct, frozen=True):
    """The content of a status response. `result` is the final payload as JSON text, if it is small enough."""

    view: JobView
    events: list[Event]
    result: str | None


class KeptParts(msgspec.Struct, frozen=True):
    """The finished parts of a job, which a resumed job does not compute again."""

    count: int
    #: how many there are in all, where more are known than are kept
    total: int | None = None


class EventLogPage(msgspec.Struct, frozen=True):
    """The next page of a job's log."""

    events: list[Event]
    #: the page was cut, so there may be more already
    more: bool
    #: nothing follows any more: the job has ended, or it or its log is gone
    over: bool


class JobFingerprint(msgspec.Struct, frozen=True):
    """Changes whenever a job looks different; cheaper to read than the job."""

    event_seq: int
    result_expired: bool
    events_expired: bool
    lease_expires_at: Instant | None
    held_at: Instant | None = None


def fingerprint_of(view: JobView) -> JobFingerprint:
    """Return the fingerprint of a job that was read."""
    job = view.job
    expired = job.result_expired_at is not None, job.events_expired_at is not None
    return JobFingerprint(job.event_seq, *expired, view.lease_expires_at, job.held_at)


class ResultView(msgspec.Struct, frozen=True):
    """The requested snapshot, and the one that is delivered for it."""

    job: JobRecord
    requested: Snapshot
    delivered: StoredResult


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs of an org to list. `before` is the position after which the page starts."""

    status: Status | None = None
    analysis: str | None = None
    #: only failed jobs have one
    error_code: str | None = None
    #: part of the id, analysis, step, error or input; ASCII letters in either case
    text: str | None = None
    #: accepted at this time or later
    since: Instant | None = None
    before: tuple[Instant, str] | None = None
    limit: int = 50


class PageOfJobs(msgspec.Struct, frozen=True):
    """A page of an org's jobs. If `after` is not None there may be more: the next page starts at that position.

    A page may be short or empty without being the last: a rare filter is scanned in steps.
    """

    views: list[JobView]
    after: tuple[Instant, str] | None
    #: jobs scanned before an incomplete page was returned; 0 if it is full or the last
    looked_at: int = 0


class HistoryEntry(msgspec.Struct, frozen=True):
    """One entry of an org's history: a result and its input."""

    result_id: str
    job_id: str
    created_at: Instant
    status: Status
    #: the input as JSON text
    payload: str


class PastRun(msgspec.Struct, frozen=True):
    """A completed job that a later one of the same analysis can read."""

    job_id: str
    result_id: str
    finished_at: Instant
    #: its input as JSON text
    payload: str


class QueueDepth(msgspec.Struct, frozen=True):
    """The length of the queue over the whole deployment."""

    waiting: int
    running: int


class InboxRecord(msgspec.Struct, frozen=True):
    """A message with the current state of its job."""

    notification: Notification
    view: JobView
    unread: bool


class InboxPage(msgspec.Struct, frozen=True):
    """A page of messages. If `after` is not None there are more: the next page starts at that position."""

    messages: list[InboxRecord]
    after: tuple[Instant, str] | None


class MarkRead(msgspec.Struct, frozen=True, kw_only=True):
    """Request to mark one message, or all up to a time, as read.

    All are one row: the time up to which the org has read everything.
    """

    org_id: str
    notification_id: str | None = None
    until: Instant | None = None
