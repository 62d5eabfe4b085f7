"""The stored record of a job, a new submission, and the table of a job's fields."""

import hashlib
from enum import Enum, StrEnum
from types import UnionType
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from langlauf.domain.delivery import Subscription
from langlauf.domain.errors import RetryHint
from langlauf.domain.instant import Instant, after
from langlauf.domain.state import TERMINAL, Status

PriorityClass = Literal["default", "expedite"]
CanceledBy = Literal["user", "system", "worker"]
#: The bound that a job has reached: `partials` ends its partial snapshots, `events` its progress as well.
LimitReached = Literal["events", "partials"]
INLINE_REF = "inline:"
#: Why a job was canceled that had not started by its `start_by`.
TOO_LATE = "too_late"
#: JSON text, or its bytes in UTF-8: what came as bytes is stored without a text being made of it, which would hold the
#: interpreter lock, and with it all requests, for a tenth of a second.
PayloadText = str | memoryview
#: Ten years in seconds: longer has no use, and would overflow stored deadlines.
LONGEST_TIMEOUT = 10 * 365 * 86_400.0
LONGEST_LABEL = 120
#: Seconds to wait before retrying a full queue if nothing better is known.
DEFAULT_RETRY_AFTER = 10

Name = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_.:-]{1,128}$")]
Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]
Hash = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$", description="SHA-256 of the input.")]
Time = TypeVar("Time")
Details = TypeVar("Details")


class FieldMark(Enum):
    """Further properties of a field."""

    #: free text of people or analyses: redacted, and checked by `verify`
    WORDS = "words"
    #: about this store, not about the job: not exported
    HERE = "here"


class VisibleJob(msgspec.Struct, Generic[Time, Details], frozen=True, kw_only=True):
    """What clients see of a job, in this order, each field with a sentence for the reference.

    This and `JobRecord` are the one table of its fields: columns, rows, API, client, exports and reference follow from
    it. Generic, because a store keeps times as numbers and details as text, and the API does not.
    """

    job_id: Annotated[str, "Its id."]
    org_id: Annotated[Name, "The org that it belongs to."]
    analysis: Annotated[str, "What it runs."]
    label: Annotated[str | None, FieldMark.WORDS, "What its author or its analysis called it, on one line."] = None
    requested_by_user_id: Annotated[str | None, "The `X-User-Id` of its request."] = None
    api_key_id: Annotated[str | None, "The key that submitted it."] = None
    tool_client: Annotated[str | None, FieldMark.WORDS, "The [agent](mcp.md) that called it as a tool."] = None
    status: Annotated[Status, "Its [state](lifecycle.md#states)."]
    priority_class: Annotated[PriorityClass, "`expedite` goes before `default` jobs of the same org."]
    request_payload_hash: Annotated[Hash, "SHA-256 of the analysis and its input."]
    progress_percent: Annotated[Percent, "How much is done; 100 only once it is completed."] = 0
    step: Annotated[str | None, FieldMark.WORDS, "What the analysis said that it does."] = None
    estimated_seconds: Annotated[
        Seconds | None, "How long it will [probably](lifecycle.md#estimates) take from now on."
    ] = None
    partial_count: Annotated[Count, "How many partial snapshots it has written."] = 0
    error_count: Annotated[Count, "How many of its attempts failed."] = 0
    result_id: Annotated[str | None, "Its newest snapshot."] = None
    queued_at: Annotated[Time, "When it was accepted."]
    run_at: Annotated[Time | None, "When it may [start](lifecycle.md#later-starts), where its submission says so."] = (
        None
    )
    start_by: Annotated[Time | None, "When it is canceled unless it has started."] = None
    schedule: Annotated[str | None, "The schedule that submitted it."] = None
    planned_at: Annotated[Time | None, "For when the schedule had planned it."] = None
    started_at: Annotated[Time | None, "When its first attempt began."] = None
    attempt_started_at: Annotated[Time | None, "When its latest attempt began."] = None
    finished_at: Annotated[Time | None, "When it ended, however it did."] = None
    updated_at: Annotated[Time, "When anything of it changed last."]
    cancel_requested_at: Annotated[Time | None, "When a running job was asked to stop."] = None
    canceled_at: Annotated[Time | None, "When it was canceled."] = None
    canceled_by: Annotated[CanceledBy | None, "`user`, `system` or `worker`."] = None
    cancel_reason: Annotated[str | None, FieldMark.WORDS, "Why it was canceled."] = None
    failed_at: Annotated[Time | None, "When it failed."] = None
    error_code: Annotated[str | None, "What went wrong, in one word."] = None
    error_message: Annotated[str | None, FieldMark.WORDS, "The same for people."] = None
    #: JSON text, as stored; its trace is for those with the scope `debug`
    error_meta: Annotated[
        Details | None,
        "Details of the error ([its members](lifecycle.md#failures-and-retries)); `trace` is for the scope `debug`.",
    ] = None
    retryable: Annotated[bool | None, "Whether the error may go away by itself."] = None
    retry_hint: Annotated[RetryHint | None, "`retry_with_backoff`, `check_input_and_retry` or null."] = None
    retry_count: Annotated[Count, "How many failures were retried; losses and releases do not count."] = 0
    max_retries: Annotated[Count, "How many failures may be retried."]
    last_retry_at: Annotated[Time | None, "When a retry was last decided upon."] = None
    retry_reason: Annotated[str | None, FieldMark.WORDS, "What that retry was decided upon for."] = None
    #: set while the job has started but no attempt runs
    next_attempt_at: Annotated[Time | None, "When it may go on, where no attempt of it runs."] = None
    timeout_seconds: Annotated[int | float, "How long one attempt may take."]
    retry_of: Annotated[str | None, "The job that it repeats."] = None
    based_on: Annotated[str | None, "The job whose input it started from, to run it again with changes."] = None
    #: also the fencing token, because it grows at every claim
    attempt: Annotated[Count, "How often it was executed."] = 0
    reused_from: Annotated[str | None, "The job whose result it [reused](python.md#reuse)."] = None
    trace_id: Annotated[str, "The trace that it belongs to."]
    request_id: Annotated[str, "The request that made it."]
    event_seq: Annotated[Count, "The number of its latest event."] = 1
    result_expired_at: Annotated[Time | None, "When retention removed its last result."] = None
    held_at: Annotated[Time | None, "Since when its results are [held](operations.md#hold)."] = None
    held_by: Annotated[str | None, "Who holds them."] = None
    hold_reason: Annotated[str | None, FieldMark.WORDS, "Why they are held."] = None
    limit_reached: Annotated[
        LimitReached | None, "The [limit](lifecycle.md#limits-of-one-job) that it has reached: `events` or `partials`."
    ] = None


