"""The reads of one org. The org is bound here, once, and goes into every call."""

from functools import partial

from langlauf.domain.event import LAST_WORDS
from langlauf.domain.feed import FeedPage, FeedRequest
from langlauf.domain.instant import Instant
from langlauf.domain.overview import Overview
from langlauf.domain.result import Snapshot, StoredResult
from langlauf.domain.source import Source
from langlauf.domain.views import LogPage, PastRun, ResultView, StatusView
from langlauf.store.blobs.large import LargePayloads
from langlauf.store.bounded_scan import FIRST, Position
from langlauf.store.postgres.copies import Copies, Shared
from langlauf.store.postgres.feed import read_feed
from langlauf.store.postgres.links import Links
from langlauf.store.postgres.lists import PostgresLists
from langlauf.store.postgres.overview import look
from langlauf.store.postgres.texts import name_of
from langlauf.store.rows import event_from, view_from_database

_KEYS_AT_ONCE = 1_000


class PostgresTenantReads(PostgresLists):
    """Everything here belongs to one org; anything else does not exist."""

    def __init__(self, org_id: str, links: Links, copies: Copies, blobs: LargePayloads) -> None:
        super().__init__(org_id, links)
        self._copies = copies
        self._blobs = blobs

    async def _status_in_rows(self, job_id: str, *, events: int, inline_limit: int) -> StatusView | None:
        rows = await self._rows("read_status", job_id, events, inline_limit)
        if not rows:
            return None
        view, latest, result = rows[0]
        return StatusView(view_from_database(view), [event_from(row) for row in reversed(latest)], result)

    async def log(self, job_id: str, *, after: int, limit: int, most_bytes: int) -> LogPage:
        [(rows, more, gone)] = await self._rows("read_log", job_id, after, limit, most_bytes)
        events = [event_from(row) for row in rows]
        over = gone or (bool(events) and not more and events[-1].event_type in LAST_WORDS)
        return LogPage(events, more, over)

    async def feed(self, wish: FeedRequest) -> FeedPage:
        return await read_feed(self._rows, wish)

    async def _result_in_rows(self, result_id: str, *, latest: bool, payload: bool) -> ResultView | None:
        rows = await self._rows("read_result", result_id, latest, payload)
        if not rows:
            return None
        view, requested, delivered, text, views = rows[0]
        given = StoredResult(snapshot=Snapshot(*delivered), payload=text, views=views)
        return ResultView(view_from_database(view).job, Snapshot(*requested), given)

    async def completed(self, analysis: str, *, before: Position | None, limit: int) -> list[PastRun]:
        return [PastRun(*row) for row in await self._rows("read_completed", analysis, *(before or FIRST), limit)]

    async def overview(self, *, since: Instant, most: int) -> Overview:
        return await look(self._rows, "read", since, most)

    def _large(self, result_id: str, size: int) -> Source:
        fetch = partial(self._links.call, "read_payload_bytes", self._org_id, name_of(result_id))
        return Shared(size, (self._org_id, result_id), self._copies.copy(self._org_id, result_id, fetch))
