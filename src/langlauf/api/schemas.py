"""The shapes on the wire. The same structs encode the answers and make the OpenAPI document."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from langlauf.auth.tokens import LONGEST_SECONDS
from langlauf.domain.errors import RetryHint
from langlauf.domain.event import ActorType, EventType
from langlauf.domain.job import Count, Name, Phase, PriorityClass, SeenJob
from langlauf.domain.keys import LONGEST_NAME
from langlauf.domain.mail_address import LONGEST as LONGEST_MAIL_ADDRESS
from langlauf.domain.mail_address import PATTERN as MAIL_PATTERN
from langlauf.domain.notification import Channel, DeliveryStatus
from langlauf.domain.outbound import CloudEvent, Uuid
from langlauf.domain.result import ResultKind
from langlauf.domain.showing import MOST_VIEWS, VIEW_KINDS
from langlauf.domain.state import Status
from langlauf.domain.target import LONGEST_URL
from langlauf.problems import FieldError
from langlauf.settings import LONGEST_DURATION

#: A stored JSON value that is sent as it is, never decoded on the way.
JsonValue = Any
KeyScope = Literal["submit", "read", "cancel", "admin"]
#: A text like `30m`, over nothing; how long it may be no pattern can say.
DURATION_TEXT = {"pattern": r"^(?=[^1-9]*[1-9])\s*[0-9]+(\.[0-9]+)?\s*[smhd]?\s*$"}
_DurationText = Annotated[str, msgspec.Meta(max_length=20, extra_json_schema=DURATION_TEXT)]
#: Seconds, or a text like `30m`. What is too long is told by what reads it, in words.
Duration = Annotated[float, msgspec.Meta(gt=0, extra_json_schema={"maximum": LONGEST_DURATION})] | _DurationText
TokenDuration = Annotated[float, msgspec.Meta(gt=0, extra_json_schema={"maximum": LONGEST_SECONDS})] | _DurationText
MaxRetries = Annotated[int, msgspec.Meta(ge=0, le=100)]
Code = Annotated[str, msgspec.Meta(pattern="^[a-z0-9_]+$")]
NotificationId = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
Address = Annotated[str, msgspec.Meta(extra_json_schema={"format": "uri-reference"})]
#: The record of a job that was made by this program, whose id therefore is a UUID.
_MADE_HERE = {"properties": {"job_id": {"format": "uuid"}}}
WebhookAddress = Annotated[
    str,
    msgspec.Meta(
        description="A public https address; http and other ports only where the operator allowed the range.",
        extra_json_schema={"format": "uri", "maxLength": LONGEST_URL, "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://"},
    ),
]
MailAddress = Annotated[
    str,
    msgspec.Meta(
        description="One plain e-mail address.",
        extra_json_schema={"format": "email", "maxLength": LONGEST_MAIL_ADDRESS, "pattern": MAIL_PATTERN},
    ),
]
#: As the analysis gave them; `kind` says which fields there are.
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


class Notify(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Whom to tell of the job's end, besides the endpoints of the org."""

    webhook: WebhookAddress | None = None
    email: MailAddress | None = None
    #: of the mail
    language: Literal["en", "de"] | None = None


class AsyncMode(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How a request is answered and its job treated."""

    requested: bool = False
    priority_class: PriorityClass = "default"
    max_retries: MaxRetries | None = None
    allow_duplicate: bool = False
    notify: Notify | None = None


class Options(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Everything of a request that is not the analysis' own input."""

    async_mode: AsyncMode = AsyncMode()


class CancelBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Why a job is to stop."""

    reason: Annotated[str, msgspec.Meta(max_length=500)] | None = None


class HoldBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Why a result is to be kept."""

    reason: Annotated[str, msgspec.Meta(max_length=500)] | None = None


class RetryBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Whether a new job starts with the finished chunks of the old one."""

    resume: bool = True


class CreateKeyBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What a new key is for, what it may do, and how long it lives: seconds, or a text like `30d`."""

    name: Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)] = ""
    scopes: Annotated[list[KeyScope], msgspec.Meta(min_length=1, max_length=10)] | None = None
    expires_in: Duration | None = None


class TokenBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How long a token lives: seconds, or a text like `10m`; an hour unless said, a day at the most.

    With `cancel` it may also stop its job.
    """

    expires_in: TokenDuration | None = None
    cancel: bool = False


class ReadBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Which messages were seen: one, some, or all up to an instant."""

    notification_id: NotificationId | msgspec.UnsetType = msgspec.UNSET
    notification_ids: Annotated[list[NotificationId], msgspec.Meta(max_length=100)] | msgspec.UnsetType = msgspec.UNSET
    until: Annotated[datetime, msgspec.Meta(tz=True)] | msgspec.UnsetType = msgspec.UNSET


def _members() -> Iterator[tuple[str, Any]]:
    """What clients see of a job: the fields of its table, and what is derived from them."""
    for field in msgspec.structs.fields(SeenJob[datetime, dict[str, Any]]):
        yield field.name, field.type
        if field.name == "status":
            yield "phase", Phase
    yield "status_url", Address
    yield "result_url", Address | None


if TYPE_CHECKING:
    _Members = msgspec.Struct
