"""Lists in bounded steps: however few jobs fit a filter, nobody waits long behind whoever looks for them."""

from collections.abc import Awaitable, Callable

from langlauf.domain.instant import Instant
from langlauf.domain.views import HistoryEntry, JobFilter, JobPage, JobView

#: A position in a list that goes from the newest to the oldest.
Position = tuple[Instant, str]
#: Looks at so many jobs before a position: some of those that fit, and where it ended unless there is nothing behind.
JobStep = Callable[[Position, int, int], Awaitable[tuple[list[JobView], Position | None]]]
#: The same for a history, where so many are skipped; it also counts those that fit.
HistoryStep = Callable[[Position, int, int, int], Awaitable[tuple[list[HistoryEntry], int, Position | None]]]
#: The first page starts before the end of time: one condition for all pages, so that the index leads to each.
FIRST: Position = (2**62, "")
#: A list looks at so many jobs, then the others who read have their turn.
_ROWS_AT_ONCE = 1_000
_ROWS_OF_TEXT = 100
#: After so many turns a page is given out as it is, with where to go on.
_WALKS_PER_PAGE = 20


async def walk_jobs(which: JobFilter, step: JobStep) -> JobPage:
    """A page of an org's jobs."""
    filtered = which.status or which.analysis or which.text
    rows = (_ROWS_OF_TEXT if which.text else _ROWS_AT_ONCE) if filtered else which.limit + 1
    views: list[JobView] = []
    before = which.before or FIRST
    for _ in range(_WALKS_PER_PAGE):
        found, end = await step(before, rows, which.limit + 1 - len(views))
        views += found
        if len(views) > which.limit:
            last = views[which.limit - 1].job
            return JobPage(views[: which.limit], (last.queued_at, last.job_id))
        if end is None:
            return JobPage(views, None)
        before = end
    return JobPage(views, before)


async def walk_history(limit: int, offset: int, step: HistoryStep) -> tuple[list[HistoryEntry], int]:
    """Some lines of an org's history, and how many there are."""
    entries: list[HistoryEntry] = []
    total, before = 0, FIRST
    while True:
        found, count, end = await step(before, _ROWS_AT_ONCE, max(0, offset - total), limit - len(entries))
        entries += found
        total += count
        if end is None:
            return entries, total
        before = end
