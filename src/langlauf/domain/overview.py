"""What a store reports about many jobs at once: the input of statistics, and the backlog for metrics."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from langlauf.domain.instant import Instant


class EndedJob(NamedTuple):
    """An ended job. A plain tuple, as there are many."""

    org_id: str
    analysis: str
    status: str
    queued_at: Instant
    started_at: Instant | None
    finished_at: Instant
    error_code: str | None
    #: of a failed one, as an example for people
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
    #: when its lease ends
    lease_until: Instant | None


class Overview(msgspec.Struct, frozen=True):
    """What a store found. If there was more than requested, the newest are here, and `…_more` says so."""

    ended: list[EndedJob]
    ended_more: bool
    #: when the waiting jobs were queued, newest first, since the requested time
    queued: list[Instant]
    queued_more: bool
    queues: list[WaitingJobs]
    queues_more: bool
    underway: list[StartedJob]
    underway_more: bool


#: The most queues (org and analysis with waiting jobs) that are read.
MOST_QUEUES = 5_000
EMPTY_OVERVIEW = Overview([], False, [], False, [], False, [], False)


def truncated_overview(
    ended: list[EndedJob], queued: list[Instant], queues: list[WaitingJobs], underway: list[StartedJob], most: int
) -> Overview:
    """Return an overview of lists that were read with one item more than requested, which is cut off."""
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


#: The most jobs waiting for their next attempt that are counted.
MOST_RETRYING = 10_000
#: The most orgs that have a label of their own.
MOST_NAMED_ORGS = 20
OTHER_ORGS = "other"


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting and running jobs of the whole deployment."""

    seen_at: Instant
    #: by analysis
    waiting: Mapping[str, int]
    scheduled: Mapping[str, int]
    running: Mapping[str, int]
    #: started jobs waiting for their next attempt, counted up to `MOST_RETRYING`
    retrying: int
    oldest_waiting_at: Instant | None
    oldest_attempt_at: Instant | None
    #: expired leases that are not swept yet
    overdue: int
    #: by org, only if requested
    org_waiting: Mapping[str, int] = {}
    org_running: Mapping[str, int] = {}


class StoreUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The resources of a store in this process, cheap to read."""

    kind: str
    #: operations waiting for the next batch, by queue
    queues: Mapping[str, int]
    #: of SQLite
    file_bytes: int | None = None
    log_bytes: int | None = None
    #: of PostgreSQL, by state
    connections: Mapping[str, int] = {}


def largest_counts(counts: Mapping[str, int], most: int = MOST_NAMED_ORGS) -> dict[str, int]:
    """Return the largest counts by name, and the sum of the others as one."""
    order = sorted((name for name in counts if name != OTHER_ORGS), key=lambda name: (-counts[name], name))
    named = {name: counts[name] for name in order[:most]}
    rest = sum(counts.values()) - sum(named.values())
    return {**named, OTHER_ORGS: rest} if rest else named
