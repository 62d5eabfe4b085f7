"""Statistics for operators over a range of time, computed from an `Overview`. Pure: equal input gives equal output.

If more jobs ended than an overview holds, it does not cover the whole range: then the statistics start where it does,
and say so.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from langlauf.domain.instant import SECOND, Instant, after, seconds_between
from langlauf.domain.read_models import EndedJob, Overview, StartedJob
from langlauf.domain.state import Status


class TimeRange(StrEnum):
    """A range of time up to now."""

    QUARTER = "15m"
    HOUR = "1h"
    DAY = "24h"
    WEEK = "7d"

    @property
    def seconds(self) -> int:
        """Return its length."""
        return _LENGTHS[self][0]

    @property
    def periods(self) -> int:
        """Return the number of equal parts in charts."""
        return _LENGTHS[self][1]


_LENGTHS = {
    TimeRange.QUARTER: (900, 30),
    TimeRange.HOUR: (3_600, 30),
    TimeRange.DAY: (86_400, 24),
    TimeRange.WEEK: (604_800, 28),
}


class Percentiles(msgspec.Struct, frozen=True):
    """The median and the 95th percentile of durations, in seconds."""

    p50: float
    p95: float


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the range. Unknown values are None."""

    begins_at: Instant
    ended: int | None
    failed: int | None
    wait_p95: float | None
    run_p95: float | None
    #: how many jobs waited at its end
    waiting: int | None


def percentiles(microseconds: Iterable[int]) -> Percentiles | None:
    """Return percentiles by nearest rank, or None without values."""
    ranked = sorted(microseconds)
    return Percentiles(_at(ranked, 50), _at(ranked, 95)) if ranked else None