class JobRecord(VisibleJob[Instant, str], frozen=True, kw_only=True):
    """The stored record of one run of an analysis for one org: what clients see, and what the store needs."""

    request_payload_ref: Annotated[str, FieldMark.HERE]
    #: how often a worker vanished while running it; failures are counted apart
    lost_count: int = 0
    #: how often its own process died; counted apart from both
    crash_count: int = 0
    #: set by retention when the events were removed
    events_expired_at: Instant | None = None
    #: set if imported from the earlier JSON store, whose log may have gaps
    imported_at: Annotated[Instant | None, FieldMark.HERE] = None
    #: rises along the waiting jobs of one org, analysis and class; assigned by the store. One that waits for its time
    #: has that time with a minus sign
    ticket: Annotated[int, FieldMark.HERE] = 0
    #: where the progress of the current attempt starts to measure its pace, and when it last rose; None if not known
    #: yet, or once it is completed
    paced_percent: Annotated[int, FieldMark.HERE] = 0
    paced_at: Annotated[Instant | None, FieldMark.HERE] = None
    progress_at: Annotated[Instant | None, FieldMark.HERE] = None
    #: the trace context of its request, if any
    traceparent: Annotated[str | None, FieldMark.HERE] = None
    tracestate: Annotated[str | None, FieldMark.HERE] = None
    #: size of its stored partials
    partial_bytes: int = 0
    #: the code of its latest attempt, by key
    code: Annotated[int | None, FieldMark.HERE] = None
    #: whether another job may have its result
    reusable: Annotated[int | None, FieldMark.HERE] = None

    @property
    def terminal(self) -> bool:
        """Whether the job has ended."""
        return self.status in TERMINAL


