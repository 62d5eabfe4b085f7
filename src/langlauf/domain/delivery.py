"""Notifications and their delivery: subscriptions, webhook endpoints, messages and delivery attempts.

A message is a row of the outbox, written in the transaction of the change that it reports. A sender claims it for a
while; the attempt number is the fencing token, as it is for jobs.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from langlauf.domain.event import OUTBOUND, EventType
from langlauf.domain.instant import Instant
from langlauf.domain.state import Status

ChannelName = Literal["in_app", "email", "webhook"]
CHANNELS: tuple[ChannelName, ...] = ("in_app", "email", "webhook")
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
    channel: ChannelName
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


def dedupe_key(job_id: str, channel: ChannelName, template_key: str) -> str:
    """The key that makes a second message of the same kind impossible."""
    return f"{job_id}:{channel}:{template_key}"


#: What an endpoint can subscribe to: the last word of the outbound names.
Subject = Literal["queued", "started", "partial", "completed", "failed", "canceled"]
SUBJECTS: tuple[Subject, ...] = ("queued", "started", "partial", "completed", "failed", "canceled")
#: What every endpoint hears of unless it says otherwise.
FINAL_SUBJECTS: tuple[Subject, ...] = ("completed", "failed", "canceled")
#: What people are written to about by e-mail.
MAIL_SUBJECTS: tuple[Subject, ...] = ("completed", "failed")
#: All mails of an org wait for each other: there is one server that takes them.
MAIL_LANE = "mail"
#: How many endpoints an org may have.
MOST_ENDPOINTS = 100
#: Where a job's own webhook stands in the key that makes a second message impossible.
JOB_WEBHOOK = "job"

_OUTSIDE: dict[EventType, str] = {kind: str(name).rpartition(".")[2] for kind, name in OUTBOUND.items()}


def subject_of(template_key: str) -> str:
    """What a message is about, from its template."""
    return template_key.rpartition(".")[2]


def template_of(kind: EventType) -> str:
    """The template of a message about an event that goes out."""
    return f"async.job.{_OUTSIDE[kind]}"


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """What a submission asks to be told, and where. At most one for each channel."""

    channel: ChannelName
    #: a web address, or one for mail
    target: str
    #: messages with the same lane wait for each other: one of a few for web addresses, or `mail`
    lane: str
    #: the language that people are written to in
    language: str | None = None


class WebhookEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An address of an org that is called. Its secret is not kept: it is made from this store's own and `version`."""

    org_id: str
    endpoint_id: str
    url: str
    name: str
    subjects: tuple[Subject, ...]
    created_at: Instant
    #: which secret signs; the one before is good until `former_until`
    version: int = 1
    former_until: Instant | None = None
    #: set where nothing is sent any more, and why
    disabled_at: Instant | None = None
    disabled_reason: str | None = None
    #: how often in a row it could not be told, since when, and until when it is left alone
    failures: int = 0
    failing_since: Instant | None = None
    paused_until: Instant | None = None


class EndpointChange(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be different about an endpoint; None leaves it as it is."""

    org_id: str
    endpoint_id: str
    name: str | None = None
    subjects: tuple[Subject, ...] | None = None
    #: True sends again, and forgets what went wrong; False stops, and gives up what waits
    enabled: bool | None = None
    reason: str | None = None
    #: makes a new secret; the one before stays good for so many seconds
    rotate_seconds: float | None = None


class DeliveryClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for messages that are due: so many in all, so many of a lane at once, each for a while."""

    most: int
    most_of_lane: int
    claim_seconds: float
    #: failures in a row after which a lane is tried with one message at a time
    cautious_after: int
    #: whether mail is among it; a process that cannot send any leaves it to others
    with_mail: bool = True


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is about to be sent, with all that its sender needs."""

    org_id: str
    notification_id: str
    job_id: str
    channel: ChannelName
    template_key: str
    created_at: Instant
    #: JSON text: job_id, status, event_seq, event_id, trace_id, result_id; for mail also language
    payload_json: str
    #: counts the claims of this message; what is written about another attempt is refused
    attempt: int
    #: which try it is since it was made or replayed, from 1 on
    try_number: int
    #: where it goes: the address of the endpoint as it is now, or the job's own
    target: str
    lane: str
    endpoint_id: str | None
    version: int | None
    former_until: Instant | None
    #: how often in a row the lane could not be told before this
    lane_failures: int
    #: the trace that the job's request belonged to, where it named one
    traceparent: str | None


class DeliveryEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt to send went. `retry_delay` is set where it is to be tried again."""

    org_id: str
    notification_id: str
    attempt: int
    #: `pending` where it is tried again after `retry_delay`
    status: DeliveryStatus
    seconds: float
    retry_seconds: float = 0.0
    status_code: int | None = None
    error: str | None = None
    #: the beginning of what the receiver answered, without secrets
    reply: str | None = None
    #: how long its lane is left alone; None where the lane is well
    pause_seconds: float | None = None
    #: whether the lane was at fault; a message that can never be sent says nothing about its lane
    lane_failed: bool = False
    #: why its endpoint is not called any more
    disable: str | None = None


class DeliveryAttempt(msgspec.Struct, frozen=True):
    """One line of the log of deliveries. Fields are in the order of the table's columns."""

    org_id: str
    notification_id: str
    attempt: int
    job_id: str
    #: when it ended
    at: Instant
    seconds: float
    status: DeliveryStatus
    status_code: int | None
    error: str | None
    reply: str | None


class DeliveryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which messages of an org to list, newest first."""

    endpoint_id: str | None = None
    job_id: str | None = None
    status: DeliveryStatus | None = None
    #: the position of the last one of the page before
    before: tuple[Instant, str] | None = None
    limit: int = 50


class DeliveryReplay(msgspec.Struct, frozen=True, kw_only=True):
    """Messages to send again under their old ids: one, or those of an endpoint that failed since an instant."""

    org_id: str
    notification_id: str | None = None
    endpoint_id: str | None = None
    since: Instant | None = None
    #: also those that arrived
    sent_too: bool = False
    #: so many and no more
    most: int = 1_000


class DeliveryStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """How sending goes, over all orgs: for operators."""

    pending: dict[ChannelName, int]
    #: since when the longest overdue message of a lane that is not paused is due
    oldest_due: Instant | None
    paused_lanes: int
    disabled_endpoints: int


def retry_delay(schedule: Sequence[float], try_number: int, draw: float) -> float | None:
    """How long to wait after a try that failed; None after the last one. `draw` is chance, from 0 up to 1.

    Up to a fifth is added, never taken away: whoever failed at the same moment does not come back at the same moment,
    and nobody comes earlier than told.
    """
    if try_number > len(schedule):
        return None
    return schedule[try_number - 1] * (1 + draw / 5)
