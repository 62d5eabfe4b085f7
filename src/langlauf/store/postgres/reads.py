"""The reads of one org in PostgreSQL. The org is bound here, once, and passed to every function."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from langlauf.domain.delivery import Notification
from langlauf.domain.errors import PayloadGone, StoreUnavailable
from langlauf.domain.event import (
    FEED_OVERLAP,
    FEED_SCAN_LIMIT,
    FINAL_EVENTS,
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
from langlauf.store.blobs.payloads import PIECE
from langlauf.store.group_commit import MOST_WAITING, GroupCommit
from langlauf.store.postgres.batch import storable, storable_or_none
from langlauf.store.postgres.connection import CALL_TIMEOUT, ReadPool
from langlauf.store.postgres.overview import read_overview
from langlauf.store.reads import (
    FEW,
    FIRST,
    LARGEST_SEARCHED,
    BaseTenantReads,
    Position,
    folded,
    inbox_page,
    walk_jobs,
    wanted_status,
)
from langlauf.store.sql import event_from, view_from_database, view_reader

#: The start of a feed.
_FEED_START = FeedPosition("", 0, -1, "", 0)
#: Large payloads fetched at the same time; the other connections are for small reads.
_LARGE_FETCHES = 2
#: With results of the largest size that a status contains, a call takes some ten milliseconds.
_STATUSES_PER_CALL = 32
#: As long as other reads may wait for a connection and for their answer.
_LONGEST_WAIT = 2 * CALL_TIMEOUT


class CachedPayload:
    """The bytes of one payload, kept while a response reads it."""

    def __init__(self, fetch: Callable[[], Awaitable[bytes | None]], limit: asyncio.Semaphore) -> None:
        self._fetch = fetch
        self._limit = limit
        self._lock = asyncio.Lock()
        self._data: bytes | None = None

    async def data(self) -> bytes:
        """Return all of it; concurrent callers share one fetch."""
        async with self._lock:
            if self._data is None:
                async with self._limit:
                    self._data = await self._fetch()
            if self._data is None:
                raise PayloadGone("a payload was removed before it was read")
            return self._data


class PayloadCache:
    """Large payloads while they are read, fetched whole: for a part of a large text the database unpacks all of it."""

    def __init__(self) -> None:
        self._payloads: WeakValueDictionary[tuple[str, str], CachedPayload] = WeakValueDictionary()
        self._limit = asyncio.Semaphore(_LARGE_FETCHES)

    def get(self, org_id: str, result_id: str, fetch: Callable[[], Awaitable[bytes | None]]) -> CachedPayload:
        """Return the payload that other responses read already, or a new one, fetched on its first read."""
        return self._payloads.setdefault((org_id, result_id), CachedPayload(fetch, self._limit))


class SharedPayload:
    """A payload source over a cached payload."""

    def __init__(self, size: int, share: Hashable, payload: CachedPayload) -> None:
        self.size = self.holds = size
        self.whole: bytes | None = None
        self.share: Hashable | None = share
        self._payload = payload

    async def read(self, start: int) -> bytes | memoryview:
        return memoryview(await self._payload.data())[start : start + PIECE]


class StatusRequest(NamedTuple):
    """A job of one org that is polled."""

    org_id: str
    job_id: str
    events: int
    inline_limit: int


class StatusReads:
    """Status reads that arrive while others run, together in one call; each job is read as its own org."""

    def __init__(self, pool: ReadPool) -> None:
        self._pool = pool
        self.queue: GroupCommit[StatusRequest, StatusView | None] = GroupCommit(
            self._read, name="langlauf-statuses", largest=_STATUSES_PER_CALL, holder=lambda request: request.org_id
        )
        #: until when each read is answered, the oldest first: one timer for all of them
        self._until: dict[asyncio.Future[StatusView | None], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def read(self, request: StatusRequest) -> StatusView | None:
        """Return the status of a job, or None; refused where it takes too long, or too many wait."""
        if self.queue.waiting >= MOST_WAITING:
            raise _busy()
        answer = self.queue.do(request)
        loop = answer.get_loop()
        self._until[answer] = until = loop.time() + _LONGEST_WAIT
        if self._timer is None:
            self._timer = loop.call_at(until, self._refuse_late)
        try:
            return await answer
        finally:
            del self._until[answer]

    def _refuse_late(self) -> None:
        """Refuse the reads that have waited too long, and come back when the next one has."""
        self._timer = None
        loop = asyncio.get_running_loop()
        for answer, until in self._until.items():
            if until > loop.time():
                self._timer = loop.call_at(until, self._refuse_late)
                return
            if not answer.done():
                answer.set_exception(_busy())

    async def _read(self, batch: Sequence[StatusRequest]) -> list[StatusView | Exception | None]:
        orgs, ids, events, limits = zip(*batch, strict=True)
        rows = await self._pool.rows(
            "read_statuses", list(orgs), list(map(storable_or_none, ids)), list(events), list(limits)
        )
        found: list[StatusView | Exception | None] = [None] * len(batch)
        view_of = view_reader(rows[0]["view"]) if rows else view_from_database
        for place, view, latest, result in rows:
            try:
                log = [event_from(row) for row in reversed(latest)]
                found[place - 1] = StatusView(view_of(view), log, result)
            except Exception as error:  # noqa: BLE001 - a record that this version cannot read fails its own reader alone
                found[place - 1] = error
        return found


def _busy() -> StoreUnavailable:
    return StoreUnavailable("the database is busy: other reads wait already; try again")


class PostgresTenantReads(BaseTenantReads):
    """Reads of one org; records of other orgs do not exist here."""

    def __init__(
        self, org_id: str, pool: ReadPool, statuses: StatusReads, payload_cache: PayloadCache, blobs: LargePayloads
    ) -> None:
        self._org_id = org_id
        self._pool = pool
        self._statuses = statuses
        self._payload_cache = payload_cache
        self._blobs = blobs

    async def _rows(self, function: str, *values: Any) -> list[Any]:
        """The choke point: every read passes the org."""
        storable_values = (storable_or_none(value) if isinstance(value, str) else value for value in values)
        return await self._pool.rows(function, self._org_id, *storable_values)

    async def _ask(self, query: str, /, **values: Any) -> list[Any]:
        asked = [list(filter(storable, value)) if isinstance(value, list) else value for value in values.values()]
        if not all(storable(value) for value in asked if isinstance(value, str)):
            return []
        return await self._pool.rows(query, self._org_id, *asked)

    def _view(self, row: Any) -> JobView:
        return view_from_database(row)

    # -- one job -------------------------------------------------------------------------------------------------------

    async def _status_in_rows(self, job_id: str, *, events: int, inline_limit: int) -> StatusView | None:
        return await self._statuses.read(StatusRequest(self._org_id, job_id, events, inline_limit))

    async def log(self, job_id: str, *, after: int, limit: int, most_bytes: int) -> EventLogPage:
        [(rows, more, gone)] = await self._rows("read_log", job_id, after, limit, most_bytes)
        events = [event_from(row) for row in rows]
        over = gone or (bool(events) and not more and events[-1].event_type in FINAL_EVENTS)
        return EventLogPage(events, more, over)

    async def _result_in_rows(self, result_id: str, *, latest: bool, payload: bool) -> ResultView | None:
        rows = await self._rows("read_result", result_id, latest, payload)
        if not rows:
            return None
        view, requested, delivered, text, views = rows[0]
        given = StoredResult(snapshot=Snapshot(*delivered), payload=text, views=views)
        return ResultView(view_from_database(view).job, Snapshot(*requested), given)

    def _large(self, result_id: str, size: int) -> PayloadSource:
        fetch = partial(self._pool.call, "read_payload_bytes", self._org_id, storable_or_none(result_id))
        return SharedPayload(size, (self._org_id, result_id), self._payload_cache.get(self._org_id, result_id, fetch))

    # -- lists ---------------------------------------------------------------------------------------------------------

    async def jobs(self, which: JobFilter) -> PageOfJobs:
        text = folded(which.text) if which.text else None
        if not all(map(storable, filter(None, (text, which.analysis, which.error_code)))):
            return PageOfJobs([], None)
        status = wanted_status(which)
        few = None if status is None else await self._pool.call("read_few", self._org_id, status, FEW)
        filters = (few, status, which.analysis, which.error_code, text, LARGEST_SEARCHED, which.since or 0)

        async def step(before: Position, rows: int, wanted: int) -> tuple[list[JobView], Position | None]:
            [(views, end_at, end_id)] = await self._rows("read_jobs", *filters, *before, rows, wanted)
            return [view_from_database(row) for row in views], None if end_at is None else (end_at, end_id)

        return await walk_jobs(which, step)

    async def counts(self, *, most: int) -> dict[Status, int]:
        rows = await self._rows("read_counts", most)
        return {Status(status): counted for status, counted in rows if counted}

    async def completed(self, analysis: str, *, before: Position | None, limit: int) -> list[PastRun]:
        return [PastRun(*row) for row in await self._rows("read_completed", analysis, *(before or FIRST), limit)]

    async def history(self, *, limit: int, offset: int) -> tuple[list[HistoryEntry], int]:
        [(page, total)] = await self._rows("read_history", offset, limit)
        entries = [
            HistoryEntry(result_id, job_id, created_at, Status(status), payload)
            for result_id, job_id, created_at, status, payload in page
        ]
        return entries, total

    async def inbox(self, *, before: Position | None, limit: int) -> InboxPage:
        rows = await self._rows("read_inbox", *(before or FIRST), limit + 1)
        messages = [
            InboxRecord(Notification(*message), view_from_database(view), unread) for message, view, unread in rows
        ]
        return inbox_page(messages, limit)

    async def overview(self, *, since: Instant, most: int) -> Overview:
        return await read_overview(self._rows, "read", since, most)

    async def feed(self, request: FeedRequest) -> FeedPage:
        if request.latest:
            [(life, mark, at)] = await self._rows("read_feed_end")
            return FeedPage([], FeedPosition(life, mark, at, "", 0), more=False)
        after = request.after or _FEED_START
        values = (after.life, after.mark, after.at, after.job_id, after.event_seq)
        [(life, found, results, mark, at, job_id, seq, more, held)] = await self._rows(
            "read_feed", *values, sorted(request.kinds), FEED_SCAN_LIMIT, request.limit, FEED_OVERLAP
        )
        events = [_feed_event(row, life, result_id) for row, result_id in zip(found, results, strict=True)]
        end = request.after if mark is None else FeedPosition(life, mark, at, job_id, seq)
        return FeedPage(events, end, more=more, held=held)


def _feed_event(row: Any, life: str, result_id: str | None) -> FeedEvent:
    event, mark = event_from(row), row["feed_mark"] or 0
    return FeedEvent(event, FeedPosition(life, mark, event.occurred_at, event.job_id, event.event_seq), result_id)
