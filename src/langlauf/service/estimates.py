"""Estimates of waiting and running times, cached for a moment."""

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
from langlauf.service.pauses import Pauses
from langlauf.service.single_flight import CachedRead
from langlauf.settings import Settings
from langlauf.store.protocol import Store

_FRESH_SECONDS = 1.0
#: Ranks are cached for this many orgs.
_MOST_ORGS = 1_000


class Estimates:
    """Estimates how long jobs run and wait. A poll needs no scan of the queue."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: Settings,
        pauses: Pauses,
        *,
        fresh_seconds: float = _FRESH_SECONDS,
    ) -> None:
        self._store = store
        self._pauses = pauses
        self._registry = registry
        self._settings = settings
        self._fresh_seconds = fresh_seconds
        self._paces: CachedRead[Mapping[str, float]] = CachedRead(store.paces, fresh_seconds)
        self._outlook: CachedRead[WaitForecast] = CachedRead(self._look, fresh_seconds)
        self._ranks: dict[str, CachedRead[Sequence[TicketRange]]] = {}
        #: by org, analysis and class: the estimate for new jobs, and until when it is reused
        self._expected: dict[tuple[str, str, str], tuple[float, float]] = {}

    async def expected(self, job: JobRecord, now: Instant) -> float | None:
        """Return the seconds until the end of a new job: computed once a second per org, analysis and class."""
        if job.run_at is not None and job.run_at > now:
            return await self.remaining(JobView(job, None), now)
        kind = (job.org_id, job.analysis, job.priority_class)
        known = self._expected.get(kind)
        if known is not None and time.monotonic() < known[1]:
            return known[0]
        seconds = await self.remaining(JobView(job, None), now)
        if seconds is not None:  # an unknown estimate is not cached
            if len(self._expected) >= _MOST_ORGS:
                self._expected.clear()
            self._expected[kind] = (seconds, time.monotonic() + self._fresh_seconds)
        return seconds

    async def remaining(self, view: JobView, now: Instant) -> float | None:
        """Return the seconds until a job's end, including its wait; None where nothing is known."""
        job = view.job
        if job.terminal:
            return 0.0
        await self._pauses.read()
        pause = None if view.lease_expires_at is not None else self._pauses.of(job)
        if pause is None:
            return await self._unpaused(view, now)
        if pause.paused_until is None:  # its end is not known
            return None
        rest, without = seconds_between(now, pause.paused_until), await self._unpaused(view, now)
        return None if without is None else round(rest + without, 1)

    async def _unpaused(self, view: JobView, now: Instant) -> float | None:
        job = view.job
        typical = await self._typical_run(job.analysis)
        if view.lease_expires_at is not None:
            return remaining_seconds(run_progress(job), now, typical)
        # The start of a retry is known, and the time that a job waits for.
        next_at = job.run_at if job.status is Status.QUEUED else job.next_attempt_at
        backoff = seconds_between(now, next_at or now)
        if typical is None:
            return round(backoff, 1) if backoff > 0 else None
        outlook = await self._outlook.get()
        if job.status is Status.QUEUED:
            before = jobs_ahead(job, await self._ranks_of(job.org_id))
            return round(max(backoff, outlook.wait(job.org_id, job.analysis, before, now)) + typical, 1)
        # A job that had started goes before all that have not.
        return round(max(backoff, outlook.next_start(job.analysis, now) or 0.0) + typical, 1)

    async def ahead(self, job: JobRecord) -> int | None:
        """Return about how many jobs of its own org start before a waiting one; None for one that does not wait."""
        if job.status is not Status.QUEUED or job.ticket < 0:
            return None
        return round(sum(jobs_ahead(job, await self._ranks_of(job.org_id)).values()))

    async def retry_after(self, full: QueueFull, org_id: str, analysis: str, now: Instant) -> int:
        """Return the whole seconds after which a full queue probably has room again."""
        outlook = await self._outlook.get()
        if full.scope == "org":
            return retry_after_seconds(outlook.next_start_of_org(org_id, analysis, now))
        of_scope = outlook.next_start if full.scope == "analysis" else outlook.next_start_of_any
        return retry_after_seconds(of_scope(analysis, now))

    async def _typical_run(self, analysis: str) -> float | None:
        """Return the recent run time of the analysis, in seconds."""
        paces = await self._paces.get(lambda known: analysis in known)  # an unknown analysis is read again
        return paces.get(analysis)

    async def _look(self) -> WaitForecast:
        limited = {one.name: one.max_running for one in self._registry if one.max_running is not None}
        limits = RunningLimits(self._settings.max_running, self._settings.max_running_org, limited)
        # With thousands of orgs this takes a while: a thread keeps the event loop free.
        return await asyncio.to_thread(WaitForecast, await self._store.load(), limits)

    async def _ranks_of(self, org_id: str) -> Sequence[TicketRange]:
        if org_id not in self._ranks:
            if len(self._ranks) >= _MOST_ORGS:
                self._ranks.clear()
            self._ranks[org_id] = CachedRead(self._store.tenant(org_id).ranks, self._fresh_seconds)
        return await self._ranks[org_id].get()
