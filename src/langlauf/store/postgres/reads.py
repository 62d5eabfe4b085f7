"""The reads of one org. The org is bound here, once, and goes into every call."""

from collections.abc import Sequence
from functools import partial

from langlauf.domain.delivery import DeliveryAttempt, DeliveryFilter, Endpoint, Wish
from langlauf.domain.event import LAST_WORDS, Event
from langlauf.domain.feed import FeedPage, FeedRequest
from langlauf.domain.instant import Instant
from langlauf.domain.mail_rules import MailMark
from langlauf.domain.notification import Channel, Notification
from langlauf.domain.overview import Overview
from langlauf.domain.result import Snapshot, StoredResult
from langlauf.domain.source import SMALL, Source
from langlauf.domain.views import JobView, LogPage, PastRun, ResultView, StatusView
from langlauf.domain.waiting import Rank
from langlauf.store.blobs.large import LargePayloads
from langlauf.store.blobs.reads import ResultReads
from langlauf.store.postgres.copies import Copies, Shared
from langlauf.store.postgres.feed import read_feed
from langlauf.store.postgres.links import Links
from langlauf.store.postgres.lists import PostgresLists
from langlauf.store.postgres.overview import look
from langlauf.store.postgres.texts import holdable, name_of
from langlauf.store.rows import endpoint_from, event_from, view_from_database, wish_from
from langlauf.store.source import Small
from langlauf.store.walking import FIRST, Position

_KEYS_AT_ONCE = 1_000


class PostgresTenantReads(ResultReads, PostgresLists):
    """Everything here belongs to one org; anything else does not exist."""

    def __init__(self, org_id: str, links: Links, copies: Copies, blobs: LargePayloads) -> None:
        super().__init__(org_id, links)
        self._copies = copies
        self._blobs = blobs

    async def _text(self, function: str, *values: str) -> str | None:
        found: str | None = await self._links.call(function, self._org_id, *map(name_of, values))
        return found

    async def job(self, job_id: str) -> JobView | None:
        rows = await self._rows("read_job", job_id)
        return view_from_database(tuple(rows[0])) if rows else None

    async def _status_in_rows(self, job_id: str, *, events: int, inline_limit: int) -> StatusView | None:
        rows = await self._rows("read_status", job_id, events, inline_limit)
        if not rows:
            return None
        view, latest, result = rows[0]
        return StatusView(view_from_database(tuple(view)), [event_from(row) for row in reversed(latest)], result)

    async def payload(self, job_id: str) -> str | None:
        return await self._text("read_payload", job_id)

    async def chunk(self, job_id: str, key: str) -> str | None:
        return await self._text("read_chunk", job_id, key)

    async def inputs(self, job_ids: Sequence[str], *, largest: int) -> dict[str, str]:
        rows = await self._rows("read_inputs", list(filter(holdable, job_ids)), largest)
        return {job_id: payload for job_id, payload in rows}  # noqa: C416 - a row is no pair

    async def chunks(self, job_id: str, keys: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for start in range(0, len(keys), _KEYS_AT_ONCE):  # other readers have their turn in between
            some = list(filter(holdable, keys[start : start + _KEYS_AT_ONCE]))
            rows = await self._rows("read_chunks", job_id, some)
            found |= {key: payload for key, payload in rows}  # noqa: C416 - a row is no pair
        return found

    async def events(self, job_id: str, *, after: int, limit: int) -> list[Event]:
        return [event_from(row) for row in await self._rows("read_events", job_id, after, limit)]

    async def log(self, job_id: str, *, after: int, limit: int, most_bytes: int) -> LogPage:
        [(rows, more, gone)] = await self._rows("read_log", job_id, after, limit, most_bytes)
        events = [event_from(row) for row in rows]
        over = gone or (bool(events) and not more and events[-1].event_type in LAST_WORDS)
        return LogPage(events, more, over)

    async def feed(self, wish: FeedRequest) -> FeedPage:
        return await read_feed(self._rows, wish)

    async def results(self, job_id: str) -> list[Snapshot]:
        return [Snapshot(*row) for row in await self._rows("read_results", job_id)]

    async def _result_in_rows(self, result_id: str, *, latest: bool, payload: bool) -> ResultView | None:
        rows = await self._rows("read_result", result_id, latest, payload)
        if not rows:
            return None
        view, requested, delivered, text, views = rows[0]
        given = StoredResult(snapshot=Snapshot(*delivered), payload=text, views=views)
        return ResultView(view_from_database(tuple(view)).job, Snapshot(*requested), given)

    async def _source_in_rows(self, result_id: str) -> Source | None:
        rows = await self._rows("read_payload_size", result_id, SMALL)
        if not rows:
            return None
        size, text = rows[0]
        if text is not None:
            return Small(text.encode())
        fetch = partial(self._links.call, "read_payload_bytes", self._org_id, name_of(result_id))
        return Shared(size, (self._org_id, result_id), self._copies.copy(self._org_id, result_id, fetch))

    async def views(self, result_id: str) -> str | None:
        return await self._text("read_views", result_id)

    async def notifications(self, job_id: str, *, channel: Channel | None, limit: int) -> list[Notification]:
        return [Notification(*row) for row in await self._rows("read_notifications", job_id, channel, limit)]

    async def endpoints(self) -> list[Endpoint]:
        return [endpoint_from(row) for row in await self._rows("read_endpoints")]

    async def deliveries(self, which: DeliveryFilter) -> list[Notification]:
        filters = (which.endpoint_id, which.job_id, which.status)
        if not all(map(holdable, filter(None, filters))):
            return []
        rows = await self._rows("read_deliveries", *filters, *(which.before or FIRST), which.limit)
        return [Notification(*row) for row in rows]

    async def delivery(self, notification_id: str) -> Notification | None:
        rows = await self._rows("read_delivery", notification_id)
        return Notification(*rows[0]) if rows else None

    async def delivery_attempts(self, notification_id: str, *, limit: int) -> list[DeliveryAttempt]:
        return [DeliveryAttempt(*row) for row in await self._rows("read_delivery_attempts", notification_id, limit)]

    async def mail_marks(self, address: str | None = None) -> list[MailMark]:
        if address is not None and not holdable(address):
            return []
        return [MailMark(*row) for row in await self._rows("read_mail_marks", address)]

    async def wishes(self, job_id: str) -> tuple[Wish, ...]:
        return tuple(wish_from(row) for row in await self._rows("read_wishes", job_id))

    async def completed(self, analysis: str, *, before: Position | None, limit: int) -> list[PastRun]:
        return [PastRun(*row) for row in await self._rows("read_completed", analysis, *(before or FIRST), limit)]

    async def overview(self, *, since: Instant, most: int) -> Overview:
        return await look(self._rows, "read", since, most)

    async def ranks(self) -> list[Rank]:
        return [Rank(*row) for row in await self._rows("read_ranks")]
