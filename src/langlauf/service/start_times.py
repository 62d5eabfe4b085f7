"""When jobs start and end: estimates of waiting and running times, and pauses that keep jobs from starting."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence

from langlauf.analysis.registry import Registry
from langlauf.auth.caller import Caller
from langlauf.clock import Clock
from langlauf.domain.access import Scope
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
from langlauf.domain.redact import clean_message
from langlauf.domain.schedule import ALL_ORGS, Pause, PauseRequest, ResumeRequest, pause_of
from langlauf.domain.state import Status
from langlauf.problems import Problem, bad_request, forbidden
from langlauf.service.single_flight import CachedRead
from langlauf.settings import Settings
from langlauf.store.protocol import Store
from langlauf.telemetry.log import LogEvent, log_event

# -- pauses ------------------------------------------------------------------------------------------------------------

_FRESH_SECONDS = 1.0


class Pauses:
    """Pauses analyses: for the caller's org, or for all orgs where the caller is an operator."""

    def __init__(self, store: Store, registry: Registry, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._reads: CachedRead[list[Pause]] = CachedRead(store.pauses, _FRESH_SECONDS)
        self._known: list[Pause] = []

    async def pause(
        self, caller: Caller, analysis: str, because: str, until: Instant | None, *, all_orgs: bool
    ) -> Pause:
        """Let no job of the analysis start from now on, or change the reason and the end of its pause."""
        org_id = self._scope_of(caller, analysis, all_orgs=all_orgs)
        if not because.strip() or not because.isprintable():
            raise bad_request("because must say in a line why it is paused.", "because")
        if until is not None and until <= self._clock.now():
            raise bad_request("until must be in the future.", "until")
        by = caller.user_id or caller.api_key_id
        request = PauseRequest(
            analysis=analysis, org_id=org_id, because=clean_message(because), paused_until=until, paused_by=by
        )
        held = await self._store.pause(request)
        await self._reread()
        log_event(LogEvent.ANALYSIS_PAUSED, logging.WARNING, analysis=analysis, org_id=org_id or None, reason=because)
        return held

    async def resume(self, caller: Caller, analysis: str, *, all_orgs: bool) -> bool:
        """End a pause, and return whether there was one."""
        org_id = self._scope_of(caller, analysis, all_orgs=all_orgs)
        ended = await self._store.resume(ResumeRequest(analysis=analysis, org_id=org_id))
        await self._reread()
        if ended:
            log_event(LogEvent.ANALYSIS_RESUMED, analysis=analysis, org_id=org_id or None)
        return ended

    async def active(self) -> list[Pause]:
        """Return the pauses that hold, over all orgs; at most a second old."""
        await self.read()
        now = self._clock.now()
        return [one for one in self._known if one.active(now)]

    async def visible(self, caller: Caller) -> list[Pause]:
        """Return the pauses that hold and concern the caller: of its org and of all orgs, and for an operator all."""
        shown = await self.active()
        if Scope.OPERATE in caller.scopes:
            return shown
        return [one for one in shown if one.org_id in (ALL_ORGS, caller.org_id)]

    def of(self, job: JobRecord) -> Pause | None:
        """Return the pause that keeps a job from starting, of those that were read last."""
        return None if job.terminal else self.covering(job.org_id, job.analysis)

    def covering(self, org_id: str, analysis: str) -> Pause | None:
        """Return the pause of an analysis for an org, of those that were read last."""
        return pause_of(self._known, org_id, analysis, self._clock.now()) if self._known else None

    async def read(self) -> None:
        """Read the pauses, where they were read more than a second ago."""
        self._known = await self._reads.get()

    async def _reread(self) -> None:
        self._reads.forget()
        await self.read()

    def _scope_of(self, caller: Caller, analysis: str, *, all_orgs: bool) -> str:
        if all_orgs and Scope.OPERATE not in caller.scopes:
            raise forbidden("all_orgs", "Only the operator pauses and resumes for all orgs; name one org.")
        if self._registry.get(analysis) is None:
            known = ", ".join(self._registry.names)
            raise Problem(404, "not_found", f"There is no analysis of this name; known are {known}.", field="analysis")
        return ALL_ORGS if all_orgs else caller.org_id


# -- estimates ---------------------------------------------------------------------------------------------------------

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
