"""The looks that figures are made of: each a walk along an index, and no longer than it was asked for."""

from collections.abc import Iterator
from heapq import merge
from itertools import islice, takewhile
from typing import Literal, Protocol

from langlauf.domain.instant import Instant
from langlauf.domain.overview import MOST_QUEUES, EndedJob, Overview, StartedJob, WaitingJobs, truncated_overview
from langlauf.store.sqlite.transaction import Row

Whose = Literal["read", "all"]
#: So many of a lane are read at once at the most; the first time one, since most lanes have none among the newest.
_AT_ONCE = 256


class Rows(Protocol):
    """Runs a query by name."""

    def __call__(self, query: str, /, **values: int) -> list[Row]: ...


def look(rows: Rows, whose: Whose, since: Instant, most: int) -> Overview:
    """Looks over the jobs of one org, by the queries for that, or of all."""
    queues = rows(f"{whose}_queues", since=since, most=MOST_QUEUES + 1)
    return truncated_overview(
        [EndedJob(*row) for row in rows(f"{whose}_ended", since=since, most=most + 1)],
        _queued(rows, whose, since, most + 1),
        [WaitingJobs(org, analysis, waiting, _first(heads)) for org, analysis, waiting, *heads in queues],
        [StartedJob(*row) for row in rows(f"{whose}_underway", since=since, most=most + 1)],
        most,
    )


def _queued(rows: Rows, whose: Whose, since: Instant, most: int) -> list[Instant]:
    """When the newest of those that wait were queued: all lanes from their ends on, however many wait before."""
    tails = rows(f"{whose}_tails", since=since, most=2 * MOST_QUEUES)
    newest = merge(*(_lane(rows, whose, tail) for tail in tails), reverse=True)
    return list(islice(takewhile(lambda queued_at: queued_at >= since, newest), most))


def _lane(rows: Rows, whose: Whose, tail: Row) -> Iterator[Instant]:
    """Those of a lane and class, the last one first."""
    org, analysis, expedite, behind = tail
    most = 1
    while found := rows(f"{whose}_waiting", org=org, analysis=analysis, expedite=expedite, behind=behind, most=most):
        for _, queued_at in found:
            yield queued_at
        behind = found[-1][0]
        most = min(_AT_ONCE, most * 2)


def _first(heads: list[Instant | None]) -> Instant | None:
    """Of the oldest of each class, the oldest."""
    return min((head for head in heads if head is not None), default=None)
