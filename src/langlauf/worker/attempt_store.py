"""What a worker needs of a store: its part of one, a source of jobs, and the search for an earlier result."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

from langlauf.analysis.payload import decode, run_in_thread
from langlauf.analysis.registry import Analysis
from langlauf.clock import Clock
from langlauf.domain.attempt import Lease, LeaseRenewal, Write, WriteResult
from langlauf.domain.errors import LanglaufError, PayloadUnavailable, TransientError, error_saying
from langlauf.domain.health import WorkerReport
from langlauf.domain.instant import Instant
from langlauf.domain.provenance import CodeVersion, TrailEntry
from langlauf.domain.read_models import JobView, PastRun, ResultView

#: Bounds of the search: inputs compared per step, and steps.
RUNS_AT_ONCE = 50
MOST_STEPS = 10


class AttemptReads(Protocol):
    """Reads of attempts within one org; see `TenantReads`."""

    async def job(self, job_id: str) -> JobView | None: ...

    async def chunk(self, job_id: str, key: str) -> str | None: ...

    async def chunks(self, job_id: str, keys: Sequence[str]) -> dict[str, str]: ...

    async def trail(self, job_id: str) -> list[TrailEntry]: ...

    async def completed(self, analysis: str, *, before: tuple[Instant, str] | None, limit: int) -> list[PastRun]: ...

    async def result(self, result_id: str, *, latest: bool) -> ResultView | None: ...


class WorkerReports(Protocol):
    """Presence of workers; see `WorkerStore`."""

    async def save_report(self, report: WorkerReport) -> None: ...

    async def save_codes(self, codes: Sequence[CodeVersion]) -> None: ...

    async def remove(self, worker_id: str) -> None: ...


class AttemptStore(Protocol):
    """Leases and writes of attempts; see `Store`."""

    @property
    def clock(self) -> Clock: ...

    @property
    def workers(self) -> WorkerReports: ...

    async def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[LeaseRenewal]: ...

    def record(self, lease: Lease, write: Write) -> Awaitable[WriteResult]: ...

    def tenant(self, org_id: str) -> AttemptReads: ...


class JobSource(Protocol):
    """Hands jobs to a worker from `start` until `stop` has returned."""

    @property
    def alive(self) -> bool:
        """Whether it works."""

    async def start(self) -> None:
        """Begin."""

    async def stop(self) -> None:
        """Claim no more; returns when all that was claimed has been handed over."""

    def ended(self, lease: Lease, *, written: bool) -> None:
        """Note that a slot is free; without a `written` end the lease of its attempt was lost."""


async def find_previous_result(reads: AttemptReads, analysis: Analysis, match: str) -> str | None:
    """Return the payload of the newest result whose input has these values as JSON text, or None.

    What retention has taken is passed over. A job that runs has no final result, so it never finds its own.
    """
    wanted: dict[str, Any] = decode(match)
    _refuse_unknown(analysis, wanted)
    before = None
    for _ in range(MOST_STEPS):
        runs = await reads.completed(analysis.name, before=before, limit=RUNS_AT_ONCE)
        for run in await run_in_thread(_matching, runs, wanted):
            if (payload := await _payload(reads, run)) is not None:
                return payload
        if len(runs) < RUNS_AT_ONCE:
            break
        before = (runs[-1].finished_at, runs[-1].job_id)
    return None


def _refuse_unknown(analysis: Analysis, wanted: Mapping[str, Any]) -> None:
    known = analysis.input_type.__struct_fields__
    for name in wanted:
        if name not in known:
            raise LanglaufError(
                f"job.previous({name}=…): {analysis.name} has no parameter {name}; it has {', '.join(known) or 'none'}"
            )


def _matching(runs: Sequence[PastRun], wanted: Mapping[str, Any]) -> list[PastRun]:
    return [run for run in runs if _matches(decode(run.payload), wanted)]


def _matches(values: Any, wanted: Mapping[str, Any]) -> bool:
    """Whether an input has all of these values. In JSON, unlike in Python, `true` is not equal to 1."""
    return isinstance(values, dict) and all(
        name in values and values[name] == value and isinstance(values[name], bool) == isinstance(value, bool)
        for name, value in wanted.items()
    )


async def _payload(reads: AttemptReads, run: PastRun) -> str | None:
    try:
        found = await reads.result(run.result_id, latest=False)
    except PayloadUnavailable as error:
        raise error_saying(TransientError, "earlier_result_unreadable") from error
    return None if found is None else found.delivered.payload
