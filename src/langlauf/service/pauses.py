"""Pausing and resuming analyses, and which pause keeps a job from starting."""

import logging

from langlauf.analysis.registry import Registry
from langlauf.auth.caller import Caller
from langlauf.clock import Clock
from langlauf.domain.access import Scope
from langlauf.domain.instant import Instant
from langlauf.domain.job import JobRecord
from langlauf.domain.redact import clean_message
from langlauf.domain.schedule import ALL_ORGS, Pause, PauseRequest, ResumeRequest, pause_of
from langlauf.problems import Problem, bad_request, forbidden
from langlauf.service.single_flight import CachedRead
from langlauf.store.protocol import Store
from langlauf.telemetry.log import LogEvent, log_event

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
            raise Problem(404, "not_found", f"There is no analysis {analysis!r}; known are {known}.", field="analysis")
        return ALL_ORGS if all_orgs else caller.org_id
