"""What waits and runs, as estimates see it, and the place of a job among those of its org."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from langlauf.domain.eta import RunProgress
from langlauf.domain.instant import Instant
from langlauf.domain.job import JobRecord, PriorityClass


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
