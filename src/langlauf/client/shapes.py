"""What the client hands out: the shapes on the wire, under the names a caller would give them."""

from typing import Literal

import msgspec

from langlauf.domain.job import PriorityClass
from langlauf.http import schemas

#: A job without its events and result, as lists and acceptance show it.
JobSummary = schemas.JobOut
#: A job with its latest events and, once completed, its result.
JobState = schemas.JobStatusOut
#: One entry of a job's log.
Event = schemas.EventOut
#: A stored snapshot without its payload.
Snapshot = schemas.SnapshotOut
#: A snapshot with its payload, and what became of its job.
Result = schemas.ResultAnswer
#: A message about a job's end.
Notification = schemas.NotificationOut

View = Literal["latest", "requested"]


class SubmitOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a job is to be treated. What is not set is left to the server and to the analysis."""

    priority_class: PriorityClass = "default"
    #: seconds or a text like `30m`; it can only lower what the analysis allows
    timeout_seconds: float | str | None = None
    max_retries: int | None = None
    #: accept the job although the same one has not ended yet
    allow_duplicate: bool = False
    #: the same key gives the same job; without one, each submission has its own
    idempotency_key: str | None = None


DEFAULT_OPTIONS = SubmitOptions()
