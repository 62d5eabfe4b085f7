"""One execution of a job: the lease it runs under and what it may write."""

from collections.abc import Mapping

import msgspec

from langlauf.domain.bounds import JobBounds, utf8_size
from langlauf.domain.instant import Instant
from langlauf.domain.job import INLINE_REF
from langlauf.domain.outcome import Canceled, Completed, Crashed, Failed, Released, Retry


class Lease(msgspec.Struct, frozen=True):
    """The right to write for a job. The attempt number is the fencing token: it grows at every claim."""

    org_id: str
    job_id: str
    attempt: int


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A worker with free slots asks for work it knows how to do."""

    worker_id: str
    slots: int
    analyses: tuple[str, ...]
    lease_seconds: float
    #: how many jobs may run at once over the whole deployment
    max_running: int
    #: how many of one analysis, where it has a limit of its own
    limits: Mapping[str, int] = {}
    #: how many of one org, where there is such a limit
    max_running_org: int | None = None


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is this worker's until its lease ends."""

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


class ClaimBatch(msgspec.Struct, frozen=True):
    """Claims, and a moment of the steady clock before they were made: a lease is never thought longer than it is."""

    claims: list[Claim]
    asked_at: float


class LeaseRenewal(msgspec.Struct, frozen=True):
    """What became of a lease at a heartbeat. `cancel_reason` is set where somebody asked the job to stop."""

    lease: Lease
    held: bool
    cancel_reason: str | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt tells how far it is."""

    percent: float | None = None
    step: str | None = None
    #: got there with stored chunks and not by computing
    replayed: bool = False
    bounds: JobBounds = JobBounds()


class Partial(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt shows what it has so far; payload, summary and views are JSON text."""

    result_id: str
    #: None where it is kept as a blob
    payload: str | None
    summary: str | None = None
    percent: float | None = None
    step: str | None = None
    replayed: bool = False
    payload_ref: str = INLINE_REF
    views: str | None = None
    bounds: JobBounds = JobBounds()
    #: of a payload that is kept as a blob
    blob_bytes: int = 0

    @property
    def stored_bytes(self) -> int:
        """What it adds to the stored partials of its job."""
        return self.blob_bytes + utf8_size(self.payload, self.summary, self.views)


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk is done and need not be computed again; payload is JSON text."""

    key: str
    payload: str


Write = Progress | Partial | Checkpoint | Completed | Failed | Retry | Crashed | Canceled | Released
