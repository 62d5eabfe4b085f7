"""The synchronous client: `Client` and `RemoteJob`. All decisions are made in `core`; this module sends and sleeps."""

import time
from collections.abc import Iterator, Mapping, Sequence
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


class Client:
    """Submits jobs to a Langlauf server and follows them.

        with Client("http://127.0.0.1:8080") as client:
            job = client.submit("survey", region="CH", years=3)
            print(job.result())

    What is not given comes from LANGLAUF_URL, LANGLAUF_ORG and LANGLAUF_KEY. `timeout` is for one answer of the server,
    not for a job. One client may be used by several threads.
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
        self._http = httpx2.Client(**settings_of(self._core))

    def submit(
        self,
        analysis: str | None = None,
        /,
        input: Mapping[str, Any] | None = None,  # noqa: A002 - the name on the wire
        *,
        options: SubmitOptions | None = None,
        notify: Mapping[str, str] | None = None,
        **parameters: Any,
    ) -> "RemoteJob":
        """Has a job accepted: it is on the server's disk when this returns.

        Without a name, the server's default analysis. Parameters are keywords, or a mapping `input`, or both. A lost
        answer is asked for again under the same idempotency key, so there is never a second job. `notify` says who is
        told of the end: `{"webhook": "https://…", "email": "name@example.org"}`, or one of the two.
        """
        return self._handle(self._run(self._core.submit(analysis, input, options, parameters, notify)))

    def job(self, job_id: str) -> "RemoteJob":
        """A handle for a job by its id; nothing is sent."""
        return RemoteJob(self, job_id)

    def jobs(
        self,
        *,
        status: str | None = None,
        analysis: str | None = None,
        q: str | None = None,
        limit: int | None = None,
    ) -> Iterator[JobSummary]:
        """The org's jobs, newest first, over all pages; at most `limit` of them."""
        pages = self._core.jobs(status=status, analysis=analysis, q=q, limit=limit)
        while not pages.ended:
            yield from self._run(pages.next_page())

    def events(
        self,
        after: str | None = None,
        *,
        types: Sequence[str] = (),
        follow: bool = True,
        limit: int | None = None,
        timeout: float | None = None,
    ) -> "Feed":
        """What happens to the org's jobs, over all of them, live: from a place on, or from the oldest that is kept.

        `after="latest"` begins with what comes. `types` names the kinds, such as `completed`. Without `follow` it ends
        with what is there; else after `limit` events or `timeout` seconds, or never.
        """
        return Feed(self, self._core.feed(after, types, follow=follow, limit=limit, timeout=timeout))

    def notifications(self, job_id: str, *, channel: str | None = None, limit: int | None = None) -> list[Notification]:
        """The messages about a job, latest first."""
        return self._run(self._core.notifications(job_id, channel, limit))

    def inbox(self, *, unread: bool = False, limit: int | None = None) -> Iterator[InboxMessage]:
        """The org's messages, newest first, over all pages; with `unread`, those that nobody has read."""
        pages = self._core.inbox(unread=unread, limit=limit)
        while not pages.ended:
            yield from self._run(pages.next_page())

    def mark_read(self, *notification_ids: str, until: datetime | None = None) -> Marked:
        """Marks messages as read for the whole org: up to 100 by their ids, or all up to an instant. Idempotent."""
        return self._run(self._core.mark_read(notification_ids, until))

    def get_result(self, result_id: str, *, view: View = "latest") -> Result:
        """A snapshot: the newest of its job, or with `view="requested"` exactly this one."""
        return self._run(self._core.result(result_id, view))

    def get_views(self, result_id: str, *, view: View = "latest") -> list[dict[str, Any]]:
        """What people are to see of a snapshot: tables, charts and the like, each a dict with its `kind`."""
        return self._run(self._core.views(result_id, view))

    def hold(self, result_id: str, *, reason: str | None = None) -> JobSummary:
        """Keeps a result from retention, with its job, until it is released. Who held it first stays."""
        return self._run(self._core.hold(result_id, reason))

    def release(self, result_id: str) -> JobSummary:
        """Lets retention have a result again. Repeating it changes nothing."""
        return self._run(self._core.release(result_id))

    def held(self, *, limit: int | None = None) -> Iterator[JobSummary]:
        """The jobs whose results are held, the last that was held first; at most `limit` of them."""
        pages = self._core.held(limit)
        while not pages.ended:
            yield from self._run(pages.next_page())

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _handle(self, accepted: JobSummary) -> "RemoteJob":
        return RemoteJob(self, accepted.job_id, accepted)

    def _run(self, talk: Talk[T]) -> T:
        try:
            request = next(talk)
            while True:
                request = talk.send(self._send(request))
        except StopIteration as end:
            value: T = end.value
            return value

    def _send(self, request: Request) -> Reply | Lost:
        if request.delay:
            time.sleep(request.delay)
        try:
            response = self._http.request(**arguments_of(request, self._timeout))
        except httpx2.RequestError as error:
            return lost_of(self._core, error)
        return reply_of(self._core, response)


