"""Figures, workers and health for operators and orgs, failures grouped by cause, and all metrics for one scrape."""

import asyncio
import collections
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

import msgspec
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, Metric
from prometheus_client.openmetrics import exposition as openmetrics

from langlauf.auth.caller import Caller
from langlauf.clock import Clock, monotonic
from langlauf.domain.access import Scope
from langlauf.domain.delivery import CHANNELS, DeliveryStatistics
from langlauf.domain.errors import StoreError
from langlauf.domain.failure import MOST_FAILURES, FailedJob, FailureGroup, group_failures
from langlauf.domain.health import SLOW_CANCEL, Health, WorkerStatus, check_health, runnable_analyses
from langlauf.domain.instant import Instant, after, seconds_between
from langlauf.domain.read_models import Backlog, StoreUsage, largest_counts
from langlauf.domain.schedule import ALL_ORGS, Pause
from langlauf.domain.statistics import OpsStatistics, TimeRange, ops_statistics
from langlauf.service.request_limits import StreamSlots
from langlauf.service.single_flight import CachedRead
from langlauf.service.start_times import Pauses
from langlauf.settings import Settings
from langlauf.store.protocol import OrgReads, Store
from langlauf.telemetry import metrics
from langlauf.telemetry.instruments import Gauge, Labels
from langlauf.telemetry.log import log_store_failure
from langlauf.telemetry.metrics import Scrape, analysis_label, render
from langlauf.version import VERSION

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


# -- metrics -----------------------------------------------------------------------------------------------------------
# While the store is unavailable, only the gauges from the store are missing: `langlauf_store_up` is 0.

_METRICS_FRESH_SECONDS = 1.0
#: A scrape usually has ten seconds: after this time it gets the metrics of the process alone.
_LOOK_SECONDS = 4.0
#: Channels that leave this system.
_OUTSIDE = tuple(channel for channel in CHANNELS if channel != "in_app")
_OPENMETRICS = "application/openmetrics-text"
#: ends a text in that format
_END = b"# EOF\n"

Levels = Iterator[tuple[Gauge, list[tuple[Labels, float]]]]


class PeriodicTask(Protocol):
    """A task that runs periodically."""

    name: str
    every: float
    #: on the clock of `monotonic`
    succeeded_at: float


@runtime_checkable
class MetricsSource(Protocol):
    """A worker that counts in a process of its own."""

    async def count(self) -> None:
        """Add its counts to those of this process."""


class StoreFigures(msgspec.Struct, frozen=True):
    """Figures read from the store."""

    backlog: Backlog
    workers: list[WorkerStatus]
    deliveries: DeliveryStatistics
    pauses: list[Pause]


