"""Records become the shapes on the wire."""

from datetime import datetime
from typing import Any

import msgspec

from langlauf.domain.event import Event
from langlauf.domain.inbox import Message
from langlauf.domain.instant import Instant, to_datetime
from langlauf.domain.job import Job
from langlauf.domain.keys import Key
from langlauf.domain.notification import Notification
from langlauf.domain.result import Snapshot
from langlauf.http.schemas import EventOut, InboxOut, JobOut, NotificationOut, SnapshotOut
from langlauf.service.read import Moment

_NULL = msgspec.Raw(b"null")


class Links(msgspec.Struct, frozen=True):
    """Where things are, seen from the caller: behind a public address, under a mount point, with the API's prefix."""

    base: str

    def job(self, job_id: str) -> str:
        """The status of a job."""
        return f"{self.base}/jobs/{job_id}"

    def result(self, result_id: str) -> str:
        """The permanent link of a result."""
        return f"{self.base}/results/{result_id}"


def raw(text: str | None) -> msgspec.Raw:
    """Stored JSON text, to be sent as it is."""
    return _NULL if text is None else msgspec.Raw(text.encode())


def _time(instant: Instant | None) -> datetime | None:
    return None if instant is None else to_datetime(instant)


def _shown_meta(text: str | None, *, operator: bool) -> dict[str, Any] | None:
    """Error details; the trace is for the operator alone."""
    if text is None:
        return None
    meta = msgspec.json.decode(text, type=dict[str, Any])
    if not operator:
        meta.pop("trace", None)
    return meta or None


def trace_of(job: Job) -> str | None:
    """Where the job went wrong, for the operator; None where that is not known."""
    meta = _shown_meta(job.error_meta, operator=True) or {}
    trace = meta.get("trace")
    return trace if isinstance(trace, str) else None


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else value


def job_out(job: Job, moment: Moment, links: Links, *, operator: bool = False) -> JobOut:
    """A job on the wire, as the operator or as its org sees it."""
    return JobOut(**job_fields(job, moment, links, operator=operator))


def job_fields(job: Job, moment: Moment, links: Links, *, operator: bool = False) -> dict[str, Any]:
    """The fields of a job on the wire, by name."""
    return {
        "job_id": job.job_id,
        "org_id": job.org_id,
        "analysis": job.analysis,
        "requested_by_user_id": job.requested_by_user_id,
        "api_key_id": job.api_key_id,
        "status": job.status,
        "phase": moment.phase,
        "priority_class": job.priority_class,
        "request_payload_hash": job.request_payload_hash,
        "progress_percent": job.progress_percent,
        "step": job.step,
        "estimated_seconds": moment.estimated_seconds,
        "partial_count": job.partial_count,
        "error_count": job.error_count,
        "result_id": job.result_id,
        "queued_at": to_datetime(job.queued_at),
        "started_at": _time(job.started_at),
        "attempt_started_at": _time(job.attempt_started_at),
        "finished_at": _time(job.finished_at),
        "updated_at": to_datetime(job.updated_at),
        "cancel_requested_at": _time(job.cancel_requested_at),
        "canceled_at": _time(job.canceled_at),
        "canceled_by": job.canceled_by,
        "cancel_reason": job.cancel_reason,
        "failed_at": _time(job.failed_at),
        "error_code": job.error_code,
        "error_message": job.error_message,
        "error_meta": _shown_meta(job.error_meta, operator=operator),
        "retryable": job.retryable,
        "retry_hint": job.retry_hint,
        "retry_count": job.retry_count,
        "max_retries": job.max_retries,
        "last_retry_at": _time(job.last_retry_at),
        "retry_reason": job.retry_reason,
        "next_attempt_at": _time(job.next_attempt_at),
        "timeout_seconds": _number(job.timeout_seconds),
        "retry_of": job.retry_of,
        "attempt": job.attempt,
        "trace_id": job.trace_id,
        "request_id": job.request_id,
        "event_seq": job.event_seq,
        "result_expired_at": _time(job.result_expired_at),
        "held_at": _time(job.held_at),
        "held_by": job.held_by,
        "hold_reason": job.hold_reason,
        "limit_reached": job.limit_reached,
        "status_url": links.job(job.job_id),
        "result_url": links.result(job.result_id) if job.result_id else None,
    }


def event_out(event: Event) -> EventOut:
    """An event on the wire."""
    return EventOut(
        event_id=event.event_id,
        job_id=event.job_id,
        org_id=event.org_id,
        event_type=event.event_type,
        event_seq=event.event_seq,
        occurred_at=to_datetime(event.occurred_at),
        actor_type=event.actor_type,
        payload_json=raw(event.payload_json),
        trace_id=event.trace_id,
        request_id=event.request_id,
    )


def snapshot_out(snapshot: Snapshot, links: Links) -> SnapshotOut:
    """A snapshot on the wire."""
    return SnapshotOut(
        result_id=snapshot.result_id,
        job_id=snapshot.job_id,
        result_kind=snapshot.result_kind,
        result_seq=snapshot.result_seq,
        schema_version=snapshot.schema_version,
        created_at=to_datetime(snapshot.created_at),
        summary_json=raw(snapshot.summary_json),
        result_url=links.result(snapshot.result_id) + "?view=requested",
    )


def notification_out(notification: Notification) -> NotificationOut:
    """A message on the wire."""
    return NotificationOut(**notification_fields(notification))


def inbox_out(message: Message) -> InboxOut:
    """A message of the inbox on the wire."""
    read_at = _time(message.notification.read_at)
    return InboxOut(**notification_fields(message.notification), read_at=read_at, unread=message.unread)


def notification_fields(notification: Notification) -> dict[str, Any]:
    """A message on the wire, in parts. Where it goes is not among them: an address may be a person's."""
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
        "payload_json": raw(notification.payload_json),
    }


def key_fields(key: Key) -> dict[str, Any]:
    """A key on the wire, in parts."""
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
