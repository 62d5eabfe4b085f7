"""Rows as records, and values of our own making as the JSON text that rows keep."""

from collections.abc import Sequence
from typing import Any

import msgspec

from langlauf.domain.event import Event, EventType
from langlauf.domain.job import Job
from langlauf.domain.state import Status
from langlauf.domain.views import JobView

_encode = msgspec.json.Encoder().encode
_STATUS = Job.__struct_fields__.index("status")
_RETRYABLE = Job.__struct_fields__.index("retryable")
#: Where a view of the database has the end of the lease: what a job got later stands behind it.
_BEFORE_LEASE = Job.__struct_fields__.index("tracestate") + 1
_EVENT_TYPE = Event.__struct_fields__.index("event_type")


def json_text(value: Any) -> str:
    """A value of our own making as JSON text."""
    return _encode(value).decode()


def job_from(row: Sequence[Any]) -> Job:
    """A job from its columns."""
    values = list(row)
    values[_STATUS] = Status(values[_STATUS])
    if values[_RETRYABLE] is not None:
        values[_RETRYABLE] = bool(values[_RETRYABLE])
    return Job(*values)


def view_from(row: Sequence[Any]) -> JobView:
    """A job from its columns, and the end of its lease behind them."""
    return JobView(job_from(row[:-1]), row[-1])


def view_from_database(row: Sequence[Any]) -> JobView:
    """The same from a row of the database's view."""
    return JobView(job_from((*row[:_BEFORE_LEASE], *row[_BEFORE_LEASE + 1 :])), row[_BEFORE_LEASE])


def event_from(row: Sequence[Any]) -> Event:
    """An event from its columns."""
    values = list(row)
    values[_EVENT_TYPE] = EventType(values[_EVENT_TYPE])
    return Event(*values)
