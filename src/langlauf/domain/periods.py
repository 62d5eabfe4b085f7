"""A range of time in equal parts, as charts show it, and what jobs did in each of them."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import accumulate

import msgspec

from langlauf.domain.instant import SECOND, Instant, after
from langlauf.domain.overview import Ended, Overview
from langlauf.domain.state import Status


class Span(StrEnum):
    """How far back to look."""

    QUARTER = "15m"
    HOUR = "1h"
    DAY = "24h"
    WEEK = "7d"

    @property
    def seconds(self) -> int:
        """Its length."""
        return _LENGTHS[self][0]

    @property
    def periods(self) -> int:
        """Into how many equal parts charts divide it."""
        return _LENGTHS[self][1]


_LENGTHS = {Span.QUARTER: (900, 30), Span.HOUR: (3_600, 30), Span.DAY: (86_400, 24), Span.WEEK: (604_800, 28)}


class Times(msgspec.Struct, frozen=True):
    """How long something took, in seconds: half of them less than `p50`, all but one in twenty less than `p95`."""

    p50: float
    p95: float


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the range. What is not known of it is None."""

    begins_at: Instant
    ended: int | None
    failed: int | None
    wait_p95: float | None
    run_p95: float | None
    #: how many waited when it ended
    waiting: int | None


def waits(ended: Iterable[Ended]) -> list[float]:
    """How long jobs waited for their first start, in seconds."""
    return [(one.started_at - one.queued_at) / SECOND for one in ended if one.started_at is not None]


def runs(ended: Iterable[Ended]) -> list[float]:
    """How long jobs took from their first start to their end, in seconds."""
    return [(one.finished_at - one.started_at) / SECOND for one in ended if one.started_at is not None]


def percentiles(seconds: Iterable[float]) -> Times | None:
    """By nearest rank: each is a value that was seen."""
    ranked = sorted(seconds)
    return Times(_at(ranked, 50), _at(ranked, 95)) if ranked else None


def _at(ranked: Sequence[float], percent: int) -> float:
    return ranked[-(-len(ranked) * percent // 100) - 1]


def period_of(instant: Instant, span: Span, now: Instant) -> int:
    """In which part of the range something was; the last one ends now."""
    from_begin = instant - after(now, -span.seconds)
    return max(0, min(span.periods - 1, from_begin * span.periods // (span.seconds * SECOND)))


def periods(seen: Overview, span: Span, now: Instant, since: Instant) -> list[Period]:
    """The parts, the oldest first. Of those that begin before `since` nothing is known."""
    edges = [after(now, -span.seconds + span.seconds * number / span.periods) for number in range(span.periods + 1)]
    ended: list[list[Ended]] = [[] for _ in range(span.periods)]
    for one in seen.ended:
        ended[period_of(one.finished_at, span, now)].append(one)
    waiting = _waiting(seen, edges[1:], since)
    return [
        _period(begin, them, waits_at_end) if begin >= since else _unknown(begin, waits_at_end)
        for begin, them, waits_at_end in zip(edges, ended, waiting, strict=False)
    ]


def _period(begin: Instant, ended: Sequence[Ended], waiting: int | None) -> Period:
    wait, run = percentiles(waits(ended)), percentiles(runs(ended))
    return Period(
        begins_at=begin,
        ended=len(ended),
        failed=sum(one.status == Status.FAILED for one in ended),
        wait_p95=wait.p95 if wait else None,
        run_p95=run.p95 if run else None,
        waiting=waiting,
    )


def _unknown(begin: Instant, waiting: int | None) -> Period:
    return Period(begins_at=begin, ended=None, failed=None, wait_p95=None, run_p95=None, waiting=waiting)


def _waiting(seen: Overview, moments: Sequence[Instant], since: Instant) -> list[int | None]:
    """How many waited at each moment, worked out from when jobs were queued and started.

    Whoever waited at a moment waits still, or has started or ended since, and so is in the look if that reaches back to
    the moment. Where it does not, nothing is said.
    """
    known = max(since, seen.queued[-1]) if seen.queued_more else since
    changes = [(one.queued_at, 1) for one in seen.ended]
    changes += [(one.finished_at if one.started_at is None else one.started_at, -1) for one in seen.ended]
    changes += [change for one in seen.underway for change in ((one.queued_at, 1), (one.started_at, -1))]
    changes += [(queued_at, 1) for queued_at in seen.queued]
    changes.sort()
    before = sum(queue.waiting for queue in seen.queues) - len(seen.queued)
    levels = list(accumulate((change for _, change in changes), initial=before))
    times = [at for at, _ in changes]
    return [max(0, levels[bisect_right(times, moment)]) if moment >= known else None for moment in moments]
