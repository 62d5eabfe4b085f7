"""What a job did when, from its log."""

from typing import Any

import msgspec

from langlauf.domain.event import Event, EventType
from langlauf.domain.instant import SECOND, Instant
from langlauf.domain.job import INLINE_REF, JobRecord
from langlauf.domain.state import Status
from langlauf.ui.pages.job_timeline import TimelineSpan, job_timeline

START = 1_800_000_000 * SECOND


def _at(seconds: float) -> Instant:
    return START + round(seconds * SECOND)


def _job(status: Status, **fields: Any) -> JobRecord:
    return JobRecord(
        job_id="j", org_id="o", analysis="a", status=status, priority_class="default", request_payload_hash="",
        request_payload_ref=INLINE_REF, queued_at=START, updated_at=START, timeout_seconds=60, max_retries=3,
        trace_id="t", request_id="r", **fields,
    )  # fmt: skip


def _log(*told: tuple[float, EventType, dict[str, Any]], first: int = 1) -> list[Event]:
    return [
        Event(
            "o", "j", number, f"e{number}", kind, _at(seconds), "worker", msgspec.json.encode(facts).decode(), "t", "r"
        )
        for number, (seconds, kind, facts) in enumerate(told, first)
    ]


def _shape(spans: list[TimelineSpan]) -> list[tuple[str, int, float, float, str | None]]:
    return [
        (span.kind, span.number, (span.start - START) / SECOND, (span.end - START) / SECOND, span.error_code)
        for span in spans
    ]


def test_attempts_pauses_and_waits_follow_each_other() -> None:
    """An error with a retry, a worker that vanished, and the end; each attempt has what ended it."""
    events = _log(
        (0, EventType.QUEUED, {}),
        (2, EventType.RUNNING, {"attempt": 1}),
        (3, EventType.PROGRESS, {"progress_percent": 10}),
        (4, EventType.PARTIAL, {"result_seq": 1}),
        (5, EventType.RETRY_SCHEDULED, {"attempt": 1, "error_code": "network_error", "error_message": "no"}),
        (9, EventType.ATTEMPT_STARTED, {"attempt": 2}),
        (12, EventType.LEASE_LOST, {"attempt": 2}),
        (14, EventType.ATTEMPT_STARTED, {"attempt": 3}),
        (20, EventType.COMPLETED, {"result_seq": 2}),
    )
    made = job_timeline(_job(Status.COMPLETED, started_at=_at(2), finished_at=_at(20)), events, _at(99))
    assert _shape(made.spans) == [
        ("waiting", 0, 0, 2, None),
        ("attempt", 1, 2, 5, "network_error"),
        ("backoff", 1, 5, 9, None),
        ("attempt", 2, 9, 12, None),
        ("waiting", 2, 12, 14, None),
        ("attempt", 3, 14, 20, None),
    ]
    assert [span.outcome for span in made.attempts] == [
        EventType.RETRY_SCHEDULED, EventType.LEASE_LOST, EventType.COMPLETED,
    ]  # fmt: skip
    assert not any(span.open for span in made.spans)
    assert [mark.version for mark in made.marks] == [None, 1]
    assert (made.end, made.incomplete) == (_at(20), False)


def test_what_goes_on_ends_now() -> None:
    """The last stretch is open, and as long as it has lasted."""
    events = _log((0, EventType.QUEUED, {}), (1, EventType.RUNNING, {"attempt": 1}))
    made = job_timeline(_job(Status.RUNNING, started_at=_at(1), attempt_started_at=_at(1)), events, _at(31))
    assert _shape(made.spans)[-1] == ("attempt", 1, 1, 31, None)
    assert made.spans[-1].open
    waiting = job_timeline(_job(Status.QUEUED), _log((0, EventType.QUEUED, {})), _at(7))
    assert _shape(waiting.spans) == [("waiting", 0, 0, 7, None)]


def test_a_log_that_begins_in_the_middle_says_so() -> None:
    """What the job itself knows fills the beginning."""
    job = _job(Status.RUNNING, started_at=_at(1), attempt_started_at=_at(50), attempt=4)
    made = job_timeline(job, _log((60, EventType.PROGRESS, {"progress_percent": 9}), first=500), _at(70))
    assert made.incomplete
    assert _shape(made.spans) == [("waiting", 0, 0, 1, None), ("attempt", 4, 50, 70, None)]


def test_a_log_that_retention_took_leaves_what_the_job_knows() -> None:
    """No event is needed for a drawing."""
    job = _job(Status.COMPLETED, started_at=_at(1), attempt_started_at=_at(1), attempt=1, finished_at=_at(9))
    made = job_timeline(job, [], _at(99))
    assert _shape(made.spans) == [("waiting", 0, 0, 1, None), ("attempt", 1, 1, 9, None)]
    assert not made.spans[-1].open


def test_a_timeout_is_what_ended_the_attempt() -> None:
    """Also where the end that follows names no code."""
    events = _log(
        (0, EventType.QUEUED, {}),
        (1, EventType.RUNNING, {"attempt": 1}),
        (8, EventType.TIMEOUT, {"threshold_seconds": 7}),
        (8, EventType.RETRY_SCHEDULED, {"attempt": 1}),
    )
    made = job_timeline(_job(Status.RUNNING, started_at=_at(1)), events, _at(9))
    assert made.attempts[0].error_code == "timeout"


def test_places_and_ticks_are_round() -> None:
    """Percent of the whole, within it; an axis that people count in, with few words."""
    events = _log((0, EventType.QUEUED, {}), (1, EventType.RUNNING, {"attempt": 1}))
    made = job_timeline(_job(Status.RUNNING, started_at=_at(1)), events, _at(200))
    assert [made.place(_at(at)) for at in (-5, 0, 50, 200, 900)] == [0, 0, 25, 100, 100]
    assert made.ticks() == [0, 60, 120, 180]
    assert made.tick_place(60) == 30
    short = job_timeline(_job(Status.RUNNING, started_at=_at(1)), events, _at(0.75))
    assert [round(second, 3) for second in short.ticks()] == [0, 0.2, 0.4, 0.6]


def test_durations_add_up_to_the_total() -> None:
    """In whole seconds: each is rounded down, and the largest rests get what is missing."""
    events = _log(
        (0, EventType.QUEUED, {}),
        (0.4, EventType.RUNNING, {"attempt": 1}),
        (2.1, EventType.RETRY_SCHEDULED, {"attempt": 1}),
        (3.8, EventType.ATTEMPT_STARTED, {"attempt": 2}),
        (5.5, EventType.COMPLETED, {}),
    )
    made = job_timeline(_job(Status.COMPLETED, started_at=_at(0.4), finished_at=_at(5.5)), events, _at(99))
    assert made.whole_seconds() == [0, 2, 2, 2]
    assert sum(made.whole_seconds()) == made.total_seconds == 6