class Feed:
    """The feed of an org, to be iterated. `place` is where another one can go on.

    It is behind the last page that was handed out whole: nothing is missed from there, and events of one page may come
    again, with the same ids.
    """

    def __init__(self, client: Client, pages: FeedPages) -> None:
        self._run = client._run  # noqa: SLF001 - a feed is part of its client
        self._pages = pages

    @property
    def place(self) -> str:
        """Where to go on."""
        return self._pages.place

    def __iter__(self) -> Iterator[OrgEvent]:
        while not self._pages.ended:
            yield from self._run(self._pages.next_events())
        self._pages.finish()


class RemoteJob:
    """A job on the server. The handle holds its id; every call asks the server."""

    def __init__(self, client: Client, job_id: str, accepted: JobSummary | None = None) -> None:
        self._client = client
        self._core = client._core  # noqa: SLF001 - a handle is part of its client
        self._run = client._run  # noqa: SLF001
        self.job_id = job_id
        #: what the server said when it accepted the job; None for a handle made from an id
        self.accepted = accepted

    def __repr__(self) -> str:
        return f"RemoteJob({self.job_id!r})"

    def status(self) -> JobState:
        """The job as it is now."""
        return self._run(self._core.status(self.job_id))

    def states(self, timeout: float | None = None) -> Iterator[JobState]:
        """The job as it is, then each time it has changed, to its final state. Quick changes may be seen as one."""
        watch = self._core.watch(self.job_id, timeout)
        while not watch.ended:
            yield self._run(watch.look())

    def wait(self, timeout: float | None = None) -> JobState:
        """The job's final state, however it ended; raises `WaitTimeout` after so many seconds. The job goes on then.

        A server that restarts meanwhile is waited for.
        """
        return self._run(self._core.wait(self.job_id, timeout))

    def result(self, timeout: float | None = None) -> Any:
        """Waits for the end and returns the value; raises `JobFailed` or `JobCanceled` where there is none."""
        return self._run(self._core.result_of(self.job_id, timeout))

    def events(self, after: int = 0, timeout: float | None = None) -> Iterator[Event]:
        """Every event after that number, in order, each exactly once, live, up to the one that ends the job."""
        log = self._core.events(self.job_id, after, timeout)
        while not log.ended:
            yield from self._run(log.next_events())

    def partials(self, timeout: float | None = None) -> Iterator[Result]:
        """Every partial snapshot with its payload, live, until the job has ended."""
        for event in self.events(timeout=timeout):
            if event.event_type == EventType.PARTIAL:
                yield self._client.get_result(event.payload_json["result_id"], view="requested")

    def snapshots(self) -> list[Snapshot]:
        """All snapshots stored so far, without their payloads."""
        return self._run(self._core.snapshots(self.job_id))

    def cancel(self, reason: str | None = None) -> JobWithEvents:
        """Stops the job, or asks its worker to; the answer tells which. Repeating it changes nothing."""
        return self._run(self._core.cancel(self.job_id, reason))

    def retry(self, *, resume: bool = True, idempotency_key: str | None = None) -> "RemoteJob":
        """A new job of this one, which must have ended; with `resume`, finished chunks are not computed again."""
        talk = self._core.retry(self.job_id, resume=resume, idempotency_key=idempotency_key)
        return self._client._handle(self._run(talk))  # noqa: SLF001
