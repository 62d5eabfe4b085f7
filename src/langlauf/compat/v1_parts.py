"""The parts of a job of the earlier system: its log, its snapshots and its messages, made strict."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from langlauf.compat.v1_json import (
    EarlierEvent,
    EarlierNotification,
    EarlierResult,
    NotAnEarlierStore,
    instant,
    text_of,
)
from langlauf.domain.delivery import Notification, dedupe_key
from langlauf.domain.event import ActorType, Event, EventType
from langlauf.domain.instant import Instant
from langlauf.domain.job import INLINE_REF
from langlauf.domain.redact import redact_json
from langlauf.domain.result import SCHEMA_VERSION, Snapshot, StoredResult, views_from
from langlauf.domain.state import Status

#: The earlier system's other word for the same event.
_OTHER_WORDS = {"job.started": EventType.RUNNING}
#: Digits that an integer column of every store holds.
_NUMBER = re.compile(r"[0-9]{1,9}")


class JobOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The job that parts belong to. Its org is theirs, and its ids are theirs where they have none."""

    org_id: str
    job_id: str
    status: Status
    trace_id: str
    request_id: str
    queued_at: Instant


_NOT_TAKEN_ALONG = "it had not been sent when its store was taken over"


def read_events(owner: JobOwner, events: list[EarlierEvent]) -> list[Event]:
    """Return the log as it is, gaps included; its numbers must rise."""
    found: list[Event] = []
    last, at = 0, owner.queued_at
    for index, one in enumerate(events):
        where = f"events.{owner.job_id}[{index}]"
        try:
            kind = _OTHER_WORDS.get(one.event_type) or EventType(one.event_type)
        except ValueError:
            raise NotAnEarlierStore(f"{where}.event_type: {one.event_type!r} is not known") from None
        seq = last + 1 if one.event_seq is None else one.event_seq
        if seq <= last:
            raise NotAnEarlierStore(f"{where}.event_seq: {seq} does not follow {last}")
        at = instant(one.occurred_at, f"{where}.occurred_at") or at
        event = make_event(owner, seq, kind, at, actor=one.actor_type, payload=_clean_json(one.payload_json))
        names = ("event_id", "trace_id", "request_id")
        given = {name: value for name in names if (value := getattr(one, name)) is not None}
        found.append(msgspec.structs.replace(event, **given))
        last = seq
    return found


def make_event(owner: JobOwner, seq: int, kind: EventType, at: Instant, *, actor: ActorType, payload: str) -> Event:
    """Return an event of a job, with the ids of the job."""
    event_id = f"{owner.job_id}-{seq}"
    return Event(owner.org_id, owner.job_id, seq, event_id, kind, at, actor, payload, owner.trace_id, owner.request_id)


def _clean_json(raw: msgspec.Raw) -> str:
    """Return the payload of an event, secrets masked as in every event of ours."""
    text = text_of(raw)
    if text is None:
        return "{}"
    value = msgspec.json.decode(text)
    clean: Any = redact_json(value)
    return text if clean == value else msgspec.json.encode(clean).decode()


def read_results(owner: JobOwner, results: dict[str, EarlierResult], finished_at: Instant | None) -> list[StoredResult]:
    """Return the snapshots in their order. Numbers that start below 1 are moved up together."""
    found = sorted(results.items(), key=lambda item: item[1].result_seq)
    numbers = [one.result_seq for _, one in found]
    if len(set(numbers)) < len(numbers):
        raise NotAnEarlierStore(f"results of jobs.{owner.job_id}: two have the same result_seq")
    finals = [key for key, one in found if one.result_kind == "final"]
    if len(finals) > (owner.status is Status.COMPLETED):
        raise NotAnEarlierStore(f"results.{finals[-1]}: its job is {owner.status} and has {len(finals)} final")
    shift = max(0, 1 - numbers[0]) if numbers else 0
    created_at = finished_at or owner.queued_at
    return [_result(owner, key, one, one.result_seq + shift, created_at) for key, one in found]


def _result(owner: JobOwner, key: str, one: EarlierResult, number: int, otherwise: Instant) -> StoredResult:
    where = f"results.{key}"
    if one.result_id not in (None, key):
        raise NotAnEarlierStore(f"{where}.result_id: it is {one.result_id}")
    removed_at = instant(one.removed_at, f"{where}.removed_at")
    if removed_at is None and not bytes(one.result_payload):
        raise NotAnEarlierStore(f"{where}: it has no result_payload")
    created_at = instant(one.created_at, f"{where}.created_at") or otherwise
    summary = text_of(one.summary_json) if removed_at is None else None
    schema_version, schema_text = _schema(one.schema_version)
    snapshot = Snapshot(
        owner.org_id,
        key,
        owner.job_id,
        one.result_kind,
        number,
        schema_version,
        INLINE_REF,
        created_at,
        summary,
        removed_at,
    )
    payload = text_of(one.result_payload) or "null"
    if removed_at is not None:
        return StoredResult(snapshot=snapshot, payload=None, schema_text=schema_text)
    return StoredResult(snapshot=snapshot, payload=payload, views=_views(one), schema_text=schema_text)


def _schema(given: int | str | None) -> tuple[int, str | None]:
    """Return the number of a result's schema, 0 where its name has none; and that name, where it came as a text."""
    if not isinstance(given, str):
        return SCHEMA_VERSION if given is None else given, None
    number = _NUMBER.search(given)
    return int(number[0]) if number else 0, given


def _views(one: EarlierResult) -> str | None:
    """Return the views that an export of this program added; other values under that name are ignored."""
    text = text_of(one.views)
    try:
        views_from(text)
    except msgspec.MsgspecError:
        return None
    return text


def read_notifications(
    owner: JobOwner, messages: dict[str, EarlierNotification], ended_at: Instant
) -> Iterator[Notification]:
    """Yield the messages; the key that makes a second one impossible is made anew, except for webhooks."""
    for key, one in messages.items():
        where = f"notifications.{key}"
        if one.notification_id not in (None, key):
            raise NotAnEarlierStore(f"{where}.notification_id: it is {one.notification_id}")
        created_at = instant(one.created_at, f"{where}.created_at") or ended_at
        computed = dedupe_key(owner.job_id, one.channel, one.template_key)
        undeliverable = one.channel != "in_app" and one.delivery_status == "pending"
        yield Notification(
            org_id=owner.org_id,
            notification_id=key,
            job_id=owner.job_id,
            channel=one.channel,
            template_key=one.template_key,
            # The file does not hold its receiver: it would be pending for ever, and keep its job for as long.
            delivery_status="suppressed" if undeliverable else one.delivery_status,
            attempt_count=max(0, one.attempt_count),
            last_error=_NOT_TAKEN_ALONG if undeliverable else one.last_error,
            dedupe_key=(one.dedupe_key or computed) if one.channel == "webhook" else computed,
            scheduled_at=instant(one.scheduled_at, f"{where}.scheduled_at") or created_at,
            sent_at=instant(one.sent_at, f"{where}.sent_at"),
            created_at=created_at,
            payload_json=text_of(one.payload_json) or "{}",
        )
