"""Events of a job: the stored log, CloudEvents for other systems, and the feed of an org."""

from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from langlauf.domain.instant import SECOND, Instant, to_datetime
from langlauf.domain.state import TERMINAL, Status

ActorType = Literal["system", "worker", "user"]


class EventType(StrEnum):
    """The types of events. Each is written in the transaction of the change that it reports."""

    QUEUED = "job.queued"
    """The job was accepted."""
    RUNNING = "job.running"
    """Its first attempt started."""
    ATTEMPT_STARTED = "job.attempt_started"
    """A further attempt started."""
    PROGRESS = "job.progress"
    """Percent or step changed."""
    PARTIAL = "job.partial"
    """A partial snapshot was stored."""
    COMPLETED = "job.completed"
    """The final snapshot was stored."""
    FAILED = "job.failed"
    """The job ended with an error."""
    CANCEL_REQUESTED = "job.cancel_requested"
    """A running job was asked to stop."""
    CANCELED = "job.canceled"
    """The job was stopped."""
    RETRY_SCHEDULED = "job.retry_scheduled"
    """An attempt failed, and the next one is scheduled."""
    TIMEOUT = "job.timeout"
    """An attempt exceeded its timeout."""
    LEASE_LOST = "job.lease_lost"
    """The worker of an attempt vanished."""
    RELEASED = "job.released"
    """An attempt was released at shutdown."""


#: The state of a job after the event; other types leave it unchanged.
STATE_AFTER: dict[EventType, Status] = {
    EventType.QUEUED: Status.QUEUED,
    EventType.RUNNING: Status.RUNNING,
    EventType.PARTIAL: Status.PARTIAL,
    EventType.COMPLETED: Status.COMPLETED,
    EventType.FAILED: Status.FAILED,
    EventType.CANCELED: Status.CANCELED,
}

#: The types that end a job and its log.
FINAL_EVENTS = frozenset(kind for kind, state in STATE_AFTER.items() if state in TERMINAL)


class Event(msgspec.Struct, frozen=True):
    """One entry of a job's log. Fields are in the order of the table's columns."""

    org_id: str
    job_id: str
    event_seq: int
    event_id: str
    event_type: EventType
    occurred_at: Instant
    actor_type: ActorType
    #: JSON text, as stored
    payload_json: str
    trace_id: str
    request_id: str


Uuid = Annotated[str, msgspec.Meta(extra_json_schema={"format": "uuid"})]
CLOUD_EVENT_MEDIA_TYPE = "application/cloudevents+json"


class OutboundType(StrEnum):
    """The types of events that are sent to other systems."""

    QUEUED = "api.analyze.job.queued"
    STARTED = "api.analyze.job.started"
    PARTIAL = "api.analyze.job.partial"
    COMPLETED = "api.analyze.job.completed"
    FAILED = "api.analyze.job.failed"
    CANCELED = "api.analyze.job.canceled"


#: The outbound type of each stored event; the others are internal.
OUTBOUND: dict[EventType, OutboundType] = {
    EventType.QUEUED: OutboundType.QUEUED,
    EventType.RUNNING: OutboundType.STARTED,
    EventType.PARTIAL: OutboundType.PARTIAL,
    EventType.COMPLETED: OutboundType.COMPLETED,
    EventType.FAILED: OutboundType.FAILED,
    EventType.CANCELED: OutboundType.CANCELED,
}


class JobEventData(msgspec.Struct, kw_only=True):
    """What an outbound event says about its job; the rest is at the job's URL."""

    job_id: str
    org_id: str
    status: Status
    event_seq: int
    occurred_at: datetime
    trace_id: str
    result_id: str | None = None


class CloudEvent(msgspec.Struct, kw_only=True):
    """One outbound event. `id` stays the same when it is sent again, so that a receiver can drop repetitions."""

    specversion: Literal["1.0"] = "1.0"
    id: Uuid
    source: str
    type: OutboundType
    subject: str
    time: datetime
    #: the same time under the name of Standard Webhooks
    timestamp: datetime
    datacontenttype: Literal["application/json"] = "application/json"
    data: JobEventData


def event_source(public_url: str | None, prefix: str) -> str:
    """Return the source of events: the URL of the API, or its path if no public URL is set."""
    return f"{public_url.rstrip('/')}{prefix}" if public_url else prefix


def cloud_event(
    *,
    event_id: str,
    kind: EventType,
    job_id: str,
    org_id: str,
    status: Status,
    event_seq: int,
    occurred_at: Instant,
    trace_id: str,
    result_id: str | None,
    source: str,
) -> CloudEvent:
    """Return a stored event as a CloudEvent. Feed and webhooks share it, so they say the same.

    Its id is that of the stored event, on every channel and on every repetition.
    """
    moment = to_datetime(occurred_at)
    news = JobEventData(
        job_id=job_id,
        org_id=org_id,
        status=status,
        event_seq=event_seq,
        occurred_at=moment,
        trace_id=trace_id,
        result_id=result_id,
    )
    return CloudEvent(
        id=event_id,
        source=source,
        type=OUTBOUND[kind],
        subject=job_id,
        time=moment,
        timestamp=moment,
        data=news,
    )


#: A position of another store has a time only: reading resumes this much earlier, and repetitions have the same id.
FEED_OVERLAP: Instant = 60 * SECOND
#: Events scanned per page, however few of them match.
FEED_SCAN_LIMIT = 1_000


class FeedPosition(msgspec.Struct, frozen=True):
    """A position in a feed: after one event, which may be gone by now."""

    #: the store that counted the mark, and its incarnation
    life: str
    #: the order of commits in that store
    mark: int
    #: when the event occurred
    at: Instant
    job_id: str
    event_seq: int


class FeedEvent(msgspec.Struct, frozen=True):
    """An event with the position after it."""

    event: Event
    place: FeedPosition
    #: the latest result of a failed job; events of snapshots name theirs themselves
    result_id: str | None = None


class FeedPage(msgspec.Struct, frozen=True):
    """The next page of a feed."""

    events: list[FeedEvent]
    #: where to continue, also after an empty page; None if the feed is empty
    after: FeedPosition | None
    #: the page was cut, so there may be more already
    more: bool
    #: later events are committed, but held back until an earlier one is
    held: bool = False


class FeedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which events to return. Without a position the feed starts with the oldest; `latest` returns its end."""

    after: FeedPosition | None = None
    latest: bool = False
    kinds: frozenset[EventType] = frozenset(OUTBOUND)
    limit: int = 50


class _ResultOf(msgspec.Struct):
    result_id: str | None = None


_result_decoder = msgspec.json.Decoder(_ResultOf)


def to_cloud_event(entry: FeedEvent, source: str) -> CloudEvent:
    """Return an event of the feed as a CloudEvent."""
    event, result_id = entry.event, entry.result_id
    with suppress(msgspec.MsgspecError):  # payloads of an earlier system may hold anything
        result_id = _result_decoder.decode(event.payload_json).result_id or result_id
    return cloud_event(
        event_id=event.event_id,
        kind=event.event_type,
        job_id=event.job_id,
        org_id=event.org_id,
        status=STATE_AFTER[event.event_type],
        event_seq=event.event_seq,
        occurred_at=event.occurred_at,
        trace_id=event.trace_id,
        result_id=result_id,
        source=source,
    )
