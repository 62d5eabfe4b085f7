"""A job as the store keeps it, what makes a new one, and what is derived from it."""

import hashlib
from enum import StrEnum
from typing import Literal

import msgspec

from langlauf.domain.bounds import LimitReached
from langlauf.domain.delivery import Wish
from langlauf.domain.instant import Instant, after
from langlauf.domain.state import TERMINAL, Status

PriorityClass = Literal["default", "expedite"]
CanceledBy = Literal["user", "system", "worker"]
INLINE = "inline:"
#: Ten years of seconds: longer means nothing, and would not fit where deadlines are kept.
LONGEST_TIMEOUT = 10 * 365 * 86_400.0
#: How many seconds to stay away from a full queue of which nothing is known.
USUAL_RETRY = 10


class Job(msgspec.Struct, frozen=True):
    """One run of an analysis for one org. Fields are in the order of the table's columns."""

    job_id: str
    org_id: str
    analysis: str
    status: Status
    priority_class: PriorityClass
    request_payload_hash: str
    request_payload_ref: str
    queued_at: Instant
    updated_at: Instant
    timeout_seconds: float
    max_retries: int
    trace_id: str
    request_id: str
    requested_by_user_id: str | None = None
    api_key_id: str | None = None
    progress_percent: int = 0
    step: str | None = None
    estimated_seconds: float | None = None
    partial_count: int = 0
    error_count: int = 0
    result_id: str | None = None
    started_at: Instant | None = None
    attempt_started_at: Instant | None = None
    finished_at: Instant | None = None
    cancel_requested_at: Instant | None = None
    canceled_at: Instant | None = None
    canceled_by: CanceledBy | None = None
    cancel_reason: str | None = None
    failed_at: Instant | None = None
    error_code: str | None = None
    error_message: str | None = None
    #: JSON text, kept as it is stored
    error_meta: str | None = None
    retryable: bool | None = None
    retry_hint: str | None = None
    retry_count: int = 0
    last_retry_at: Instant | None = None
    retry_reason: str | None = None
    #: set while the job has started but no attempt runs: when it may be claimed again
    next_attempt_at: Instant | None = None
    retry_of: str | None = None
    #: counts executions; also the fencing token, because it grows at every claim
    attempt: int = 0
    event_seq: int = 1
    #: how often a worker vanished under this job; apart from failures
    lost_count: int = 0
    #: how often the process that ran it died; apart from both
    crash_count: int = 0
    #: set by retention when the last result or the events of the job were removed
    result_expired_at: Instant | None = None
    events_expired_at: Instant | None = None
    #: set where the job came from the earlier JSON store, whose log may have holes
    imported_at: Instant | None = None
    #: counts up along the waiting jobs of one org, analysis and class; given by the store
    ticket: int = 0
    #: from where on the progress of the current attempt tells its pace, and when it rose last; no instant where that is
    #: not known yet
    paced_percent: int = 0
    paced_at: Instant | None = None
    progress_at: Instant | None = None
    #: the trace that its request belonged to, where it named one
    traceparent: str | None = None
    tracestate: str | None = None
    #: since when somebody wants its results kept whatever their age, who, and why
    held_at: Instant | None = None
    held_by: str | None = None
    hold_reason: str | None = None
    #: what its stored partials take, and the bound that it has reached
    partial_bytes: int = 0
    limit_reached: LimitReached | None = None

    @property
    def terminal(self) -> bool:
        """Whether the job has ended for ever."""
        return self.status in TERMINAL


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A validated submission: the job to be, its input and the rules it is accepted under."""

    job: Job
    #: the validated input as canonical JSON text
    payload: str
    idempotency_key: str | None = None
    refuse_duplicate: bool = True
    #: the job whose finished chunks the new one starts with
    resume_from: str | None = None
    max_waiting_org: int
    max_waiting_all: int
    #: how many jobs of the analysis may wait, over all orgs, where it has a limit
    max_waiting_analysis: int | None = None
    #: whom to tell of the end, besides the org's endpoints
    wishes: tuple[Wish, ...] = ()


class Accepted(msgspec.Struct, frozen=True):
    """The job is on disk."""

    job: Job


class Replayed(msgspec.Struct, frozen=True):
    """The idempotency key was used before with the same payload; this is that job, as it is now."""

    job: Job


class KeyReused(msgspec.Struct, frozen=True):
    """The idempotency key was used before with another payload."""


class Duplicate(msgspec.Struct, frozen=True):
    """The org has a job of the same analysis and input that has not ended."""

    job: Job


class QueueFull(msgspec.Struct, frozen=True):
    """No more jobs may wait: of this org, of this analysis, or in all."""

    scope: Literal["org", "analysis", "all"]
    waiting: int
    #: whole seconds after which there is probably room again
    retry_after: int = USUAL_RETRY

    @property
    def reason(self) -> str:
        """What to tell the caller. How much of others waits is not its business."""
        mine = "1 job of this org is" if self.waiting == 1 else f"{self.waiting:,} jobs of this org are"
        whose = {"org": f"{mine} waiting already", "analysis": "No more jobs of this analysis may wait now"}
        return f"{whose.get(self.scope, 'No more jobs may wait now')}; try again in {self.retry_after} s."


Submitted = Accepted | Replayed | KeyReused | Duplicate | QueueFull


def payload_hash(analysis: str, payload: str) -> str:
    """SHA-256 over the analysis and its input as canonical JSON text."""
    return hashlib.sha256(f'{{"analysis":"{analysis}","input":{payload}}}'.encode()).hexdigest()


class Phase(StrEnum):
    """What is going on with a job right now, in one word for people."""

    WAITING = "waiting"
    BACKOFF = "backoff"
    WORKING = "working"
    SILENT = "silent"
    CANCELING = "canceling"
    DONE = "done"


def phase(job: Job, lease_expires_at: Instant | None, now: Instant, lease_seconds: float) -> Phase:
    """Derives the phase from the job and its lease. `silent`: two heartbeats in a row did not come."""
    if job.terminal:
        return Phase.DONE
    if job.cancel_requested_at is not None:
        return Phase.CANCELING
    if job.status is Status.QUEUED:
        return Phase.WAITING
    if lease_expires_at is None:
        due = job.next_attempt_at is None or job.next_attempt_at <= now
        return Phase.WAITING if due else Phase.BACKOFF
    heard_recently = lease_expires_at > after(now, lease_seconds / 3)
    return Phase.WORKING if heard_recently else Phase.SILENT
