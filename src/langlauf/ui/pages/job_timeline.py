"""The timeline of a job and its event log, from its events."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from starlette.requests import Request

from langlauf.api.requests import choice_parameter
from langlauf.domain.errors import SENTENCE
from langlauf.domain.event import Event, EventType
from langlauf.domain.instant import SECOND, Instant, seconds_between
from langlauf.domain.job import JobRecord
from langlauf.ui.formats import event_payload

SpanKind = Literal["waiting", "attempt", "backoff"]
_ATTEMPT_STARTS = frozenset({EventType.RUNNING, EventType.ATTEMPT_STARTED})
_JOB_ENDS = frozenset({EventType.COMPLETED, EventType.FAILED, EventType.CANCELED})
_REQUEUES = frozenset({EventType.LEASE_LOST, EventType.RELEASED})
#: Distances between ticks, in seconds.
_TICK_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 86_400)
#: Those of a job that took less than a second.
_SHORT_TICK_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_MAX_TICKS = 4


class TimelineSpan(msgspec.Struct, kw_only=True):
    """A time span in which the job waited, ran or backed off."""

    kind: SpanKind
    start: Instant
    end: Instant
    #: number of the attempt, or of the one before a backoff
    number: int = 0
    #: whether it is still going on
    open: bool = True
    #: the event that ended it
    outcome: EventType | None = None
    error_code: str | None = None
    error_message: str | None = None
    #: what Langlauf itself wrote as the message, as the event names it
    sentence: object = None

    @property
    def seconds(self) -> float:
        """How long it lasted, or has lasted so far."""
        return max(0.0, seconds_between(self.start, self.end))


class TimelineMark(msgspec.Struct, frozen=True):
    """A snapshot, by its number, or a progress event."""

    at: Instant
    #: None for progress
    version: int | None


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """All spans since the job was accepted."""

    start: Instant
    end: Instant
    spans: list[TimelineSpan]
    marks: list[TimelineMark]
    #: the first events are not among those that were read
    incomplete: bool

    @property
    def attempts(self) -> list[TimelineSpan]:
        """The known attempts, in order."""
        return [span for span in self.spans if span.kind == "attempt"]

    @property
    def total_seconds(self) -> int:
        """All spans together, in whole seconds."""
        return round(sum(span.seconds for span in self.spans))

    def whole_seconds(self) -> list[int]:
        """Return the duration of each span in whole seconds that add up to the total: the largest rests round up."""
        whole = [int(span.seconds) for span in self.spans]
        rests = sorted(range(len(whole)), key=lambda place: whole[place] - self.spans[place].seconds)
        for place in rests[: self.total_seconds - sum(whole)]:
            whole[place] += 1
        return whole

    def place(self, at: Instant) -> float:
        """Return the position of a time, in percent of the whole."""
        whole = max(self.end - self.start, 1)
        return round(100 * min(max(at - self.start, 0), whole) / whole, 2)

    def ticks(self) -> list[float]:
        """Return round seconds for the ticks of the axis, few enough for a phone."""
        whole = seconds_between(self.start, self.end)
        steps = _TICK_STEPS if whole >= 1 else _SHORT_TICK_STEPS
        step = next((step for step in steps if whole / step <= _MAX_TICKS), round(whole / _MAX_TICKS) or 1)
        return [step * number for number in range(int(whole / step) + 1)]

    def tick_place(self, second: float) -> float:
        """Return the position of a tick, in percent of the whole."""
        return self.place(self.start + round(second * SECOND))


def job_timeline(job: JobRecord, events: Sequence[Event], now: Instant) -> Timeline:
    """Build the timeline from the events, which may begin in the middle of a long log."""
    spans = _initial_spans(job, events)
    marks: list[TimelineMark] = []
    for event in events:
        _apply_event(spans, marks, event)
    end = job.finished_at or max(now, job.queued_at)
    last = spans[-1]
    if last.open:
        last.end, last.open = end, not job.terminal
    return Timeline(
        start=job.queued_at,
        end=max(end, last.end),
        spans=spans,
        marks=marks,
        incomplete=not events or events[0].event_seq > 1,
    )


def _initial_spans(job: JobRecord, events: Sequence[Event]) -> list[TimelineSpan]:
    """Return the spans before the first event: the wait, and an attempt in progress where the log begins later."""
    waiting = TimelineSpan(kind="waiting", start=job.queued_at, end=job.queued_at)
    if job.started_at is None or (events and events[0].event_seq == 1):
        return [waiting]
    waiting.end, waiting.open = job.started_at, False
    known = job.attempt_started_at or job.started_at
    start = known if not events or known < events[0].occurred_at else job.started_at
    return [waiting, TimelineSpan(kind="attempt", start=start, end=start, number=job.attempt if start == known else 1)]


def _apply_event(spans: list[TimelineSpan], marks: list[TimelineMark], event: Event) -> None:
    last, kind, at = spans[-1], event.event_type, event.occurred_at
    if kind is EventType.PROGRESS:
        marks.append(TimelineMark(at, None))
        return
    facts = event_payload(event.payload_json)
    if kind is EventType.PARTIAL:
        version = facts.get("result_seq")
        marks.append(TimelineMark(at, version if isinstance(version, int) else None))
    elif kind in _ATTEMPT_STARTS:
        _close_span(last, at, None)
        number = facts.get("attempt")
        count = number if isinstance(number, int) else last.number + 1
        spans.append(TimelineSpan(kind="attempt", start=at, end=at, number=count))
    elif kind is EventType.TIMEOUT:
        last.error_code = "timeout"
    elif kind is EventType.RETRY_SCHEDULED or kind in _REQUEUES:
        _close_span(last, at, event)
        following: SpanKind = "backoff" if kind is EventType.RETRY_SCHEDULED else "waiting"
        spans.append(TimelineSpan(kind=following, start=at, end=at, number=last.number))
    elif kind in _JOB_ENDS:
        _close_span(last, at, event)


def _close_span(span: TimelineSpan, at: Instant, event: Event | None) -> None:
    span.end, span.open = at, False
    if event is None or span.kind != "attempt":
        return
    facts = event_payload(event.payload_json)
    span.outcome = event.event_type
    span.error_code = facts.get("error_code") or span.error_code
    span.error_message = facts.get("error_message")
    span.sentence = facts.get(SENTENCE)


#: Event types by the filter in the address.
EVENT_FILTERS: dict[str, frozenset[EventType]] = {
    "progress": frozenset({EventType.PROGRESS}),
    "partial": frozenset({EventType.PARTIAL}),
    "attempts": frozenset(
        {
            EventType.RUNNING,
            EventType.ATTEMPT_STARTED,
            EventType.RETRY_SCHEDULED,
            EventType.TIMEOUT,
            EventType.LEASE_LOST,
            EventType.RELEASED,
        }
    ),
    "decisions": frozenset(
        {EventType.QUEUED, EventType.CANCEL_REQUESTED, EventType.CANCELED, EventType.COMPLETED, EventType.FAILED}
    ),
}
_MAX_LOG_ENTRIES = 100


class LogEntry(msgspec.Struct, frozen=True):
    """An event and its payload."""

    event: Event
    facts: dict[str, Any]


class EventLog(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the log that the page shows."""

    filter: str | None
    #: the filters that match at least one event
    filters: list[str]
    entries: list[LogEntry]
    #: events that were not read, or are not shown
    hidden: int


def event_log(events: Sequence[Event], newest: int, request: Request) -> EventLog:
    """Return the newest events that pass the filter in the address, out of those that were read."""
    wanted = choice_parameter(request, "event", tuple(EVENT_FILTERS))
    matching = [event for event in events if wanted is None or event.event_type in EVENT_FILTERS[wanted]]
    shown = matching[: -_MAX_LOG_ENTRIES - 1 : -1]
    present = {event.event_type for event in events}
    unread = newest - len(events)
    return EventLog(
        filter=wanted,
        filters=[name for name, kinds in EVENT_FILTERS.items() if kinds & present],
        entries=[LogEntry(event, event_payload(event.payload_json)) for event in shown],
        hidden=max(0, unread) + len(matching) - len(shown),
    )
