"""Reads of one org that are the same in every driver: one query each, and lists in bounded steps."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import Any

import msgspec

from langlauf.clock import monotonic
from langlauf.domain.delivery import (
    ChannelName,
    DeliveryAttempt,
    DeliveryFilter,
    Notification,
    Subscription,
    WebhookEndpoint,
)
from langlauf.domain.errors import PayloadUnavailable
from langlauf.domain.eta import TicketRange
from langlauf.domain.event import Event
from langlauf.domain.failure import FailedJob
from langlauf.domain.instant import Instant
from langlauf.domain.mail import MailMark
from langlauf.domain.provenance import TrailEntry
from langlauf.domain.read_models import (
    InboxPage,
    InboxRecord,
    JobFilter,
    JobView,
    KeptParts,
    PageOfJobs,
    ResultView,
    StatusView,
)
from langlauf.domain.result import SMALL_PAYLOAD, PayloadSource, Snapshot
from langlauf.domain.schedule import Schedule
from langlauf.domain.state import Status
from langlauf.store.blobs.large import LargePayloads, is_blob
from langlauf.store.blobs.payloads import InlinePayload, unavailable
from langlauf.store.sql import endpoint_from, event_from, schedule_from, subscription_from

# -- lists in bounded steps --------------------------------------------------------------------------------------------

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


# -- reads of one org --------------------------------------------------------------------------------------------------

#: A status answer can do without its result: reading a blob for it takes no longer.
_STATUS_SECONDS = 2.0
_KEYS_AT_ONCE = 1_000


class BaseTenantReads(ABC):
    """Reads of one org: records of other orgs do not exist here."""

    _org_id: str
    _blobs: LargePayloads

    @abstractmethod
    async def _result_in_rows(self, result_id: str, *, latest: bool, payload: bool) -> ResultView | None:
        """Return a snapshot as the rows have it."""

    @abstractmethod
    async def _status_in_rows(self, job_id: str, *, events: int, inline_limit: int) -> StatusView | None:
        """Return a job with its result where a row holds it."""

    #: the query for the deliveries of one endpoint
    _of_endpoint = "read_deliveries"

    @abstractmethod
    async def _ask(self, query: str, /, **values: Any) -> list[Any]:
        """Return the rows of a query of the org. Every read goes through here; values in the order of the function."""

    @abstractmethod
    def _view(self, row: Any) -> JobView:
        """Return a job from a row."""

    @abstractmethod
    def _large(self, result_id: str, size: int) -> PayloadSource:
        """Return a payload that a row holds and that is read in pieces."""

    async def _text(self, query: str, /, **values: str) -> str | None:
        rows = await self._ask(query, **values)
        return rows[0][0] if rows else None

    async def job(self, job_id: str) -> JobView | None:
        rows = await self._ask("read_job", job_id=job_id)
        return self._view(rows[0]) if rows else None

    async def payload(self, job_id: str) -> str | None:
        return await self._text("read_payload", job_id=job_id)

    async def inputs(self, job_ids: Sequence[str], *, largest: int) -> dict[str, str]:
        return dict(map(tuple, await self._ask("read_inputs", job_ids=list(job_ids), largest=largest)))

    async def chunk(self, job_id: str, key: str) -> str | None:
        return await self._text("read_chunk", job_id=job_id, key=key)

    async def chunks(self, job_id: str, keys: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for start in range(0, len(keys), _KEYS_AT_ONCE):  # other reads run in between
            some = list(keys[start : start + _KEYS_AT_ONCE])
            found |= map(tuple, await self._ask("read_chunks", job_id=job_id, keys=some))
        return found

    async def trail(self, job_id: str) -> list[TrailEntry]:
        return [TrailEntry(*row) for row in await self._ask("read_trail", job_id=job_id)]

    async def resumed(self, job_id: str) -> int:
        rows = await self._ask("read_resumed", job_id=job_id)
        return int(rows[0][0]) if rows else 0

    async def kept_parts(self, job_id: str, *, most: int) -> KeptParts:
        rows = await self._ask("read_kept_parts", job_id=job_id, most=most)
        count, total = rows[0] if rows else (0, None)  # no row for an id that the database cannot store
        # Later checkpoints are in no map: a total that is reached says nothing about the job as a whole.
        return KeptParts(count, total if total is not None and total > count else None)

    async def reruns(self, job_id: str, *, most: int) -> list[JobView]:
        return [self._view(row) for row in await self._ask("read_reruns", job_id=job_id, most=most)]

    async def events(self, job_id: str, *, after: int, limit: int) -> list[Event]:
        return [event_from(row) for row in await self._ask("read_events", job_id=job_id, after=after, limit=limit)]

    async def results(self, job_id: str) -> list[Snapshot]:
        return [Snapshot(*row) for row in await self._ask("read_results", job_id=job_id)]

    async def _source_in_rows(self, result_id: str) -> PayloadSource | None:
        rows = await self._ask("read_payload_size", result_id=result_id, small=SMALL_PAYLOAD)
        if not rows:
            return None
        size, text = rows[0]
        return self._large(result_id, size) if text is None else InlinePayload(text.encode())

    async def result(self, result_id: str, *, latest: bool, payload: bool = True) -> ResultView | None:
        found = await self._result_in_rows(result_id, latest=latest, payload=payload)
        if not payload or found is None or not is_blob(found.delivered.snapshot):
            return found
        text = await self._blobs.text(self._org_id, found.delivered.snapshot)
        if text is None:
            # Retention may have removed it since the row was read: then the row says so by now.
            found = await self._result_in_rows(result_id, latest=latest, payload=True)
            if found is None or not is_blob(found.delivered.snapshot):
                return found
            text = await self._blobs.text(self._org_id, found.delivered.snapshot)
        if text is None:
            ref = found.delivered.snapshot.result_payload_ref
            raise unavailable(self._org_id, found.job.job_id, f"there is no blob for {ref}")
        return msgspec.structs.replace(found, delivered=msgspec.structs.replace(found.delivered, payload=text))

    async def source(self, result_id: str) -> PayloadSource | None:
        found = await self._source_in_rows(result_id)
        if found is not None:
            return found
        row = await self._result_in_rows(result_id, latest=False, payload=False)
        if row is None or not is_blob(row.delivered.snapshot):
            return None
        snapshot = row.delivered.snapshot

        async def missing() -> None:
            row = await self._result_in_rows(result_id, latest=False, payload=False)
            if row is not None and row.delivered.snapshot.removed_at is None:
                reason = f"there is no blob for {snapshot.result_payload_ref}"
                raise unavailable(self._org_id, snapshot.job_id, reason)

        return await self._blobs.source(self._org_id, snapshot, missing)

    async def status(self, job_id: str, *, events: int, inline_limit: int) -> StatusView | None:
        found = await self._status_in_rows(job_id, events=events, inline_limit=inline_limit)
        if not self._blobs.there or found is None or found.result is not None:
            return found
        text = await self._small_result(found.view, inline_limit)
        return found if text is None else msgspec.structs.replace(found, result=text)

    async def _small_result(self, view: JobView, limit: int) -> str | None:
        """Return a result that is a blob and small enough to be inlined, or None: the status is shown in any case."""
        job = view.job
        if job.status is not Status.COMPLETED or job.result_id is None or job.result_expired_at is not None:
            return None
        found = await self._result_in_rows(job.result_id, latest=False, payload=False)
        if found is None:
            return None
        try:
            return await self._blobs.small(self._org_id, found.delivered.snapshot, limit=limit, seconds=_STATUS_SECONDS)
        except PayloadUnavailable:
            return None

    async def views(self, result_id: str) -> str | None:
        return await self._text("read_views", result_id=result_id)

    async def notifications(self, job_id: str, *, channel: ChannelName | None, limit: int) -> list[Notification]:
        rows = await self._ask("read_notifications", job_id=job_id, channel=channel, limit=limit)
        return [Notification(*row) for row in rows]

    async def subscriptions(self, job_id: str) -> tuple[Subscription, ...]:
        return tuple(subscription_from(row) for row in await self._ask("read_wishes", job_id=job_id))

    async def endpoints(self) -> list[WebhookEndpoint]:
        return [endpoint_from(row) for row in await self._ask("read_endpoints")]

    async def schedules(self, name: str | None = None) -> list[Schedule]:
        return [schedule_from(row) for row in await self._ask("read_schedules", name=name)]

    async def schedule_runs(self, name: str, *, limit: int) -> list[JobView]:
        return [self._view(row) for row in await self._ask("read_schedule_runs", name=name, limit=limit)]

    async def deliveries(self, which: DeliveryFilter) -> list[Notification]:
        before_at, before_id = which.before or FIRST
        rows = await self._ask(
            "read_deliveries" if which.endpoint_id is None else self._of_endpoint,
            endpoint_id=which.endpoint_id,
            job_id=which.job_id,
            status=which.status,
            before_at=before_at,
            before_id=before_id,
            limit=which.limit,
        )
        return [Notification(*row) for row in rows]

    async def delivery(self, notification_id: str) -> Notification | None:
        rows = await self._ask("read_delivery", notification_id=notification_id)
        return Notification(*rows[0]) if rows else None

    async def delivery_attempts(self, notification_id: str, *, limit: int) -> list[DeliveryAttempt]:
        rows = await self._ask("read_delivery_attempts", notification_id=notification_id, limit=limit)
        return [DeliveryAttempt(*row) for row in rows]

    async def mail_marks(self, address: str | None = None) -> list[MailMark]:
        return [MailMark(*row) for row in await self._ask("read_mail_marks", address=address)]

    async def failures(self, *, since: Instant, before: Position | None, limit: int) -> list[FailedJob]:
        before_at, before_id = before or FIRST
        place = {"since": since, "before_at": before_at, "before_id": before_id}
        rows = await self._ask("read_failures", **place, longest=LONGEST_MESSAGE, limit=limit)
        return [FailedJob(*(*columns, bool(repeated))) for *columns, repeated in rows]

    async def held(self, *, before: Position | None, limit: int) -> list[JobView]:
        before_at, before_id = before or FIRST
        rows = await self._ask("read_held", before_at=before_at, before_id=before_id, limit=limit)
        return [self._view(row) for row in rows]

    async def unread(self, *, most: int) -> int:
        [(counted,)] = await self._ask("read_unread", walk=unread_walk(most))
        return min(most, int(counted))

    async def ranks(self) -> list[TicketRange]:
        return [TicketRange(*row) for row in await self._ask("read_ranks")]
