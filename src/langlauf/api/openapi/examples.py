"""Examples of responses: one job from its submission to its result, encoded by the structs of real responses."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from langlauf.api import record_schemas as records
from langlauf.api import response_schemas as responses
from langlauf.api.openapi.components import Document
from langlauf.api.openapi.org_examples import schedule_answers, webhook_answers
from langlauf.domain.event import ActorType, CloudEvent, EventType
from langlauf.domain.event import cloud_event as outbound_event
from langlauf.domain.instant import from_text
from langlauf.domain.job import VISIBLE_FIELDS, Phase, field_defaults
from langlauf.domain.result import Column, MarkdownView, TableView
from langlauf.domain.state import Status

JOB_ID = "01a1e22d-5758-78bb-9977-e0f332d3442e"
RESULT_ID = "01a1e22d-5d4a-7315-b2be-1452b21b2aa4"
_OTHER_ID = "01a1e22d-575a-7c1e-a1c1-0c2d3f3e9a11"
_REQUEST_ID = "01a1e22d-5750-70aa-8b41-5f6f0e9f1b22"
_TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
_ORG = "acme"
_KEY_ID = "llk_3vQ8rT2yKp0a"
_QUEUED = datetime(2026, 3, 2, 9, 30, 0, tzinfo=UTC)
_STARTED = datetime(2026, 3, 2, 9, 30, 1, tzinfo=UTC)
_FINISHED = datetime(2026, 3, 2, 9, 30, 4, tzinfo=UTC)
_RESULT = {"found": 3}
_ANSWER: dict[str, Any] = {"request_id": _REQUEST_ID}
_PROVENANCE: dict[str, Any] = {
    "analysis": "address",
    "code": None,
    "sources": [{"name": "Gazetteer", "version": "2026-03", "hash": None, "url": "https://example.org/gazetteer"}],
    "sources_complete": True,
}


def answer_examples(kind: type[msgspec.Struct], prefix: str) -> Document:
    """Return the examples of a response schema, by name."""
    made = {name: {"value": _plain(one)} for name, one in _answers(prefix).items() if type(one) is kind}
    return dict(made)


def _plain(value: msgspec.Struct) -> Any:
    """As a reader of the JSON sees it."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _answers(prefix: str) -> dict[str, msgspec.Struct]:
    queued, done = _queued(prefix), _completed(prefix)
    status = records.JobStatusOut(
        **msgspec.structs.asdict(done), events=_events(), result=_RESULT, kept_parts=None, total_parts=None
    )
    canceled = records.JobWithEventsOut(**msgspec.structs.asdict(_canceled(prefix)), events=_canceled_events())
    return {
        "accepted": responses.AcceptedResponse(**_ANSWER, job=queued),
        "canceled": responses.CancelResponse(**_ANSWER, job=canceled),
        "waiting": responses.JobResponse(**_ANSWER, job=queued),
        "held": responses.JobResponse(**_ANSWER, job=_held(prefix)),
        "completed": responses.StatusResponse(**_ANSWER, job=status),
        "waited": responses.SyncResponse(**_ANSWER, result=_RESULT, result_id=RESULT_ID, job_id=JOB_ID),
        "final": _final(),
        "shown": _shown(),
        "page": responses.JobsResponse(**_ANSWER, jobs=[done], next_cursor=None),
        "log": responses.EventsResponse(**_ANSWER, events=_events(), next_after=3, expired=False),
        "feed": _feed(),
        "snapshots": responses.ResultsResponse(**_ANSWER, results=[_snapshot(prefix)]),
        "messages": responses.NotificationsResponse(**_ANSWER, notifications=[_message()]),
        "inbox": responses.InboxResponse(**_ANSWER, notifications=[_unread()], unread=1, next_cursor=None),
        "read": responses.InboxReadResponse(**_ANSWER, changed=True, unread=0),
        "history": responses.HistoryResponse(**_ANSWER, history=[_entry()], total=1, limit=50, offset=0),
        "token": _token(),
        "keys": responses.KeysResponse(**_ANSWER, keys=[records.KeyOut(**_key())]),
        "made": responses.CreatedKeyResponse(**_ANSWER, **_key(), key=f"{_KEY_ID}_…"),
        "revoked": responses.KeyResponse(**_ANSWER, **{**_key(), "revoked_at": _FINISHED}),
        "provenance": responses.ProvenanceResponse(**_ANSWER, provenance=_PROVENANCE),
        "paused": responses.PauseResponse(**_ANSWER, pause=_pause()),
        "resumed": responses.ResumeResponse(**_ANSWER, resumed=True),
        **schedule_answers(_ANSWER, JOB_ID, done),
        **webhook_answers(_ANSWER, JOB_ID, RESULT_ID),
        "fine": responses.HealthResponse(**_ANSWER, status="ready"),
    }


