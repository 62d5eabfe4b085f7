"""Converts the loose records of the earlier system to strict ones, with defaults for what is missing.

No worker holds an imported job: one that was running counts as lost with its worker, and continues.
"""

import hashlib
import re
from math import isfinite
from typing import Any, get_args

import msgspec

from langlauf.compat.v1_json import (
    PLAIN_FIELDS,
    EarlierEvent,
    EarlierJob,
    EarlierNotification,
    EarlierResult,
    EarlierStore,
    NotAnEarlierStore,
    instant,
    text_of,
)
from langlauf.compat.v1_parts import JobOwner, make_event, read_events, read_notifications, read_results
from langlauf.domain.attempt import HIGHEST_UNFINISHED
from langlauf.domain.delivery import Notification
from langlauf.domain.errors import RetryHint
from langlauf.domain.event import Event, EventType
from langlauf.domain.instant import Instant
from langlauf.domain.job import FREE_TEXT_FIELDS, INLINE_REF, LONGEST_TIMEOUT, JobRecord, is_time_field, payload_hash
from langlauf.domain.redact import clean_message
from langlauf.domain.result import StoredResult
from langlauf.domain.state import STARTED, TERMINAL, Status

DEFAULT_ORG = "default-org"
#: The analysis of jobs that were imported without knowing the application. None can be registered under this name.
UNNAMED = "(default)"
_DEFAULT_TIMEOUT = 1800.0
_DEFAULT_RETRIES = 3
_ORG = re.compile(r"^[A-Za-z0-9_.:-]{1,128}$")
_HASH = re.compile(r"^[0-9a-f]{64}$")
#: Names that a request may have beside the input.
_NOT_INPUT = ("analysis", "input", "options", "timeout_seconds")


class ImportedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job with everything that belongs to it, ready to be written."""

    job: JobRecord
    payload: str
    idempotency_key: str | None
    #: key, JSON text and time of each finished chunk
    chunks: list[tuple[str, str, Instant]]
    events: list[Event]
    results: list[StoredResult]
    notifications: list[Notification]


class _Parts(msgspec.Struct):
    events: list[EarlierEvent] = msgspec.field(default_factory=list)
    results: dict[str, EarlierResult] = msgspec.field(default_factory=dict)
    notifications: dict[str, EarlierNotification] = msgspec.field(default_factory=dict)


def to_records(store: EarlierStore, *, now: Instant, default_analysis: str) -> list[ImportedJob]:
    """Return all jobs of a document with their parts; raises `NotAnEarlierStore` where something belongs nowhere."""
    parts = {job_id: _Parts() for job_id in store.jobs}

    def owner(job_id: str, where: str) -> _Parts:
        if job_id not in parts:
            raise NotAnEarlierStore(f"{where}: there is no job {job_id}")
        return parts[job_id]

    for job_id, events in store.events.items():
        if events:
            owner(job_id, f"events.{job_id}").events = events
    for key, result in store.results.items():
        owner(result.job_id, f"results.{key}").results[key] = result
    for key, message in store.notifications.items():
        owner(message.job_id, f"notifications.{key}").notifications[key] = message
    records = [_Reader(job_id, job, parts[job_id], now, default_analysis).read() for job_id, job in store.jobs.items()]
    _refuse_shared_results(records, store)
    return records


def _refuse_shared_results(records: list[ImportedJob], store: EarlierStore) -> None:
    owners: dict[str, str] = {key: result.job_id for key, result in store.results.items()}
    for record in records:
        job = record.job
        if job.result_id is not None and owners.setdefault(job.result_id, job.job_id) != job.job_id:
            raise NotAnEarlierStore(f"jobs.{job.job_id}.result_id: {job.result_id} belongs to another job")


class _Reader:
    """Converts one job."""

    def __init__(self, key: str, job: EarlierJob, parts: _Parts, now: Instant, default_analysis: str) -> None:
        self._key = key
        self._job = job
        self._parts = parts
        self._now = now
        self._where = f"jobs.{key}"
        self._analysis = job.analysis if job.analysis not in (None, "", UNNAMED) else default_analysis
        self._owner = JobOwner(
            org_id=job.org_id or DEFAULT_ORG,
            job_id=key,
            status=job.status,
            trace_id=job.trace_id or hashlib.sha256(key.encode()).hexdigest()[:32],
            request_id=job.request_id or key,
            queued_at=self._queued_at(),
        )

    def read(self) -> ImportedJob:
        if self._job.job_id not in (None, self._key):
            raise NotAnEarlierStore(f"{self._where}.job_id: it is {self._job.job_id}")
        owner = self._owner
        if not _ORG.match(owner.org_id):
            raise NotAnEarlierStore(f"{self._where}.org_id: {owner.org_id!r} is not an org")
        events = read_events(owner, self._parts.events)
        results = read_results(owner, self._parts.results, self._at("finished_at"))
        payload, wished_timeout = self._input()
        job = self._read_job(events, results, payload, wished_timeout)
        if job.status in STARTED and job.next_attempt_at is None:
            job, events = self._lose(job, events)
        record = ImportedJob(
            job=job,
            payload=payload,
            idempotency_key=self._job.idempotency_key,
            chunks=[
                (key, text_of(chunk.payload) or "null", self._time(chunk.created_at, "chunks") or owner.queued_at)
                for key, chunk in self._job.chunks.items()
            ],
            events=events,
            results=results,
            notifications=list(read_notifications(owner, self._parts.notifications, job.finished_at or job.updated_at)),
        )
        self._refuse_nul(record)
        return record

    def _time(self, text: str | None, name: str) -> Instant | None:
        return instant(text, f"{self._where}.{name}")

    def _at(self, name: str) -> Instant | None:
        return self._time(getattr(self._job, name), name)

    def _queued_at(self) -> Instant:
        for name in ("queued_at", "created_at", "started_at"):
            if (at := self._at(name)) is not None:
                return at
        first = self._parts.events[0].occurred_at if self._parts.events else None
        for text in (first, self._job.updated_at, self._job.finished_at):
            if (at := self._time(text, "queued_at")) is not None:
                return at
        return self._now

    def _input(self) -> tuple[str, float | None]:
        """Return the input alone, and the time limit that it asks for.

        A request may have carried the input under `input`, or flat beside other things.
        """
        text = text_of(self._job.request_payload_json)
        if text is None:
            return "{}", None
        body = msgspec.json.decode(text, type=dict[str, msgspec.Raw]) if text.startswith("{") else None
        if body is None:
            raise NotAnEarlierStore(f"{self._where}.request_payload_json: it is not an object")
        timeout = _seconds(body.get("timeout_seconds"))
        if bytes(body.get("input", b"")).startswith(b"{"):
            kept = msgspec.json.decode(body["input"], type=dict[str, msgspec.Raw])
            timeout = timeout or _seconds(kept.pop("timeout_seconds", None))
        else:
            kept = {name: raw for name, raw in sorted(body.items()) if name not in _NOT_INPUT}
        return msgspec.json.encode(kept).decode(), timeout

    # -- the job -------------------------------------------------------------------------------------------------------

    def _read_job(
        self, events: list[Event], results: list[StoredResult], payload: str, wished_timeout: float | None
    ) -> JobRecord:
        job, owner = self._job, self._owner
        queued_at = owner.queued_at
        status = job.status
        started_at = self._started_at(queued_at)
        last = events[-1].occurred_at if events else None
        finished_at = self._finished_at(last)
        given = job.request_payload_hash or ""
        partials = sum(one.snapshot.result_kind == "partial" for one in results)
        numbers = [one.snapshot.result_seq for one in results]
        known_partials = max(job.partial_count or 0, partials, 0 if status in TERMINAL else max(numbers, default=0))
        return JobRecord(
            job_id=self._key,
            org_id=owner.org_id,
            analysis=self._analysis,
            status=status,
            priority_class=job.priority_class,
            request_payload_hash=given if _HASH.match(given) else payload_hash(self._analysis, payload),
            request_payload_ref=INLINE_REF,
            queued_at=queued_at,
            updated_at=self._at("updated_at") or finished_at or last or started_at or queued_at,
            timeout_seconds=min(float(job.timeout_seconds or wished_timeout or _DEFAULT_TIMEOUT), LONGEST_TIMEOUT),
            max_retries=_DEFAULT_RETRIES if job.max_retries is None else job.max_retries,
            trace_id=owner.trace_id,
            request_id=owner.request_id,
            requested_by_user_id=self._user(),
            progress_percent=self._progress(),
            estimated_seconds=None if job.estimated_seconds is None else float(job.estimated_seconds),
            partial_count=max(known_partials, int(status is Status.PARTIAL)),
            error_count=job.error_count or int(status is Status.FAILED),
            result_id=self._result_id(results),
            started_at=started_at,
            attempt_started_at=(self._at("attempt_started_at") or started_at) if started_at is not None else None,
            finished_at=finished_at,
            cancel_requested_at=None if status is Status.QUEUED else self._at("cancel_requested_at"),
            next_attempt_at=self._at("next_attempt_at") if status in STARTED else None,
            attempt=max(job.attempt or 1, 1) if started_at is not None else 0,
            event_seq=max(job.event_seq or 0, events[-1].event_seq if events else 0),
            result_expired_at=self._at("result_expired_at") if finished_at else None,
            events_expired_at=self._at("events_expired_at") if finished_at else None,
            # Never before its end, whatever clock wrote that: this store sends messages about what comes later.
            imported_at=max(self._now, finished_at or self._now),
            partial_bytes=max(job.partial_bytes or 0, 0),
            **self._plain(),
            **self._ending(finished_at),
        )

    def _plain(self) -> dict[str, Any]:
        """Return what the job says of itself and nothing else depends on; words are cleaned."""
        found: dict[str, Any] = {
            name: self._at(name) if is_time_field(name) else getattr(self._job, name) for name in PLAIN_FIELDS
        }
        known = {name: value for name, value in found.items() if value is not None}
        return known | {name: clean_message(known[name]) for name in FREE_TEXT_FIELDS & known.keys()}

    def _started_at(self, queued_at: Instant) -> Instant | None:
        if self._job.status is Status.QUEUED:
            return None
        must_have = self._job.status in STARTED or self._job.status is Status.COMPLETED
        return self._at("started_at") or (queued_at if must_have or self._job.attempt else None)

    def _finished_at(self, last_event: Instant | None) -> Instant | None:
        if self._job.status not in TERMINAL:
            if self._job.finished_at is not None:
                raise NotAnEarlierStore(f"{self._where}.finished_at: the job is {self._job.status}")
            return None
        known = (self._at(name) for name in ("finished_at", "failed_at", "canceled_at"))
        return next((at for at in known if at is not None), last_event or self._at("updated_at") or self._now)

    def _user(self) -> str | None:
        given = self._job.requested_by_user_id
        user = self._job.owner_user_id if given is None else given
        return None if user is None else str(user)

    def _progress(self) -> int:
        if self._job.status is Status.COMPLETED:
            return HIGHEST_UNFINISHED + 1
        return max(0, min(HIGHEST_UNFINISHED, int(self._job.progress_percent or 0)))

    def _result_id(self, results: list[StoredResult]) -> str | None:
        """What the job says; else its newest snapshot; where its state demands one, a name that leads nowhere."""
        if self._job.result_id is not None:
            return self._job.result_id
        if results:
            return results[-1].snapshot.result_id
        return f"{self._key}-lost" if self._job.status in (Status.PARTIAL, Status.COMPLETED) else None

    def _ending(self, finished_at: Instant | None) -> dict[str, Any]:
        """Return the fields of a job's end and of its cancel request."""
        job = self._job
        if job.status is Status.FAILED:
            message = clean_message(job.error_message or "The earlier system noted no reason.")
            return {
                "failed_at": self._at("failed_at") or finished_at,
                "error_code": (job.error_code or "internal").lower(),
                "error_message": message,
                "error_meta": _details(text_of(job.error_meta)),
                "retryable": bool(job.retryable),
                "retry_hint": job.retry_hint if job.retry_hint in get_args(RetryHint) else None,
            }
        if job.status is Status.CANCELED:
            return {
                "canceled_at": self._at("canceled_at") or finished_at,
                "canceled_by": job.canceled_by or "system",
                "cancel_reason": job.cancel_reason or "unknown",
            }
        if job.status in STARTED and job.cancel_requested_at is not None:
            return {"canceled_by": job.canceled_by or "system", "cancel_reason": job.cancel_reason or "unknown"}
        return {}

    def _lose(self, job: JobRecord, events: list[Event]) -> tuple[JobRecord, list[Event]]:
        """Its worker is gone with the earlier system: it goes on, or stops where that was wished."""
        whole = [event.event_seq for event in events] == list(range(1, job.event_seq + 1))
        wished = job.cancel_requested_at is not None
        kind = EventType.CANCELED if wished else EventType.LEASE_LOST
        facts = (
            {"canceled_by": job.canceled_by, "cancel_reason": job.cancel_reason} if wished else {"attempt": job.attempt}
        )
        changes: dict[str, Any] = {"updated_at": self._now, "event_seq": job.event_seq + (whole and job.event_seq > 0)}
        if wished:
            changes |= {"status": Status.CANCELED, "canceled_at": self._now, "finished_at": self._now}
        else:
            changes |= {"lost_count": job.lost_count + 1, "next_attempt_at": self._now}
        lost = msgspec.structs.replace(job, **changes)
        if lost.event_seq == job.event_seq:
            return lost, events
        text = msgspec.json.encode(facts).decode()
        event = make_event(self._owner, lost.event_seq, kind, self._now, actor="system", payload=text)
        return lost, [*events, event]

    def _refuse_nul(self, record: ImportedJob) -> None:
        for part in (record.job, *record.events, *(one.snapshot for one in record.results), *record.notifications):
            for name in part.__struct_fields__:
                if "\x00" in str(getattr(part, name)):
                    raise NotAnEarlierStore(f"{self._where}: {name} contains the character NUL")
        if any("\x00" in (one.schema_text or "") for one in record.results):
            raise NotAnEarlierStore(f"{self._where}: schema_version contains the character NUL")


def _seconds(raw: msgspec.Raw | None) -> float | None:
    """Return a time limit of a request, which may have been written as a text; None where it says nothing usable."""
    try:
        seconds = float(msgspec.json.decode(raw or b"null", type=float | str | None) or 0)
    except (ValueError, msgspec.MsgspecError):
        return None
    return seconds if isfinite(seconds) and seconds > 0 else None


def _details(text: str | None) -> str | None:
    """Return error details as an object; any other value is wrapped in one."""
    return text if text is None or text.startswith("{") else f'{{"value":{text}}}'
