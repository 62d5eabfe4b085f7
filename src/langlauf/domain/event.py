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
    """The kinds of events. Each is written in the transaction of the change it tells of."""

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
    """Somebody asked a running job to stop."""
    CANCELED = "job.canceled"
    """The job was stopped."""
    RETRY_SCHEDULED = "job.retry_scheduled"
    """An attempt failed and another one is due at a known time."""
    TIMEOUT = "job.timeout"
    """An attempt ran out of time."""
    LEASE_LOST = "job.lease_lost"
    """The worker of an attempt vanished."""
    RELEASED = "job.released"
    """An attempt was given back at shutdown."""


#: The state a job is in after the event; kinds that are not here leave it as it was.
STATE_AFTER: dict[EventType, Status] = {
    EventType.QUEUED: Status.QUEUED,
    EventType.RUNNING: Status.RUNNING,
    EventType.PARTIAL: Status.PARTIAL,
    EventType.COMPLETED: Status.COMPLETED,
    EventType.FAILED: Status.FAILED,
    EventType.CANCELED: Status.CANCELED,
}

#: The kinds that end a job, and with it its log.
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
    #: JSON text, kept as it is stored
    payload_json: str
    trace_id: str
    request_id: str


Uuid = Annotated[str, msgspec.Meta(extra_json_schema={"format": "uuid"})]
CLOUD_EVENT_MEDIA_TYPE = "application/cloudevents+json"


class OutboundType(StrEnum):
    """The kinds that leave the house."""

    QUEUED = "api.analyze.job.queued"
    STARTED = "api.analyze.job.started"
    PARTIAL = "api.analyze.job.partial"
    COMPLETED = "api.analyze.job.completed"
    FAILED = "api.analyze.job.failed"
    CANCELED = "api.analyze.job.canceled"


#: Which stored event goes out as which kind; the others stay inside.
OUTBOUND: dict[EventType, OutboundType] = {
    EventType.QUEUED: OutboundType.QUEUED,
    EventType.RUNNING: OutboundType.STARTED,
    EventType.PARTIAL: OutboundType.PARTIAL,
    EventType.COMPLETED: OutboundType.COMPLETED,
    EventType.FAILED: OutboundType.FAILED,
    EventType.CANCELED: OutboundType.CANCELED,
}


class JobEventData(msgspec.Struct, kw_only=True):
    """What an outbound event tells about its job; the rest is at the job's own address."""

    job_id: str
    org_id: str
    status: Status
    event_seq: int
    occurred_at: datetime
    trace_id: str
    result_id: str | None = None


class CloudEvent(msgspec.Struct, kw_only=True):
    """One outbound event. `id` is the same on every repetition, so that a receiver can tell them apart."""

    specversion: Literal["1.0"] = "1.0"
    id: Uuid
    source: str
    type: OutboundType
    subject: str
    time: datetime
    #: the same moment under the name that Standard Webhooks uses
    timestamp: datetime
    datacontenttype: Literal["application/json"] = "application/json"
    data: JobEventData


def event_source(public_url: str | None, prefix: str) -> str:
    """Where events come from: the address of the API, or, where nobody said which it is, its path, which stays."""
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
    """A stored event as it goes out. The feed and the webhooks both make it here, so they tell the same.

    Its id is that of the stored event: the same on every way out, and on every repetition.
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


#: A place of another store says when, not where: reading goes on so much earlier, and what comes twice has the same id.
FEED_OVERLAP: Instant = 60 * SECOND
#: Events that are looked at for a page, however few of them are of the wanted kinds.
FEED_SCAN_LIMIT = 1_000


class FeedPosition(msgspec.Struct, frozen=True):
    """A place in a feed: behind one event, which need not be there any more."""

    #: which store counted the mark, and in which life of it
    life: str
    #: the order of commits as that store counts it
    mark: int
    #: when the event occurred
    at: Instant
    job_id: str
    event_seq: int


class FeedEvent(msgspec.Struct, frozen=True):
    """An event with the place behind it."""

    event: Event
    place: FeedPosition
    #: what the job had to show when it failed; the events of snapshots name theirs themselves
    result_id: str | None = None


class FeedPage(msgspec.Struct, frozen=True):
    """The next part of a feed."""

    events: list[FeedEvent]
    #: where to go on, also where nothing was found; None while there is nothing to be behind
    after: FeedPosition | None
    #: it was cut short, so there may be more already
    more: bool
    #: something is committed that may not be told yet, because what comes before it is not
    held: bool = False


class FeedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which events to give. Without a place the feed begins with the oldest; `latest` gives where it ends now."""

    after: FeedPosition | None = None
    latest: bool = False
    kinds: frozenset[EventType] = frozenset(OUTBOUND)
    limit: int = 50


class _Told(msgspec.Struct):
    result_id: str | None = None


_told = msgspec.json.Decoder(_Told)


def to_cloud_event(told: FeedEvent, source: str) -> CloudEvent:
    """A stored event as the world outside gets it."""
    event, result_id = told.event, told.result_id
    with suppress(msgspec.MsgspecError):  # what an earlier system wrote may be anything
        result_id = _told.decode(event.payload_json).result_id or result_id
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