def _pause() -> records.PauseOut:
    return records.PauseOut(
        analysis="address",
        org_id=_ORG,
        because="the source is down",
        paused_at=_QUEUED,
        paused_until=_FINISHED,
        paused_by=_KEY_ID,
    )


def _queued(prefix: str) -> records.JobOut:
    known: dict[str, Any] = {
        "job_id": JOB_ID,
        "org_id": _ORG,
        "analysis": "address",
        "status": Status.QUEUED,
        "phase": Phase.WAITING,
        "paused_because": None,
        "paused_until": None,
        "priority_class": "default",
        "request_payload_hash": "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
        "estimated_seconds": 4.0,
        "queued_at": _QUEUED,
        "updated_at": _QUEUED,
        "max_retries": 3,
        "timeout_seconds": 1800,
        "trace_id": _TRACE_ID,
        "request_id": _REQUEST_ID,
        "event_seq": 1,
        "status_url": f"{prefix}/jobs/{JOB_ID}",
    }
    return records.JobOut(**{**field_defaults(VISIBLE_FIELDS), **known, "result_url": None})


def _completed(prefix: str) -> records.JobOut:
    return msgspec.structs.replace(
        _queued(prefix),
        status=Status.COMPLETED,
        phase=Phase.DONE,
        progress_percent=100,
        estimated_seconds=0.0,
        started_at=_STARTED,
        attempt_started_at=_STARTED,
        finished_at=_FINISHED,
        updated_at=_FINISHED,
        attempt=1,
        event_seq=3,
        result_id=RESULT_ID,
        result_url=f"{prefix}/results/{RESULT_ID}",
    )


def _canceled(prefix: str) -> records.JobOut:
    return msgspec.structs.replace(
        _queued(prefix),
        status=Status.CANCELED,
        phase=Phase.DONE,
        estimated_seconds=0.0,
        finished_at=_STARTED,
        updated_at=_STARTED,
        canceled_at=_STARTED,
        canceled_by="user",
        cancel_reason="no longer needed",
        event_seq=2,
    )


def _held(prefix: str) -> records.JobOut:
    return msgspec.structs.replace(
        _completed(prefix), held_at=_FINISHED, held_by=_KEY_ID, hold_reason="part of a report"
    )


def _canceled_events() -> list[records.EventOut]:
    why = {"canceled_by": "user", "cancel_reason": "no longer needed"}
    return [
        _event(1, EventType.QUEUED, _QUEUED, "user", {}),
        _event(2, EventType.CANCELED, _STARTED, "user", why),
    ]


def _events() -> list[records.EventOut]:
    stored = {"result_id": RESULT_ID, "result_seq": 1, "progress_percent": 100}
    return [
        _event(1, EventType.QUEUED, _QUEUED, "user", {}),
        _event(2, EventType.RUNNING, _STARTED, "worker", {}),
        _event(3, EventType.COMPLETED, _FINISHED, "worker", stored),
    ]


def _event(number: int, kind: EventType, when: datetime, actor: ActorType, payload: dict[str, Any]) -> records.EventOut:
    return records.EventOut(
        event_id=_OTHER_ID[:-1] + str(number),
        job_id=JOB_ID,
        org_id=_ORG,
        event_type=kind,
        event_seq=number,
        occurred_at=when,
        actor_type=actor,
        payload_json=payload,
        trace_id=_TRACE_ID,
        request_id=_REQUEST_ID,
    )


