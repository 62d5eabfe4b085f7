"""What a store reports about many jobs at once: the input of statistics, and the backlog for metrics."""

from collections.abc import Mapping
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


#: Of jobs that wait for their next attempt no more are counted.
MOST_RETRYING = 10_000
#: So many orgs are told by name.
MOST_NAMED_ORGS = 20
OTHER_ORGS = "other"


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """What waits and runs, over the whole deployment."""

    seen_at: Instant
    #: by analysis
    waiting: Mapping[str, int]
    running: Mapping[str, int]
    #: jobs that have started and wait for their next attempt, counted no further than `MOST_RETRYING`
    retrying: int
    oldest_waiting_at: Instant | None
    oldest_attempt_at: Instant | None
    #: leases that have ended and are not swept
    overdue: int
    #: by org, only where that was asked for
    org_waiting: Mapping[str, int] = {}
    org_running: Mapping[str, int] = {}


class StoreUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What a store has in hand in this process; it costs nothing to ask."""

    kind: str
    #: operations that wait for the next batch, by queue
    queues: Mapping[str, int]
    #: of a file
    file_bytes: int | None = None
    log_bytes: int | None = None
    #: of a database, by state
    connections: Mapping[str, int] = {}


def largest_counts(counts: Mapping[str, int], most: int = MOST_NAMED_ORGS) -> dict[str, int]:
    """The largest by name and all others as one, with the one that bears their name."""
    order = sorted((name for name in counts if name != OTHER_ORGS), key=lambda name: (-counts[name], name))
    named = {name: counts[name] for name in order[:most]}
    rest = sum(counts.values()) - sum(named.values())
    return {**named, OTHER_ORGS: rest} if rest else named
