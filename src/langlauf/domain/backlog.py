"""What there is to do and what a store has in hand, as metrics tell it: figures at one moment."""

from collections.abc import Mapping

import msgspec

from langlauf.domain.instant import Instant

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
