"""The lists of one org. The org is bound here, once, and goes into every call."""

from typing import Any

from langlauf.domain.inbox import InboxPage, Message
from langlauf.domain.notification import Notification
from langlauf.domain.state import Status
from langlauf.domain.views import HistoryEntry, JobFilter, JobPage, JobView
from langlauf.store.bounded_scan import (
    FEW,
    FIRST,
    LARGEST_SEARCHED,
    Position,
    folded,
    inbox_page,
    walk_jobs,
    wanted_status,
)
from langlauf.store.postgres.links import Links
from langlauf.store.postgres.texts import holdable, name_of
from langlauf.store.reads import SharedReads
from langlauf.store.rows import view_from_database


class PostgresLists(SharedReads):
    """Everything here belongs to one org; anything else does not exist."""

    def __init__(self, org_id: str, links: Links) -> None:
        self._org_id = org_id
        self._links = links

    async def _rows(self, function: str, *values: Any) -> list[Any]:
        """The choke point: no read of a tenant runs without its org."""
        return await self._links.rows(function, self._org_id, *map(_askable, values))

    async def _ask(self, query: str, /, **values: Any) -> list[Any]:
        asked = [list(filter(holdable, value)) if isinstance(value, list) else value for value in values.values()]
        if not all(holdable(value) for value in asked if isinstance(value, str)):
            return []
        return await self._links.rows(query, self._org_id, *asked)

    def _view(self, row: Any) -> JobView:
        return view_from_database(row)

    async def jobs(self, which: JobFilter) -> JobPage:
        text = folded(which.text) if which.text else None
        if not all(map(holdable, filter(None, (text, which.analysis, which.error_code)))):
            return JobPage([], None)
        status = wanted_status(which)
        few = None if status is None else await self._links.call("read_few", self._org_id, status, FEW)
        filters = (few, status, which.analysis, which.error_code, text, LARGEST_SEARCHED, which.since or 0)

        async def step(before: Position, rows: int, wanted: int) -> tuple[list[JobView], Position | None]:
            [(views, end_at, end_id)] = await self._rows("read_jobs", *filters, *before, rows, wanted)
            return [view_from_database(row) for row in views], None if end_at is None else (end_at, end_id)

        return await walk_jobs(which, step)

    async def counts(self, *, most: int) -> dict[Status, int]:
        rows = await self._rows("read_counts", most)
        return {Status(status): counted for status, counted in rows if counted}

    async def history(self, *, limit: int, offset: int) -> tuple[list[HistoryEntry], int]:
        [(page, total)] = await self._rows("read_history", offset, limit)
        entries = [
            HistoryEntry(result_id, job_id, created_at, Status(status), payload)
            for result_id, job_id, created_at, status, payload in page
        ]
        return entries, total

    async def inbox(self, *, before: Position | None, limit: int) -> InboxPage:
        rows = await self._rows("read_inbox", *(before or FIRST), limit + 1)
        messages = [Message(Notification(*message), view_from_database(view), unread) for message, view, unread in rows]
        return inbox_page(messages, limit)


def _askable(value: Any) -> Any:
    return name_of(value) if isinstance(value, str) else value
