"""Notifications and their delivery: subscriptions, webhook endpoints, messages and delivery attempts.

A message is a row of the outbox, written in the transaction of the change that it reports. A sender claims it for a
while; the attempt number is the fencing token, as it is for jobs.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from langlauf.domain.instant import Instant
from langlauf.domain.state import Status

ChannelName = Literal["in_app", "email", "webhook"]
CHANNELS: tuple[ChannelName, ...] = ("in_app", "email", "webhook")
DeliveryStatus = Literal["pending", "sent", "failed", "suppressed"]
DELIVERY_STATUSES: tuple[DeliveryStatus, ...] = ("pending", "sent", "failed", "suppressed")

#: The ends that people are notified of. A cancel is deliberate: no message by default.
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
    #: JSON text, as stored
    payload_json: str
    #: when it was marked as read by itself
    read_at: Instant | None = None
    #: the endpoint that it goes to; None for the target that the job named
    endpoint_id: str | None = None
    target: str | None = None
    #: messages of one lane wait for each other
    lane: str | None = None
    #: until when a sender holds it
    claimed_until: Instant | None = None
    #: the attempt from which tries are counted; a replay raises it
    tries_from: int = 0


def dedupe_key(job_id: str, channel: ChannelName, template_key: str) -> str:
    """Return the key that prevents a second message of the same kind."""
    return f"{job_id}:{channel}:{template_key}"


#: What an endpoint can subscribe to: the last word of the outbound types.
Subject = Literal["queued", "started", "partial", "completed", "failed", "canceled"]
SUBJECTS: tuple[Subject, ...] = ("queued", "started", "partial", "completed", "failed", "canceled")
#: The default subjects of an endpoint.
FINAL_SUBJECTS: tuple[Subject, ...] = ("completed", "failed", "canceled")
#: The subjects of e-mails.
MAIL_SUBJECTS: tuple[Subject, ...] = ("completed", "failed")
#: All mails of an org share a lane: one server takes them.
MAIL_LANE = "mail"
#: The most endpoints of an org.
MOST_ENDPOINTS = 100


def subject_of(template_key: str) -> str:
    """Return the subject of a message, from its template."""
    return template_key.rpartition(".")[2]


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """Where a submission asks to be notified. At most one for each channel."""

    channel: ChannelName
    #: a URL or a mail address
    target: str
    #: messages of one lane wait for each other: one of a few for URLs, or `mail`
    lane: str
    #: the language of the message
    language: str | None = None


class WebhookEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook endpoint of an org. Its secret is derived from the store's own and `version`, not stored."""

    org_id: str
    endpoint_id: str
    url: str
    name: str
    subjects: tuple[Subject, ...]
    created_at: Instant
    #: the version of the signing secret; the previous one is valid until `former_until`
    version: int = 1
    former_until: Instant | None = None
    #: set if nothing is sent any more, and why
    disabled_at: Instant | None = None
    disabled_reason: str | None = None
    #: consecutive failures, since when, and until when delivery is paused
    failures: int = 0
    failing_since: Instant | None = None
    paused_until: Instant | None = None


class EndpointChange(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of an endpoint; None leaves a field unchanged."""

    org_id: str
    endpoint_id: str
    name: str | None = None
    subjects: tuple[Subject, ...] | None = None
    #: True resumes delivery and resets failures; False stops it and drops waiting messages
    enabled: bool | None = None
    reason: str | None = None
    #: creates a new secret; the previous one stays valid for this many seconds
    rotate_seconds: float | None = None


class DeliveryClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Request for due messages: the most in all, the most per lane, and how long they are held."""

    most: int
    most_of_lane: int
    claim_seconds: float
    #: consecutive failures after which a lane sends one message at a time
    cautious_after: int
    #: whether mail is included; a process without a mail server leaves it to others
    with_mail: bool = True


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed message, with everything that its sender needs."""

    org_id: str
    notification_id: str
    job_id: str
    channel: ChannelName
    template_key: str
    created_at: Instant
    #: JSON text: job_id, status, event_seq, event_id, trace_id, result_id; for mail also language
    payload_json: str
    #: counts the claims of this message; writes of another attempt are refused
    attempt: int
    #: counts tries since it was created or replayed, from 1
    try_number: int
    #: the current URL of the endpoint, or the target of the job
    target: str
    lane: str
    endpoint_id: str | None
    version: int | None
    former_until: Instant | None
    #: consecutive failures of the lane before this attempt
    lane_failures: int
    #: the trace context of the job's request, if any
    traceparent: str | None


class DeliveryEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a delivery attempt. `retry_seconds` is set if it is retried."""

    org_id: str
    notification_id: str
    attempt: int
    #: `pending` if it is retried after `retry_seconds`
    status: DeliveryStatus
    seconds: float
    retry_seconds: float = 0.0
    status_code: int | None = None
    error: str | None = None
    #: the start of the receiver's response, without secrets
    reply: str | None = None
    #: how long its lane pauses; None if the lane works
    pause_seconds: float | None = None
    #: whether the lane is at fault; a message that can never be sent says nothing about its lane
    lane_failed: bool = False
    #: why its endpoint is disabled
    disable: str | None = None


class DeliveryAttempt(msgspec.Struct, frozen=True):
    """One entry of the delivery log. Fields are in the order of the table's columns."""

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
    #: the position of the last one of the previous page
    before: tuple[Instant, str] | None = None
    limit: int = 50


class DeliveryReplay(msgspec.Struct, frozen=True, kw_only=True):
    """Messages to send again under their ids: one, or those of an endpoint that failed since a time."""

    org_id: str
    notification_id: str | None = None
    endpoint_id: str | None = None
    since: Instant | None = None
    #: include delivered ones
    sent_too: bool = False
    #: the most messages to replay
    most: int = 1_000


class DeliveryStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Delivery statistics over all orgs, for operators."""

    pending: dict[ChannelName, int]
    #: when the most overdue message became due, paused lanes aside
    oldest_due: Instant | None
    paused_lanes: int
    disabled_endpoints: int


def retry_delay(schedule: Sequence[float], try_number: int, draw: float) -> float | None:
    """Return the delay after a failed try, or None after the last one. `draw` is random, from 0 to 1.

    Up to a fifth is added, never subtracted: retries of simultaneous failures spread out, and none is early.
    """
    if try_number > len(schedule):
        return None
    return schedule[try_number - 1] * (1 + draw / 5)
