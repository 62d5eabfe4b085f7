"""Estimates of the remaining time of a run, and the load of the queue that estimates of waiting times need."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

from langlauf.domain.instant import Instant, seconds_between
from langlauf.domain.job import DEFAULT_RETRY_AFTER, JobRecord, PriorityClass

SHORTEST_POLL = 1
LONGEST_POLL = 30
#: A finished job changes only when retention takes its parts.
POLL_WHEN_DONE = 60
SHORTEST_RETRY = 1
LONGEST_RETRY = 300
#: Progress over a shorter time tells nothing: many a run jumps ahead when it has read its input.
_SHORTEST_MEASURE = 1.0
#: With so many percent made in its own time, a run is estimated by its own pace alone.
_ENOUGH_PERCENT = 20
#: A run that takes longer than expected is given this share of the time since its last progress, and so on.
_OVERDUE_SHARE = 0.1
#: From a run that made less than this in its own time one cannot tell how long a whole one takes.
_LEAST_OF_A_WHOLE = 50


#: A range is told from so many steps over so many seconds on, and from the latest of them alone.
_LEAST_STEPS, _LEAST_SECONDS, _LATEST_STEPS = 5, 10.0, 20
#: No estimate is surer than this share of itself; one that is less sure than by this factor is not told.
_LEAST_DOUBT, _WIDEST = 0.15, 3.0


class ProgressStep(msgspec.Struct, frozen=True):
    """A moment at which an attempt said how far it is."""

    at: Instant
    percent: int


class RemainingRange(msgspec.Struct, frozen=True):
    """How long it probably still takes, from and to, in seconds; and from how many steps that is known."""

    low: float
    high: float
    steps: int


class RunProgress(msgspec.Struct, frozen=True):
    """An attempt under way, as far as estimates need it. The last three are of this attempt alone."""

    org_id: str
    analysis: str
    started_at: Instant
    percent: int
    #: from where on its progress was made in its own time; no instant where it has not got beyond an earlier attempt
    paced_percent: int
    paced_at: Instant | None
    progress_at: Instant | None


def run_progress(job: JobRecord) -> RunProgress:
    """The current attempt of a job that has started."""
    return RunProgress(
        job.org_id,
        job.analysis,
        job.attempt_started_at or job.queued_at,
        job.progress_percent,
        job.paced_percent,
        job.paced_at,
        job.progress_at,
    )


def remaining_seconds(run: RunProgress, now: Instant, typical: float | None) -> float | None:
    """How long the run probably still takes; None where nothing is known. Never nothing at all while it goes on."""
    by_pace, by_others = _by_pace(run, now), _by_others(run, now, typical)
    if by_pace is None and by_others is None:
        by_pace = _by_time(run, now)
    if by_pace is None and by_others is None:
        return None
    if by_pace is None or by_others is None:
        expected = by_others if by_pace is None else by_pace
    else:
        trust = min(1.0, (run.percent - run.paced_percent) / _ENOUGH_PERCENT)
        expected = trust * by_pace + (1 - trust) * by_others
    overdue = _OVERDUE_SHARE * _since(run.progress_at or run.started_at, now)
    return round(max(expected or 0.0, overdue), 1)


def _by_pace(run: RunProgress, now: Instant) -> float | None:
    """As if it went on as quickly as it did so far."""
    made = run.percent - run.paced_percent
    if run.paced_at is None or run.progress_at is None or made <= 0:
        return None
    took = seconds_between(run.paced_at, run.progress_at)
    if took < _SHORTEST_MEASURE:
        return None
    return took * (100 - run.percent) / made - _since(run.progress_at, now)


def _by_time(run: RunProgress, now: Instant) -> float | None:
    """Where nothing better is known: as if all of the time so far had gone into what was made."""
    made = run.percent - run.paced_percent
    return None if run.paced_at is None or made <= 0 else _since(run.paced_at, now) * (100 - run.percent) / made


def _by_others(run: RunProgress, now: Instant, typical: float | None) -> float | None:
    """As if it took as long as the runs before it. What it did not have to compute, it has gained."""
    if typical is None:
        return None
    if run.paced_at is None:
        return typical - _since(run.started_at, now)
    return typical * (100 - run.paced_percent) / 100 - _since(run.paced_at, now)


def _since(start: Instant, now: Instant) -> float:
    return max(0.0, seconds_between(start, now))


def remaining_range(steps: Sequence[ProgressStep], now: Instant) -> RemainingRange | None:
    """How long a run probably still takes, by the pace of its own latest steps; None where that would be a guess.

    Nothing is told before there are some steps over some time, nor where the steps were so uneven that the range would
    be too wide. The time since the last step is gone: it is taken off, not averaged in. A run that should have ended by
    now is not told of either.
    """
    rises = _rises(steps)[-_LATEST_STEPS - 1 :]
    if len(rises) <= _LEAST_STEPS or seconds_between(rises[0].at, rises[-1].at) < _LEAST_SECONDS:
        return None
    paces = [seconds_between(one.at, two.at) / (two.percent - one.percent) for one, two in pairwise(rises)]
    left = 100 - rises[-1].percent
    pace = seconds_between(rises[0].at, rises[-1].at) / (rises[-1].percent - rises[0].percent)
    doubt = max(_LEAST_DOUBT, _doubt(paces, pace))
    if doubt >= 1 or (1 + doubt) / (1 - doubt) > _WIDEST:
        return None
    gone = _since(rises[-1].at, now)
    low, high = pace * left * (1 - doubt) - gone, pace * left * (1 + doubt) - gone
    return RemainingRange(max(0.0, low), high, len(paces)) if high > 0 else None


def _rises(steps: Sequence[ProgressStep]) -> list[ProgressStep]:
    """The steps at which it got further."""
    rises: list[ProgressStep] = []
    for step in steps:
        if not rises or step.percent > rises[-1].percent:
            rises.append(step)
    return rises


def _doubt(paces: Sequence[float], pace: float) -> float:
    """How far off a mean of so many paces may be: twice its standard error, as a share of it."""
    variance = sum((one - pace) ** 2 for one in paces) / (len(paces) - 1)
    return 2 * math.sqrt(variance / len(paces)) / pace if pace > 0 else 1.0


def full_run_seconds(paced_percent: int, paced_at: Instant | None, end: Instant) -> float | None:
    """How long a run would have taken that computed everything itself; None where this one did too little of it."""
    made = 100 - paced_percent
    if paced_at is None or made < _LEAST_OF_A_WHOLE:
        return None
    return seconds_between(paced_at, end) * 100 / made


def poll_seconds(job: JobRecord, remaining: float | None) -> int:
    """Whole seconds a client should wait before it asks again."""
    if job.terminal:
        return POLL_WHEN_DONE
    if remaining is None:
        return SHORTEST_POLL
    return max(SHORTEST_POLL, min(LONGEST_POLL, math.ceil(remaining / 4)))


def retry_after_seconds(until_room: float | None) -> int:
    """Whole seconds after which a refused submission is worth another try."""
    if until_room is None:
        return DEFAULT_RETRY_AFTER
    return max(SHORTEST_RETRY, min(LONGEST_RETRY, math.ceil(until_room)))


class Lane(msgspec.Struct, frozen=True):
    """The waiting jobs of one org and analysis, and the turn of that org."""

    org_id: str
    analysis: str
    waiting: int
    virtual_start: int


class QueueLoad(msgspec.Struct, frozen=True):
    """All that waits and runs, at one moment: over the whole deployment."""

    seen_at: Instant
    lanes: Sequence[Lane]
    runs: Sequence[RunProgress]
    #: what a run of an analysis took lately, in seconds
    paces: Mapping[str, float]
    virtual_now: int


class TicketRange(msgspec.Struct, frozen=True):
    """The waiting jobs of one org, analysis and class: the first and the last, and how many wait in their lane."""

    analysis: str
    priority_class: PriorityClass
    lane_waiting: int
    first_ticket: int
    last_ticket: int
    first_at: Instant
    last_at: Instant


class RunningLimits(msgspec.Struct, frozen=True):
    """How many jobs run at once."""

    slots: int
    per_org: int | None
    per_analysis: Mapping[str, int]


def jobs_ahead(job: JobRecord, ranks: Sequence[TicketRange]) -> dict[str, float]:
    """How many jobs of its org start before a waiting one, by analysis. Without a ticket it is behind all of its class.

    Tickets are not given out again: where jobs were canceled, those that wait are taken to be spread evenly. The ranks
    may be a little older than the job: where its own is not there yet, tickets have begun with 1.
    """
    tickets: defaultdict[str, int] = defaultdict(int)
    for rank in ranks:
        tickets[rank.analysis] += rank.last_ticket - rank.first_ticket + 1
    before: defaultdict[str, float] = defaultdict(float)
    for rank in ranks:
        density = min(1.0, rank.lane_waiting / max(tickets[rank.analysis], 1))
        before[rank.analysis] += density * _tickets_before(job, rank)
    if not any((rank.analysis, rank.priority_class) == (job.analysis, job.priority_class) for rank in ranks):
        before[job.analysis] += max(0, job.ticket - 1)
    return dict(before)


def _tickets_before(job: JobRecord, rank: TicketRange) -> float:
    tickets = rank.last_ticket - rank.first_ticket + 1
    if rank.priority_class != job.priority_class:
        return tickets if rank.priority_class == "expedite" else 0
    if rank.analysis == job.analysis:
        return tickets if job.ticket == 0 else max(0, job.ticket - rank.first_ticket)
    if job.queued_at >= rank.last_at:
        return tickets
    return tickets * max(0, job.queued_at - rank.first_at) / max(1, rank.last_at - rank.first_at)
