"""What operators and orgs see at a glance: figures, workers, health; looked up once in a while for all who ask."""

import asyncio
from functools import partial

import msgspec

from langlauf.auth.caller import Caller
from langlauf.clock import Clock
from langlauf.domain.access import Scope
from langlauf.domain.failure_groups import FailedJob, FailureGroup, group_failures
from langlauf.domain.health import Health, WorkerStatus, check_health, runnable_analyses
from langlauf.domain.health_rules import SLOW_CANCEL
from langlauf.domain.instant import Instant, after
from langlauf.domain.statistics import OpsStatistics, TimeRange, ops_statistics
from langlauf.service.single_flight import CachedRead
from langlauf.store.protocol import OrgReads, Store

#: Of jobs that ended in a range no more are read: the newest. It bounds what a look costs, whatever the store holds.
MOST_ENDED = 10_000
_FRESH_SECONDS = 2.0
#: So many looks are remembered: one for each org that is looked at, and each range.
_MOST_KEPT = 500


class OpsFigures(msgspec.Struct, frozen=True):
    """Figures with who works, and what is wrong."""

    #: whose figures; None: those of all orgs
    org_id: str | None
    figures: OpsStatistics
    #: how many take jobs
    working: int
    #: one by one, for operators alone
    workers: list[WorkerStatus]
    health: Health


class Overviews:
    """Looks over many jobs. What several ask for within two seconds is looked up once."""

    def __init__(self, store: Store, clock: Clock, *, fresh_seconds: float = _FRESH_SECONDS) -> None:
        self._store = store
        self._clock = clock
        self._fresh_seconds = fresh_seconds
        self._workers: CachedRead[list[WorkerStatus]] = CachedRead(store.workers.seen, fresh_seconds)
        self._figures: dict[tuple[str | None, TimeRange], CachedRead[OpsStatistics]] = {}

    async def glance(self, caller: Caller, span: TimeRange, wished: str | None = None) -> OpsFigures:
        """What a caller may see: an operator the org they wish for, or all; anybody else their own."""
        operates = Scope.OPERATE in caller.scopes
        workers = await self.workers()
        found = await self._figures_of(wished if operates else caller.org_id, span)
        working = [worker for worker in workers if worker.works(found.at)]
        # Of workers others learn how many there are: one that is silent may hold jobs of any org.
        shown = workers if operates else working
        return OpsFigures(
            wished if operates else caller.org_id,
            found,
            len(working),
            workers if operates else [],
            check_health(found, shown, writable=self._store.health.problem is None),
        )

    async def workers(self) -> list[WorkerStatus]:
        """Who works, or did until a while ago."""
        return await self._workers.get()

    def now(self) -> Instant:
        """The store's time, by which workers are seen."""
        return self._clock.now()

    async def workers_seen(self, analysis: str) -> bool:
        """Whether some worker would take a job of this analysis; it costs next to nothing to ask."""
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
        # Counting takes a moment: requests go on meanwhile.
        return await asyncio.to_thread(ops_statistics, seen, span, now, cancel_seconds=SLOW_CANCEL.threshold)


#: So many tell what goes wrong; grouping more would keep a reader waiting.
MOST_FAILURES = 3_000
_AT_ONCE = 1_000


class FailureReport(msgspec.Struct, frozen=True):
    """The groups, the largest first, how many failures they were made of, and whether there are no more."""

    groups: list[FailureGroup]
    looked_at: int
    complete: bool

    def group(self, key: str) -> FailureGroup | None:
        """The group by that key, if it has any failures left."""
        return next((group for group in self.groups if group.key == key), None)


async def failure_report(reads: OrgReads, since: Instant) -> FailureReport:
    """Groups the failed jobs that were accepted since an instant."""
    found: list[FailedJob] = []
    before = None
    while len(found) < MOST_FAILURES:
        some = await reads.failures(since=since, before=before, limit=_AT_ONCE)
        found += some
        if len(some) < _AT_ONCE:
            break
        before = (some[-1].queued_at, some[-1].job_id)
    # Folding thousands of messages takes tens of milliseconds: others are served meanwhile.
    groups = await asyncio.to_thread(group_failures, found)
    return FailureReport(groups, len(found), complete=len(found) < MOST_FAILURES)
