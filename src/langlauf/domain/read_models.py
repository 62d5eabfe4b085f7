"""What a store returns besides the records themselves, and the requests that select or change it."""

import msgspec

from langlauf.domain.delivery import Notification
from langlauf.domain.event import Event
from langlauf.domain.instant import Instant
from langlauf.domain.job import CanceledBy, JobRecord
from langlauf.domain.result import Snapshot, StoredResult
from langlauf.domain.state import Status


class CancelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wishes a job stopped."""

    org_id: str
    job_id: str
    by: CanceledBy
    reason: str
    request_id: str


class SweptJob(msgspec.Struct, frozen=True):
    """A job that the sweep found without a living worker, and what it did about it."""

    org_id: str
    job_id: str
    #: lost, retry, failed or canceled
    outcome: str


class JobView(msgspec.Struct, frozen=True):
    """A job with what is not in its row: until when a worker holds it."""

    job: JobRecord
    lease_expires_at: Instant | None


class StatusView(msgspec.Struct, frozen=True):
    """All that a status answer shows. `result` is the final payload as JSON text, where it is small enough."""

    view: JobView
    events: list[Event]
    result: str | None


class EventLogPage(msgspec.Struct, frozen=True):
    """The next part of a job's log."""

    events: list[Event]
    #: it was cut short, so there may be more already
    more: bool
    #: nothing follows, now or ever: the job has ended, or it or its log is gone
    over: bool


class JobFingerprint(msgspec.Struct, frozen=True):
    """What tells from afar whether a job looks different."""

    event_seq: int
    result_expired: bool
    events_expired: bool
    lease_expires_at: Instant | None
    held_at: Instant | None = None


def fingerprint_of(view: JobView) -> JobFingerprint:
    """What a job that was read looks like from afar."""
    job = view.job
    expired = job.result_expired_at is not None, job.events_expired_at is not None
    return JobFingerprint(job.event_seq, *expired, view.lease_expires_at, job.held_at)


class ResultView(msgspec.Struct, frozen=True):
    """The snapshot that was asked for, and the one that is delivered for it."""

    job: JobRecord
    requested: Snapshot
    delivered: StoredResult


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which of an org's jobs to list. `before` is the position after which the page starts."""

    status: Status | None = None
    analysis: str | None = None
    #: only failed jobs have one
    error_code: str | None = None
    #: stands in the id, the analysis, the step, the error or the input; letters of ASCII in either case
    text: str | None = None
    #: accepted at this instant or later
    since: Instant | None = None
    before: tuple[Instant, str] | None = None
    limit: int = 50


class PageOfJobs(msgspec.Struct, frozen=True):
    """Some of an org's jobs. Where `after` is not None there may be more: the next page starts before that position.

    A page may be short, or empty, and not the last: a filter that hardly any job fits is looked for in steps.
    """

    views: list[JobView]
    after: tuple[Instant, str] | None
    #: how many jobs it looked at before it was given out as it is; nothing where it is full or the last
    looked_at: int = 0


class HistoryEntry(msgspec.Struct, frozen=True):
    """One line of an org's history: a result and what it was asked for."""

    result_id: str
    job_id: str
    created_at: Instant
    status: Status
    #: the input as JSON text
    payload: str


class PastRun(msgspec.Struct, frozen=True):
    """A completed job that a later one of the same analysis can look back at."""

    job_id: str
    result_id: str
    finished_at: Instant
    #: its input as JSON text
    payload: str


class QueueDepth(msgspec.Struct, frozen=True):
    """How much there is to do: over the whole deployment."""

    waiting: int
    running: int


class InboxMessage(msgspec.Struct, frozen=True):
    """A message with the job it tells of, as that is now."""

    notification: Notification
    view: JobView
    unread: bool


class InboxPage(msgspec.Struct, frozen=True):
    """Some messages. Where `after` is not None there are more: the next page starts before that position."""

    messages: list[InboxMessage]
    after: tuple[Instant, str] | None


class MarkRead(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody has seen one message, or all up to an instant.

    All are one row, however many they are: the instant up to which the org has seen everything.
    """

    org_id: str
    notification_id: str | None = None
    until: Instant | None = None
