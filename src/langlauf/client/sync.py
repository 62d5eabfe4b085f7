"""The synchronous client: `Client` and `RemoteJob`. All decisions are made in `core`; this module sends and sleeps."""

import html
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from langlauf.client.core import DEFAULT_PREFIX, DEFAULT_TIMEOUT, ClientCore, http_arguments
from langlauf.client.errors import ClientError
from langlauf.client.follow import FeedPages
from langlauf.client.job_text import job_html
from langlauf.client.models import (
    InboxMessage,
    JobEvent,
    JobNotification,
    JobResult,
    JobSnapshot,
    JobState,
    JobSummary,
    JobWithEvents,
    OrgEvent,
    PauseState,
    ReadMarks,
    RemoteSchedule,
    ResultView,
    SubmitOptions,
)
from langlauf.client.requests import ApiCall, ClientRequest, NoReply, ServerReply
from langlauf.domain.event import EventType

T = TypeVar("T")


class Client:
    """Submits jobs to a Langlauf server and follows them.

        with Client("http://127.0.0.1:8080") as client:
            print(client.run("survey", region="CH", years=3))

    Defaults come from LANGLAUF_URL, LANGLAUF_ORG and LANGLAUF_KEY. `timeout` applies to one request, not to a job. A
    client may be used by several threads.
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
        self._core = ClientCore(url, org, key, prefix)
        self._timeout = timeout
        self._http = httpx2.Client(**self._core.http_options())

    def names_org(self) -> bool:
        """Whether requests name an org; without one the server uses that of the key."""
        return "X-Org-Id" in self._core.headers

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
        """Submit a job: it is on the server's disk when this returns.

        Without a name, the server's default analysis runs. Parameters are keywords, or a mapping `input`, or both. A
        request without a reply is repeated with the same idempotency key, so there is never a second job. `notify` is a
        webhook, an e-mail address or both: `{"webhook": "https://…", "email": "name@example.org"}`.
        """
        return self._handle(self._run(self._core.submit(analysis, input, options, parameters, notify)))

    def run(
        self,
        analysis: str | None = None,
        /,
        input: Mapping[str, Any] | None = None,  # noqa: A002 - the name on the wire
        *,
        options: SubmitOptions | None = None,
        notify: Mapping[str, str] | None = None,
        timeout: float | None = None,
        progress: bool = True,
        **parameters: Any,
    ) -> Any:
        """Submit a job, wait for its end, and return its result; `timeout` and errors are those of `RemoteJob.result`.

        Where standard error is a terminal, a bar shows the progress, unless `progress` is false. A parameter of the
        analysis that has one of these names goes into `input`.
        """
        job = self.submit(analysis, input, options=options, notify=notify, **parameters)
        return job.result(timeout, progress=progress)

    def as_completed(self, jobs: Iterable["RemoteJob"], timeout: float | None = None) -> Iterator["RemoteJob"]:
        """Yield each job when it has ended, however it did; raise `WaitTimeout` after `timeout` seconds."""
        by_id = {job.job_id: job for job in jobs}
        completions = self._core.completions(by_id, timeout)
        while not completions.ended:
            for job_id in self._run(completions.next_ended()):
                yield by_id[job_id]

    def job(self, job_id: str) -> "RemoteJob":
        """Return a handle for a job by its id, without a request."""
        return RemoteJob(self, job_id)

    def jobs(
        self,
        *,
        status: str | None = None,
        analysis: str | None = None,
        q: str | None = None,
        limit: int | None = None,
    ) -> Iterator[JobSummary]:
        """Yield the org's jobs, newest first, over all pages; at most `limit` of them."""
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
        """Return the events of all the org's jobs, live: from a place on, or from the oldest that is kept.

        `after="latest"` begins with new events. `types` are such as `completed`. Without `follow` it ends with the last
        stored event; else after `limit` events or `timeout` seconds, or never.
        """
        return Feed(self, self._core.feed(after, types, follow=follow, limit=limit, timeout=timeout))

    def schedules(self) -> list[RemoteSchedule]:
        """Return the org's schedules by name, each with its next five runs."""
        return self._run(self._core.schedules())

    def add_schedule(
        self,
        name: str,
        analysis: str | None = None,
        values: Mapping[str, Any] | None = None,
        *,
        cron: str | None = None,
        every_seconds: float | str | None = None,
        zone: str = "UTC",
        overlap: str = "skip",
        missed: str = "once",
        paused: bool = False,
        notify: Mapping[str, str] | None = None,
    ) -> RemoteSchedule:
        """Add a schedule: `cron` with a `zone`, or `every_seconds`."""
        fields = {
            "name": name,
            "analysis": analysis,
            "input": dict(values or {}),
            "cron": cron,
            "every_seconds": every_seconds,
            "zone": zone,
            "overlap": overlap,
            "missed": missed,
            "paused": paused,
            "notify": notify,
        }
        return self._run(self._core.add_schedule(fields))

    def change_schedule(self, name: str, **changes: Any) -> RemoteSchedule:
        """Change fields of a schedule, such as `paused=True`; they are those of `add_schedule`, with `input`."""
        return self._run(self._core.change_schedule(name, changes))

    def remove_schedule(self, name: str) -> None:
        """Remove a schedule; its jobs stay."""
        self._run(self._core.remove_schedule(name))

    def run_schedule(self, name: str, *, idempotency_key: str | None = None) -> "RemoteJob":
        """Submit one run of a schedule now, whatever is planned."""
        accepted = self._run(self._core.run_schedule(name, idempotency_key))
        return RemoteJob(self, accepted.job_id, accepted)

    def notifications(
        self, job_id: str, *, channel: str | None = None, limit: int | None = None
    ) -> list[JobNotification]:
        """Return the messages about a job, latest first."""
        return self._run(self._core.notifications(job_id, channel, limit))

    def inbox(self, *, unread: bool = False, limit: int | None = None) -> Iterator[InboxMessage]:
        """Yield the org's messages, newest first, over all pages; with `unread`, only unread ones."""
        pages = self._core.inbox(unread=unread, limit=limit)
        while not pages.ended:
            yield from self._run(pages.next_page())

    def mark_read(self, *notification_ids: str, until: datetime | None = None) -> ReadMarks:
        """Mark messages as read for the whole org: up to 100 by their ids, or all up to an instant. Idempotent."""
        return self._run(self._core.mark_read(notification_ids, until))

    def get_result(self, result_id: str, *, view: ResultView = "latest") -> JobResult:
        """Return a result: the newest of its job, or with `view="requested"` exactly this one."""
        return self._run(self._core.result(result_id, view))

    def get_views(self, result_id: str, *, view: ResultView = "latest") -> list[dict[str, Any]]:
        """Return the views of a result: tables, charts and the like, each a dict with its `kind`."""
        return self._run(self._core.views(result_id, view))

    def provenance(self, result_id: str, *, prov: bool = False) -> dict[str, Any]:
        """Return how a result came about, or with `prov` the same as W3C PROV-JSON."""
        return self._run(self._core.provenance(result_id, prov=prov))

    def pause(
        self, analysis: str, *, because: str, until: datetime | None = None, all_orgs: bool = False
    ) -> PauseState:
        """Let no job of an analysis start, for the org or, as the operator, for all; running jobs go on."""
        return self._run(self._core.pause(analysis, because, until, all_orgs=all_orgs))

    def resume(self, analysis: str, *, all_orgs: bool = False) -> bool:
        """End the pause of an analysis; return whether there was one."""
        return self._run(self._core.resume(analysis, all_orgs=all_orgs))

    def hold(self, result_id: str, *, reason: str | None = None) -> JobSummary:
        """Keep a result and its job from retention until it is released. A repeat keeps the first holder."""
        return self._run(self._core.hold(result_id, reason))

    def release(self, result_id: str) -> JobSummary:
        """Let retention remove a result again. Repeating it changes nothing."""
        return self._run(self._core.release(result_id))

    def held(self, *, limit: int | None = None) -> Iterator[JobSummary]:
        """Yield the jobs whose results are held, the last that was held first; at most `limit` of them."""
        pages = self._core.held(limit)
        while not pages.ended:
            yield from self._run(pages.next_page())

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _handle(self, accepted: JobSummary) -> "RemoteJob":
        return RemoteJob(self, accepted.job_id, accepted)

    def _run(self, call: ApiCall[T]) -> T:
        try:
            request = next(call)
            while True:
                request = call.send(self._send(request))
        except StopIteration as end:
            value: T = end.value
            return value

    def _send(self, request: ClientRequest) -> ServerReply | NoReply:
        if request.delay:
            time.sleep(request.delay)
        try:
            response = self._http.request(**http_arguments(request, self._timeout))
        except httpx2.RequestError as error:
            return self._core.no_reply(error)
        return self._core.reply_of(response)


