"""Records as clients see them: jobs, events, snapshots, messages, keys, endpoints, problems."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from langlauf.api.request_schemas import KeyScope
from langlauf.domain.access import Scope
from langlauf.domain.delivery import ChannelName, DeliveryStatus, Subject
from langlauf.domain.errors import RetryHint
from langlauf.domain.event import ActorType, EventType
from langlauf.domain.job import Count, Name, Phase, Seconds, VisibleJob
from langlauf.domain.provenance import CodeVersion, Source
from langlauf.domain.result import MOST_VIEWS, VIEW_KINDS, ResultKind
from langlauf.domain.schedule import Missed, RunOverlap, ScheduleName, ScheduleSource
from langlauf.domain.state import Status
from langlauf.problems import FieldError, ForbiddenReason
from langlauf.service.webhooks import EndpointHealth

#: A stored JSON value that is sent as it is, without decoding.
JsonValue = Any
Code = Annotated[str, msgspec.Meta(pattern="^[a-z0-9_]+$")]
Address = Annotated[str, msgspec.Meta(extra_json_schema={"format": "uri-reference"})]
#: As the analysis gave them; `kind` determines the other fields.
Views = Annotated[
    JsonValue,
    msgspec.Meta(
        extra_json_schema={
            "type": "array",
            "maxItems": MOST_VIEWS,
            "items": {
                "type": "object",
                "required": ["kind"],
                "properties": {"kind": {"enum": list(VIEW_KINDS)}, "title": {"type": "string"}},
            },
        }
    ),
]


def _members() -> Iterator[tuple[str, Any]]:
    """Yield the fields of a job that clients see: those of its record, and derived ones."""
    for field in msgspec.structs.fields(VisibleJob[datetime, dict[str, Any]]):
        yield field.name, field.type
        if field.name == "status":
            yield "phase", Phase
            yield "paused_because", str | None
            yield "paused_until", datetime | None
    yield "status_url", Address
    yield "result_url", Address | None


if TYPE_CHECKING:
    _Members = msgspec.Struct
else:
    _Members = msgspec.defstruct("_Members", _members())


class JobOut(_Members):
    """A job as clients see it."""


class EventOut(msgspec.Struct, kw_only=True):
    """One entry of a job's log."""

    event_id: str
    job_id: str
    org_id: Name
    event_type: EventType
    event_seq: Count
    occurred_at: datetime
    actor_type: ActorType
    payload_json: JsonValue
    trace_id: str
    request_id: str


class JobWithEventsOut(JobOut, kw_only=True):
    """A job with its latest events."""

    events: list[EventOut]


class JobStatusOut(JobWithEventsOut, kw_only=True):
    """A job with its latest events and, once completed, its result."""

    result: JsonValue
    #: finished parts of a failed or canceled job, which a retry does not compute again, and of how many
    kept_parts: Count | None
    total_parts: Count | None


class SnapshotOut(msgspec.Struct, kw_only=True):
    """A stored snapshot without its payload."""

    result_id: str
    job_id: str
    result_kind: ResultKind
    result_seq: Count
    schema_version: int
    created_at: datetime
    summary_json: JsonValue
    result_url: Address


class NotificationOut(msgspec.Struct, kw_only=True):
    """A message about a job's end."""

    notification_id: str
    job_id: str
    org_id: Name
    channel: ChannelName
    template_key: str
    delivery_status: DeliveryStatus
    attempt_count: Count
    last_error: str | None
    dedupe_key: str
    scheduled_at: datetime
    sent_at: datetime | None
    created_at: datetime
    payload_json: JsonValue


class InboxOut(NotificationOut, kw_only=True):
    """A message of the inbox. `read_at` is set where it was marked by itself and not with all up to an instant."""

    read_at: datetime | None
    unread: bool


class HistoryEntryOut(msgspec.Struct, kw_only=True):
    """One line of an org's history."""

    result_id: str
    job_id: str
    created_at: datetime
    query: str | None
    intelligence_mode: str | None
    status: Status


class KeyOut(msgspec.Struct, kw_only=True):
    """A key as the org's admins see it, without its secret."""

    key_id: str
    org_id: str
    name: str
    scopes: list[KeyScope]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class PauseOut(msgspec.Struct, kw_only=True):
    """A pause of an analysis, for one org or for all."""

    analysis: str
    #: null: for all orgs
    org_id: str | None
    because: str
    paused_at: datetime
    paused_until: datetime | None
    paused_by: str | None


