"""Messages about a job's end, one per channel and template."""

from typing import Literal

import msgspec

from langlauf.domain.instant import Instant
from langlauf.domain.state import Status

Channel = Literal["in_app", "email", "webhook"]
CHANNELS: tuple[Channel, ...] = ("in_app", "email", "webhook")
DeliveryStatus = Literal["pending", "sent", "failed", "suppressed"]
DELIVERY_STATUSES: tuple[DeliveryStatus, ...] = ("pending", "sent", "failed", "suppressed")

#: The ends people are told of. A cancel is the wish of whoever canceled: no message by default.
TEMPLATES: dict[Status, str] = {
    Status.COMPLETED: "async.job.completed",
    Status.FAILED: "async.job.failed",
}


class Notification(msgspec.Struct, frozen=True):
    """One message. Fields are in the order of the table's columns."""

    org_id: str
    notification_id: str
    job_id: str
    channel: Channel
    template_key: str
    delivery_status: DeliveryStatus
    attempt_count: int
    last_error: str | None
    dedupe_key: str
    scheduled_at: Instant
    sent_at: Instant | None
    created_at: Instant
    #: JSON text, kept as it is stored
    payload_json: str
    #: when somebody of the org had seen it, where that was said of this one alone
    read_at: Instant | None = None
    #: the endpoint that it goes to; else the address that the job named
    endpoint_id: str | None = None
    target: str | None = None
    #: messages of one lane wait for each other
    lane: str | None = None
    #: until when somebody is sending it
    claimed_until: Instant | None = None
    #: from which attempt on its tries are counted: it rises when the message is replayed
    tries_from: int = 0


def dedupe_key(job_id: str, channel: Channel, template_key: str) -> str:
    """The key that makes a second message of the same kind impossible."""
    return f"{job_id}:{channel}:{template_key}"
