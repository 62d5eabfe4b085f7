"""Events for the world outside: CloudEvents 1.0 in structured JSON, thin enough to be sent anywhere."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from langlauf.domain.event import EventType
from langlauf.domain.instant import Instant, to_datetime
from langlauf.domain.state import Status

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