class ReuseRule(msgspec.Struct, frozen=True):
    """Whose results a new job may have: of this version of the analysis, and so many seconds old at most."""

    version: str
    seconds: float


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A validated submission: the new job, its input and the rules for accepting it."""

    job: JobRecord
    #: the validated input as canonical JSON text
    payload: str
    idempotency_key: str | None = None
    refuse_duplicate: bool = True
    #: the job whose finished chunks the new one starts with
    resume_from: str | None = None
    max_waiting_org: int
    max_waiting_all: int
    #: limit of waiting jobs of the analysis over all orgs, if any
    max_waiting_analysis: int | None = None
    #: whether its own result may be reused
    reusable: bool = False
    #: where to look for a result instead of a run, if at all
    reuse: ReuseRule | None = None
    #: where to notify of the end, besides the org's endpoints
    subscriptions: tuple[Subscription, ...] = ()


class Accepted(msgspec.Struct, frozen=True):
    """The job is on disk."""

    job: JobRecord


class Replayed(msgspec.Struct, frozen=True):
    """The idempotency key was used before with the same payload; this is that job, as it is now."""

    job: JobRecord


class KeyReused(msgspec.Struct, frozen=True):
    """The idempotency key was used before with another payload."""


class Duplicate(msgspec.Struct, frozen=True):
    """The org has an unfinished job of the same analysis and input."""

    job: JobRecord


class QueueFull(msgspec.Struct, frozen=True):
    """A queue limit is reached: of the org, of the analysis, or in all."""

    scope: Literal["org", "analysis", "all"]
    waiting: int
    #: whole seconds after which a retry will probably succeed
    retry_after: int = DEFAULT_RETRY_AFTER

    @property
    def reason(self) -> str:
        """Return the message for the caller. It does not reveal how many jobs of other orgs wait."""
        mine = "1 job of this org is" if self.waiting == 1 else f"{self.waiting:,} jobs of this org are"
        whose = {"org": f"{mine} waiting already", "analysis": "No more jobs of this analysis may wait now"}
        return f"{whose.get(self.scope, 'No more jobs may wait now')}; try again in {self.retry_after} s."


SubmitOutcome = Accepted | Replayed | KeyReused | Duplicate | QueueFull


def payload_hash(analysis: str, payload: str) -> str:
    """Return the SHA-256 of the analysis and its input as canonical JSON text."""
    return hashlib.sha256(f'{{"analysis":"{analysis}","input":{payload}}}'.encode()).hexdigest()


class Phase(StrEnum):
    """What is happening with a job right now, in one word for people."""

    SCHEDULED = "scheduled"
    WAITING = "waiting"
    PAUSED = "paused"
    BACKOFF = "backoff"
    WORKING = "working"
    SILENT = "silent"
    CANCELING = "canceling"
    DONE = "done"


def phase(
    job: JobRecord, lease_expires_at: Instant | None, now: Instant, lease_seconds: float, *, paused: bool = False
) -> Phase:
    """Derive the phase from the job, its lease and the pause of its analysis.

    `silent`: two heartbeats in a row are missing. `paused`: it would wait anyway.
    """
    if job.terminal:
        return Phase.DONE
    if job.cancel_requested_at is not None:
        return Phase.CANCELING
    if lease_expires_at is None:
        return _waiting_phase(job, now, paused=paused)
    heard_recently = lease_expires_at > after(now, lease_seconds / 3)
    return Phase.WORKING if heard_recently else Phase.SILENT


def _waiting_phase(job: JobRecord, now: Instant, *, paused: bool) -> Phase:
    if job.run_at is not None and job.run_at > now:
        return Phase.SCHEDULED
    if paused:
        return Phase.PAUSED
    due = job.next_attempt_at is None or job.next_attempt_at <= now
    return Phase.WAITING if due else Phase.BACKOFF


#: Visible fields come first.
JOB_FIELDS = JobRecord.__struct_fields__
VISIBLE_FIELDS = VisibleJob.__struct_fields__


def _marked(mark: FieldMark) -> frozenset[str]:
    return frozenset(field.name for field in msgspec.structs.fields(JobRecord) if mark in get_args(field.type))


#: Fields with free text of people or analyses.
FREE_TEXT_FIELDS = _marked(FieldMark.WORDS)
_OF_THIS_STORE = _marked(FieldMark.HERE)
#: Fields that describe the job in any store.
EXPORTED_FIELDS = tuple(name for name in JOB_FIELDS if name not in _OF_THIS_STORE)


def is_time_field(name: str) -> bool:
    """Whether a field of a record is a time."""
    return name.endswith("_at") or name == "start_by"


def field_descriptions() -> dict[str, str]:
    """Return the sentence of the reference for each visible field."""
    found = {}
    for field in msgspec.structs.fields(VisibleJob):
        [found[field.name]] = [word for word in get_args(field.type) if isinstance(word, str)]
    return found


def field_defaults(names: tuple[str, ...] = JOB_FIELDS) -> dict[str, Any]:
    """Return the default of each field that has one."""
    known = {field.name: field.default for field in msgspec.structs.fields(JobRecord) if not field.required}
    return {name: known[name] for name in names if name in known}


def unconstrained_type(kind: Any, *, any_word: bool = False) -> Any:
    """Return a type without its constraints; with `any_word`, str instead of a choice of words."""
    inner = get_args(kind)
    if get_origin(kind) is Annotated:
        return unconstrained_type(inner[0], any_word=any_word)
    if get_origin(kind) is Literal and any_word:
        return str
    if get_origin(kind) in (Union, UnionType):
        return Union[tuple(unconstrained_type(one, any_word=any_word) for one in inner)]  # noqa: UP007 - of a number known now
    return kind
