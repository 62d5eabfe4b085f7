"""The reads of one org. The org is bound here, once, and goes into every query."""

from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import Any

import apsw

from langlauf.domain.delivery import Notification
from langlauf.domain.event import (
    FEED_OVERLAP,
    FEED_SCAN_LIMIT,
    FINAL_EVENTS,
    Event,
    FeedEvent,
    FeedPage,
    FeedPosition,
    FeedRequest,
)
from langlauf.domain.instant import Instant
from langlauf.domain.read_models import (
    EventLogPage,
    HistoryEntry,
    InboxPage,
    InboxRecord,
    JobFilter,
    JobView,
    Overview,
    PageOfJobs,
    PastRun,
    ResultView,
    StatusView,
)
from langlauf.domain.result import PayloadSource, Snapshot, StoredResult
from langlauf.domain.state import Status
from langlauf.store.blobs.large import LargePayloads
from langlauf.store.blobs.payloads import PayloadPieces
from langlauf.store.reads import (
    FEW,
    FIRST,
    LARGEST_SEARCHED,
    BaseTenantReads,
    Position,
    folded,
    inbox_page,
    merged,
    walk_jobs,
    wanted_status,
)
from langlauf.store.sql import event_from, json_text, view_from
from langlauf.store.sqlite.connection import RunRead
from langlauf.store.sqlite.overview import read_overview
from langlauf.store.sqlite.transaction import Row

#: Rows read at once, so that other reads run in between.
_KEYS_AT_ONCE = _JOBS_AT_ONCE = 1_000


class SqliteTenantReads(BaseTenantReads):
    """Reads of one org: records of other orgs do not exist here."""

    _of_endpoint = "read_deliveries_of_endpoint"

    def __init__(
        self,
        org_id: str,
        run: RunRead,
        queries: Mapping[str, str],
        blobs: LargePayloads,
        *,
        run_keyed: RunRead,
        run_long: RunRead,
    ) -> None:
        self._org_id = org_id
        self._run = run
        #: for a few rows by key
        self._run_keyed = run_keyed
        #: for slow reads
        self._run_long = run_long
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

    async def job(self, job_id: str) -> JobView | None:
        return await self._run_keyed(lambda connection: self._job(connection, job_id))

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
                    messages.append(InboxRecord(notification, view, bool(unread)))
            return inbox_page(messages, limit)

        return await self._run(read)

    async def _status_in_rows(self, job_id: str, *, events: int, inline_limit: int) -> StatusView | None:
        def read(connection: apsw.Connection) -> StatusView | None:
            rows = self._rows(connection, "read_status", job_id=job_id, limit=inline_limit)
            if not rows:
                return None
            latest = self._rows(connection, "read_latest_events", job_id=job_id, limit=events)
            *columns, result = rows[0]
            return StatusView(view_from(columns), [event_from(row) for row in reversed(latest)], result)

        return await self._run_keyed(read)

    async def log(self, job_id: str, *, after: int, limit: int, most_bytes: int) -> EventLogPage:
        def read(connection: apsw.Connection) -> EventLogPage:
            events, more = self._bounded_events(connection, job_id, after, limit, most_bytes)
            if events:
                return EventLogPage(events, more, over=not more and events[-1].event_type in FINAL_EVENTS)
            view = self._job(connection, job_id)
            over = view is None or view.job.terminal or view.job.events_expired_at is not None
            return EventLogPage([], more=False, over=over)

        return await self._run(read)

    def _bounded_events(
        self, connection: apsw.Connection, job_id: str, after: int, limit: int, most_bytes: int
    ) -> tuple[list[Event], bool]:
        """Return rows are read one by one: what is over the limits is not even fetched."""
        values = {"org_id": self._org_id, "job_id": job_id, "after": after, "limit": limit}
        events: list[Event] = []
        with closing(connection.execute(self._queries["read_events"], values)) as rows:
            for row in rows:
                events.append(event_from(row))
                most_bytes -= len(events[-1].payload_json)
                if most_bytes <= 0:
                    return events, True
        return events, len(events) == limit

    async def feed(self, request: FeedRequest) -> FeedPage:
        def read(connection: apsw.Connection) -> FeedPage:
            def look(query: str, **values: Any) -> apsw.Cursor:
                return connection.execute(self._queries[query], {"org_id": self._org_id, **values})

            return read_feed(look, request)

        return await self._run(read)

    async def _result_in_rows(self, result_id: str, *, latest: bool, payload: bool) -> ResultView | None:
        def read(connection: apsw.Connection) -> ResultView | None:
            rows = self._rows(connection, "read_snapshot", result_id=result_id, whole=payload and not latest)
            if not rows:
                return None
            requested = Snapshot(*rows[0][:-2])
            view = self._job(connection, requested.job_id)
            if view is None:
                return None
            if latest:
                rows = self._rows(connection, "read_newest_snapshot", job_id=requested.job_id, whole=payload)
            *columns, text, views = rows[0]
            delivered = StoredResult(snapshot=Snapshot(*columns), payload=text, views=views)
            return ResultView(view.job, requested, delivered)

        return await self._run(read)

    def _large(self, result_id: str, size: int) -> PayloadSource:
        return PayloadPieces(size, partial(self._piece, result_id))

    async def _piece(self, result_id: str, start: int, length: int) -> bytes | None:
        def read(connection: apsw.Connection) -> bytes | None:
            rows = self._rows(connection, "read_payload_row", result_id=result_id)
            if not rows:
                return None
            with closing(connection.blob_open("main", "result_rows", "payload", rows[0][0], False)) as blob:
                blob.seek(start)
                return blob.read(length)

        return await self._run_long(read)

    async def completed(self, analysis: str, *, before: Position | None, limit: int) -> list[PastRun]:
        found: list[PastRun] = []
        place: Position | None = before or FIRST
        walk = limit
        while place is not None and len(found) < limit:
            step = partial(self._completed, analysis=analysis, before=place, walk=walk, wanted=limit - len(found))
            some, place = await self._run(step)
            found += some
            walk = _JOBS_AT_ONCE
        return found

    def _completed(
        self, connection: apsw.Connection, *, analysis: str, before: Position, walk: int, wanted: int
    ) -> tuple[list[PastRun], Position | None]:
        """Return some of those that fit, and where the walk ended unless there is nothing behind."""
        place = {"before_at": before[0], "before_id": before[1]}
        walked = self._rows(connection, "walk_completed", analysis=analysis, walk=walk, **place)
        fitting = [job for job, _, _, fits in walked if fits][:wanted]
        rows = self._rows(connection, "read_completed", rows=json_text(fitting))
        return [PastRun(*row) for row in rows], walked[-1][1:3] if len(walked) == walk else None

    async def overview(self, *, since: Instant, most: int) -> Overview:
        def read(connection: apsw.Connection) -> Overview:
            return read_overview(partial(self._rows, connection), "read", since, most)

        return await self._run(read)


