"""The log of a job as people read it: newest first, all of it or one sort."""

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request

from langlauf.api.parameters import choice
from langlauf.domain.event import Event, EventType
from langlauf.ui.formatting import facts_of

#: Sorts of events, by the word in the address.
SORTS: dict[str, frozenset[EventType]] = {
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
_MOST_ENTRIES = 100


class Entry(msgspec.Struct, frozen=True):
    """A line of the log."""

    event: Event
    facts: dict[str, Any]


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """What the page shows of it."""

    sort: str | None
    #: the sorts that there are any of
    sorts: list[str]
    entries: list[Entry]
    #: how many of the job's events are not looked at, or not shown
    hidden: int


def log_of(events: Sequence[Event], newest: int, request: Request) -> Log:
    """The newest events of the sort that the address asks for, out of those that were read."""
    sort = choice(request, "event", tuple(SORTS))
    fitting = [event for event in events if sort is None or event.event_type in SORTS[sort]]
    shown = fitting[: -_MOST_ENTRIES - 1 : -1]
    there = {event.event_type for event in events}
    unread = newest - len(events)
    return Log(
        sort=sort,
        sorts=[name for name, kinds in SORTS.items() if kinds & there],
        entries=[Entry(event, facts_of(event.payload_json)) for event in shown],
        hidden=max(0, unread) + len(fitting) - len(shown),
    )
