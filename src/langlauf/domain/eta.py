"""Estimates of the remaining time of a run, and the load of the queue that estimates of waiting times need."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

from langlauf.domain.event import EventType
from langlauf.domain.instant import Instant, seconds_between
from langlauf.domain.job import DEFAULT_RETRY_AFTER, JobRecord, PriorityClass

SHORTEST_POLL = 1
LONGEST_POLL = 30
#: A finished job changes only when retention removes parts of it.
POLL_WHEN_DONE = 60
SHORTEST_RETRY = 1
LONGEST_RETRY = 300
#: Progress over a shorter time is no measure: many runs jump ahead after reading their input.
_SHORTEST_MEASURE = 1.0
#: With this much percent of its own, a run is estimated by its own pace only.
_ENOUGH_PERCENT = 20
#: An overdue run is given this share of the time since its last progress, again and again.
_OVERDUE_SHARE = 0.1
#: A run with less percent of its own does not show how long a whole run takes.
_LEAST_OF_A_WHOLE = 50


#: A range needs this many steps over this many seconds, and uses the latest steps only.
_LEAST_STEPS, _LEAST_SECONDS, _LATEST_STEPS = 5, 10.0, 20
#: Longer ranges are told in minutes, and in hours.
_MAX_IN_SECONDS, _MAX_IN_MINUTES = 100, 120 * 60
#: The least relative error that is assumed, and the widest ratio of a range that is shown.
_LEAST_DOUBT, _WIDEST = 0.15, 3.0


class ProgressStep(msgspec.Struct, frozen=True):
    """Progress that an attempt reported, and when."""

    at: Instant
    percent: int


class RemainingRange(msgspec.Struct, frozen=True):
    """The probable remaining seconds, from and to, and the number of steps behind the estimate."""

    low: float
    high: float
    steps: int

    @property
    def rounded(self) -> tuple[int, int, str]:
        """From and to in a fitting unit, rounded outwards."""
        if self.high < _MAX_IN_SECONDS:
            size, unit, per = 10, "s", 10
        elif self.high < _MAX_IN_MINUTES:
            size, unit, per = 1, "min", 60
        else:
            size, unit, per = 1, "h", 3_600
        return math.floor(self.low / per) * size, math.ceil(self.high / per) * size, unit


class RunProgress(msgspec.Struct, frozen=True):
    """A running attempt, as estimates need it. The last three fields are of this attempt only."""

    org_id: str
    analysis: str
    started_at: Instant
    percent: int
    #: where its own progress starts; no time if it is not beyond an earlier attempt yet
    paced_percent: int
    paced_at: Instant | None
    progress_at: Instant | None


def run_progress(job: JobRecord) -> RunProgress:
    """Return the current attempt of a job that has started."""
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
    """Return the probable remaining seconds of a run, or None if nothing is known. Never 0 while it runs."""
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
    """Estimate by the pace so far."""
    made = run.percent - run.paced_percent
    if run.paced_at is None or run.progress_at is None or made <= 0:
        return None
    took = seconds_between(run.paced_at, run.progress_at)
    if took < _SHORTEST_MEASURE:
        return None
    return took * (100 - run.percent) / made - _since(run.progress_at, now)


def _by_time(run: RunProgress, now: Instant) -> float | None:
    """Estimate as if all time so far had gone into the progress made, if nothing better is known."""
    made = run.percent - run.paced_percent
    return None if run.paced_at is None or made <= 0 else _since(run.paced_at, now) * (100 - run.percent) / made


def _by_others(run: RunProgress, now: Instant, typical: float | None) -> float | None:
    """Estimate by the duration of earlier runs, minus what this one did not have to compute."""
    if typical is None:
        return None
    if run.paced_at is None:
        return typical - _since(run.started_at, now)
    return typical * (100 - run.paced_percent) / 100 - _since(run.paced_at, now)


def _since(start: Instant, now: Instant) -> float:
    return max(0.0, seconds_between(start, now))


_ATTEMPT_STARTS = frozenset({EventType.RUNNING, EventType.ATTEMPT_STARTED})
_PROGRESS_EVENTS = frozenset({EventType.PROGRESS, EventType.PARTIAL})


def progress_steps(log: Iterable[tuple[str, Instant, Mapping[str, object]]]) -> list[ProgressStep]:
    """Return the progress steps of the current attempt from the kind, time and payload of a job's events.

    Those of earlier attempts are left out.
    """
    steps: list[ProgressStep] = []
    for kind, at, payload in log:
        if kind in _ATTEMPT_STARTS:
            steps = []
        elif kind in _PROGRESS_EVENTS and isinstance(percent := payload.get("progress_percent"), int):
            steps.append(ProgressStep(at, percent))
    return steps


def remaining_range(steps: Sequence[ProgressStep], now: Instant) -> RemainingRange | None:
    """Return the probable remaining time by the pace of the latest steps, or None if it would be a guess.

    There must be enough steps over enough time, and they must be even enough for a useful range. The time since the
    last step is subtracted, not averaged in. There is no range for a run that should have ended by now.
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
    """Return the steps at which the percent rose."""
    rises: list[ProgressStep] = []
    for step in steps:
        if not rises or step.percent > rises[-1].percent:
            rises.append(step)
    return rises


