"""What a caller can see: the records of their org, or, with a token for one job, that job and nothing else."""

from collections.abc import Sequence

import msgspec

from langlauf.auth.caller import Caller
from langlauf.domain.delivery import DeliveryAttempt, DeliveryFilter, Endpoint, Subscription
from langlauf.domain.event import Event
from langlauf.domain.failures import Failure
from langlauf.domain.feed import FeedPage, FeedRequest
from langlauf.domain.inbox import InboxPage
from langlauf.domain.instant import Instant
from langlauf.domain.mail_rules import MailMark
from langlauf.domain.notification import Channel, Notification
from langlauf.domain.overview import NOTHING, Overview
from langlauf.domain.result import Snapshot
from langlauf.domain.source import Source
from langlauf.domain.state import Status
from langlauf.domain.views import HistoryEntry, JobFilter, JobPage, JobView, LogPage, PastRun, ResultView, StatusView
from langlauf.domain.waiting import Rank
from langlauf.store.protocol import Store, TenantReads


def visible(store: Store, caller: Caller) -> TenantReads:
    """The one way from a caller to records."""
    tenant = store.tenant(caller.org_id)
    job_id = None if caller.grant is None else caller.grant.job_id
    return tenant if job_id is None else OneJob(store, tenant, caller.org_id, job_id)


class OneJob:
    """The reads of an org in which there is one job. Any other is not there, and is not looked for either."""

    def __init__(self, store: Store, tenant: TenantReads, org_id: str, job_id: str) -> None:
        self._store = store
        self._tenant = tenant
        self._owner = (org_id, job_id)
        self._job_id = job_id

    async def job(self, job_id: str) -> JobView | None:
        return await self._tenant.job(job_id) if job_id == self._job_id else None

    async def status(self, job_id: str, *, events: int, inline_limit: int) -> StatusView | None:
        if job_id != self._job_id:
            return None
        return await self._tenant.status(job_id, events=events, inline_limit=inline_limit)

    async def payload(self, job_id: str) -> str | None:
        return await self._tenant.payload(job_id) if job_id == self._job_id else None

    async def inputs(self, job_ids: Sequence[str], *, largest: int) -> dict[str, str]:
        return await self._tenant.inputs([one for one in job_ids if one == self._job_id], largest=largest)

    async def events(self, job_id: str, *, after: int, limit: int) -> list[Event]:
        return await self._tenant.events(job_id, after=after, limit=limit) if job_id == self._job_id else []

    async def log(self, job_id: str, *, after: int, limit: int, most_bytes: int) -> LogPage:
        if job_id != self._job_id:
            return LogPage([], more=False, over=True)
        return await self._tenant.log(job_id, after=after, limit=limit, most_bytes=most_bytes)

    async def feed(self, wish: FeedRequest) -> FeedPage:  # noqa: ARG002 - the log of the job has it all
        return FeedPage([], None, more=False)

    async def results(self, job_id: str) -> list[Snapshot]:
        return await self._tenant.results(job_id) if job_id == self._job_id else []

    async def result(self, result_id: str, *, latest: bool, payload: bool = True) -> ResultView | None:
        # Whose it is comes first: reading another job's result, only to drop it, would take longer than finding none.
        if await self._store.access.find("result", result_id) != self._owner:
            return None
        return await self._tenant.result(result_id, latest=latest, payload=payload)

    async def source(self, result_id: str) -> Source | None:
        if await self._store.access.find("result", result_id) != self._owner:
            return None
        return await self._tenant.source(result_id)

    async def views(self, result_id: str) -> str | None:
        if await self._store.access.find("result", result_id) != self._owner:
            return None
        return await self._tenant.views(result_id)

    async def notifications(self, job_id: str, *, channel: Channel | None, limit: int) -> list[Notification]:
        if job_id != self._job_id:
            return []
        return await self._tenant.notifications(job_id, channel=channel, limit=limit)

    async def endpoints(self) -> list[Endpoint]:
        return []

    async def deliveries(self, which: DeliveryFilter) -> list[Notification]:
        if which.job_id not in {None, self._job_id}:
            return []
        return await self._tenant.deliveries(msgspec.structs.replace(which, job_id=self._job_id))

    async def delivery(self, notification_id: str) -> Notification | None:
        found = await self._tenant.delivery(notification_id)
        return found if found is not None and found.job_id == self._job_id else None

    async def delivery_attempts(self, notification_id: str, *, limit: int) -> list[DeliveryAttempt]:
        found = await self._tenant.delivery_attempts(notification_id, limit=limit)
        return [one for one in found if one.job_id == self._job_id]

    async def subscriptions(self, job_id: str) -> tuple[Subscription, ...]:
        return await self._tenant.subscriptions(job_id) if job_id == self._job_id else ()

    async def mail_marks(self, address: str | None = None) -> list[MailMark]:  # noqa: ARG002 - they are no part of a job
        return []

    async def jobs(self, which: JobFilter) -> JobPage:  # noqa: ARG002 - no list has it
        return JobPage([], None)

    async def history(self, *, limit: int, offset: int) -> tuple[list[HistoryEntry], int]:  # noqa: ARG002
        return [], 0

    async def counts(self, *, most: int) -> dict[Status, int]:  # noqa: ARG002
        return {}

    async def failures(self, *, since: Instant, before: tuple[Instant, str] | None, limit: int) -> list[Failure]:  # noqa: ARG002
        return []

    async def inbox(self, *, before: tuple[Instant, str] | None, limit: int) -> InboxPage:  # noqa: ARG002
        return InboxPage([], None)

    async def unread(self, *, most: int) -> int:  # noqa: ARG002
        return 0

    async def held(self, *, before: tuple[Instant, str] | None, limit: int) -> list[JobView]:  # noqa: ARG002
        return []

    async def completed(
        self,
        analysis: str,  # noqa: ARG002
        *,
        before: tuple[Instant, str] | None,  # noqa: ARG002
        limit: int,  # noqa: ARG002
    ) -> list[PastRun]:
        return []

    async def ranks(self) -> list[Rank]:
        return await self._tenant.ranks()

    async def overview(self, *, since: Instant, most: int) -> Overview:  # noqa: ARG002 - no figure counts it
        return NOTHING

    async def chunk(self, job_id: str, key: str) -> str | None:
        return await self._tenant.chunk(job_id, key) if job_id == self._job_id else None

    async def chunks(self, job_id: str, keys: Sequence[str]) -> dict[str, str]:
        return await self._tenant.chunks(job_id, keys) if job_id == self._job_id else {}
