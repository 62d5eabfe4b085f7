"""What a worker needs of a store: a part of it, so that a worker process can have it over a line."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from langlauf.clock import Clock
from langlauf.domain.attempt import ClaimRequest, Handed, Lease, Renewal, Write
from langlauf.domain.bounds import Recorded
from langlauf.domain.instant import Instant
from langlauf.domain.views import JobView, PastRun, ResultView
from langlauf.domain.workers import WorkerReport


class WorkReads(Protocol):
    """What attempts of one org read; see `TenantReads`."""

    async def job(self, job_id: str) -> JobView | None: ...

    async def chunk(self, job_id: str, key: str) -> str | None: ...

    async def chunks(self, job_id: str, keys: Sequence[str]) -> dict[str, str]: ...

    async def completed(self, analysis: str, *, before: tuple[Instant, str] | None, limit: int) -> list[PastRun]: ...

    async def result(self, result_id: str, *, latest: bool) -> ResultView | None: ...


class Reports(Protocol):
    """Where a worker tells that it is there; see `WorkerStore`."""

    async def note(self, report: WorkerReport) -> None: ...

    async def forget(self, worker_id: str) -> None: ...


class WorkStore(Protocol):
    """Claims, leases and writes of attempts; see `Store`."""

    @property
    def clock(self) -> Clock: ...

    @property
    def workers(self) -> Reports: ...

    async def claim_next(self, request: ClaimRequest, idle: Callable[[], Coroutine[Any, Any, None]]) -> Handed: ...

    async def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[Renewal]: ...

    async def record(self, lease: Lease, write: Write) -> Recorded: ...

    def tenant(self, org_id: str) -> WorkReads: ...
