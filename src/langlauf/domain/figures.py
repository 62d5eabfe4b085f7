"""Figures over a range of time, made from what a look over many jobs found. Pure: the same look gives the same figures.

Where more jobs ended than are read, a look does not reach over the whole range: then the figures count from where it
begins, and say so.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Literal

import msgspec

from langlauf.domain.instant import Instant, after, seconds_between
from langlauf.domain.overview import Ended, Overview, Queue, Underway
from langlauf.domain.periods import Period, Span, Times, percentiles, period_of, periods, runs, waits
from langlauf.domain.state import Status


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of an analysis, of an org, or all."""

    name: str
    waiting: int
    #: when the one was queued that waits longest
    oldest_at: Instant | None
    running: int
    #: wait for their next attempt
    retrying: int
    ended: int
    failed: int
    canceled: int
    wait: Times | None
    run: Times | None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """One way to fail: how often, and the latest that did."""

    code: str
    count: int
    job_id: str
    org_id: str
    analysis: str
    last_at: Instant
    #: how often in each period
    series: list[int]


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, at one moment."""

    at: Instant
    span: Span
    #: from here on all jobs that ended are counted
    since: Instant
    #: whether that is the whole range
    whole: bool
    total: Count
    periods: list[Period]
    analyses: list[Count]
    orgs: list[Count]
    #: whether queues were left out because there are too many of them
    queues_more: bool
    failures: list[Failure]
    #: those that were asked to stop and go on all the same, the longest first
    canceling: list[Underway]

    @property
    def minutes(self) -> float:
        """How long the time is that is counted over."""
        return max(seconds_between(self.since, self.at), 1.0) / 60


def figures(seen: Overview, span: Span, now: Instant, *, cancel_seconds: float) -> Figures:
    """The figures. `cancel_seconds` is how long stopping may take before it is worth a word."""
    since = seen.ended[-1].finished_at if seen.ended_more else after(now, -span.seconds)
    late = after(now, -cancel_seconds)
    canceling = [one for one in seen.underway if one.cancel_requested_at and one.cancel_requested_at < late]
    return Figures(
        at=now,
        span=span,
        since=since,
        whole=not seen.ended_more,
        total=_Tally(seen.ended, seen.queues, seen.underway).count(""),
        periods=periods(seen, span, now, since),
        analyses=_counts(seen, "analysis"),
        orgs=_counts(seen, "org_id"),
        queues_more=seen.queues_more,
        failures=_failures(seen.ended, span, now),
        canceling=sorted(canceling, key=lambda one: one.cancel_requested_at or 0),
    )


class _Tally:
    """What belongs to one name."""

    def __init__(self, ended: list[Ended], queues: list[Queue], underway: list[Underway]) -> None:
        self.ended = ended
        self.queues = queues
        self.underway = underway

    def count(self, name: str) -> Count:
        """All of it in figures."""
        ways = Counter(one.status for one in self.ended)
        held = sum(job.lease_until is not None for job in self.underway)
        return Count(
            name=name,
            waiting=sum(queue.waiting for queue in self.queues),
            oldest_at=min((queue.oldest_at for queue in self.queues if queue.oldest_at is not None), default=None),
            running=held,
            retrying=len(self.underway) - held,
            ended=len(self.ended),
            failed=ways[Status.FAILED],
            canceled=ways[Status.CANCELED],
            wait=percentiles(waits(self.ended)),
            run=percentiles(runs(self.ended)),
        )


def _counts(seen: Overview, key: Literal["analysis", "org_id"]) -> list[Count]:
    """By analysis or by org: first where a job waits longest, then by name."""
    tallies: defaultdict[str, _Tally] = defaultdict(lambda: _Tally([], [], []))
    for one in seen.ended:
        tallies[getattr(one, key)].ended.append(one)
    for queue in seen.queues:
        tallies[getattr(queue, key)].queues.append(queue)
    for job in seen.underway:
        tallies[getattr(job, key)].underway.append(job)
    counts = [tally.count(name) for name, tally in tallies.items()]
    return sorted(counts, key=lambda one: (one.oldest_at is None, one.oldest_at or 0, one.name))


def _failures(ended: Sequence[Ended], span: Span, now: Instant) -> list[Failure]:
    """By code, the most frequent first. The newest comes first in what is given, and is the example."""
    found: defaultdict[str, list[Ended]] = defaultdict(list)
    for one in ended:
        if one.error_code is not None and one.job_id is not None:
            found[one.error_code].append(one)
    failures = [_failure(code, them, span, now) for code, them in found.items()]
    return sorted(failures, key=lambda one: (-one.count, one.code))


def _failure(code: str, them: Sequence[Ended], span: Span, now: Instant) -> Failure:
    newest = them[0]
    when = Counter(period_of(one.finished_at, span, now) for one in them)
    return Failure(
        code=code,
        count=len(them),
        job_id=newest.job_id or "",
        org_id=newest.org_id,
        analysis=newest.analysis,
        last_at=newest.finished_at,
        series=[when[number] for number in range(span.periods)],
    )
