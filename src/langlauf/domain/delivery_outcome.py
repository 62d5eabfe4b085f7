"""The outcome of a delivery attempt, and what follows from it.

Webhooks: any 2xx is a success. 410 means that the receiver is gone for good. Everything else, including redirects and
refused addresses, is a temporary failure: it can be repaired, and retrying loses nothing. A lane that keeps failing is
paused for longer and longer, and in the end its endpoint is disabled.
"""

from collections.abc import Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Literal

import msgspec

from langlauf.domain.delivery import Delivery, DeliveryEnd, DeliveryStatus, retry_delay
from langlauf.domain.instant import Instant, seconds_between, to_datetime
from langlauf.domain.redact import clean_text

#: `sent`: delivered; `later`: retried; `never`: retrying would not help; `suppressed`: not to be sent.
Verdict = Literal["sent", "later", "never", "suppressed"]

#: Consecutive failures after which a lane pauses, and then sends one message at a time.
PAUSE_AFTER_FAILURES = 5
_FIRST_PAUSE = 60.0
_LONGEST_PAUSE = 3_600.0
#: The only error that an org sees of a receiver on a private network.
CONCEALED_ERROR = "not taken"
#: The longest `Retry-After` that is honored.
LONGEST_RETRY_AFTER = 86_400.0
#: An endpoint that was unreachable for this long is disabled.
DISABLE_AFTER_SECONDS = 5 * 86_400.0
_LONGEST_ERROR = 500
_LONGEST_REPLY = 1_000

_ARRIVED = range(200, 300)
_REDIRECTS = range(300, 400)
_GONE = 410
_ASKS_FOR_PATIENCE = (429, 503)


class DeliveryOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a channel reports about one attempt."""

    verdict: Verdict
    #: why it was not sent, for people
    error: str | None = None
    status_code: int | None = None
    #: the start of the receiver's response
    reply: str | None = None
    #: seconds that the receiver asked to wait
    retry_after: float | None = None
    #: whether other messages of the lane would have failed too
    lane_failed: bool = False
    #: why its endpoint must be disabled
    disable: str | None = None
    #: details of a private receiver, for the operator's log only
    detail: str | None = None


def outcome_of_status(status_code: int, retry_after: str | None, reply: str, now: Instant) -> DeliveryOutcome:
    """Return what the status of a response means."""
    if status_code in _ARRIVED:
        return DeliveryOutcome(verdict="sent", status_code=status_code, reply=reply)
    if status_code == _GONE:
        reason = "the receiver answered 410 Gone"
        return DeliveryOutcome(verdict="never", status_code=status_code, reply=reply, error=reason, disable=reason)
    error = f"the receiver answered {status_code}"
    if status_code in _REDIRECTS:
        error += ", a redirect; those are not followed: give the address that it leads to"
    patience = read_retry_after(retry_after, now) if status_code in _ASKS_FOR_PATIENCE else None
    return DeliveryOutcome(
        verdict="later", status_code=status_code, reply=reply, error=error, retry_after=patience, lane_failed=True
    )


def conceal_details(outcome: DeliveryOutcome) -> DeliveryOutcome:
    """Return what an org may see of a receiver on a private network: success or failure, and nothing else.

    Neither the response nor the kind of failure is shown, nor revealed by the time of the next retry or by disabling
    the endpoint: with it an org could read and scan what only this server reaches.
    """
    if outcome.verdict == "sent":
        return DeliveryOutcome(verdict="sent", detail=f"the receiver answered {outcome.status_code}")
    said = ": ".join(filter(None, (outcome.error, excerpt(outcome.reply))))
    return DeliveryOutcome(verdict="later", error=CONCEALED_ERROR, lane_failed=True, detail=clean_error(said))


def read_retry_after(text: str | None, now: Instant) -> float | None:
    """Return the seconds of a `Retry-After` header, or None if it cannot be read."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdecimal():
        return min(float(text[:12]), LONGEST_RETRY_AFTER)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return min(max(0.0, (moment - to_datetime(now)).total_seconds()), LONGEST_RETRY_AFTER)


def pause_after(failures: int) -> float | None:
    """Return how long a lane pauses after so many consecutive failures."""
    if failures < PAUSE_AFTER_FAILURES:
        return None
    doublings = min(failures - PAUSE_AFTER_FAILURES, 10)
    return min(_FIRST_PAUSE * 2.0**doublings, _LONGEST_PAUSE)


def settle_delivery(
    delivery: Delivery,
    outcome: DeliveryOutcome,
    *,
    schedule: Sequence[float],
    draw: float,
    seconds: float,
    now: Instant,
    failing_since: Instant | None = None,
) -> DeliveryEnd:
    """Return what is recorded about an attempt. `failing_since` is when the lane started to fail."""
    wait = retry_delay(schedule, delivery.try_number, draw) if outcome.verdict == "later" else None
    failures = delivery.lane_failures + 1
    pause = None
    if outcome.lane_failed:
        pause = max(filter(None, (pause_after(failures), outcome.retry_after)), default=None)
    return DeliveryEnd(
        org_id=delivery.org_id,
        notification_id=delivery.notification_id,
        attempt=delivery.attempt,
        status=_status(outcome, wait),
        # The duration would distinguish a closed port from a silent one.
        seconds=seconds if outcome.detail is None else 0.0,
        retry_seconds=0.0 if wait is None else max(wait, outcome.retry_after or 0.0),
        status_code=outcome.status_code,
        error=clean_error(outcome.error),
        reply=excerpt(outcome.reply) or None,
        pause_seconds=pause,
        lane_failed=outcome.lane_failed,
        disable=outcome.disable or _hopeless(outcome, failures, failing_since, now),
    )


def _status(outcome: DeliveryOutcome, wait: float | None) -> DeliveryStatus:
    match outcome.verdict:
        case "sent" | "suppressed" as settled:
            return settled
        case _:
            return "failed" if wait is None else "pending"


def _hopeless(outcome: DeliveryOutcome, failures: int, failing_since: Instant | None, now: Instant) -> str | None:
    if not outcome.lane_failed or failing_since is None or failures < PAUSE_AFTER_FAILURES:
        return None
    seconds = seconds_between(failing_since, now)
    if seconds < DISABLE_AFTER_SECONDS:
        return None
    return f"nothing could be delivered for {seconds / 86_400:.0f} days: {clean_text(outcome.error or '', 200)}"


def clean_error(text: str | None) -> str | None:
    """Return an error text for people, without secrets."""
    return None if text is None else clean_text(text, _LONGEST_ERROR)


def excerpt(text: str | None) -> str:
    """Return the start of a response for people, without secrets and control characters."""
    shown = "".join(one if one.isprintable() or one in "\n\t" else "\N{REPLACEMENT CHARACTER}" for one in text or "")
    return clean_text(shown, _LONGEST_REPLY)
