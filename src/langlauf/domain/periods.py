"""A range of time in equal parts, as charts show it, and what jobs did in each of them."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from langlauf.domain.instant import SECOND, Instant, after
from langlauf.domain.overview import Overview


class TimeRange(StrEnum):
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


_LENGTHS = {
    TimeRange.QUARTER: (900, 30),
    TimeRange.HOUR: (3_600, 30),
    TimeRange.DAY: (86_400, 24),
    TimeRange.WEEK: (604_800, 28),
}


class Percentiles(msgspec.Struct, frozen=True):
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


def percentiles(microseconds: Iterable[int]) -> Percentiles | None:
    """By nearest rank: each is a value that was seen."""
    ranked = sorted(microseconds)
    return Percentiles(_at(ranked, 50), _at(ranked, 95)) if ranked else None


def _at(ranked: Sequence[int], percent: int) -> float:
    return ranked[-(-len(ranked) * percent // 100) - 1] / SECOND


def period_edges(span: TimeRange, now: Instant) -> list[Instant]:
    """Where the parts begin, and where the last one ends: now."""
    return [after(now, span.seconds * (number / span.periods - 1)) for number in range(span.periods + 1)]


def period_of(instant: Instant, begins: Sequence[Instant]) -> int:
    """In which part of the range something was; what is not in it counts to the part that is nearest."""
    return min(max(bisect_right(begins, instant), 1), len(begins) - 1) - 1


def waiting_at(seen: Overview, moments: Sequence[Instant], since: Instant) -> list[int | None]:
    """How many waited at each moment, worked out from when jobs were queued and started.

    Whoever waited at a moment waits still, or has started or ended since, and so is in the look if that reaches back to
    the moment. Where it does not, nothing is said.
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
