"""The feed of an org in a database: where it goes on, and the next part of it."""

from collections.abc import Awaitable, Callable
from typing import Any

from langlauf.domain.feed import MOST_LOOKED_AT, OVERLAP, FeedEvent, FeedPage, FeedRequest, Place
from langlauf.store.rows import event_from

Rows = Callable[..., Awaitable[list[Any]]]
#: Before everything.
_START = Place("", 0, -1, "", 0)


async def read_feed(rows: Rows, wish: FeedRequest) -> FeedPage:
    """The next part of a feed. `rows` calls a function for the org."""
    if wish.latest:
        [(life, mark, at)] = await rows("read_feed_end")
        return FeedPage([], Place(life, mark, at, "", 0), more=False)
    after = wish.after or _START
    values = (after.life, after.mark, after.at, after.job_id, after.event_seq)
    [(life, found, results, mark, at, job_id, seq, more, held)] = await rows(
        "read_feed", *values, sorted(wish.kinds), MOST_LOOKED_AT, wish.limit, OVERLAP
    )
    events = [_feed_event(row, life, result_id) for row, result_id in zip(found, results, strict=True)]
    end = wish.after if mark is None else Place(life, mark, at, job_id, seq)
    return FeedPage(events, end, more=more, held=held)


def _feed_event(row: Any, life: str, result_id: str | None) -> FeedEvent:
    event, mark = event_from(row), row["feed_mark"] or 0
    return FeedEvent(event, Place(life, mark, event.occurred_at, event.job_id, event.event_seq), result_id)
