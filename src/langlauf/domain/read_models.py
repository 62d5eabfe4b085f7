"""What a store returns besides the records themselves, the requests that select or change them, and overviews."""

from collections.abc import Mapping
from typing import NamedTuple

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


# -- overview of many jobs ---------------------------------------------------------------------------------------------


class EndedJob(NamedTuple):
    """An ended job. A plain tuple, as there are many."""

    org_id: str
    analysis: str
    status: str
    queued_at: Instant
    started_at: Instant | None
    finished_at: Instant
    error_code: str | None
    #: of a failed one, as an example for people
    job_id: str | None


class WaitingJobs(NamedTuple):
    """The waiting jobs of one org and analysis."""

    org_id: str
    analysis: str
    waiting: int
    oldest_at: Instant | None


class StartedJob(NamedTuple):
    """A job that has started and not ended: a worker holds it, or it waits for its next attempt."""

    org_id: str
    job_id: str
    analysis: str
    queued_at: Instant
    started_at: Instant
    cancel_requested_at: Instant | None
    next_attempt_at: Instant | None
    #: when its lease ends
    lease_until: Instant | None


class Overview(msgspec.Struct, frozen=True):
    """What a store found. If there was more than requested, the newest are here, and `…_more` says so."""

    ended: list[EndedJob]
    ended_more: bool
    #: when the waiting jobs were queued, newest first, since the requested time
    queued: list[Instant]
    queued_more: bool
    queues: list[WaitingJobs]
    queues_more: bool
    underway: list[StartedJob]
    underway_more: bool


#: The most queues (org and analysis with waiting jobs) that are read.
MOST_QUEUES = 5_000
EMPTY_OVERVIEW = Overview([], False, [], False, [], False, [], False)


def truncated_overview(
    ended: list[EndedJob], queued: list[Instant], queues: list[WaitingJobs], underway: list[StartedJob], most: int
) -> Overview:
    """Return an overview of lists that were read with one item more than requested, which is cut off."""
    return Overview(
        ended[:most],
        len(ended) > most,
        queued[:most],
        len(queued) > most,
        queues[:MOST_QUEUES],
        len(queues) > MOST_QUEUES,
        underway[:most],
        len(underway) > most,
    )


#: The most jobs waiting for their next attempt that are counted.
MOST_RETRYING = 10_000
#: The most orgs that have a label of their own.
MOST_NAMED_ORGS = 20
OTHER_ORGS = "other"


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting and running jobs of the whole deployment."""

    seen_at: Instant
    #: by analysis
    waiting: Mapping[str, int]
    scheduled: Mapping[str, int]
    running: Mapping[str, int]
    #: started jobs waiting for their next attempt, counted up to `MOST_RETRYING`
    retrying: int
    oldest_waiting_at: Instant | None
    oldest_attempt_at: Instant | None
    #: expired leases that are not swept yet
    overdue: int
    #: by org, only if requested
    org_waiting: Mapping[str, int] = {}
    org_running: Mapping[str, int] = {}


class StoreUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The resources of a store in this process, cheap to read."""

    kind: str
    #: operations waiting for the next batch, by queue
    queues: Mapping[str, int]
    #: of SQLite
    file_bytes: int | None = None
    log_bytes: int | None = None
    #: of PostgreSQL, by state
    connections: Mapping[str, int] = {}


def largest_counts(counts: Mapping[str, int], most: int = MOST_NAMED_ORGS) -> dict[str, int]:
    """Return the largest counts by name, and the sum of the others as one."""
    order = sorted((name for name in counts if name != OTHER_ORGS), key=lambda name: (-counts[name], name))
    named = {name: counts[name] for name in order[:most]}
    rest = sum(counts.values()) - sum(named.values())
    return {**named, OTHER_ORGS: rest} if rest else named
