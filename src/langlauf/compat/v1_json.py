"""The JSON store of the earlier system, as a document: read into loose records, and written from strict ones.

`jobs`, `results` and `notifications` are objects by id, `events` has a list per job id. JSON values inside (payloads,
summaries, input) are carried as text and never rebuilt, so that no digit is lost on the way.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from langlauf.domain.delivery import ChannelName, DeliveryStatus, Notification
from langlauf.domain.errors import LanglaufError
from langlauf.domain.event import ActorType, Event
from langlauf.domain.instant import Instant, from_text, to_text
from langlauf.domain.job import EXPORTED_FIELDS, CanceledBy, JobRecord, PriorityClass, is_time_field, unconstrained_type
from langlauf.domain.result import ResultKind, Snapshot, StoredResult
from langlauf.domain.state import Status

SCHEMA_VERSION = 5
ABSENT = msgspec.Raw()
T = TypeVar("T")
Number = int | float
#: What an integer column of every store holds.
SmallNumber = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
#: What the earlier system knew nothing of, and what says something about this store alone.
_OURS_ALONE = frozenset({"read_at", "endpoint_id", "target", "lane", "claimed_until", "tries_from"})
_OF_A_MESSAGE = tuple(name for name in Notification.__struct_fields__ if name not in _OURS_ALONE)
_OF_A_RESULT = tuple(name for name in Snapshot.__struct_fields__ if name not in ("result_payload_ref", "removed_at"))


class NotAnEarlierStore(LanglaufError):
    """The file is not a store of the earlier system; the message says what is wrong and where."""


class EarlierChunk(msgspec.Struct, kw_only=True):
    """A finished chunk of a job; the earlier system had none, our exports do."""

    payload: msgspec.Raw
    created_at: str


def _known() -> Iterator[tuple[str, Any, Any]]:
    """Yield what an export says of a job, by the table of its fields: all of it may be missing."""
    for field in msgspec.structs.fields(JobRecord):
        if field.name in EXPORTED_FIELDS:
            yield field.name, str | None if is_time_field(field.name) else unconstrained_type(field.type) | None, None


if TYPE_CHECKING:
    _Known = msgspec.Struct
else:
    _Known = msgspec.defstruct("_Known", _known(), kw_only=True)


class EarlierJob(_Known, kw_only=True):
    """A job as the earlier system kept it: almost everything may be missing. Named is what is not read as it stands."""

    status: Status
    job_id: str | None = None
    org_id: str | None = None
    analysis: str | None = None
    priority_class: PriorityClass = "default"
    request_payload_json: msgspec.Raw = ABSENT
    request_payload_hash: str | None = None
    created_at: str | None = None
    queued_at: str | None = None
    updated_at: str | None = None
    timeout_seconds: Number | None = None
    max_retries: int | None = None
    trace_id: str | None = None
    request_id: str | None = None
    requested_by_user_id: str | int | None = None
    #: the earlier system's code has the same under this name
    owner_user_id: str | int | None = None
    progress_percent: Number | None = None
    estimated_seconds: Number | None = None
    partial_count: int | None = None
    error_count: int | None = None
    result_id: str | None = None
    started_at: str | None = None
    attempt_started_at: str | None = None
    finished_at: str | None = None
    cancel_requested_at: str | None = None
    canceled_at: str | None = None
    canceled_by: CanceledBy | None = None
    cancel_reason: str | None = None
    failed_at: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    error_meta: msgspec.Raw = ABSENT
    retryable: bool | None = None
    retry_hint: str | None = None
    next_attempt_at: str | None = None
    attempt: int | None = None
    event_seq: int | None = None
    result_expired_at: str | None = None
    events_expired_at: str | None = None
    partial_bytes: int | None = None
    idempotency_key: str | None = None
    chunks: dict[str, EarlierChunk] = msgspec.field(default_factory=dict)


#: Fields of the table that need no filler: there, or not.
PLAIN_FIELDS = tuple(name for name in EXPORTED_FIELDS if name not in EarlierJob.__annotations__)


class EarlierEvent(msgspec.Struct, kw_only=True):
    """An entry of a job's log."""

    event_type: str
    event_id: str | None = None
    event_seq: int | None = None
    occurred_at: str | None = None
    actor_type: ActorType = "system"
    payload_json: msgspec.Raw = ABSENT
    trace_id: str | None = None
    request_id: str | None = None


class EarlierResult(msgspec.Struct, kw_only=True):
    """A snapshot. `removed_at` marks one whose payload retention took; the earlier system dropped it entirely."""

    job_id: str
    result_kind: ResultKind
    result_seq: int
    result_id: str | None = None
    #: the code of the earlier system writes `"v1"`, other writers a number
    schema_version: SmallNumber | str | None = None
    created_at: str | None = None
    summary_json: msgspec.Raw = ABSENT
    result_payload: msgspec.Raw = ABSENT
    #: an addition of ours; the earlier system leaves alone what it does not know
    views: msgspec.Raw = ABSENT
    removed_at: str | None = None


