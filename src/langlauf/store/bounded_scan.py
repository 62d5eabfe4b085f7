"""Lists in bounded steps: a page takes a bounded time and blocks other reads briefly, however few jobs match."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from langlauf.clock import monotonic
from langlauf.domain.instant import Instant
from langlauf.domain.read_models import InboxPage, InboxRecord, JobFilter, JobView, PageOfJobs
from langlauf.domain.state import Status

#: A position in a list that goes from the newest to the oldest.
Position = tuple[Instant, str]
#: Scans so many jobs before a position; returns some that match, and where it ended unless the list ended.
JobStep = Callable[[Position, int, int], Awaitable[tuple[list[JobView], Position | None]]]
#: The first page starts at the end of time, so that one condition and one index serve all pages.
FIRST: Position = (2**62, "")
#: A list scans so many jobs at once, so that other reads run in between. The first step is small: most filters are
#: answered by it.
_FIRST_ROWS = 200
_ROWS_AT_ONCE = 1_000
_ROWS_OF_TEXT = 200
#: After so many jobs, or so many seconds, a page is returned as it is, with the position to continue from.
MOST_LOOKED_AT = 20_000
_PATIENCE = 0.15
#: A state with no more jobs than that in an org needs no scan: all of them are read.
FEW = 1_000
#: In bytes; larger inputs are not searched, since lower-casing many of them takes long.
LARGEST_SEARCHED = 65_536
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


def folded(text: str) -> str:
    """Return a text to search for, with ASCII letters in lower case: the databases agree about those."""
    return text.translate(_LOWER)


def wanted_status(which: JobFilter) -> Status | None:
    """Return the state that a filter asks for; a code of an error asks for failed jobs."""
    return Status.FAILED if which.error_code is not None and which.status is None else which.status


async def walk_jobs(which: JobFilter, step: JobStep, *, patience: float = _PATIENCE) -> PageOfJobs:
    """Return a page of an org's jobs."""
    views: list[JobView] = []
    before, looked_at, until = which.before or FIRST, 0, monotonic() + patience
    for rows in _steps(which):
        found, end = await step(before, rows, which.limit + 1 - len(views))
        views += found
        looked_at += rows
        if len(views) > which.limit:
            last = views[which.limit - 1].job
            return PageOfJobs(views[: which.limit], (last.queued_at, last.job_id))
        if end is None:
            return PageOfJobs(views, None)
        before = end
        if looked_at >= MOST_LOOKED_AT or monotonic() >= until:
            break
    return PageOfJobs(views, before, looked_at)


def _steps(which: JobFilter) -> Iterator[int]:
    """Yield how many jobs each step scans."""
    if not (which.status or which.analysis or which.error_code or which.text):
        yield which.limit + 1
    yield _FIRST_ROWS
    while True:
        yield _ROWS_OF_TEXT if which.text else _ROWS_AT_ONCE


#: Counting unread messages skips at most so many read ones for each.
_SEEN_PER_UNREAD = 10
#: Letters of an error message that lists show: enough for its cause.
LONGEST_MESSAGE = 300


def merged(unfinished: Sequence[Any], finished: Sequence[Any]) -> list[Any]:
    """Return rows of a history, newest first: (what it is found by, when it was accepted, job id)."""
    return sorted([*unfinished, *finished], key=lambda row: (row[1], row[2]), reverse=True)


def inbox_page(messages: list[InboxRecord], limit: int) -> InboxPage:
    """Return a page of messages, of which one more than fits was read."""
    if len(messages) <= limit:
        return InboxPage(messages, None)
    last = messages[limit - 1].notification
    return InboxPage(messages[:limit], (last.created_at, last.notification_id))


def unread_walk(most: int) -> int:
    """Return how many messages are scanned to find so many unread ones."""
    return most * _SEEN_PER_UNREAD
