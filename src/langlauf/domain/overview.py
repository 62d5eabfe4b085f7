"""What a look over many jobs finds, as the store has it: the raw material of figures."""

from typing import NamedTuple

import msgspec

from langlauf.domain.instant import Instant


class EndedJob(NamedTuple):
    """A job that ended. Plain tuples: there are many of them."""

    org_id: str
    analysis: str
    status: str
    queued_at: Instant
    started_at: Instant | None
    finished_at: Instant
    error_code: str | None
    #: of one that failed, so that people can look at an example
    job_id: str | None


class WaitingJobs(NamedTuple):
    """The waiting jobs of one org and analysis."""

    org_id: str
    analysis: str
    waiting: int
    oldest_at: Instant | None


class StartedJob(NamedTuple):
    """A job that has started and not ended: a worker holds it, or it waits for its next attempt."""

    org_id: str
    job_id: str
    analysis: str
    queued_at: Instant
    started_at: Instant
    cancel_requested_at: Instant | None
    next_attempt_at: Instant | None
    #: until when a worker holds it
    lease_until: Instant | None


class Overview(msgspec.Struct, frozen=True):
    """What was found. Where there was more than was asked for, the newest are here, and `…_more` says so."""

    ended: list[EndedJob]
    ended_more: bool
    #: when the jobs were queued that wait now, the newest first; only those since the time that was asked for
    queued: list[Instant]
    queued_more: bool
    queues: list[WaitingJobs]
    queues_more: bool
    underway: list[StartedJob]
    underway_more: bool


#: Of queues, one per org and analysis that has something waiting, no more are looked at.
MOST_QUEUES = 5_000
EMPTY_OVERVIEW = Overview([], False, [], False, [], False, [], False)


def truncated_overview(
    ended: list[EndedJob], queued: list[Instant], queues: list[WaitingJobs], underway: list[StartedJob], most: int
) -> Overview:
    """What was found, each list asked for with one more than is wanted: where that is there, it is cut off."""
    return Overview(
        ended[:most],
        len(ended) > most,
        queued[:most],
        len(queued) > most,
        queues[:MOST_QUEUES],
        len(queues) > MOST_QUEUES,
        underway[:most],
        len(underway) > most,
    )
