"""Converts records to their schemas on the wire; commands print the same."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import astuple

from langlauf.api.record_schemas import (
    AttemptOut,
    DeliveryOut,
    EndpointOut,
    EventOut,
    InboxOut,
    JobOut,
    NotificationOut,
    PauseOut,
    ScheduleOut,
    SnapshotOut,
)
from langlauf.domain.access import ApiKey
from langlauf.domain.delivery import DeliveryAttempt, Notification, WebhookEndpoint
from langlauf.domain.event import Event
from langlauf.domain.instant import Instant, to_datetime
from langlauf.domain.job import VISIBLE_FIELDS, JobRecord, is_time_field
from langlauf.domain.mail import masked_mail_address
from langlauf.domain.read_models import InboxRecord
from langlauf.domain.result import Snapshot
from langlauf.domain.schedule import Pause, Schedule
from langlauf.service.read import DerivedFields
from langlauf.service.webhooks import SendResult, endpoint_health

_NULL = msgspec.Raw(b"null")
_TIMES = [place for place, name in enumerate(VISIBLE_FIELDS) if is_time_field(name)]
_ESTIMATE, _DETAILS, _TIMEOUT = map(VISIBLE_FIELDS.index, ("estimated_seconds", "error_meta", "timeout_seconds"))
_PHASE = VISIBLE_FIELDS.index("status") + 1


class ApiLinks(msgspec.Struct, frozen=True):
    """Builds links below the public URL or mount point and the API's prefix."""

    base: str

    def job(self, job_id: str) -> str:
        """Return the URL of a job's status."""
        return f"{self.base}/jobs/{job_id}"

    def result(self, result_id: str) -> str:
        """Return the permanent URL of a result."""
        return f"{self.base}/results/{result_id}"


def raw_json(text: str | None) -> msgspec.Raw:
    """Return stored JSON text, to be sent as it is."""
    return _NULL if text is None else msgspec.Raw(text.encode())


def _time(instant: Instant | None) -> datetime | None:
    return None if instant is None else to_datetime(instant)


def _shown_meta(text: str | None, *, trace: bool) -> dict[str, Any] | None:
    """Return error details, with the stack trace only for those who may see it."""
    if text is None:
        return None
    meta = msgspec.json.decode(text, type=dict[str, Any])
    if not trace:
        meta.pop("trace", None)
    return meta or None


def trace_of(job: JobRecord) -> str | None:
    """Return the stack trace of a failed job, for those who may see it; None where there is none."""
    meta = _shown_meta(job.error_meta, trace=True) or {}
    found = meta.get("trace")
    return found if isinstance(found, str) else None


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else value


def job_out(job: JobRecord, moment: DerivedFields, links: ApiLinks, *, trace: bool = False) -> JobOut:
    """Convert a job, with the stack trace of its error or without."""
    return JobOut(*job_members(job, moment, links, trace=trace))


def job_members(job: JobRecord, moment: DerivedFields, links: ApiLinks, *, trace: bool = False) -> list[Any]:
    """Return the fields of a job in their order on the wire."""
    members: list[Any] = [*astuple(job)[: len(VISIBLE_FIELDS)]]
    for place in _TIMES:
        if (at := members[place]) is not None:
            members[place] = to_datetime(at)
    members[_ESTIMATE] = moment.estimated_seconds
    members[_DETAILS] = _shown_meta(job.error_meta, trace=trace)
    members[_TIMEOUT] = _number(job.timeout_seconds)
    pause = moment.pause
    until = None if pause is None else _time(pause.paused_until)
    members[_PHASE:_PHASE] = (moment.phase, None if pause is None else pause.because, until)
    members.append(links.job(job.job_id))
    members.append(links.result(job.result_id) if job.result_id else None)
    return members


def event_out(event: Event) -> EventOut:
    """Convert an event."""
    return EventOut(
        event_id=event.event_id,
        job_id=event.job_id,
        org_id=event.org_id,
        event_type=event.event_type,
        event_seq=event.event_seq,
        occurred_at=to_datetime(event.occurred_at),
        actor_type=event.actor_type,
        payload_json=raw_json(event.payload_json),
        trace_id=event.trace_id,
        request_id=event.request_id,
    )


def snapshot_out(snapshot: Snapshot, links: ApiLinks) -> SnapshotOut:
    """Convert a snapshot."""
    return SnapshotOut(
        result_id=snapshot.result_id,
        job_id=snapshot.job_id,
        result_kind=snapshot.result_kind,
        result_seq=snapshot.result_seq,
        schema_version=snapshot.schema_version,
        created_at=to_datetime(snapshot.created_at),
        summary_json=raw_json(snapshot.summary_json),
        result_url=links.result(snapshot.result_id) + "?view=requested",
    )


