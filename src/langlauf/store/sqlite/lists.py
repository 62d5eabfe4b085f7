"""The lists of one org. The org is bound here, once, and goes into every query."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

import apsw

from langlauf.domain.delivery import Notification
from langlauf.domain.read_models import HistoryEntry, InboxMessage, InboxPage, JobFilter, JobView, PageOfJobs
from langlauf.domain.state import Status
from langlauf.store.blobs.large import LargePayloads
from langlauf.store.bounded_scan import (
    FEW,
    FIRST,
    LARGEST_SEARCHED,
    Position,
    folded,
    inbox_page,
    merged,
    walk_jobs,
    wanted_status,
)
from langlauf.store.reads import SharedReads
from langlauf.store.rows import json_text, view_from
from langlauf.store.sqlite.transaction import Row

T = TypeVar("T")


class RunRead(Protocol):
    """Runs a function on the connection for reads."""

    def __call__(self, read: Callable[[apsw.Connection], T], /) -> Awaitable[T]: ...


class SqliteLists(SharedReads):
    """Reads of one org: records of other orgs do not exist here."""

    def __init__(
        self,
        org_id: str,
        run: RunRead,
        queries: Mapping[str, str],
        blobs: LargePayloads,
        *,
        run_long: RunRead | None = None,
    ) -> None:
        self._org_id = org_id
        self._run = run
        #: for slow reads
        self._run_long = run_long or run
        self._queries = queries
        self._blobs = blobs

    def _rows(self, connection: apsw.Connection, query: str, /, **values: Any) -> list[Row]:
        """Return the choke point: no query of a tenant runs without its org."""
        return connection.execute(self._queries[query], {"org_id": self._org_id, **values}).fetchall()

    async def _ask(self, query: str, /, **values: Any) -> list[Any]:
        values = {name: json_text(value) if isinstance(value, list) else value for name, value in values.items()}
        return await self._run(lambda connection: self._rows(connection, query, **values))

    def _view(self, row: Any) -> JobView:
        return view_from(row)

    def _job(self, connection: apsw.Connection, job_id: str) -> JobView | None:
        rows = self._rows(connection, "read_job", job_id=job_id)
        return view_from(rows[0]) if rows else None

    async def jobs(self, which: JobFilter) -> PageOfJobs:
        path = await self._run(partial(self._path, status=wanted_status(which)))

        async def step(before: Position, rows: int, wanted: int) -> tuple[list[JobView], Position | None]:
            return await self._run(partial(self._walk, path=path, which=which, before=before, rows=rows, wanted=wanted))

        return await walk_jobs(which, step)

    def _path(self, connection: apsw.Connection, status: Status | None) -> str:
        """Return the index along which jobs in a state are found soonest."""
        if status is None:
            return "walk_jobs"
        if self._rows(connection, "count_status", status=status, most=FEW + 1)[0][0] <= FEW:
            return "walk_few"
        return "walk_failed" if status is Status.FAILED else "walk_jobs"

    def _walk(
        self, connection: apsw.Connection, path: str, which: JobFilter, before: Position, rows: int, wanted: int
    ) -> tuple[list[JobView], Position | None]:
        status = wanted_status(which)
        place = {"before_at": before[0], "before_id": before[1], "since": which.since or 0}
        walked = self._rows(connection, path, walk=rows, status=status, **place)
        found = self._rows(
            connection,
            "read_walked",
            rows=json_text([row for row, _, _ in walked]),
            status=status,
            analysis=which.analysis,
            error_code=which.error_code,
            text=folded(which.text) if which.text else None,
            largest=LARGEST_SEARCHED,
            limit=wanted,
        )
        end = walked[-1][1:] if path != "walk_few" and len(walked) == rows else None
        return [view_from(row) for row in found], end

    async def counts(self, *, most: int) -> dict[Status, int]:
        def read(connection: apsw.Connection) -> dict[Status, int]:
            counted = {one: self._rows(connection, "count_status", status=one, most=most)[0][0] for one in Status}
            return {status: number for status, number in counted.items() if number}

        return await self._run(read)

    async def history(self, *, limit: int, offset: int) -> tuple[list[HistoryEntry], int]:
        def read(connection: apsw.Connection) -> tuple[list[HistoryEntry], int]:
            unfinished = self._rows(connection, "walk_unfinished")
            ended = self._rows(connection, "count_history")[0][0]
            skipped = max(0, offset - len(unfinished))
            way, place = nearer_end(ended, skipped, offset - skipped + limit)
            finished = self._rows(connection, way, **place)
            page = merged(unfinished, finished)[offset - skipped :][:limit]
            found = self._rows(connection, "read_history", rows=json_text([row for row, _, _ in page]))
            return [_entry(row) for row in found], ended + len(unfinished)

        return await self._run(read)

    async def inbox(self, *, before: Position | None, limit: int) -> InboxPage:
        before_at, before_id = before or FIRST

        def read(connection: apsw.Connection) -> InboxPage:
            values = {"before_at": before_at, "before_id": before_id, "limit": limit + 1}
            messages = []
            for *columns, unread in self._rows(connection, "read_inbox", **values):
                notification = Notification(*columns)
                view = self._job(connection, notification.job_id)
                if view is not None:
                    messages.append(InboxMessage(notification, view, bool(unread)))
            return inbox_page(messages, limit)

        return await self._run(read)


def nearer_end(total: int, skipped: int, wanted: int) -> tuple[str, dict[str, int]]:
    """Return the query for a part of the history with the fewest steps: from its newest job, or from its oldest."""
    if skipped <= total // 2:
        return "walk_history", {"offset": skipped, "limit": wanted}
    behind = max(0, total - skipped - wanted)
    return "walk_history_back", {"offset": behind, "limit": max(0, total - skipped - behind)}


def _entry(row: Row) -> HistoryEntry:
    result_id, job_id, created_at, status, payload = row
    return HistoryEntry(result_id, job_id, created_at, Status(status), payload)