else:
    _Members = msgspec.defstruct("_Members", _members())


class JobOut(_Members):
    """A job as a client may see it."""


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
    channel: Channel
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


class Answer(msgspec.Struct, kw_only=True):
    """What every JSON answer has."""

    ok: Literal[True] = True
    request_id: Name


class JobAnswer(Answer, kw_only=True):
    """One job."""

    job: JobOut


class AcceptedAnswer(JobAnswer, kw_only=True):
    """A job that is on disk: it will run, or, where the request was a repetition, may have run."""

    accepted: Literal[True] = True
    job: Annotated[JobOut, msgspec.Meta(extra_json_schema=_MADE_HERE)]


class CancelAnswer(Answer, kw_only=True):
    """One job, ended or stopping, with its events."""

    job: JobWithEventsOut


class StatusAnswer(Answer, kw_only=True):
    """One job with events and result."""

    job: JobStatusOut


class ShownAnswer(Answer, kw_only=True):
    """The same around a job that is written already."""

    job: msgspec.Raw


class SyncAnswer(Answer, kw_only=True):
    """The result of a request that was waited for."""

    result: JsonValue
    result_id: Uuid
    job_id: Uuid


class ResultAnswer(Answer, kw_only=True):
    """A snapshot, and what became of its job."""

    result_id: str
    job_id: str
    job_status: Status
    cancel_reason: str | None
    error_code: str | None
    result_kind: ResultKind
    result_seq: Count
    created_at: datetime
    result: JsonValue
    summary: JsonValue
    requested_result_id: str
    requested_result_kind: ResultKind
    projection_mode: Literal["latest", "requested"]


class ViewsAnswer(Answer, kw_only=True):
    """What people are to see of a snapshot."""

    result_id: str
    job_id: str
    result_kind: ResultKind
    result_seq: Count
    views: Views


class JobsAnswer(Answer, kw_only=True):
    """A page of an org's jobs."""

    jobs: list[JobOut]
    next_cursor: str | None


class EventsAnswer(Answer, kw_only=True):
    """A page of a job's log."""

    events: list[EventOut]
    next_after: Count
    expired: bool


class FeedAnswer(Answer, kw_only=True):
    """A page of an org's feed."""

    events: list[CloudEvent]
    #: where the next page begins
    next_after: str
    #: whether there may be more already
    more: bool


class ResultsAnswer(Answer, kw_only=True):
    """A job's snapshots."""

    results: list[SnapshotOut]


class NotificationsAnswer(Answer, kw_only=True):
    """A job's messages."""

    notifications: list[NotificationOut]


class InboxAnswer(Answer, kw_only=True):
    """A page of an org's inbox, and how much of all of it nobody has seen, counted up to 1,000."""

    notifications: list[InboxOut]
    unread: Count
    next_cursor: str | None


class ReadAnswer(Answer, kw_only=True):
    """Whether anything was not known to be read before, and how much is unread now."""

    changed: bool
    unread: Count


class HistoryAnswer(Answer, kw_only=True):
    """A page of an org's history."""

    history: list[HistoryEntryOut]
    total: Count
    limit: Count
    offset: Count


class KeyOut(msgspec.Struct, kw_only=True):
    """A key as its org's admins see it; what opens anything is not in it."""

    key_id: str
    org_id: str
    name: str
    scopes: list[KeyScope]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class KeysAnswer(Answer, kw_only=True):
    """An org's keys."""

    keys: list[KeyOut]


class KeyAnswer(Answer, kw_only=True):
    """One key, with the same fields as in a list."""

    key_id: str
    org_id: str
    name: str
    scopes: list[KeyScope]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class MadeKeyAnswer(KeyAnswer, kw_only=True):
    """A new key, with the text that nobody can read again."""

    key: str


class TokenAnswer(Answer, kw_only=True):
    """A token that reads one job and nothing else."""

    token: str
    token_type: Literal["Bearer"]
    expires_at: datetime
    job_id: str


class HealthAnswer(Answer, kw_only=True):
    """The process is up."""

    status: Literal["up", "ready"]


class ProblemOut(msgspec.Struct, kw_only=True):
    """An error: problem details (RFC 9457) with members of our own. Which of those are there depends on `error`."""

    type: Address
    title: str
    status: int
    detail: str
    ok: Literal[False] = False
    error: Code
    message: str
    request_id: Name
    #: the first field that cannot be used
    field: str | msgspec.UnsetType = msgspec.UNSET
    errors: list[FieldError] | msgspec.UnsetType = msgspec.UNSET
    limit_bytes: Count | msgspec.UnsetType = msgspec.UNSET
    limit_fields: Count | msgspec.UnsetType = msgspec.UNSET
    current_state: Status | msgspec.UnsetType = msgspec.UNSET
    job: JobOut | msgspec.UnsetType = msgspec.UNSET
    job_id: str | msgspec.UnsetType = msgspec.UNSET
    retryable: bool | msgspec.UnsetType | None = msgspec.UNSET
    retry_hint: RetryHint | msgspec.UnsetType | None = msgspec.UNSET
    expired_at: datetime | msgspec.UnsetType = msgspec.UNSET
