"""The client's models of what the API returns.

They are the client's own, so that it can be newer or older than its server: unknown members are ignored, and values of
enumerations that may grow are plain text. A test compares them with the server's.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from langlauf.domain.job import PriorityClass, VisibleJob, unconstrained_type
from langlauf.domain.state import Status

ResultView = Literal["latest", "requested"]


class SubmitOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a submission. Unset ones are left to the server and the analysis."""

    priority_class: PriorityClass = "default"
    #: seconds or a text like `30m`; at most the limit of the analysis
    timeout_seconds: float | str | None = None
    max_retries: int | None = None
    #: accept the job although the same one is queued or running
    allow_duplicate: bool = False
    #: whether a stored result may be reused, where the analysis allows it; False runs it
    reuse: bool = True
    #: what people read in lists, the inbox and mails
    label: str | None = None
    #: the same key returns the same job; by default each submission has its own
    idempotency_key: str | None = None
    #: when it may start, an aware time or RFC 3339 text, or after how many seconds
    run_at: datetime | str | None = None
    delay_seconds: float | str | None = None
    #: when it is canceled unless it has started
    start_by: datetime | str | None = None
    #: the traceparent header of the trace that the job belongs to
    traceparent: str | None = None


DEFAULT_OPTIONS = SubmitOptions()


if TYPE_CHECKING:
    _Seen = VisibleJob[datetime, dict[str, Any]]
else:
    _Seen = msgspec.defstruct(
        "_Seen",
        [
            (field.name, unconstrained_type(field.type, any_word=True), *([] if field.required else [field.default]))
            for field in msgspec.structs.fields(VisibleJob[datetime, dict[str, Any]])
        ],
        frozen=True,
        kw_only=True,
    )


class JobSummary(_Seen, frozen=True, kw_only=True):
    """A job without its events and result, as lists and acceptance show it.

    A field that an older server does not send has its default.
    """

    #: current phase: waiting, paused, backoff, working, silent, canceling or done
    phase: str
    #: why its analysis is paused, and until when: None where that is open, or where it is not
    paused_because: str | None = None
    paused_until: datetime | None = None
    status_url: str
    result_url: str | None


class JobEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a job's log."""

    event_id: str
    job_id: str
    org_id: str
    event_type: str
    event_seq: int
    occurred_at: datetime
    actor_type: str
    payload_json: Any
    trace_id: str
    request_id: str


class OrgEventData(msgspec.Struct, frozen=True, kw_only=True):
    """The data of an event of the feed."""

    job_id: str
    org_id: str
    status: str
    event_seq: int
    occurred_at: datetime
    trace_id: str
    result_id: str | None = None


class OrgEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of an org's feed, a CloudEvent. A repeated event has the same `id`."""

    specversion: str
    id: str
    source: str
    #: api.analyze.job.queued, .started, .partial, .completed, .failed or .canceled
    type: str
    #: the id of the job
    subject: str
    time: datetime
    timestamp: datetime
    datacontenttype: str
    data: OrgEventData


class JobWithEvents(JobSummary, frozen=True, kw_only=True):
    """A job with its latest events, as cancel returns it."""

    events: list[JobEvent]


class JobState(JobWithEvents, frozen=True, kw_only=True):
    """A job with its latest events and, once completed, its result; a large result is left out."""

    result: Any
    #: finished parts of a failed or canceled job, which a retry does not compute again, and of how many
    kept_parts: int | None = None
    total_parts: int | None = None


class JobSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A stored snapshot without its payload."""

    result_id: str
    job_id: str
    result_kind: str
    result_seq: int
    schema_version: int
    created_at: datetime
    summary_json: Any
    result_url: str


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot with its payload, and the status of its job."""

    result_id: str
    job_id: str
    job_status: Status
    cancel_reason: str | None
    error_code: str | None
    result_kind: str
    result_seq: int
    created_at: datetime
    result: Any
    summary: Any
    requested_result_id: str
    requested_result_kind: str
    projection_mode: str


class JobNotification(msgspec.Struct, frozen=True, kw_only=True):
    """A message about a job's end."""

    notification_id: str
    job_id: str
    org_id: str
    channel: str
    template_key: str
    delivery_status: str
    attempt_count: int
    last_error: str | None
    dedupe_key: str
    scheduled_at: datetime
    sent_at: datetime | None
    created_at: datetime
    payload_json: Any


class RemoteSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule of the org. `next_runs` are the next five; none while it is paused."""

    name: str
    analysis: str
    input: dict[str, Any]
    cron: str | None
    every_seconds: float | None
    zone: str
    overlap: str
    missed: str
    paused: bool
    notify: dict[str, Any] | None
    source: str
    created_at: datetime
    updated_at: datetime
    next_runs: list[datetime]
    last_run_at: datetime | None
    last_outcome: str | None
    last_job_id: str | None


class ScheduleEnvelope(msgspec.Struct, frozen=True):
    """The reply about one schedule."""

    schedule: RemoteSchedule


class SchedulesEnvelope(msgspec.Struct, frozen=True):
    """The reply about all schedules."""

    schedules: list[RemoteSchedule]


class InboxMessage(JobNotification, frozen=True, kw_only=True):
    """A message of the org's inbox. `read_at` is set if it was marked by its id, not with all up to an instant."""

    read_at: datetime | None
    unread: bool


class ReadMarks(msgspec.Struct, frozen=True):
    """Result of marking messages as read: whether it changed anything, and the unread count, at most 1,000."""

    changed: bool
    unread: int


class JobEnvelope(msgspec.Struct, frozen=True):
    """One job."""

    job: JobSummary


class CancelEnvelope(msgspec.Struct, frozen=True):
    """One job with its events."""

    job: JobWithEvents


class PauseState(msgspec.Struct, frozen=True, kw_only=True):
    """A pause of an analysis; without an org it is for all."""

    analysis: str
    org_id: str | None
    because: str
    paused_at: datetime
    paused_until: datetime | None
    paused_by: str | None


class ProvenanceEnvelope(msgspec.Struct, frozen=True):
    """How a result came about."""

    provenance: dict[str, Any]


class PauseEnvelope(msgspec.Struct, frozen=True):
    """One pause."""

    pause: PauseState


class ResumeEnvelope(msgspec.Struct, frozen=True):
    """Whether a pause was ended."""

    resumed: bool


class StateEnvelope(msgspec.Struct, frozen=True):
    """One job with events and result."""

    job: JobState


class EventsEnvelope(msgspec.Struct, frozen=True):
    """A page of a job's log."""

    events: list[JobEvent]
    expired: bool = False


class FeedEnvelope(msgspec.Struct, frozen=True):
    """A page of an org's feed."""

    events: list[OrgEvent]
    next_after: str
    more: bool = False


class JobsEnvelope(msgspec.Struct, frozen=True):
    """A page of an org's jobs."""

    jobs: list[JobSummary]
    next_cursor: str | None = None


class SnapshotsEnvelope(msgspec.Struct, frozen=True):
    """A job's snapshots."""

    results: list[JobSnapshot]


class ViewsEnvelope(msgspec.Struct, frozen=True):
    """The views of a snapshot."""

    views: list[dict[str, Any]]


class InboxEnvelope(msgspec.Struct, frozen=True):
    """A page of the inbox."""

    notifications: list[InboxMessage]
    next_cursor: str | None


class NotificationsEnvelope(msgspec.Struct, frozen=True):
    """A job's messages."""

    notifications: list[JobNotification]