class MetricsSnapshot:
    """Collects all metrics of one application."""

    def __init__(self, store: Store, settings: Settings, slots: StreamSlots) -> None:
        self._store = store
        self._settings = settings
        self._slots = slots
        self._duties: Sequence[PeriodicTask] = ()
        self._counters: Sequence[MetricsSource] = ()
        self._seen: CachedRead[StoreFigures] = CachedRead(self._look, _METRICS_FRESH_SECONDS)
        #: returns the counts of several API processes as text, where there are several
        self.shared_counts: Callable[[bool], Awaitable[bytes]] | None = None

    def watch(self, duties: Sequence[PeriodicTask]) -> None:
        """Report the age of these tasks from now on."""
        self._duties = duties

    def gather(self, workers: Iterable[object]) -> None:
        """Add the counts of these workers from now on."""
        self._counters = [worker for worker in workers if isinstance(worker, MetricsSource)]

    async def text(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the format that a scraper prefers, and the content type of that format."""
        is_open = _OPENMETRICS in accept
        kind = openmetrics.CONTENT_TYPE_LATEST if is_open else CONTENT_TYPE_PLAIN_0_0_4
        gauges = await self.levels()
        if self.shared_counts is not None:
            text = render(Scrape(gauges, counts=False), openmetrics=is_open)
            return text.removesuffix(_END) + await self.shared_counts(is_open), kind
        await self.gather_counts()
        return render(Scrape(gauges), openmetrics=is_open), kind

    async def gather_counts(self) -> None:
        """Add what workers in processes of their own have counted."""
        await asyncio.gather(*(counter.count() for counter in self._counters))

    async def levels(self) -> list[Metric]:
        """Return all gauges by name, also those without a value."""
        seen = await self._looked_up()
        found = {level.name: values for level, values in self._all(seen)}
        return [level.family(found.get(level.name, ())) for level in metrics.GAUGES]

    async def _looked_up(self) -> StoreFigures | None:
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                return await self._seen.get()
        except (StoreError, TimeoutError) as error:
            log_store_failure(error, otherwise="reading the metrics of the store took too long")
            return None

    async def _look(self) -> StoreFigures:
        backlog = await self._store.backlog(orgs=self._settings.metrics_orgs)
        workers, pauses = await self._store.workers.statuses(), await self._store.pauses()
        return StoreFigures(backlog, workers, await self._store.deliveries.figures(), pauses)

    def _all(self, seen: StoreFigures | None) -> Levels:
        usage = self._store.usage()
        yield from self._of_process(usage)
        yield from _of_usage(usage)
        yield metrics.STORE_UP, [((), float(seen is not None))]
        if seen is not None:
            yield from _of_backlog(seen.backlog)
            yield from _of_workers(seen.workers, seen.backlog.seen_at)
            yield from _of_deliveries(seen.deliveries, seen.backlog.seen_at)
            held = collections.Counter(one.analysis for one in seen.pauses if one.active(seen.backlog.seen_at))
            yield metrics.PAUSED, _by(_known(held))

    def _of_process(self, usage: StoreUsage) -> Levels:
        now = monotonic()
        yield metrics.BUILD, [((VERSION, usage.kind), 1)]
        yield metrics.RUNNING_LIMIT, [((), self._settings.max_running)]
        yield metrics.STREAMS, [((), self._slots.taken("stream"))]
        yield metrics.POLLS, [((), self._slots.taken("poll"))]
        yield metrics.WAITS, [((), self._slots.taken("wait"))]
        yield metrics.DUTY_AGE, [((duty.name,), now - duty.succeeded_at) for duty in self._duties]
        yield metrics.DUTY_EVERY, [((duty.name,), duty.every) for duty in self._duties]


def _of_usage(usage: StoreUsage) -> Levels:
    yield metrics.QUEUED, _by(usage.queues)
    yield metrics.CONNECTIONS, _by(usage.connections)
    for level, size in ((metrics.FILE_BYTES, usage.file_bytes), (metrics.LOG_BYTES, usage.log_bytes)):
        if size is not None:
            yield level, [((), size)]


def _of_backlog(backlog: Backlog) -> Levels:
    yield metrics.WAITING, _by(_known(backlog.waiting))
    yield metrics.SCHEDULED, _by(_known(backlog.scheduled))
    yield metrics.RUNNING, _by(_known(backlog.running))
    yield metrics.RETRYING, [((), backlog.retrying)]
    yield metrics.OVERDUE, [((), backlog.overdue)]
    yield metrics.OLDEST_WAITING, [((), _age(backlog.oldest_waiting_at, backlog.seen_at))]
    yield metrics.OLDEST_ATTEMPT, [((), _age(backlog.oldest_attempt_at, backlog.seen_at))]
    yield metrics.ORG_WAITING, _by(largest_counts(backlog.org_waiting))
    yield metrics.ORG_RUNNING, _by(largest_counts(backlog.org_running))


def _of_workers(workers: Sequence[WorkerStatus], now: Instant) -> Levels:
    states = collections.Counter(_state(worker, now) for worker in workers)
    live = [worker.report for worker in workers if worker.works(now)]
    yield metrics.WORKERS, [((state,), states[state]) for state in ("working", "stopping", "silent")]
    yield metrics.SLOTS, [((), sum(report.slots for report in live))]
    yield metrics.BUSY, [((), sum(report.busy for report in live))]


def _of_deliveries(figures: DeliveryStatistics, now: Instant) -> Levels:
    yield metrics.PENDING, [((channel,), figures.pending.get(channel, 0)) for channel in _OUTSIDE]
    yield metrics.OLDEST_DUE, [((), _age(figures.oldest_due, now))]
    stopped = {"paused": figures.paused_lanes, "disabled": figures.disabled_endpoints}
    yield metrics.ENDPOINTS, _by(stopped)


def _state(worker: WorkerStatus, now: Instant) -> str:
    if worker.silent(now):
        return "silent"
    return "stopping" if worker.report.stopping else "working"


def _known(counts: Mapping[str, int]) -> Mapping[str, int]:
    """Return counts by analysis, with 0 for each registered one without any."""
    found = collections.Counter(dict.fromkeys(metrics.known_analyses(), 0))
    for name, count in counts.items():
        found[analysis_label(name)] += count
    return found


def _by(counts: Mapping[str, int]) -> list[tuple[Labels, float]]:
    return [((name,), count) for name, count in counts.items()]


def _age(since: Instant | None, now: Instant) -> float:
    """Return the seconds since then, or 0 for none."""
    return 0.0 if since is None else max(0.0, seconds_between(since, now))
