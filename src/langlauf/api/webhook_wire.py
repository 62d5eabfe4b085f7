"""Endpoints and deliveries become the shapes on the wire; commands print the same."""

from collections.abc import Iterable
from typing import Any

from langlauf.api.webhook_schemas import AttemptOut, DeliveryOut, EndpointOut
from langlauf.api.wire import notification_fields
from langlauf.domain.delivery import DeliveryAttempt, Endpoint
from langlauf.domain.instant import Instant, to_datetime
from langlauf.domain.mail_address import shown_mail_address
from langlauf.domain.notification import Notification
from langlauf.service.webhooks import Tried, standing


def endpoint_out(endpoint: Endpoint, now: Instant) -> EndpointOut:
    """An endpoint on the wire, and how it is doing now."""
    return EndpointOut(
        endpoint_id=endpoint.endpoint_id,
        org_id=endpoint.org_id,
        url=endpoint.url,
        name=endpoint.name,
        events=list(endpoint.subjects),
        status=standing(endpoint, now),
        created_at=to_datetime(endpoint.created_at),
        secret_version=endpoint.version,
        former_secret_until=_time(endpoint.former_until),
        disabled_at=_time(endpoint.disabled_at),
        disabled_reason=endpoint.disabled_reason,
        failures=endpoint.failures,
        failing_since=_time(endpoint.failing_since),
        paused_until=_time(endpoint.paused_until),
    )


def delivery_out(message: Notification, endpoints: Iterable[Endpoint]) -> DeliveryOut:
    """A delivery on the wire; where it goes is the address of its endpoint, while there is that one."""
    return DeliveryOut(
        **notification_fields(message), endpoint_id=message.endpoint_id, target=shown_target(message, endpoints)
    )


def shown_target(message: Notification, endpoints: Iterable[Endpoint]) -> str | None:
    """Where a message goes, for people: an e-mail address is masked."""
    if message.endpoint_id is not None:
        return next((one.url for one in endpoints if one.endpoint_id == message.endpoint_id), None)
    if message.channel == "email" and message.target is not None:
        return shown_mail_address(message.target)
    return message.target


def attempt_out(attempt: DeliveryAttempt) -> AttemptOut:
    """One try on the wire."""
    return AttemptOut(
        attempt=attempt.attempt,
        at=to_datetime(attempt.at),
        seconds=attempt.seconds,
        status=attempt.status,
        status_code=attempt.status_code,
        error=attempt.error,
        reply=attempt.reply,
    )


def tried_fields(tried: Tried) -> dict[str, Any]:
    """What came back from a test, in parts."""
    return {
        "taken": tried.taken,
        "seconds": round(tried.seconds, 3),
        "status_code": tried.status_code,
        "error": tried.error,
        "reply": tried.reply,
    }


def _time(instant: Instant | None) -> Any:
    return None if instant is None else to_datetime(instant)
