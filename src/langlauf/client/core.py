"""The operations of the API, each as a talk: which requests, and what their answers mean.

`Core` knows the address and who is asking. It decides everything and sends nothing: see `sync` and `aio`.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from langlauf.client.errors import JobCanceled, JobFailed
from langlauf.client.exchange import CALLING, FOLLOWING, Request, Talk, ask, read
from langlauf.client.feed import FeedPages
from langlauf.client.following import EventLog, Watch
from langlauf.client.listing import Pages, page_of_jobs, page_of_messages
from langlauf.client.shapes import (
    DEFAULT_OPTIONS,
    CancelAnswer,
    InboxMessage,
    JobAnswer,
    JobState,
    JobSummary,
    JobWithEvents,
    Marked,
    Notification,
    NotificationsAnswer,
    Result,
    Snapshot,
    SnapshotsAnswer,
    SubmitOptions,
    View,
    ViewsAnswer,
)
from langlauf.clock import new_id
from langlauf.domain.errors import SettingsError
from langlauf.domain.state import Status
from langlauf.domain.trace import read_trace
from langlauf.settings import BY_NAME, load_settings

DEFAULT_PREFIX = "/analyze"
DEFAULT_TIMEOUT = 10.0


class Core:
    """What both clients share: where the server is, and every operation."""

    def __init__(self, url: str | None, org: str | None, key: str | None, prefix: str) -> None:
        settings = load_settings(url=url, org=org, key=key)
        self.url = _checked_url(settings.url)
        #: whether the server has ever answered; one that never did is not waited for
        self.met = False
        self._prefix = prefix.rstrip("/")
        self.headers = {"Accept": "application/json", "User-Agent": "langlauf-client"}
        # Not named, the org is left to the server: it may follow from the key.
        if org is not None or settings.org != BY_NAME["org"].default:
            self.headers["X-Org-Id"] = _checked_header("org", settings.org)
        if settings.key is not None:
            self.headers["Authorization"] = f"Bearer {_checked_header('key', settings.key)}"

    def submit(
        self,
        analysis: str | None,
        values: Mapping[str, Any] | None,
        options: SubmitOptions | None,
        parameters: Mapping[str, Any],
        notify: Mapping[str, str] | None = None,
    ) -> Talk[JobSummary]:
        """A new job. The key makes it the same job when the request is repeated because its answer got lost."""
        options = options or DEFAULT_OPTIONS
        mode: dict[str, Any] = {
            "requested": True,
            "priority_class": options.priority_class,
            "max_retries": options.max_retries,
            "allow_duplicate": options.allow_duplicate,
        }
        if notify:
            mode["notify"] = dict(notify)
        body: dict[str, Any] = {"input": {**(values or {}), **parameters}, "options": {"async_mode": mode}}
        if analysis is not None:
            body["analysis"] = analysis
        if options.timeout_seconds is not None:
            body["timeout_seconds"] = options.timeout_seconds
        trace = None if options.traceparent is None else read_trace([options.traceparent])
        return self._accept(
            self._prefix, body, options.idempotency_key, {"traceparent": trace.traceparent} if trace else {}
        )

    def retry(self, job_id: str, *, resume: bool, idempotency_key: str | None) -> Talk[JobSummary]:
        """A new job of one that has ended, under the same protection as a submission."""
        return self._accept(f"{self._job(job_id)}/retry", {"resume": resume}, idempotency_key)

    def _accept(
        self, path: str, body: Mapping[str, Any], key: str | None, headers: Mapping[str, str] | None = None
    ) -> Talk[JobSummary]:
        key = new_id() if key is None else _checked_header("idempotency_key", key)
        request = _post(path, body, {"Idempotency-Key": key, **(headers or {})})
        reply = yield from ask(request)
        return read(reply, JobAnswer).job

    def cancel(self, job_id: str, reason: str | None) -> Talk[JobWithEvents]:
        """The job, ended or stopping, with its latest events. Repeating it changes nothing."""
        reply = yield from ask(_post(f"{self._job(job_id)}/cancel", {"reason": reason}))
        return read(reply, CancelAnswer).job

    def status(self, job_id: str) -> Talk[JobState]:
        """The job as it is now."""
        return Watch(self._job(job_id), job_id, None, CALLING).look()

    def watch(self, job_id: str, timeout: float | None) -> Watch:
        """Every state of a job from now to its end."""
        return Watch(self._job(job_id), job_id, timeout, FOLLOWING if self.met else CALLING)

    def wait(self, job_id: str, timeout: float | None) -> Talk[JobState]:
        """The job's last state."""
        return self.watch(job_id, timeout).end()

    def events(self, job_id: str, after: int, timeout: float | None) -> EventLog:
        """The job's log from an event on."""
        return EventLog(self._job(job_id), self.watch(job_id, timeout), after)

    def feed(
        self,
        after: str | None,
        types: Sequence[str],
        *,
        follow: bool,
        limit: int | None,
        timeout: float | None,
    ) -> FeedPages:
        """What happens to the org's jobs, from a place on."""
        return FeedPages(
            f"{self._prefix}/events",
            after,
            types,
            follow=follow,
            limit=limit,
            timeout=timeout,
            first=FOLLOWING if self.met and follow else CALLING,
        )

    def result_of(self, job_id: str, timeout: float | None) -> Talk[Any]:
        """The value a job ends with; a job that ends without one raises."""
        state = yield from self.wait(job_id, timeout)
        if state.status is Status.FAILED:
            raise JobFailed(state)
        if state.status is Status.CANCELED:
            raise JobCanceled(state)
        if state.result is not None or state.result_id is None:
            return state.result
        # Large results are not in the status, and a result that is null looks the same.
        snapshot = yield from self.result(state.result_id, "requested")
        return snapshot.result

    def result(self, result_id: str, view: View) -> Talk[Result]:
        """A snapshot with its payload."""
        path = f"{self._prefix}/results/{quote(result_id, safe='')}"
        reply = yield from ask(Request(path=path, params={"view": view}))
        return read(reply, Result)

    def views(self, result_id: str, view: View) -> Talk[list[dict[str, Any]]]:
        """What people are to see of a snapshot."""
        path = f"{self._prefix}/results/{quote(result_id, safe='')}/views"
        reply = yield from ask(Request(path=path, params={"view": view}))
        return read(reply, ViewsAnswer).views

    def hold(self, result_id: str, reason: str | None) -> Talk[JobSummary]:
        """Keeps a result from retention; its job as it is then."""
        reply = yield from ask(_post(self._hold(result_id), {"reason": reason}))
        return read(reply, JobAnswer).job

    def release(self, result_id: str) -> Talk[JobSummary]:
        """Lets retention have it again."""
        reply = yield from ask(Request(method="DELETE", path=self._hold(result_id)))
        return read(reply, JobAnswer).job

    def held(self, limit: int | None) -> Pages[JobSummary]:
        """The jobs whose results are held, page by page."""
        return Pages(f"{self._prefix}/held", {}, limit, page_of_jobs)

    def _hold(self, result_id: str) -> str:
        return f"{self._prefix}/results/{quote(result_id, safe='')}/hold"

    def snapshots(self, job_id: str) -> Talk[list[Snapshot]]:
        """All snapshots of a job, without their payloads."""
        reply = yield from ask(Request(path=f"{self._job(job_id)}/results"))
        return read(reply, SnapshotsAnswer).results

    def notifications(self, job_id: str, channel: str | None, limit: int | None) -> Talk[list[Notification]]:
        """The messages about a job, latest first."""
        params = {name: value for name, value in (("channel", channel), ("limit", limit)) if value is not None}
        reply = yield from ask(Request(path=f"{self._job(job_id)}/notifications", params=params))
        return read(reply, NotificationsAnswer).notifications

    def inbox(self, *, unread: bool, limit: int | None) -> Pages[InboxMessage]:
        """The org's messages, newest first, page by page."""
        return Pages(f"{self._prefix}/inbox", {"unread": "true"} if unread else {}, limit, page_of_messages)

    def mark_read(self, ids: Sequence[str], until: datetime | None) -> Talk[Marked]:
        """Messages that were seen, by their ids or up to an instant."""
        body: dict[str, Any] = {"notification_ids": list(ids)} if ids else {}
        if until is not None:
            body["until"] = (until.astimezone() if until.tzinfo is None else until).isoformat()
        reply = yield from ask(_post(f"{self._prefix}/inbox/read", body))
        return read(reply, Marked)

    def jobs(self, *, status: str | None, analysis: str | None, q: str | None, limit: int | None) -> Pages[JobSummary]:
        """The org's jobs, newest first, page by page."""
        which = {"status": status, "analysis": analysis, "q": q}
        given = {name: value for name, value in which.items() if value}
        return Pages(f"{self._prefix}/jobs", given, limit, page_of_jobs)

    def _job(self, job_id: str) -> str:
        return f"{self._prefix}/jobs/{quote(job_id, safe='')}"


def _post(path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Request:
    """A request with a body; NaN and infinities raise here instead of turning into null on the way."""
    data = json.dumps(msgspec.to_builtins(body, str_keys=True), allow_nan=False).encode()
    fields = {"Content-Type": "application/json", **(headers or {})}
    return Request(method="POST", path=path, body=data, headers=fields)


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # brackets that do not close, a port that is no number
        usable = False
    if not usable:
        raise SettingsError(f"LANGLAUF_URL={url!r}: give an address like http://127.0.0.1:8080")
    return url.rstrip("/")


def _checked_header(name: str, value: str) -> str:
    if not (value.isascii() and value.isprintable()):
        known = BY_NAME.get(name)
        raise SettingsError(f"{known.environment if known else name} has characters that no header can carry")
    return value