def _at(ranked: Sequence[int], percent: int) -> float:
    return ranked[-(-len(ranked) * percent // 100) - 1] / SECOND


def period_edges(span: TimeRange, now: Instant) -> list[Instant]:
    """Return the starts of all parts, and the end of the last one: now."""
    return [after(now, span.seconds * (number / span.periods - 1)) for number in range(span.periods + 1)]


def period_of(instant: Instant, begins: Sequence[Instant]) -> int:
    """Return the part of the range that a time is in; a time outside is in the nearest part."""
    return min(max(bisect_right(begins, instant), 1), len(begins) - 1) - 1


def waiting_at(seen: Overview, moments: Sequence[Instant], since: Instant) -> list[int | None]:
    """Return how many jobs waited at each time, computed from when jobs were queued and started.

    A job that waited at a time still waits, or has started or ended since: so it is in the overview if that reaches
    back far enough. If not, the value is None.
    """
    known = max(since, seen.queued[-1]) if seen.queued_more else since
    came = [one.queued_at for one in seen.ended] + [one.queued_at for one in seen.underway] + seen.queued
    left = [one.finished_at if one.started_at is None else one.started_at for one in seen.ended]
    left += [one.started_at for one in seen.underway]
    came.sort()
    left.sort()
    before = sum(queue.waiting for queue in seen.queues) - len(seen.queued)
    return [
        max(0, before + bisect_right(came, moment) - bisect_right(left, moment)) if moment >= known else None
        for moment in moments
    ]


class JobCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the jobs of an analysis, of an org, or of all."""

    name: str
    waiting: int
    #: when the longest waiting job was queued
    oldest_at: Instant | None
    running: int
    #: waiting for their next attempt
    retrying: int
    ended: int
    failed: int
    canceled: int
    wait: Percentiles | None
    run: Percentiles | None


class FailureCount(msgspec.Struct, frozen=True, kw_only=True):
    """Failures with one code: their number, and the latest."""

    code: str
    count: int
    job_id: str
    org_id: str
    analysis: str
    last_at: Instant
    #: number per period
    series: list[int]


class OpsStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """All statistics at one time."""

    at: Instant
    span: TimeRange
    #: all jobs that ended since then are counted
    since: Instant
    #: whether that is the whole range
    whole: bool
    total: JobCounts
    periods: list[Period]
    analyses: list[JobCounts]
    orgs: list[JobCounts]
    #: whether queues were left out because there are too many
    queues_more: bool
    failures: list[FailureCount]
    #: jobs that were to be canceled and still run, the longest first
    canceling: list[StartedJob]

    @property
    def minutes(self) -> float:
        """Return the minutes that are counted."""
        return max(seconds_between(self.since, self.at), 1.0) / 60


class _Tally:
    """Counts under one name, or in one part of the range."""

    def __init__(self) -> None:
        self.statuses: list[str] = []
        #: from queued to the first start, and from there to the end, in microseconds
        self.waits: list[int] = []
        self.runs: list[int] = []
        self.waiting = 0
        self.oldest_at: Instant | None = None
        self.running = 0
        self.retrying = 0

    def count(self, name: str) -> JobCounts:
        """Return the counts."""
        return JobCounts(
            name=name,
            waiting=self.waiting,
            oldest_at=self.oldest_at,
            running=self.running,
            retrying=self.retrying,
            ended=len(self.statuses),
            failed=self.statuses.count(Status.FAILED),
            canceled=self.statuses.count(Status.CANCELED),
            wait=percentiles(self.waits),
            run=percentiles(self.runs),
        )


class _Tallies:
    """All counts by analysis, org and period, made in one pass."""

    def __init__(self, seen: Overview, begins: Sequence[Instant]) -> None:
        self.total = _Tally()
        self.analyses: defaultdict[str, _Tally] = defaultdict(_Tally)
        self.orgs: defaultdict[str, _Tally] = defaultdict(_Tally)
        self.periods: defaultdict[int, _Tally] = defaultdict(_Tally)
        for one in seen.ended:
            self._add_ended(one, period_of(one.finished_at, begins))
        for queue in seen.queues:
            for tally in self._of(queue.analysis, queue.org_id):
                tally.waiting += queue.waiting
                tally.oldest_at = min(tally.oldest_at or begins[-1], queue.oldest_at or begins[-1])
        for job in seen.underway:
            for tally in self._of(job.analysis, job.org_id):
                tally.running += job.lease_until is not None
                tally.retrying += job.lease_until is None

    def _of(self, analysis: str, org_id: str) -> tuple[_Tally, ...]:
        return self.total, self.analyses[analysis], self.orgs[org_id]

    def _add_ended(self, one: EndedJob, period: int) -> None:
        org_id, analysis, status, queued_at, started_at, finished_at, *_ = one
        for tally in (self.total, self.analyses[analysis], self.orgs[org_id], self.periods[period]):
            tally.statuses.append(status)
            if started_at is not None:
                tally.waits.append(started_at - queued_at)
                tally.runs.append(finished_at - started_at)


def ops_statistics(seen: Overview, span: TimeRange, now: Instant, *, cancel_seconds: float) -> OpsStatistics:
    """Compute the statistics. `cancel_seconds` is how long a cancel may take before it is reported."""
    since = seen.ended[-1].finished_at if seen.ended_more else after(now, -span.seconds)
    begins = period_edges(span, now)
    tallies = _Tallies(seen, begins)
    late = after(now, -cancel_seconds)
    canceling = [one for one in seen.underway if one.cancel_requested_at and one.cancel_requested_at < late]
    return OpsStatistics(
        at=now,
        span=span,
        since=since,
        whole=not seen.ended_more,
        total=tallies.total.count(""),
        periods=_periods(tallies.periods, seen, begins, since),
        analyses=_counts(tallies.analyses),
        orgs=_counts(tallies.orgs),
        queues_more=seen.queues_more,
        failures=_failures(seen.ended, begins),
        canceling=sorted(canceling, key=lambda one: one.cancel_requested_at or 0),
    )


def _counts(tallies: Mapping[str, _Tally]) -> list[JobCounts]:
    """Return the counts with the longest waiting job first, then by name."""
    counts = [tally.count(name) for name, tally in tallies.items()]
    return sorted(counts, key=lambda one: (one.oldest_at is None, one.oldest_at or 0, one.name))


def _periods(tallies: Mapping[int, _Tally], seen: Overview, begins: Sequence[Instant], since: Instant) -> list[Period]:
    """Return the parts of the range, the oldest first. Those before `since` are unknown."""
    waiting = waiting_at(seen, begins[1:], since)
    return [
        _period(begin, tallies.get(number, _Tally()), waiting[number], known=begin >= since)
        for number, begin in enumerate(begins[:-1])
    ]


def _period(begin: Instant, tally: _Tally, waiting: int | None, *, known: bool) -> Period:
    if not known:
        return Period(begins_at=begin, ended=None, failed=None, wait_p95=None, run_p95=None, waiting=waiting)
    count = tally.count("")
    return Period(
        begins_at=begin,
        ended=count.ended,
        failed=count.failed,
        wait_p95=count.wait.p95 if count.wait else None,
        run_p95=count.run.p95 if count.run else None,
        waiting=waiting,
    )


def _failures(ended: Sequence[EndedJob], begins: Sequence[Instant]) -> list[FailureCount]:
    """Return failures by code, the most frequent first. Jobs are given newest first; the newest is the example."""
    found: defaultdict[str, list[EndedJob]] = defaultdict(list)
    for one in ended:
        if one.error_code is not None and one.job_id is not None:
            found[one.error_code].append(one)
    failures = [_failure(code, them, begins) for code, them in found.items()]
    return sorted(failures, key=lambda one: (-one.count, one.code))


def _failure(code: str, them: Sequence[EndedJob], begins: Sequence[Instant]) -> FailureCount:
    newest = them[0]
    when = Counter(period_of(one.finished_at, begins) for one in them)
    return FailureCount(
        code=code,
        count=len(them),
        job_id=newest.job_id or "",
        org_id=newest.org_id,
        analysis=newest.analysis,
        last_at=newest.finished_at,
        series=[when[number] for number in range(len(begins) - 1)],
    )