def _final() -> responses.ResultResponse:
    return responses.ResultResponse(
        **_ANSWER,
        result_id=RESULT_ID,
        job_id=JOB_ID,
        job_status=Status.COMPLETED,
        cancel_reason=None,
        error_code=None,
        result_kind="final",
        result_seq=1,
        created_at=_FINISHED,
        result=_RESULT,
        summary=None,
        requested_result_id=RESULT_ID,
        requested_result_kind="final",
        projection_mode="latest",
    )


def _shown() -> responses.ViewsResponse:
    return responses.ViewsResponse(
        **_ANSWER,
        result_id=RESULT_ID,
        job_id=JOB_ID,
        result_kind="final",
        result_seq=1,
        views=[
            TableView(at="/found", columns=[Column(name="place")], title="Found"),
            MarkdownView(text="**Three** fit."),
        ],
    )


def _snapshot(prefix: str) -> records.SnapshotOut:
    return records.SnapshotOut(
        result_id=RESULT_ID,
        job_id=JOB_ID,
        result_kind="final",
        result_seq=1,
        schema_version=1,
        created_at=_FINISHED,
        summary_json=None,
        result_url=f"{prefix}/results/{RESULT_ID}?view=requested",
    )


def _message() -> records.NotificationOut:
    return records.NotificationOut(
        notification_id=_OTHER_ID,
        job_id=JOB_ID,
        org_id=_ORG,
        channel="in_app",
        template_key="async.job.completed",
        delivery_status="pending",
        attempt_count=0,
        last_error=None,
        dedupe_key=f"{JOB_ID}:in_app:async.job.completed",
        scheduled_at=_FINISHED,
        sent_at=None,
        created_at=_FINISHED,
        payload_json={"job_id": JOB_ID, "status": "completed", "result_id": RESULT_ID, "progress_percent": 100},
    )


def _unread() -> records.InboxOut:
    return records.InboxOut(**msgspec.structs.asdict(_message()), read_at=None, unread=True)


def _entry() -> records.HistoryEntryOut:
    return records.HistoryEntryOut(
        result_id=RESULT_ID,
        job_id=JOB_ID,
        created_at=_FINISHED,
        query="Bundesplatz 3, 3005 Bern",
        intelligence_mode="basic",
        status=Status.COMPLETED,
    )


def _token() -> responses.TokenResponse:
    return responses.TokenResponse(
        **_ANSWER,
        token="llt_…",  # noqa: S106 - an example
        token_type="Bearer",  # noqa: S106 - the word of the standard
        expires_at=_FINISHED,
        job_id=JOB_ID,
    )


def _key() -> dict[str, Any]:
    return {
        "key_id": _KEY_ID,
        "org_id": _ORG,
        "name": "nightly import",
        "scopes": ["submit", "read"],
        "created_at": _QUEUED,
        "expires_at": None,
        "revoked_at": None,
        "last_used_at": _STARTED,
    }


def _feed() -> responses.FeedResponse:
    event = _outbound(EventType.COMPLETED, Status.COMPLETED, 3)
    return responses.FeedResponse(**_ANSWER, events=[event], next_after="WyI4ZTE3YjQ1ZSIsIj…", more=False)


def cloud_event() -> Any:
    """Return the body of a webhook."""
    return _plain(_outbound(EventType.COMPLETED, Status.COMPLETED, 3))


def _outbound(kind: EventType, status: Status, seq: int) -> CloudEvent:
    return outbound_event(
        event_id=_OTHER_ID,
        kind=kind,
        job_id=JOB_ID,
        org_id=_ORG,
        status=status,
        event_seq=seq,
        occurred_at=from_text(_FINISHED.isoformat()),
        trace_id=_TRACE_ID,
        result_id=RESULT_ID,
        source="/analyze",
    )