def notification_out(notification: Notification) -> NotificationOut:
    """Convert a message."""
    return NotificationOut(**notification_fields(notification))


def inbox_out(message: InboxRecord) -> InboxOut:
    """Convert a message of the inbox."""
    read_at = _time(message.notification.read_at)
    return InboxOut(**notification_fields(message.notification), read_at=read_at, unread=message.unread)


def notification_fields(notification: Notification) -> dict[str, Any]:
    """Return the fields of a message, without its target: an address may be a person's."""
    return {
        "notification_id": notification.notification_id,
        "job_id": notification.job_id,
        "org_id": notification.org_id,
        "channel": notification.channel,
        "template_key": notification.template_key,
        "delivery_status": notification.delivery_status,
        "attempt_count": notification.attempt_count,
        "last_error": notification.last_error,
        "dedupe_key": notification.dedupe_key,
        "scheduled_at": to_datetime(notification.scheduled_at),
        "sent_at": _time(notification.sent_at),
        "created_at": to_datetime(notification.created_at),
        "payload_json": raw_json(notification.payload_json),
    }


def key_fields(key: ApiKey) -> dict[str, Any]:
    """Return the fields of a key."""
    return {
        "key_id": key.key_id,
        "org_id": key.org_id,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "created_at": to_datetime(key.created_at),
        "expires_at": _time(key.expires_at),
        "revoked_at": _time(key.revoked_at),
        "last_used_at": _time(key.last_used_at),
    }


def pause_out(pause: Pause) -> PauseOut:
    """Convert a pause."""
    return PauseOut(
        analysis=pause.analysis,
        org_id=pause.org_id or None,
        because=pause.because,
        paused_at=to_datetime(pause.paused_at),
        paused_until=_time(pause.paused_until),
        paused_by=pause.paused_by,
    )


def schedule_out(one: Schedule, next_runs: Sequence[Instant]) -> ScheduleOut:
    """Convert a schedule, with its next planned times."""
    return ScheduleOut(
        name=one.name,
        analysis=one.analysis,
        input=msgspec.json.decode(one.input),
        cron=one.cron,
        every_seconds=one.every_seconds,
        zone=one.zone,
        overlap=one.overlap,
        missed=one.missed,
        paused=one.paused,
        notify=None if one.notify is None else msgspec.json.decode(one.notify),
        source=one.source,
        created_at=to_datetime(one.created_at),
        updated_at=to_datetime(one.updated_at),
        next_runs=[to_datetime(at) for at in next_runs],
        last_run_at=_time(one.last_run_at),
        last_outcome=one.last_outcome,
        last_job_id=one.last_job_id,
    )


def endpoint_out(endpoint: WebhookEndpoint, now: Instant) -> EndpointOut:
    """Convert an endpoint, with its current health."""
    return EndpointOut(
        endpoint_id=endpoint.endpoint_id,
        org_id=endpoint.org_id,
        url=endpoint.url,
        name=endpoint.name,
        events=list(endpoint.subjects),
        status=endpoint_health(endpoint, now),
        created_at=to_datetime(endpoint.created_at),
        secret_version=endpoint.version,
        former_secret_until=_time(endpoint.former_until),
        disabled_at=_time(endpoint.disabled_at),
        disabled_reason=endpoint.disabled_reason,
        failures=endpoint.failures,
        failing_since=_time(endpoint.failing_since),
        paused_until=_time(endpoint.paused_until),
    )


def delivery_out(message: Notification, endpoints: Iterable[WebhookEndpoint]) -> DeliveryOut:
    """Convert a delivery; its target is the URL of its endpoint, while that exists."""
    return DeliveryOut(
        **notification_fields(message), endpoint_id=message.endpoint_id, target=shown_target(message, endpoints)
    )


def shown_target(message: Notification, endpoints: Iterable[WebhookEndpoint]) -> str | None:
    """Return where a message goes; an e-mail address is masked."""
    if message.endpoint_id is not None:
        return next((one.url for one in endpoints if one.endpoint_id == message.endpoint_id), None)
    if message.channel == "email" and message.target is not None:
        return masked_mail_address(message.target)
    return message.target


def attempt_out(attempt: DeliveryAttempt) -> AttemptOut:
    """Convert one attempt."""
    return AttemptOut(
        attempt=attempt.attempt,
        at=to_datetime(attempt.at),
        seconds=attempt.seconds,
        status=attempt.status,
        status_code=attempt.status_code,
        error=attempt.error,
        reply=attempt.reply,
    )


def tried_fields(tried: SendResult) -> dict[str, Any]:
    """Return the fields of the result of a test."""
    return {
        "taken": tried.taken,
        "seconds": round(tried.seconds, 3),
        "status_code": tried.status_code,
        "error": tried.error,
        "reply": tried.reply,
    }
