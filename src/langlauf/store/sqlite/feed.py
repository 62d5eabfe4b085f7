"""The feed of an org in a file: where it goes on, and the next part of it."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

from langlauf.domain.feed import MOST_LOOKED_AT, OVERLAP, FeedEvent, FeedPage, FeedRequest, Place
from langlauf.store.rows import event_from
from langlauf.store.sqlite.transaction import Row

#: Runs a query by its name; its rows can be fetched, and left.
Look = Callable[..., Any]


def read_feed(look: Look, wish: FeedRequest) -> FeedPage:
    """The next part of a feed. `look` runs a query of the org by its name."""
    [(life, began_at)] = look("feed_home").fetchall()
    if wish.latest:
        return FeedPage([], _end(look, life), more=False)
    events: list[FeedEvent] = []
    after, looked_at = wish.after, 0
    mark = _start(wish.after, life, began_at)
    with closing(look("read_feed", mark=mark, limit=MOST_LOOKED_AT)) as rows:
        for *columns, place_mark, result_id in rows:
            event = event_from(columns)
            after, looked_at = Place(life, place_mark, event.occurred_at, event.job_id, event.event_seq), looked_at + 1
            if event.event_type in wish.kinds:
                events.append(FeedEvent(event, after, result_id))
                if len(events) == wish.limit:
                    return FeedPage(events, after, more=True)
    return FeedPage(events, after, more=looked_at == MOST_LOOKED_AT)


def _start(after: Place | None, life: str, began_at: int) -> int:
    """What the walk begins behind. A place of another store is one in time; all that was made here came after it."""
    if after is None:
        return -1
    return after.mark if after.life == life else min(after.at, began_at) - OVERLAP


def _end(look: Look, life: str) -> Place | None:
    """Behind the last event; where there is none, whatever comes is new."""
    rows: list[Row] = look("read_feed_end").fetchall()
    return Place(life, *rows[0]) if rows else None