def _doubt(paces: Sequence[float], pace: float) -> float:
    """Return the relative error of a mean pace: twice its standard error."""
    variance = sum((one - pace) ** 2 for one in paces) / (len(paces) - 1)
    return 2 * math.sqrt(variance / len(paces)) / pace if pace > 0 else 1.0


def full_run_seconds(paced_percent: int, paced_at: Instant | None, end: Instant) -> float | None:
    """Return how long a run takes that computes everything, or None if this one computed too little of it."""
    made = 100 - paced_percent
    if paced_at is None or made < _LEAST_OF_A_WHOLE:
        return None
    return seconds_between(paced_at, end) * 100 / made


def poll_seconds(job: JobRecord, remaining: float | None) -> int:
    """Return the whole seconds that a client should wait before the next poll."""
    if job.terminal:
        return POLL_WHEN_DONE
    if remaining is None:
        return SHORTEST_POLL
    return max(SHORTEST_POLL, min(LONGEST_POLL, math.ceil(remaining / 4)))


def retry_after_seconds(until_room: float | None) -> int:
    """Return the whole seconds after which a refused submission should be retried."""
    if until_room is None:
        return DEFAULT_RETRY_AFTER
    return max(SHORTEST_RETRY, min(LONGEST_RETRY, math.ceil(until_room)))


class Lane(msgspec.Struct, frozen=True):
    """The waiting jobs of one org and analysis, and the org's turn."""

    org_id: str
    analysis: str
    waiting: int
    virtual_start: int


class QueueLoad(msgspec.Struct, frozen=True):
    """All waiting and running jobs of the deployment at one moment."""

    seen_at: Instant
    lanes: Sequence[Lane]
    runs: Sequence[RunProgress]
    #: recent duration of a run, in seconds, by analysis
    paces: Mapping[str, float]
    virtual_now: int


class TicketRange(msgspec.Struct, frozen=True):
    """The waiting jobs of one org, analysis and class: first and last ticket, and the length of their lane."""

    analysis: str
    priority_class: PriorityClass
    lane_waiting: int
    first_ticket: int
    last_ticket: int
    first_at: Instant
    last_at: Instant


class RunningLimits(msgspec.Struct, frozen=True):
    """How many jobs may run at once."""

    slots: int
    per_org: int | None
    per_analysis: Mapping[str, int]


def jobs_ahead(job: JobRecord, ranks: Sequence[TicketRange]) -> dict[str, float]:
    """Return how many jobs of its org start before a waiting one, by analysis.

    Without a ticket in line it is last of its class. Tickets are not reused: after cancels, waiting jobs are assumed
    to be spread evenly. The ranges may be slightly older than the job: if its own is missing, tickets start at 1.
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
        return tickets if job.ticket <= 0 else max(0, job.ticket - rank.first_ticket)
    if job.queued_at >= rank.last_at:
        return tickets
    return tickets * max(0, job.queued_at - rank.first_at) / max(1, rank.last_at - rank.first_at)
