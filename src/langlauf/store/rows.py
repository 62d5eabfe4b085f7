"""Rows as records, and values as the JSON text that rows hold."""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, cast

import msgspec

from langlauf.domain.access import ApiKey, Scope
from langlauf.domain.delivery import Delivery, Subject, Subscription, WebhookEndpoint
from langlauf.domain.event import Event, EventType
from langlauf.domain.job import JOB_FIELDS, JobRecord
from langlauf.domain.read_models import JobView
from langlauf.domain.schedule import SCHEDULE_FIELDS, Pause, Schedule
from langlauf.domain.state import Status

_encode = msgspec.json.Encoder().encode
_seen_by_name = itemgetter(*JOB_FIELDS, "lease_expires_at")
_EVENT_FIELDS = len(Event.__struct_fields__)
_EVENT_TYPE = Event.__struct_fields__.index("event_type")


def json_text(value: Any) -> str:
    """Return a value of this program as JSON text."""
    return _encode(value).decode()


def job_from(row: Sequence[Any]) -> JobRecord:
    """Return a job from its columns in the order of the table. A null column has its default."""
    values = {name: value for name, value in zip(JOB_FIELDS, row, strict=True) if value is not None}
    values["status"] = Status(values["status"])
    if "retryable" in values:
        values["retryable"] = bool(values["retryable"])
    return JobRecord(**values)


def view_from(row: Sequence[Any]) -> JobView:
    """Return a job from its columns, and the end of its lease behind them."""
    return JobView(job_from(row[:-1]), row[-1])


def view_from_database(row: Mapping[str, Any]) -> JobView:
    """Return a job from a row of the database's view, by name: a later release may have added columns."""
    return view_from(_seen_by_name(row))


def event_from(row: Sequence[Any]) -> Event:
    """Return an event from its columns, ignoring columns of the driver behind them."""
    values = list(row)[:_EVENT_FIELDS]
    values[_EVENT_TYPE] = EventType(values[_EVENT_TYPE])
    return Event(*values)


def subjects_text(subjects: Sequence[str]) -> str:
    """Return the subjects of an endpoint as one text with a comma before and after each word."""
    return f",{','.join(subjects)},"


def endpoint_from(row: Sequence[Any]) -> WebhookEndpoint:
    """Return an endpoint from its columns and, behind them, the state of its lane."""
    org_id, endpoint_id, url, name, subjects, created_at, version, former_until, disabled_at, reason, *lane = row
    failures, failing_since, paused_until = lane
    return WebhookEndpoint(
        org_id=org_id,
        endpoint_id=endpoint_id,
        url=url,
        name=name,
        subjects=cast("tuple[Subject, ...]", tuple(word for word in subjects.split(",") if word)),
        created_at=created_at,
        version=version,
        former_until=former_until,
        disabled_at=disabled_at,
        disabled_reason=reason,
        failures=failures,
        failing_since=failing_since,
        paused_until=paused_until,
    )


_DELIVERY = tuple(name for name in Delivery.__struct_fields__ if name != "lane_failures")


def delivery_from(row: Sequence[Any], lane_failures: int) -> Delivery:
    """Return a claimed message from its columns, which are in the order of its fields."""
    return Delivery(**dict(zip(_DELIVERY, row, strict=True)), lane_failures=lane_failures)


def subscription_from(row: Sequence[Any]) -> Subscription:
    """Return a subscription of a job from its columns."""
    channel, target, lane, language = row
    return Subscription(channel=channel, target=target, lane=lane, language=language)


_PAUSED = SCHEDULE_FIELDS.index("paused")


def schedule_from(row: Sequence[Any]) -> Schedule:
    """Return a schedule from its columns, which are in the order of its fields."""
    values = list(row)
    values[_PAUSED] = bool(values[_PAUSED])
    return Schedule(**dict(zip(SCHEDULE_FIELDS, values, strict=True)))


_SCOPES = ApiKey.__struct_fields__.index("scopes")


def scopes_text(scopes: Iterable[Scope]) -> str:
    """Return scopes as one text."""
    return " ".join(sorted(scopes))


def key_from(row: Sequence[Any]) -> ApiKey:
    """Return a key from its columns."""
    values = list(row)
    values[_SCOPES] = frozenset(Scope(word) for word in values[_SCOPES].split())
    return ApiKey(**dict(zip(ApiKey.__struct_fields__, values, strict=True)))


def pause_from(row: Sequence[Any]) -> Pause:
    """Return a pause from its columns."""
    return Pause(**dict(zip(Pause.__struct_fields__, row, strict=True)))
