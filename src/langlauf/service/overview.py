"""Figures, workers and health for operators and orgs, and failures grouped by cause; cached for all readers."""

import asyncio
from functools import partial

import msgspec

from langlauf.auth.caller import Caller
from langlauf.clock import Clock
from langlauf.domain.access import Scope
from langlauf.domain.failure import MOST_FAILURES, FailedJob, FailureGroup, group_failures
from langlauf.domain.health import SLOW_CANCEL, Health, WorkerStatus, check_health, runnable_analyses
from langlauf.domain.instant import Instant, after
from langlauf.domain.schedule import ALL_ORGS
from langlauf.domain.statistics import OpsStatistics, TimeRange, ops_statistics
from langlauf.service.pauses import Pauses
from langlauf.service.single_flight import CachedRead
from langlauf.store.protocol import OrgReads, Store

#: At most this many ended jobs of a range are read, the newest: it bounds the cost of one read.
MOST_ENDED = 10_000
_FRESH_SECONDS = 2.0
#: Cached reads, one for each org and range.
_MOST_KEPT = 500


class OpsFigures(msgspec.Struct, frozen=True):
    """Figures with workers and health findings."""

    #: the org of the figures; None for all orgs
    org_id: str | None
    figures: OpsStatistics
    #: workers that take jobs
    working: int
    #: each worker, for operators only
    workers: list[WorkerStatus]
    health: Health


class Overviews:
    """Reads figures over many jobs. Reads within two seconds are shared."""

    def __init__(self, store: Store, pauses: Pauses, clock: Clock, *, fresh_seconds: float = _FRESH_SECONDS) -> None:
        self._store = store
        self._pauses = pauses
        self._clock = clock
        self._fresh_seconds = fresh_seconds
        self._workers: CachedRead[list[WorkerStatus]] = CachedRead(store.workers.statuses, fresh_seconds)
        self._figures: dict[tuple[str | None, TimeRange], CachedRead[OpsStatistics]] = {}

    async def glance(self, caller: Caller, span: TimeRange, wished: str | None = None) -> OpsFigures:
        """Return what the caller may see: the operator one org or all, others their own."""
        operates = Scope.OPERATE in caller.scopes
        workers = await self.workers()
        found = await self._figures_of(wished if operates else caller.org_id, span)
        working = [worker for worker in workers if worker.works(found.at)]
        # Orgs only see how many workers there are: a silent one may hold jobs of any org.
        shown = workers if operates else working
        about = (ALL_ORGS, wished if operates else caller.org_id)
        paused = {one.analysis for one in await self._pauses.active() if one.org_id in about}
        return OpsFigures(
            wished if operates else caller.org_id,
            found,
            len(working),
            workers if operates else [],
            check_health(found, shown, writable=self._store.health.problem is None, paused=paused),
        )

    async def workers(self) -> list[WorkerStatus]:
        """Return the workers that work, or did until recently."""
        return await self._workers.get()

    def now(self) -> Instant:
        """Return the store's time, which decides whether a worker is silent."""
        return self._clock.now()

    async def workers_seen(self, analysis: str) -> bool:
        """Whether some worker would take a job of this analysis; cached."""
        return analysis in runnable_analyses(await self.workers(), self._clock.now())

    async def _figures_of(self, org_id: str | None, span: TimeRange) -> OpsStatistics:
        key = org_id, span
        if key not in self._figures:
            if len(self._figures) >= _MOST_KEPT:
                self._figures.clear()
            self._figures[key] = CachedRead(partial(self._look, org_id, span), self._fresh_seconds)
        return await self._figures[key].get()

    async def _look(self, org_id: str | None, span: TimeRange) -> OpsStatistics:
        source = self._store if org_id is None else self._store.tenant(org_id)
        now = self._clock.now()
        seen = await source.overview(since=after(now, -span.seconds), most=MOST_ENDED)
        # Counting takes a moment: a thread keeps the event loop free.
        return await asyncio.to_thread(ops_statistics, seen, span, now, cancel_seconds=SLOW_CANCEL.threshold)


_AT_ONCE = 1_000


class FailureReport(msgspec.Struct, frozen=True):
    """Failure groups, the largest first, the number of failures read, and whether those were all."""

    groups: list[FailureGroup]
    looked_at: int
    complete: bool

    def group(self, key: str) -> FailureGroup | None:
        """Return the group with that key, if it has any failures left."""
        return next((group for group in self.groups if group.key == key), None)


async def failure_report(reads: OrgReads, since: Instant) -> FailureReport:
    """Group the failed jobs that were accepted since an instant."""
    found: list[FailedJob] = []
    before = None
    while len(found) < MOST_FAILURES:
        some = await reads.failures(since=since, before=before, limit=_AT_ONCE)
        found += some
        if len(some) < _AT_ONCE:
            break
        before = (some[-1].queued_at, some[-1].job_id)
    # Grouping thousands of messages takes tens of milliseconds: a thread keeps the event loop free.
    groups = await asyncio.to_thread(group_failures, found)
    return FailureReport(groups, len(found), complete=len(found) < MOST_FAILURES)
