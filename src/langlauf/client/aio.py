"""The client for coroutines: `AsyncClient` and its `AsyncRemoteJob`. The same promises as in `sync`, with `await`."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from langlauf.client.core import DEFAULT_PREFIX, DEFAULT_TIMEOUT, Core
from langlauf.client.exchange import Lost, Reply, Request, Talk
from langlauf.client.feed import FeedPages
from langlauf.client.shapes import (
    Event,
    InboxMessage,
    JobState,
    JobSummary,
    JobWithEvents,
    Marked,
    Notification,
    OrgEvent,
    Result,
    Snapshot,
    SubmitOptions,
    View,
)
from langlauf.client.wire import arguments_of, lost_of, reply_of, settings_of
from langlauf.domain.event import EventType

T = TypeVar("T")


class AsyncClient:
    """Submits jobs to a Langlauf server and follows them.

        async with AsyncClient("http://127.0.0.1:8080") as client:
            job = await client.submit("survey", region="CH", years=3)
            print(await job.result())

    Settings and promises are those of `Client`.
    """

    def __init__(
        self,
        url: str | None = None,
        org: str | None = None,
        key: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        prefix: str = DEFAULT_PREFIX,
    ) -> None:
        self._core = Core(url, org, key, prefix)
        self._timeout = timeout
        self._http = httpx2.AsyncClient(**settings_of(self._core))

    async def submit(
        self,
        analysis: str | None = None,
        /,
        input: Mapping[str, Any] | None = None,  # noqa: A002 - the name on the wire
        *,
        options: SubmitOptions | None = None,
        notify: Mapping[str, str] | None = None,
        **parameters: Any,
    ) -> "AsyncRemoteJob":
        """Has a job accepted: it is on the server's disk when this returns. See `Client.submit`."""
        return self._handle(await self._run(self._core.submit(analysis, input, options, parameters, notify)))

    def job(self, job_id: str) -> "AsyncRemoteJob":
        """A handle for a job by its id; nothing is sent."""
        return AsyncRemoteJob(self, job_id)

    async def jobs(
        self,
        *,
        status: str | None = None,
        analysis: str | None = None,
        q: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[JobSummary]:
        """The org's jobs, newest first, over all pages; at most `limit` of them."""
        pages = self._core.jobs(status=status, analysis=analysis, q=q, limit=limit)
        while not pages.ended:
            for job in await self._run(pages.next_page()):
                yield job

    def events(
        self,
        after: str | None = None,
        *,
        types: Sequence[str] = (),
        follow: bool = True,
        limit: int | None = None,
        timeout: float | None = None,
    ) -> "AsyncFeed":
        """What happens to the org's jobs, over all of them, live: from a place on, or from the oldest that is kept.

        `after="latest"` begins with what comes. `types` names the kinds, such as `completed`. Without `follow` it ends
        with what is there; else after `limit` events or `timeout` seconds, or never.
        """
        return AsyncFeed(self, self._core.feed(after, types, follow=follow, limit=limit, timeout=timeout))

    async def notifications(
        self, job_id: str, *, channel: str | None = None, limit: int | None = None
    ) -> list[Notification]:
        """The messages about a job, latest first."""
        return await self._run(self._core.notifications(job_id, channel, limit))

    async def inbox(self, *, unread: bool = False, limit: int | None = None) -> AsyncIterator[InboxMessage]:
        """The org's messages, newest first, over all pages; with `unread`, those that nobody has read."""
        pages = self._core.inbox(unread=unread, limit=limit)
        while not pages.ended:
            for message in await self._run(pages.next_page()):
                yield message

    async def mark_read(self, *notification_ids: str, until: datetime | None = None) -> Marked:
        """Marks messages as read for the whole org. See `Client.mark_read`."""
        return await self._run(self._core.mark_read(notification_ids, until))

    async def get_result(self, result_id: str, *, view: View = "latest") -> Result:
        """A snapshot: the newest of its job, or with `view="requested"` exactly this one."""
        return await self._run(self._core.result(result_id, view))

    async def get_views(self, result_id: str, *, view: View = "latest") -> list[dict[str, Any]]:
        """What people are to see of a snapshot: tables, charts and the like, each a dict with its `kind`."""
        return await self._run(self._core.views(result_id, view))

    async def hold(self, result_id: str, *, reason: str | None = None) -> JobSummary:
        """Keeps a result from retention, with its job, until it is released. Who held it first stays."""
        return await self._run(self._core.hold(result_id, reason))

    async def release(self, result_id: str) -> JobSummary:
        """Lets retention have a result again. Repeating it changes nothing."""
        return await self._run(self._core.release(result_id))

    async def held(self, *, limit: int | None = None) -> AsyncIterator[JobSummary]:
        """The jobs whose results are held, the last that was held first; at most `limit` of them."""
        pages = self._core.held(limit)
        while not pages.ended:
            for job in await self._run(pages.next_page()):
                yield job

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _handle(self, accepted: JobSummary) -> "AsyncRemoteJob":
        return AsyncRemoteJob(self, accepted.job_id, accepted)

    async def _run(self, talk: Talk[T]) -> T:
        try:
            request = next(talk)
            while True:
                request = talk.send(await self._send(request))
        except StopIteration as end:
            value: T = end.value
            return value

    async def _send(self, request: Request) -> Reply | Lost:
        if request.delay:
            await asyncio.sleep(request.delay)
        try:
            response = await self._http.request(**arguments_of(request, self._timeout))
        except httpx2.RequestError as error:
            return lost_of(self._core, error)
        return reply_of(self._core, response)


class AsyncFeed:
    """The feed of an org, to be iterated. `place` is where another one can go on.

    It is behind the last page that was handed out whole: nothing is missed from there, and events of one page may come
    again, with the same ids.
    """

    def __init__(self, client: AsyncClient, pages: FeedPages) -> None:
        self._run = client._run  # noqa: SLF001 - a feed is part of its client
        self._pages = pages

    @property
    def place(self) -> str:
        """Where to go on."""
        return self._pages.place

    async def __aiter__(self) -> AsyncIterator[OrgEvent]:
        while not self._pages.ended:
            for event in await self._run(self._pages.next_events()):
                yield event
        self._pages.finish()


class AsyncRemoteJob:
    """A job on the server. The handle holds its id; every call asks the server."""

    def __init__(self, client: AsyncClient, job_id: str, accepted: JobSummary | None = None) -> None:
        self._client = client
        self._core = client._core  # noqa: SLF001 - a handle is part of its client
        self._run = client._run  # noqa: SLF001
        self.job_id = job_id
        #: what the server said when it accepted the job; None for a handle made from an id
        self.accepted = accepted

    def __repr__(self) -> str:
        return f"AsyncRemoteJob({self.job_id!r})"

    async def status(self) -> JobState:
        """The job as it is now."""
        return await self._run(self._core.status(self.job_id))

    async def states(self, timeout: float | None = None) -> AsyncIterator[JobState]:  # noqa: ASYNC109
        """The job as it is, then each time it has changed, to its final state. Quick changes may be seen as one."""
        watch = self._core.watch(self.job_id, timeout)
        while not watch.ended:
            yield await self._run(watch.look())

    async def wait(self, timeout: float | None = None) -> JobState:  # noqa: ASYNC109
        """The job's final state, however it ended; raises `WaitTimeout` after so many seconds. The job goes on then.

        A server that restarts meanwhile is waited for.
        """
        return await self._run(self._core.wait(self.job_id, timeout))

    async def result(self, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        """Waits for the end and returns the value; raises `JobFailed` or `JobCanceled` where there is none."""
        return await self._run(self._core.result_of(self.job_id, timeout))

    async def events(self, after: int = 0, timeout: float | None = None) -> AsyncIterator[Event]:  # noqa: ASYNC109
        """Every event after that number, in order, each exactly once, live, up to the one that ends the job."""
        log = self._core.events(self.job_id, after, timeout)
        while not log.ended:
            for event in await self._run(log.next_events()):
                yield event

    async def partials(self, timeout: float | None = None) -> AsyncIterator[Result]:  # noqa: ASYNC109
        """Every partial snapshot with its payload, live, until the job has ended."""
        async for event in self.events(timeout=timeout):
            if event.event_type == EventType.PARTIAL:
                yield await self._client.get_result(event.payload_json["result_id"], view="requested")

    async def snapshots(self) -> list[Snapshot]:
        """All snapshots stored so far, without their payloads."""
        return await self._run(self._core.snapshots(self.job_id))

    async def cancel(self, reason: str | None = None) -> JobWithEvents:
        """Stops the job, or asks its worker to; the answer tells which. Repeating it changes nothing."""
        return await self._run(self._core.cancel(self.job_id, reason))

    async def retry(self, *, resume: bool = True, idempotency_key: str | None = None) -> "AsyncRemoteJob":
        """A new job of this one, which must have ended; with `resume`, finished chunks are not computed again."""
        talk = self._core.retry(self.job_id, resume=resume, idempotency_key=idempotency_key)
        return self._client._handle(await self._run(talk))  # noqa: SLF001