class EarlierNotification(msgspec.Struct, kw_only=True):
    """A message about a job's end."""

    job_id: str
    template_key: str
    notification_id: str | None = None
    channel: ChannelName = "in_app"
    delivery_status: DeliveryStatus = "pending"
    attempt_count: int = 0
    last_error: str | None = None
    dedupe_key: str | None = None
    scheduled_at: str | None = None
    sent_at: str | None = None
    created_at: str | None = None
    payload_json: msgspec.Raw = ABSENT


class EarlierStore(msgspec.Struct, kw_only=True):
    """The whole document, by id."""

    jobs: dict[str, EarlierJob]
    events: dict[str, list[EarlierEvent]]
    results: dict[str, EarlierResult]
    notifications: dict[str, EarlierNotification]


class _Document(msgspec.Struct):
    schema_version: int
    jobs: dict[str, msgspec.Raw]
    events: dict[str, msgspec.Raw] = {}
    results: dict[str, msgspec.Raw] = {}
    notifications: dict[str, msgspec.Raw] = {}


def read_document(content: bytes) -> EarlierStore:
    """Return the records of a file; raises `NotAnEarlierStore` with the place of the first thing that does not fit."""
    document = _decode(content, _Document, "the file")
    if not 1 <= document.schema_version <= SCHEMA_VERSION:
        raise NotAnEarlierStore(f"schema_version is {document.schema_version}; known are 1 to {SCHEMA_VERSION}")
    return EarlierStore(
        jobs={key: _decode(raw, EarlierJob, f"jobs.{key}") for key, raw in document.jobs.items()},
        events={key: _decode(raw, list[EarlierEvent], f"events.{key}") for key, raw in document.events.items()},
        results={key: _decode(raw, EarlierResult, f"results.{key}") for key, raw in document.results.items()},
        notifications={
            key: _decode(raw, EarlierNotification, f"notifications.{key}")
            for key, raw in document.notifications.items()
        },
    )


def _decode(content: bytes | msgspec.Raw, kind: type[T], where: str) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        raise NotAnEarlierStore(f"{where}{path.rstrip('`')}: {message}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotAnEarlierStore(f"{where} is not JSON: {error}") from None


#: The end of the year 9998: what is later cannot be shown everywhere.
_LATEST = from_text("9999-01-01T00:00:00Z")


def instant(text: str | None, where: str) -> Instant | None:
    """Return a time of the document."""
    if text is None:
        return None
    try:
        found = from_text(text)
    except (ValueError, OverflowError):
        found = -1
    if not 0 <= found < _LATEST:
        raise NotAnEarlierStore(f"{where}: {text!r} is not a time like 2026-03-01T12:00:00Z")
    return found


def text_of(raw: msgspec.Raw) -> str | None:
    """Return a JSON value as compact text on one line; None where it is missing or null."""
    content = bytes(raw)
    if content in (b"", b"null"):
        return None
    return msgspec.json.format(content, indent=-1).decode()


def job_entry(
    job: JobRecord, payload: str, key: str | None, chunks: Mapping[str, tuple[str, Instant]]
) -> dict[str, Any]:
    """Return a job as an entry of `jobs`."""
    entry = _entry(job, json_fields=("error_meta",), names=EXPORTED_FIELDS)
    entry["request_payload_json"] = msgspec.Raw(payload.encode())
    if job.requested_by_user_id is not None:
        entry["owner_user_id"] = job.requested_by_user_id
    if key is not None:
        entry["idempotency_key"] = key
    if chunks:
        entry["chunks"] = {
            name: {"payload": msgspec.Raw(text.encode()), "created_at": to_text(at)}
            for name, (text, at) in chunks.items()
        }
    return entry


def event_entry(event: Event) -> dict[str, Any]:
    """Return an event as an entry of a list in `events`."""
    return _entry(event, json_fields=("payload_json",))


def result_entry(result: StoredResult) -> dict[str, Any]:
    """Return a snapshot as an entry of `results`; its schema is named as it came."""
    entry = _entry(result.snapshot, json_fields=("summary_json",), names=_OF_A_RESULT)
    if result.schema_text is not None:
        entry["schema_version"] = result.schema_text
    entry["result_payload"] = None if result.payload is None else msgspec.Raw(result.payload.encode())
    if result.views is not None:
        entry["views"] = msgspec.Raw(result.views.encode())
    return entry


def notification_entry(notification: Notification) -> dict[str, Any]:
    """Return a message as an entry of `notifications`."""
    return _entry(notification, json_fields=("payload_json",), names=_OF_A_MESSAGE)


def _entry(record: msgspec.Struct, *, json_fields: tuple[str, ...], names: tuple[str, ...] = ()) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for name in names or record.__struct_fields__:
        value = getattr(record, name)
        if value is not None and is_time_field(name):
            value = to_text(value)
        elif value is not None and name in json_fields:
            value = msgspec.Raw(value.encode())
        entry[name] = value
    return entry