class ProblemOut(msgspec.Struct, kw_only=True):
    """An error: problem details (RFC 9457) with extension members, which depend on `error`."""

    type: Address
    title: str
    status: int
    detail: str
    ok: Literal[False] = False
    error: Code
    message: str
    request_id: Name
    #: the first invalid field
    field: str | msgspec.UnsetType = msgspec.UNSET
    errors: list[FieldError] | msgspec.UnsetType = msgspec.UNSET
    #: of `forbidden`; a `scope` is in `required_scope`
    reason: ForbiddenReason | msgspec.UnsetType = msgspec.UNSET
    required_scope: Scope | msgspec.UnsetType = msgspec.UNSET
    limit_bytes: Count | msgspec.UnsetType = msgspec.UNSET
    limit_fields: Count | msgspec.UnsetType = msgspec.UNSET
    current_state: Status | msgspec.UnsetType = msgspec.UNSET
    job: JobOut | msgspec.UnsetType = msgspec.UNSET
    job_id: str | msgspec.UnsetType = msgspec.UNSET
    retryable: bool | msgspec.UnsetType | None = msgspec.UNSET
    retry_hint: RetryHint | msgspec.UnsetType | None = msgspec.UNSET
    expired_at: datetime | msgspec.UnsetType = msgspec.UNSET


class ScheduleOut(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule."""

    name: ScheduleName
    analysis: str
    input: dict[str, Any]
    cron: str | None
    every_seconds: float | None
    zone: str
    overlap: RunOverlap
    missed: Missed
    paused: bool
    notify: dict[str, Any] | None
    #: `code`: it comes and goes with the decorator of its analysis
    source: ScheduleSource
    created_at: datetime
    updated_at: datetime
    #: the next five, none while it is paused
    next_runs: list[datetime]
    last_run_at: datetime | None
    #: `submitted`, `skipped`, `missed`, or `invalid: ` and why
    last_outcome: str | None
    last_job_id: str | None


class EndpointOut(msgspec.Struct, kw_only=True):
    """A webhook endpoint as the org's admins see it, without its secret."""

    endpoint_id: str
    org_id: Name
    url: Address
    name: str
    events: list[Subject]
    status: EndpointHealth
    created_at: datetime
    secret_version: Count
    former_secret_until: datetime | None
    disabled_at: datetime | None
    disabled_reason: str | None
    failures: Count
    failing_since: datetime | None
    paused_until: datetime | None


class DeliveryOut(NotificationOut, kw_only=True):
    """A message to a webhook endpoint, or to an address that its job named.

    An e-mail address is masked.
    """

    endpoint_id: str | None
    target: str | None


class AttemptOut(msgspec.Struct, kw_only=True):
    """One attempt to send a message: the response, and the resulting status."""

    attempt: Count
    at: datetime
    seconds: Seconds
    status: DeliveryStatus
    status_code: int | None
    error: str | None
    reply: str | None


def _texts(*names: str) -> dict[str, Any]:
    return {name: {"type": ["string", "null"]} for name in names}


#: What a provenance has beyond the fields of its job; a PROV document has none of it.
_PROVENANCE: dict[str, Any] = {
    "result_sha256": {"type": ["string", "null"], "description": "Of the stored JSON text."},
    "code": {
        "type": ["object", "null"],
        "description": "The code of the last attempt, and what it ran on.",
        "properties": _texts(*CodeVersion.__struct_fields__),
    },
    "input_hash": {"type": "string", "description": "SHA-256 of the analysis and its input."},
    "sources": {
        "type": "array",
        "description": "What the function declared.",
        "items": {"type": "object", "properties": _texts(*Source.__struct_fields__)},
    },
    "sources_complete": {"type": "boolean", "description": "Whether all that it declared is kept."},
    "attempts": {
        "type": "array",
        "description": "Every attempt; of a reused result those of the run that it is taken from.",
        "items": {
            "type": "object",
            "properties": {
                "attempt": {"type": "integer"},
                **_texts("started_at", "ended_at", "outcome", "why", "host", "version"),
            },
        },
    },
    "resumed_from": {
        "type": ["object", "null"],
        "description": "The job whose finished chunks were not computed again, and how many.",
        "properties": {"job_id": {"type": "string"}, "chunks": {"type": "integer"}},
    },
    "citation": {"type": "string", "description": "A line to cite it by."},
}
Provenance = Annotated[dict[str, Any], msgspec.Meta(extra_json_schema={"properties": _PROVENANCE})]
