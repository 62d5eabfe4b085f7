"""The reads of one org, with payloads brought back from where they lie."""

from collections.abc import Sequence

import msgspec

from langlauf.domain.delivery import DeliveryAttempt, DeliveryFilter, Endpoint, Wish
from langlauf.domain.errors import PayloadUnavailable
from langlauf.domain.event import Event
from langlauf.domain.failures import Failure
from langlauf.domain.feed import FeedPage, FeedRequest
from langlauf.domain.inbox import InboxPage
from langlauf.domain.instant import Instant
from langlauf.domain.job import INLINE
from langlauf.domain.mail_rules import MailMark
from langlauf.domain.notification import Channel, Notification
from langlauf.domain.overview import Overview
from langlauf.domain.result import Snapshot
from langlauf.domain.source import Source
from langlauf.domain.state import Status
from langlauf.domain.views import HistoryEntry, JobFilter, JobPage, JobView, LogPage, PastRun, ResultView, StatusView
from langlauf.domain.waiting import Rank
from langlauf.store.blobs.naming import read_ref
from langlauf.store.blobs.payloads import Payloads, unavailable
from langlauf.store.protocol import TenantReads

#: A status answer can do without its result: nobody waits longer for it.
_STATUS_SECONDS = 2.0


class ReadsWithBlobs:
    """The same as the reads of the store itself; only `result` and `status` have something to bring back."""

    def __init__(self, inner: TenantReads, org_id: str, payloads: Payloads | None) -> None:
        self._inner = inner
        self._org_id = org_id
        self._payloads = payloads

    async def result(self, result_id: str, *, latest: bool, payload: bool = True) -> ResultView | None:
        found = await self._inner.result(result_id, latest=latest, payload=payload)
        if not payload or found is None or _is_whole(found):
            return found
        text = await self._read(found.delivered.snapshot)
        if text is None:
            # Retention may have taken it since the row was read: then the row says so by now.
            found = await self._inner.result(result_id, latest=latest, payload=True)
            if found is None or _is_whole(found):
                return found
            text = await self._read(found.delivered.snapshot)
        if text is None:
            ref = found.delivered.snapshot.result_payload_ref
            raise unavailable(self._org_id, found.job.job_id, f"there is no blob for {ref}")
        return msgspec.structs.replace(found, delivered=msgspec.structs.replace(found.delivered, payload=text))

    async def source(self, result_id: str) -> Source | None:
        found = await self._inner.source(result_id)
        if found is not None:
            return found
        row = await self._inner.result(result_id, latest=False, payload=False)
        snapshot = None if row is None else row.delivered.snapshot
        if snapshot is None or snapshot.removed_at is not None or snapshot.result_payload_ref == INLINE:
            return None
        if self._payloads is None:
            raise self._out_of_reach(snapshot)
        ref, job_id = snapshot.result_payload_ref, snapshot.job_id

        async def missing() -> None:
            row = await self._inner.result(result_id, latest=False, payload=False)
            if row is not None and row.delivered.snapshot.removed_at is None:
                raise unavailable(self._org_id, job_id, f"there is no blob for {ref}")

        return await self._payloads.source(self._org_id, job_id, ref, missing=missing)

    async def status(self, job_id: str, *, events: int, inline_limit: int) -> StatusView | None:
        found = await self._inner.status(job_id, events=events, inline_limit=inline_limit)
        if self._payloads is None or found is None or found.result is not None:
            return found
        text = await self._small_result(found.view, inline_limit)
        return found if text is None else msgspec.structs.replace(found, result=text)

    async def _small_result(self, view: JobView, limit: int) -> str | None:
        """A result that is a blob and yet small enough to be shown with its job. The job is shown in any case."""
        job = view.job
        if job.status is not Status.COMPLETED or job.result_id is None or job.result_expired_at is not None:
            return None
        found = await self._inner.result(job.result_id, latest=False, payload=False)
        snapshot = None if found is None else found.delivered.snapshot
        ref = None if snapshot is None else read_ref(snapshot.result_payload_ref)
        if snapshot is None or snapshot.removed_at is not None or ref is None or ref.size > limit:
            return None
        try:
            return await self._read(snapshot, _STATUS_SECONDS)
        except PayloadUnavailable:
            return None

    async def _read(self, snapshot: Snapshot, seconds: float | None = None) -> str | None:
        if self._payloads is None:
            raise self._out_of_reach(snapshot)
        ref = snapshot.result_payload_ref
        return await self._payloads.read(self._org_id, snapshot.job_id, ref, seconds=seconds)

    def _out_of_reach(self, snapshot: Snapshot) -> PayloadUnavailable:
        return unavailable(self._org_id, snapshot.job_id, "it is kept as a blob, and LANGLAUF_BLOBS is not set")

    # -- as the store has it -------------------------------------------------------------------------------------------

    async def job(self, job_id: str) -> JobView | None:
        return await self._inner.job(job_id)

    async def payload(self, job_id: str) -> str | None:
        return await self._inner.payload(job_id)

    async def inputs(self, job_ids: Sequence[str], *, largest: int) -> dict[str, str]:
        return await self._inner.inputs(job_ids, largest=largest)

    async def events(self, job_id: str, *, after: int, limit: int) -> list[Event]:
        return await self._inner.events(job_id, after=after, limit=limit)

    async def log(self, job_id: str, *, after: int, limit: int, most_bytes: int) -> LogPage:
        return await self._inner.log(job_id, after=after, limit=limit, most_bytes=most_bytes)

    async def feed(self, wish: FeedRequest) -> FeedPage:
        return await self._inner.feed(wish)

    async def results(self, job_id: str) -> list[Snapshot]:
        return await self._inner.results(job_id)

    async def views(self, result_id: str) -> str | None:
        return await self._inner.views(result_id)

    async def notifications(self, job_id: str, *, channel: Channel | None, limit: int) -> list[Notification]:
        return await self._inner.notifications(job_id, channel=channel, limit=limit)

    async def endpoints(self) -> list[Endpoint]:
        return await self._inner.endpoints()

    async def deliveries(self, which: DeliveryFilter) -> list[Notification]:
        return await self._inner.deliveries(which)

    async def delivery(self, notification_id: str) -> Notification | None:
        return await self._inner.delivery(notification_id)

    async def delivery_attempts(self, notification_id: str, *, limit: int) -> list[DeliveryAttempt]:
        return await self._inner.delivery_attempts(notification_id, limit=limit)

    async def wishes(self, job_id: str) -> tuple[Wish, ...]:
        return await self._inner.wishes(job_id)

    async def mail_marks(self, address: str | None = None) -> list[MailMark]:
        return await self._inner.mail_marks(address)

    async def jobs(self, which: JobFilter) -> JobPage:
        return await self._inner.jobs(which)

    async def history(self, *, limit: int, offset: int) -> tuple[list[HistoryEntry], int]:
        return await self._inner.history(limit=limit, offset=offset)

    async def counts(self, *, most: int) -> dict[Status, int]:
        return await self._inner.counts(most=most)

    async def failures(self, *, since: Instant, before: tuple[Instant, str] | None, limit: int) -> list[Failure]:
        return await self._inner.failures(since=since, before=before, limit=limit)

    async def inbox(self, *, before: tuple[Instant, str] | None, limit: int) -> InboxPage:
        return await self._inner.inbox(before=before, limit=limit)

    async def unread(self, *, most: int) -> int:
        return await self._inner.unread(most=most)

    async def held(self, *, before: tuple[Instant, str] | None, limit: int) -> list[JobView]:
        return await self._inner.held(before=before, limit=limit)

    async def completed(self, analysis: str, *, before: tuple[Instant, str] | None, limit: int) -> list[PastRun]:
        return await self._inner.completed(analysis, before=before, limit=limit)

    async def ranks(self) -> list[Rank]:
        return await self._inner.ranks()

    async def overview(self, *, since: Instant, most: int) -> Overview:
        return await self._inner.overview(since=since, most=most)

    async def chunk(self, job_id: str, key: str) -> str | None:
        return await self._inner.chunk(job_id, key)

    async def chunks(self, job_id: str, keys: Sequence[str]) -> dict[str, str]:
        return await self._inner.chunks(job_id, keys)


def _is_whole(found: ResultView) -> bool:
    """Whether there is nothing to bring back: the payload is here, or retention took it."""
    snapshot = found.delivered.snapshot
    return snapshot.result_payload_ref == INLINE or snapshot.removed_at is not None
