"""What is known about how long things take, remembered for a moment: estimates need not be newer than that."""

import asyncio
import time
from collections.abc import Mapping, Sequence

from langlauf.analysis.registry import Registry
from langlauf.domain.eta import (
    RunningLimits,
    TicketRange,
    jobs_ahead,
    remaining_seconds,
    retry_after_seconds,
    run_progress,
)
from langlauf.domain.fairness import WaitForecast
from langlauf.domain.instant import Instant, seconds_between
from langlauf.domain.job import JobRecord, QueueFull
from langlauf.domain.read_models import JobView
from langlauf.domain.state import Status
from langlauf.service.single_flight import CachedRead
from langlauf.settings import Settings
from langlauf.store.protocol import Store

_FRESH_SECONDS = 1.0
#: The ranks of so many orgs are remembered.
_MOST_ORGS = 1_000


class Estimates:
    """How long jobs take, and how long they wait. A poll costs no walk over what waits."""

    def __init__(
        self, store: Store, registry: Registry, settings: Settings, *, fresh_seconds: float = _FRESH_SECONDS
    ) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._fresh_seconds = fresh_seconds
        self._paces: CachedRead[Mapping[str, float]] = CachedRead(store.paces, fresh_seconds)
        self._outlook: CachedRead[WaitForecast] = CachedRead(self._look, fresh_seconds)
        self._ranks: dict[str, CachedRead[Sequence[TicketRange]]] = {}
        #: by org, analysis and class, what a new job was told, and until when others are told the same
        self._expected: dict[tuple[str, str, str], tuple[float, float]] = {}

    async def expected(self, job: JobRecord, now: Instant) -> float | None:
        """Seconds until the end of a job that is about to be accepted: worked out once a second for all of its kind."""
        kind = (job.org_id, job.analysis, job.priority_class)
        known = self._expected.get(kind)
        if known is not None and time.monotonic() < known[1]:
            return known[0]
        seconds = await self.remaining(JobView(job, None), now)
        if seconds is not None:  # nothing known is worth another look
            if len(self._expected) >= _MOST_ORGS:
                self._expected.clear()
            self._expected[kind] = (seconds, time.monotonic() + self._fresh_seconds)
        return seconds

    async def remaining(self, view: JobView, now: Instant) -> float | None:
        """Seconds until a job's end, the wait for its start included; None where nothing is known."""
        job = view.job
        if job.terminal:
            return 0.0
        typical = await self._typical_run(job.analysis)
        if view.lease_expires_at is not None:
            return remaining_seconds(run_progress(job), now, typical)
        if typical is None:  # of a retry it is at least known when it starts
            waits = job.next_attempt_at is not None and job.next_attempt_at > now
            return round(seconds_between(now, job.next_attempt_at or now), 1) if waits else None
        outlook = await self._outlook.get()
        if job.status is Status.QUEUED:
            before = jobs_ahead(job, await self._ranks_of(job.org_id))
            return round(outlook.wait(job.org_id, job.analysis, before, now) + typical, 1)
        # It had started, and goes before all that have not.
        backoff = seconds_between(now, job.next_attempt_at or now)
        return round(max(backoff, outlook.next_start(job.analysis, now) or 0.0) + typical, 1)

    async def ahead(self, job: JobRecord) -> int | None:
        """About how many jobs of its own org start before a waiting one; None for one that does not wait."""
        if job.status is not Status.QUEUED:
            return None
        return round(sum(jobs_ahead(job, await self._ranks_of(job.org_id)).values()))

    async def retry_after(self, full: QueueFull, org_id: str, analysis: str, now: Instant) -> int:
        """Whole seconds after which a queue that was full probably has room again."""
        outlook = await self._outlook.get()
        if full.scope == "org":
            return retry_after_seconds(outlook.next_start_of_org(org_id, analysis, now))
        of_scope = outlook.next_start if full.scope == "analysis" else outlook.next_start_of_any
        return retry_after_seconds(of_scope(analysis, now))

    async def _typical_run(self, analysis: str) -> float | None:
        """What a run of the analysis took lately, in seconds."""
        paces = await self._paces.get(lambda known: analysis in known)  # nothing known is worth another look
        return paces.get(analysis)

    async def _look(self) -> WaitForecast:
        limited = {one.name: one.max_running for one in self._registry if one.max_running is not None}
        limits = RunningLimits(self._settings.max_running, self._settings.max_running_org, limited)
        # With thousands of orgs this takes a while: requests go on meanwhile.
        return await asyncio.to_thread(WaitForecast, await self._store.load(), limits)

    async def _ranks_of(self, org_id: str) -> Sequence[TicketRange]:
        if org_id not in self._ranks:
            if len(self._ranks) >= _MOST_ORGS:
                self._ranks.clear()
            self._ranks[org_id] = CachedRead(self._store.tenant(org_id).ranks, self._fresh_seconds)
        return await self._ranks[org_id].get()
