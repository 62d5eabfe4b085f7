"""What becomes of a message: what its channel tells of one try, and what follows from that.

The rules of webhooks: any 2xx is an arrival. 410 says that nobody is there any more. All else, redirects and addresses
that must not be called among it, is a failure that may pass: somebody may put it right, and nothing is lost by trying
again. A lane that fails again and again is left alone for longer and longer, and in the end its endpoint is disabled.
"""

from collections.abc import Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Literal

import msgspec

from langlauf.domain.delivery import Delivery, DeliveryEnd, DeliveryStatus, retry_delay
from langlauf.domain.instant import Instant, seconds_between, to_datetime
from langlauf.domain.redact import clean_text

#: `sent`, it arrived; `later`, to be tried again; `never`, trying again would not help; `suppressed`, nobody sends it.
Verdict = Literal["sent", "later", "never", "suppressed"]

#: Failures of a lane in a row from which on it is left alone for a while, and is tried with one message at a time.
PAUSE_AFTER_FAILURES = 5
_FIRST_PAUSE = 60.0
_LONGEST_PAUSE = 3_600.0
#: The one error for whatever went wrong at a receiver inside a network.
CONCEALED_ERROR = "not taken"
#: How long we wait at most because a receiver says so.
LONGEST_RETRY_AFTER = 86_400.0
#: An endpoint that was not reached for so long is not called any more.
DISABLE_AFTER_SECONDS = 5 * 86_400.0
_LONGEST_ERROR = 500
_LONGEST_REPLY = 1_000

_ARRIVED = range(200, 300)
_REDIRECTS = range(300, 400)
_GONE = 410
_ASKS_FOR_PATIENCE = (429, 503)


class DeliveryOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a channel tells of one try to send."""

    verdict: Verdict
    #: why it was not sent, for people
    error: str | None = None
    status_code: int | None = None
    #: the beginning of what the receiver answered
    reply: str | None = None
    #: the receiver asks to be left alone for so many seconds
    retry_after: float | None = None
    #: whether others that go the same way would have failed too
    lane_failed: bool = False
    #: why its endpoint must not be called any more
    disable: str | None = None
    #: what happened at a receiver of which the org is told nothing: for the operator's log alone
    detail: str | None = None


def outcome_of_status(status_code: int, retry_after: str | None, reply: str, now: Instant) -> DeliveryOutcome:
    """What a receiver's answer means."""
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
    """What an org is told of a receiver inside a network: whether it took the message, and nothing else.

    Neither the answer nor the way in which it failed is told, also not by when the next try comes or by an endpoint
    that is disabled: an org could read and scan with it what only this server reaches.
    """
    if outcome.verdict == "sent":
        return DeliveryOutcome(verdict="sent", detail=f"the receiver answered {outcome.status_code}")
    said = ": ".join(filter(None, (outcome.error, excerpt(outcome.reply))))
    return DeliveryOutcome(verdict="later", error=CONCEALED_ERROR, lane_failed=True, detail=clean_error(said))


def read_retry_after(text: str | None, now: Instant) -> float | None:
    """How long a receiver asks to be left alone: seconds, or a date; None where it says nothing that can be read."""
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
    """How long a lane is left alone after so many failures in a row."""
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
    """What is noted about a try. `failing_since` is when the lane's last trouble began, where it has some."""
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
        # How long it took would tell a port that is closed from one that nothing answers at.
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
    """What went wrong, for people to read, without secrets."""
    return None if text is None else clean_text(text, _LONGEST_ERROR)


def excerpt(text: str | None) -> str:
    """The beginning of an answer: for people to read, without secrets and without what moves a terminal."""
    shown = "".join(one if one.isprintable() or one in "\n\t" else "\N{REPLACEMENT CHARACTER}" for one in text or "")
    return clean_text(shown, _LONGEST_REPLY)
