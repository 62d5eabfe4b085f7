"""Looking at an org's jobs, with what is derived at the moment of looking."""

from typing import Literal

import msgspec

from langlauf.auth.caller import Caller
from langlauf.clock import Clock
from langlauf.domain.eta import poll_after
from langlauf.domain.instant import Instant
from langlauf.domain.job import JobRecord, Phase, phase
from langlauf.domain.views import JobView, Pulse
from langlauf.service.estimates import Estimates
from langlauf.service.sharing import BatchedReads
from langlauf.service.visible import visible
from langlauf.settings import Settings
from langlauf.store.admin import Owner
from langlauf.store.health import MEANINGS
from langlauf.store.protocol import JobReads, Store, TenantReads

#: What a caller may read of a job, for whoever is given it: nobody above this room knows the store.
CallerReads = JobReads


class Moment(msgspec.Struct, frozen=True):
    """What a job looks like right now, beyond its record."""

    phase: Phase
    estimated_seconds: float | None
    #: whole seconds after which it is worth asking again
    poll_after: int


class Reads:
    """The reads of one org at a time, and the derived facts."""

    def __init__(self, store: Store, settings: Settings, estimates: Estimates, clock: Clock) -> None:
        self._store = store
        self._estimates = estimates
        self._settings = settings
        self._clock = clock
        self._pulses: BatchedReads[tuple[str, str], Pulse] = BatchedReads(store.pulses)

    def of(self, caller: Caller) -> TenantReads:
        """Everything the caller may see, and nothing else."""
        return visible(self._store, caller)

    async def pulse(self, caller: Caller, job_id: str) -> Pulse | None:
        """What tells whether a job looks different from when it was read; None where the caller cannot see it."""
        only = None if caller.grant is None else caller.grant.job_id
        return await self._pulses.get((caller.org_id, job_id)) if only in (None, job_id) else None

    async def owner(self, kind: Literal["job", "result"], record_id: str) -> Owner | None:
        """Whose a record is, over all orgs: for callers who need no org."""
        return await self._store.access.find(kind, record_id)

    async def check(self) -> None:
        """Raises where the store does not answer."""
        await self._store.check()

    async def unwell(self) -> str | None:
        """Return why the store takes no writes right now, in a sentence that names no place; None where it does."""
        ailment = await self._store.health.look()
        return None if ailment is None else MEANINGS[ailment].sentence

    async def moment(self, view: JobView) -> Moment:
        """The phase and the estimates of a job."""
        remaining = await self._estimates.remaining(view, self._clock.now())
        return Moment(self.phase(view), remaining, poll_after(view.job, remaining))

    def first_moment(self, job: JobRecord) -> Moment:
        """The same of a job that was accepted just now, by the estimate that was made for that."""
        return Moment(self.phase(JobView(job, None)), job.estimated_seconds, poll_after(job, job.estimated_seconds))

    async def ahead(self, view: JobView) -> int | None:
        """About how many jobs of its org start before a waiting one."""
        return await self._estimates.ahead(view.job)

    def now(self) -> Instant:
        """The time by which stored times are to be read."""
        return self._clock.now()

    def phase(self, view: JobView) -> Phase:
        """The phase alone, which costs nothing."""
        return phase(view.job, view.lease_expires_at, self._clock.now(), self._settings.lease_seconds)