#: Runs a query by name and returns its cursor.
Look = Callable[..., Any]


def read_feed(look: Look, request: FeedRequest) -> FeedPage:
    """Return the next page of a feed. `run` executes a query of the org by name."""
    [(life, began_at)] = look("feed_home").fetchall()
    if request.latest:
        return FeedPage([], _end(look, life), more=False)
    events: list[FeedEvent] = []
    after, looked_at = request.after, 0
    mark = _start(request.after, life, began_at)
    with closing(look("read_feed", mark=mark, limit=FEED_SCAN_LIMIT)) as rows:
        for *columns, place_mark, result_id in rows:
            event = event_from(columns)
            after, looked_at = (
                FeedPosition(life, place_mark, event.occurred_at, event.job_id, event.event_seq),
                looked_at + 1,
            )
            if event.event_type in request.kinds:
                events.append(FeedEvent(event, after, result_id))
                if len(events) == request.limit:
                    return FeedPage(events, after, more=True)
    return FeedPage(events, after, more=looked_at == FEED_SCAN_LIMIT)


def _start(after: FeedPosition | None, life: str, began_at: int) -> int:
    """Return where the scan starts. A position of another store counts by its time, before all events made here."""
    if after is None:
        return -1
    return after.mark if after.life == life else min(after.at, began_at) - FEED_OVERLAP


def _end(look: Look, life: str) -> FeedPosition | None:
    """Return the position behind the last event; None where there is none."""
    rows = look("read_feed_end").fetchall()
    return FeedPosition(life, *rows[0]) if rows else None


def nearer_end(total: int, skipped: int, wanted: int) -> tuple[str, dict[str, int]]:
    """Return the query for a part of the history with the fewest steps: from its newest job, or from its oldest."""
    if skipped <= total // 2:
        return "walk_history", {"offset": skipped, "limit": wanted}
    behind = max(0, total - skipped - wanted)
    return "walk_history_back", {"offset": behind, "limit": max(0, total - skipped - behind)}


def _entry(row: Row) -> HistoryEntry:
    result_id, job_id, created_at, status, payload = row
    return HistoryEntry(result_id, job_id, created_at, Status(status), payload)
