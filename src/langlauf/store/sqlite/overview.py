"""The looks that figures are made of: each a walk along an index, and no longer than it was asked for."""

from typing import Literal, Protocol

from langlauf.domain.instant import Instant
from langlauf.domain.overview import MOST_QUEUES, Ended, Overview, Queue, Underway, overview_of
from langlauf.store.sqlite.transaction import Row


class Rows(Protocol):
    """Runs a query by name."""

    def __call__(self, query: str, /, *, since: Instant, most: int) -> list[Row]: ...


def look(rows: Rows, whose: Literal["read", "all"], since: Instant, most: int) -> Overview:
    """Looks over the jobs of one org, by the queries for that, or of all."""
    queues = rows(f"{whose}_queues", since=since, most=MOST_QUEUES + 1)
    return overview_of(
        [Ended(*row) for row in rows(f"{whose}_ended", since=since, most=most + 1)],
        [queued_at for (queued_at,) in rows(f"{whose}_queued", since=since, most=most + 1)],
        [Queue(org, analysis, waiting, _first(heads)) for org, analysis, waiting, *heads in queues],
        [Underway(*row) for row in rows(f"{whose}_underway", since=since, most=most + 1)],
        most,
    )


def _first(heads: list[Instant | None]) -> Instant | None:
    """Of the oldest of each class, the oldest."""
    return min((head for head in heads if head is not None), default=None)
