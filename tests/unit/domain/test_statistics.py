"""Figures: what a look found, counted; and honest about what it did not reach."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from langlauf.domain.instant import SECOND, after
from langlauf.domain.read_models import EMPTY_OVERVIEW, EndedJob, Overview, StartedJob, WaitingJobs, truncated_overview
from langlauf.domain.statistics import (
    OpsStatistics,
    Percentiles,
    TimeRange,
    ops_statistics,
    percentiles,
    period_edges,
    period_of,
    waiting_at,
)

NOW = 1_770_000_000_000_000


def ended(ago: float, *, wait: float = 2.0, run: float = 10.0, status: str = "completed", **changes: Any) -> EndedJob:
    """A job that ended so many seconds ago."""
    finished_at = after(NOW, -ago)
    started_at = after(finished_at, -run)
    failed = status == "failed"
    values = {
        "org_id": "org-a",
        "analysis": "survey",
        "status": status,
        "queued_at": after(started_at, -wait),
        "started_at": started_at,
        "finished_at": finished_at,
        "error_code": "timeout" if failed else None,
        "job_id": f"job-{ago:g}" if failed else None,
    }
    return EndedJob(**{**values, **changes})


def underway(ago: float, **changes: Any) -> StartedJob:
    """A job that started so many seconds ago, and was queued two seconds before."""
    values = {
        "org_id": "org-a",
        "job_id": "job",
        "analysis": "survey",
        "queued_at": after(NOW, -ago - 2),
        "started_at": after(NOW, -ago),
        "cancel_requested_at": None,
        "next_attempt_at": None,
        "lease_until": after(NOW, 10),
    }
    return StartedJob(**{**values, **changes})


def look(*jobs: EndedJob, most: int = 100, **parts: Any) -> Overview:
    """What a store would give."""
    newest = sorted(jobs, key=lambda one: -one.finished_at)
    return truncated_overview(newest, parts.get("queued", []), parts.get("queues", []), parts.get("underway", []), most)


def made(seen: Overview, span: TimeRange = TimeRange.QUARTER) -> OpsStatistics:
    """The figures of a look."""
    return ops_statistics(seen, span, NOW, cancel_seconds=60.0)


def test_jobs_are_counted_by_analysis_and_by_org() -> None:
    """Each once in every table; what failed, what was canceled, what waits and runs."""
    seen = made(
        look(
            ended(1),
            ended(2, status="failed"),
            ended(3, analysis="route", org_id="org-b"),
            ended(4, status="canceled", started_at=None),
            queues=[WaitingJobs("org-b", "route", 7, after(NOW, -40))],
            underway=[underway(5), underway(6, lease_until=None, next_attempt_at=after(NOW, 30))],
        )
    )
    total = seen.total
    assert (total.ended, total.failed, total.canceled, total.waiting, total.running, total.retrying) == (
        4,
        1,
        1,
        7,
        1,
        1,
    )
    assert [(one.name, one.ended, one.failed, one.waiting) for one in seen.analyses] == [
        ("route", 1, 0, 7),  # where a job waits longest comes first
        ("survey", 3, 1, 0),
    ]
    assert [(one.name, one.ended, one.running) for one in seen.orgs] == [("org-b", 1, 0), ("org-a", 3, 1)]
    assert seen.orgs[0].oldest_at == after(NOW, -40)
    assert total.wait == Percentiles(2.0, 2.0)
    assert total.run == Percentiles(10.0, 10.0)
    assert made(EMPTY_OVERVIEW).total.wait is None


def test_failures_are_by_code_with_the_latest_as_example() -> None:
    """The most frequent first."""
    jobs = [ended(ago, status="failed") for ago in (30, 10, 20)]
    seen = made(look(*jobs, ended(5, status="failed", error_code="internal")))
    assert [(one.code, one.count, one.job_id) for one in seen.failures] == [
        ("timeout", 3, "job-10"),
        ("internal", 1, "job-5"),
    ]
    assert [sum(one.series) for one in seen.failures] == [3, 1]


def test_statistics_start_where_the_overview_does() -> None:
    """Counting begins with the oldest that was read, and charts have a gap before it."""
    jobs = [ended(ago) for ago in range(5, 900, 10)]
    whole = made(look(*jobs))
    assert whole.whole
    assert whole.since == after(NOW, -900)
    assert [period.ended for period in whole.periods] == [3] * 30
    part = made(look(*jobs, most=30))
    assert not part.whole
    assert part.since == after(NOW, -295)
    assert part.minutes == 295 / 60
    known = [period.ended for period in part.periods if period.ended is not None]
    assert known == [3] * 9
    assert [period.ended for period in part.periods[:21]] == [None] * 21


def test_jobs_that_ignore_a_cancel_are_listed() -> None:
    """After a minute; the longest first."""
    asked = [underway(900, job_id=str(ago), cancel_requested_at=after(NOW, -ago)) for ago in (59, 61, 300)]
    assert [one.job_id for one in made(look(underway=asked)).canceling] == ["300", "61"]


@given(st.lists(st.integers(0, 10**9), min_size=1))
def test_percentiles_are_observed_values(values: list[int]) -> None:
    """At least so many in a hundred are no longer."""
    times = percentiles(values)
    assert times is not None
    for percent, seconds in ((50, times.p50), (95, times.p95)):
        found = round(seconds * SECOND)
        assert found in values
        assert sum(value <= found for value in values) >= len(values) * percent / 100
        assert sum(value < found for value in values) < len(values) * percent / 100


@given(st.sampled_from(TimeRange), st.integers(0, 604_800 * SECOND))
def test_every_time_is_in_one_period(span: TimeRange, ago: int) -> None:
    """Within its edges where it is in the range, else in the first."""
    begins = period_edges(span, NOW)
    assert len(begins) == span.periods + 1
    assert all(one < other for one, other in pairwise(begins))
    number = period_of(NOW - ago, begins)
    if 0 < ago <= span.seconds * SECOND:
        assert begins[number] <= NOW - ago < begins[number + 1]
    else:
        assert number == (span.periods - 1 if ago == 0 else 0)


_TIMES = st.lists(st.integers(1, 900), max_size=20)


@given(
    st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 400), st.integers(1, 400), st.booleans()), max_size=30),
    _TIMES,
    st.lists(st.tuples(st.integers(1, 500), st.integers(0, 400)), max_size=10),
)
def test_waiting_jobs_are_computed_for_past_times(
    past: list[tuple[int, int, int, bool]], waiting: list[int], running: list[tuple[int, int]]
) -> None:
    """The same as counting, at each moment, who was queued and had not started."""
    jobs = [ended(ago, wait=wait, run=run) for ago, wait, run, _ in past]
    # Some were canceled before they started: they waited until their end.
    jobs = [job._replace(started_at=None) if gone else job for job, (*_, gone) in zip(jobs, past, strict=True)]
    jobs = [job for job in jobs if job.finished_at > after(NOW, -900)]
    held = [underway(ago, queued_at=after(NOW, -ago - wait)) for ago, wait in running]
    queued = sorted((after(NOW, -ago) for ago in waiting), reverse=True)
    queues = [WaitingJobs("org-a", "survey", len(queued) + 2, None)]  # two wait since before the range
    moments = period_edges(TimeRange.QUARTER, NOW)[1:]
    spans = [(job.queued_at, job.started_at or job.finished_at) for job in jobs]
    spans += [(job.queued_at, job.started_at) for job in held]
    counted = [
        2 + sum(at <= moment for at in queued) + sum(begin <= moment < end for begin, end in spans)
        for moment in moments
    ]
    seen = look(*jobs, queued=queued, queues=queues, underway=held, most=1_000)
    assert waiting_at(seen, moments, after(NOW, -900)) == counted


def test_with_too_many_waiting_jobs_the_past_is_unknown() -> None:
    """Only from the oldest on that was read."""
    queued = [after(NOW, -ago) for ago in range(1, 102)]
    seen = look(queued=queued, queues=[WaitingJobs("org-a", "survey", 5_000, None)])
    assert seen.queued_more
    levels = waiting_at(seen, period_edges(TimeRange.QUARTER, NOW)[1:], after(NOW, -900))
    assert levels[:26] == [None] * 26
    assert levels[-1] == 5_000