class Feed:
    """The event feed of an org, to be iterated. `place` is where to continue later.

    It is behind the last page that was returned completely: continuing there misses nothing, and may repeat the events
    of one page, with the same ids.
    """

    def __init__(self, client: Client, pages: FeedPages) -> None:
        self._run = client._run  # noqa: SLF001 - a feed is part of its client
        self._pages = pages

    @property
    def place(self) -> str:
        """The place to continue from."""
        return self._pages.place

    def __iter__(self) -> Iterator[OrgEvent]:
        while not self._pages.ended:
            yield from self._run(self._pages.next_events())
        self._pages.mark_returned()


class RemoteJob:
    """A job on the server, by its id; every method sends a request."""

    def __init__(self, client: Client, job_id: str, accepted: JobSummary | None = None) -> None:
        self._client = client
        self._core = client._core  # noqa: SLF001 - a handle is part of its client
        self._run = client._run  # noqa: SLF001
        self.job_id = job_id
        #: the job as it was accepted; None for a handle made from an id
        self.accepted = accepted

    def __repr__(self) -> str:
        return f"RemoteJob({self.job_id!r})"

    def _repr_html_(self) -> str:
        """Return the job as it is now, for a notebook."""
        try:
            return job_html(self.status(), self.url)
        except ClientError as error:
            return f"<pre>{html.escape(f'{self!r}: {error}')}</pre>"

    @property
    def url(self) -> str:
        """The address of its page."""
        return self._core.page_url(self.job_id)

    def status(self) -> JobState:
        """Return the current state."""
        return self._run(self._core.status(self.job_id))

    def states(self, timeout: float | None = None) -> Iterator[JobState]:
        """Yield the current state, then each change, to the final state. Quick changes may be merged."""
        watch = self._core.watch(self.job_id, timeout)
        while not watch.ended:
            yield self._run(watch.next_state())

    def wait(self, timeout: float | None = None) -> JobState:
        """Return the final state, however the job ended; raise `WaitTimeout` after `timeout` seconds, the job goes on.

        Survives a restart of the server.
        """
        return self._run(self._core.wait(self.job_id, timeout))

    def result(self, timeout: float | None = None, *, progress: bool = False) -> Any:
        """Wait for the end and return the result; raise `JobFailed` or `JobCanceled` if there is none.

        With `progress` and a terminal, a bar shows the job meanwhile.
        """
        if progress:
            from langlauf.client.progress_bar import drawn_job, terminal  # takes longer to import than all else here

            if console := terminal():
                with drawn_job(console) as draw:
                    for state in self.states(timeout):
                        draw(state)
        return self._run(self._core.result_of(self.job_id, timeout))

    def events(self, after: int = 0, timeout: float | None = None) -> Iterator[JobEvent]:
        """Yield every event after that number, in order, each exactly once, live, up to the one that ends the job."""
        log = self._core.events(self.job_id, after, timeout)
        while not log.ended:
            yield from self._run(log.next_events())

    def partials(self, timeout: float | None = None) -> Iterator[JobResult]:
        """Yield every partial snapshot with its payload, live, until the job has ended."""
        for event in self.events(timeout=timeout):
            if event.event_type == EventType.PARTIAL:
                yield self._client.get_result(event.payload_json["result_id"], view="requested")

    def snapshots(self) -> list[JobSnapshot]:
        """Return all snapshots stored so far, without their payloads."""
        return self._run(self._core.snapshots(self.job_id))

    def cancel(self, reason: str | None = None) -> JobWithEvents:
        """Cancel the job, or ask its worker to stop it; the returned job says which. Repeating it changes nothing."""
        return self._run(self._core.cancel(self.job_id, reason))

    def notify(self, email: str, language: str | None = None) -> JobSummary:
        """Send a mail when the job, which must not have ended, completes or fails; replaces an earlier address."""
        return self._run(self._core.notify(self.job_id, email, language))

    def retry(self, *, resume: bool = True, idempotency_key: str | None = None) -> "RemoteJob":
        """Submit this job again, which must have ended; with `resume`, finished chunks are not computed again."""
        call = self._core.retry(self.job_id, resume=resume, idempotency_key=idempotency_key)
        return self._client._handle(self._run(call))  # noqa: SLF001
