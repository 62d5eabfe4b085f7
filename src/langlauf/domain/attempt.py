"""One execution of a job: its lease, its writes, the bounds of what it stores, and the delay before a retry."""

from collections.abc import Mapping
from enum import IntEnum

import msgspec

from langlauf.domain.instant import Instant
from langlauf.domain.job import INLINE_REF, PayloadText
from langlauf.domain.outcome import Canceled, Completed, Crashed, Failed, Released, Retry

MOST_EVENTS = 100_000
MOST_PARTIAL_BYTES = 1_073_741_824
#: A log with fewer events has no room for a start, some progress and an end.
LEAST_EVENTS = 10
_SHARE_FOR_THE_END = 10
_MOST_FOR_THE_END = 100
_LEAST_FOR_THE_END = 4


class JobBounds(msgspec.Struct, frozen=True):
    """How many events and how many bytes of partials one job may store."""

    events: int = MOST_EVENTS
    partial_bytes: int = MOST_PARTIAL_BYTES

    @property
    def last_progress_event(self) -> int:
        """Return the highest number of a progress event: that one reports that the bound is reached.

        The rest is for attempts, cancels and the end, which are always stored.
        """
        share = self.events // _SHARE_FOR_THE_END
        return self.events - min(_MOST_FOR_THE_END, max(_LEAST_FOR_THE_END, share))


class WriteResult(IntEnum):
    """The result of a write of an attempt; falsy if its lease is gone and the write was refused."""

    REFUSED = 0
    WRITTEN = 1
    #: written; the job stores no further partials
    PARTIALS_FULL = 2
    #: written; the job stores no further partials and no progress
    EVENTS_FULL = 3


def write_result(limit_reached: str | None) -> WriteResult:
    """Return the result of a write by an attempt that holds its lease."""
    if limit_reached is None:
        return WriteResult.WRITTEN
    return WriteResult.EVENTS_FULL if limit_reached == "events" else WriteResult.PARTIALS_FULL


def utf8_size(*texts: PayloadText | None) -> int:
    """Return the size of texts in UTF-8."""
    return sum(_size(text) for text in texts if text is not None)


def _size(text: PayloadText) -> int:
    if isinstance(text, memoryview):
        return text.nbytes
    return len(text) if text.isascii() else len(text.encode())


HIGHEST_UNFINISHED = 99


def stored_percent(reported: float | None) -> int:
    """Return the percent that is stored for a report: whole, at least 0, and below 100 until the end."""
    return 0 if reported is None else max(0, min(HIGHEST_UNFINISHED, int(reported)))


class Backoff(msgspec.Struct, frozen=True):
    """Exponential backoff with full jitter: delay n is random between 0 and min(cap, base · 2ⁿ) seconds."""

    base: float = 1.0
    cap: float = 60.0

    def ceiling(self, retries_so_far: int) -> float:
        """Return the longest delay after this many retries; large counts cannot overflow."""
        return min(self.cap, self.base * 2.0 ** min(retries_so_far, 60))

    def delay(self, retries_so_far: int, draw: float) -> float:
        """Return the delay for a random number from [0, 1)."""
        return self.ceiling(retries_so_far) * draw


class Lease(msgspec.Struct, frozen=True, array_like=True):
    """The right to write for a job. The attempt number is the fencing token: it grows at every claim."""

    org_id: str
    job_id: str
    attempt: int


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request of a worker with free slots for jobs of analyses that it knows."""

    worker_id: str
    slots: int
    analyses: tuple[str, ...]
    lease_seconds: float
    #: limit of running jobs over the whole deployment
    max_running: int
    #: limits per analysis, if any
    limits: Mapping[str, int] = {}
    #: limit per org, if any
    max_running_org: int | None = None
    #: the code that this worker runs, by analysis
    codes: Mapping[str, int] = {}


class Claim(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A job that a worker holds until its lease ends."""

    lease: Lease
    analysis: str
    #: the input as JSON text
    payload: str
    started_at: Instant
    expires_at: Instant
    timeout_seconds: float
    progress_percent: int
    retry_count: int
    max_retries: int
    trace_id: str
    request_id: str
    traceparent: str | None = None
    tracestate: str | None = None
    #: when the job was accepted
    queued_at: Instant | None = None
    #: for when a schedule had planned it
    planned_at: Instant | None = None


class ClaimBatch(msgspec.Struct, frozen=True):
    """Claims, and a monotonic time before they were made, so that a lease is never assumed to be longer than it is."""

    claims: list[Claim]
    asked_at: float


class LeaseRenewal(msgspec.Struct, frozen=True):
    """The result of a heartbeat for one lease. `cancel_reason` is set if the job is to be canceled."""

    lease: Lease
    held: bool
    cancel_reason: str | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress that an attempt reports."""

    percent: float | None = None
    step: str | None = None
    #: reached with stored chunks, not by computing
    replayed: bool = False
    bounds: JobBounds = JobBounds()


class Partial(msgspec.Struct, frozen=True, kw_only=True):
    """A partial result; payload, summary and views are JSON text."""

    result_id: str
    #: None if it is stored as a blob
    payload: str | None
    #: a large one, instead of the text
    payload_data: memoryview | None = None
    summary: str | None = None
    percent: float | None = None
    step: str | None = None
    replayed: bool = False
    payload_ref: str = INLINE_REF
    views: str | None = None
    bounds: JobBounds = JobBounds()
    #: of a payload that is stored as a blob
    blob_bytes: int = 0

    @property
    def content(self) -> PayloadText | None:
        """Return the payload in the form it came."""
        return self.payload if self.payload_data is None else self.payload_data

    @property
    def stored_bytes(self) -> int:
        """Return what it adds to the stored partials of its job."""
        return self.blob_bytes + utf8_size(self.content, self.summary, self.views)


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A finished chunk, which is not computed again; payload is JSON text."""

    key: str
    payload: str
    #: how many parts the job is known to have, where it is a part of a map
    total: int | None = None


Write = Progress | Partial | Checkpoint | Completed | Failed | Retry | Crashed | Canceled | Released
