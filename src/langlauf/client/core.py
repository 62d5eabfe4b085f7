"""The operations of the API, each as an `ApiCall`: which requests to send, and how to read the replies.

`ClientCore` knows the URL, the org and the key. It decides everything and sends nothing: see `sync` and `aio`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import msgspec

from langlauf.client.errors import ApiError, JobCanceled, JobFailed
from langlauf.client.follow import (
    ENDS,
    Completions,
    FeedPages,
    JobEventLog,
    JobWatch,
    ListPages,
    page_of_jobs,
    page_of_messages,
)
from langlauf.client.models import (
    DEFAULT_OPTIONS,
    CancelEnvelope,
    InboxMessage,
    JobEnvelope,
    JobNotification,
    JobResult,
    JobSnapshot,
    JobState,
    JobSummary,
    JobWithEvents,
    NotificationsEnvelope,
    PauseEnvelope,
    PauseState,
    ProvenanceEnvelope,
    ReadMarks,
    RemoteSchedule,
    ResultView,
    ResumeEnvelope,
    ScheduleEnvelope,
    SchedulesEnvelope,
    SnapshotsEnvelope,
    SubmitOptions,
    ViewsEnvelope,
)
from langlauf.client.requests import (
    CALL_RETRIES,
    FOLLOW_RETRIES,
    ApiCall,
    ClientRequest,
    NoReply,
    ServerReply,
    decode,
    send,
)
from langlauf.clock import new_id
from langlauf.domain.errors import SettingsError
from langlauf.domain.provenance import read_trace
from langlauf.domain.state import Status
from langlauf.settings import BY_NAME, load_settings

DEFAULT_PREFIX = "/analyze"
DEFAULT_TIMEOUT = 10.0


class ClientCore:
    """What both clients share: the server's URL, the headers, and every operation."""

    def __init__(self, url: str | None, org: str | None, key: str | None, prefix: str) -> None:
        settings = load_settings(url=url, org=org, key=key)
        self.url = _check_url(settings.url)
        #: whether the server has ever replied; only then are its outages waited for
        self.connected = False
        self._prefix = prefix.rstrip("/")
        self.headers = {"Accept": "application/json", "User-Agent": "langlauf-client"}
        # Without a name the server chooses the org, such as that of the key.
        if org is not None or settings.org != BY_NAME["org"].default:
            self.headers["X-Org-Id"] = _check_header("org", settings.org)
        if settings.key is not None:
            self.headers["Authorization"] = f"Bearer {_check_header('key', settings.key)}"

    def http_options(self) -> dict[str, Any]:
        """Return the arguments of the HTTP library's client."""
        return {"base_url": self.url, "headers": self.headers, "follow_redirects": False}

    def reply_of(self, response: httpx2.Response) -> ServerReply:
        """Return a response of the HTTP library as a reply."""
        self.connected = True
        headers = {name.lower(): value for name, value in response.headers.items()}
        return ServerReply(response.status_code, headers, response.content)

    def no_reply(self, error: httpx2.RequestError) -> NoReply:
        """Return an error of the HTTP library as a missing reply."""
        return NoReply(self.url, str(error) or type(error).__name__)

    def submit(
        self,
        analysis: str | None,
        values: Mapping[str, Any] | None,
        options: SubmitOptions | None,
        parameters: Mapping[str, Any],
        notify: Mapping[str, str] | None = None,
    ) -> ApiCall[JobSummary]:
        """Submit a job. The idempotency key makes a retry after a lost reply return the same job."""
        options = options or DEFAULT_OPTIONS
        mode: dict[str, Any] = {
            "requested": True,
            "priority_class": options.priority_class,
            "max_retries": options.max_retries,
            "allow_duplicate": options.allow_duplicate,
        }
        if not options.reuse:
            mode["reuse"] = False
        if options.label is not None:
            mode["label"] = options.label
        times = {"run_at": options.run_at, "delay_seconds": options.delay_seconds, "start_by": options.start_by}
        mode |= {name: value for name, value in times.items() if value is not None}
        if notify:
            mode["notify"] = dict(notify)
        body: dict[str, Any] = {"input": {**(values or {}), **parameters}, "options": {"async_mode": mode}}
        if analysis is not None:
            body["analysis"] = analysis
        if options.timeout_seconds is not None:
            body["timeout_seconds"] = options.timeout_seconds
        trace = None if options.traceparent is None else read_trace([options.traceparent])
        return self._post_job(
            self._prefix, body, options.idempotency_key, {"traceparent": trace.traceparent} if trace else {}
        )

    def pause(self, analysis: str, because: str, until: datetime | None, *, all_orgs: bool) -> ApiCall[PauseState]:
        """Let no job of an analysis start."""
        body: dict[str, Any] = {"because": because, "all_orgs": all_orgs}
        if until is not None:
            body["until"] = until.isoformat()
        path = f"{self._prefix}/analyses/{quote(analysis, safe='')}/pause"
        reply = yield from send(_post(path, body))
        return decode(reply, PauseEnvelope).pause

    def resume(self, analysis: str, *, all_orgs: bool) -> ApiCall[bool]:
        """End the pause of an analysis."""
        path = f"{self._prefix}/analyses/{quote(analysis, safe='')}/resume"
        reply = yield from send(_post(path, {"all_orgs": all_orgs}))
        return decode(reply, ResumeEnvelope).resumed

    def retry(self, job_id: str, *, resume: bool, idempotency_key: str | None) -> ApiCall[JobSummary]:
        """Submit a job that has ended again, with an idempotency key as in `submit`."""
        return self._post_job(f"{self._job_path(job_id)}/retry", {"resume": resume}, idempotency_key)

    def _post_job(
        self, path: str, body: Mapping[str, Any], key: str | None, headers: Mapping[str, str] | None = None
    ) -> ApiCall[JobSummary]:
        key = new_id() if key is None else _check_header("idempotency_key", key)
        request = _post(path, body, {"Idempotency-Key": key, **(headers or {})})
        reply = yield from send(request)
        return decode(reply, JobEnvelope).job

    def cancel(self, job_id: str, reason: str | None) -> ApiCall[JobWithEvents]:
        """Cancel a job; return it, ended or stopping, with its latest events. Repeating it changes nothing."""
        reply = yield from send(_post(f"{self._job_path(job_id)}/cancel", {"reason": reason}))
        return decode(reply, CancelEnvelope).job

    def notify(self, job_id: str, email: str, language: str | None) -> ApiCall[JobSummary]:
        """Send a mail when the job ends. Repeating it changes nothing."""
        reply = yield from send(_post(f"{self._job_path(job_id)}/notify", {"email": email, "language": language}))
        return decode(reply, JobEnvelope).job

    def status(self, job_id: str) -> ApiCall[JobState]:
        """Return the current state of a job."""
        return JobWatch(self._job_path(job_id), job_id, None, CALL_RETRIES).next_state()

    def watch(self, job_id: str, timeout: float | None) -> JobWatch:
        """Return a watch over every state of a job from now to its end."""
        return JobWatch(self._job_path(job_id), job_id, timeout, FOLLOW_RETRIES if self.connected else CALL_RETRIES)

    def wait(self, job_id: str, timeout: float | None) -> ApiCall[JobState]:
        """Return the final state of a job."""
        return self.watch(job_id, timeout).final_state()

    def events(self, job_id: str, after: int, timeout: float | None) -> JobEventLog:
        """Return the events of a job after a number."""
        return JobEventLog(self._job_path(job_id), self.watch(job_id, timeout), after)

    def feed(
        self,
        after: str | None,
        types: Sequence[str],
        *,
        follow: bool,
        limit: int | None,
        timeout: float | None,
    ) -> FeedPages:
        """Return the events of the org's jobs, from a place on."""
        return FeedPages(
            f"{self._prefix}/events",
            after,
            types,
            follow=follow,
            limit=limit,
            timeout=timeout,
            first=FOLLOW_RETRIES if self.connected and follow else CALL_RETRIES,
        )

    def completions(self, job_ids: Iterable[str], timeout: float | None) -> Completions:
        """Return jobs in the order in which they end."""
        feed = self.feed("latest", ENDS, follow=True, limit=None, timeout=timeout)
        return Completions(((job_id, self._job_path(job_id)) for job_id in job_ids), feed, timeout)

    def page_url(self, job_id: str) -> str:
        """Return the address of a job's page."""
        return f"{self.url}/jobs/{quote(job_id, safe='')}"

    def result_of(self, job_id: str, timeout: float | None) -> ApiCall[Any]:
        """Return the result of a job; raise if it ends without one."""
        state = yield from self.wait(job_id, timeout)
        if state.status in (Status.FAILED, Status.CANCELED):
            last_partial = yield from self._last_partial(state)
            kind = JobFailed if state.status is Status.FAILED else JobCanceled
            raise kind(state, last_partial, self.page_url(job_id))
        if state.result is not None or state.result_id is None:
            return state.result
        # The state omits large results, which looks the same as a result that is null.
        snapshot = yield from self.result(state.result_id, "requested")
        return snapshot.result

    def _last_partial(self, state: JobState) -> ApiCall[JobResult | None]:
        """Return the last partial of a job that ended without a result, if it can still be read."""
        if state.result_id is None:
            return None
        try:
            return (yield from self.result(state.result_id, "requested"))
        except ApiError:  # such as one that retention removed; the job's own error says more
            return None

    def result(self, result_id: str, view: ResultView) -> ApiCall[JobResult]:
        """Return a snapshot with its payload."""
        path = f"{self._prefix}/results/{quote(result_id, safe='')}"
        reply = yield from send(ClientRequest(path=path, params={"view": view}))
        return decode(reply, JobResult)

    def views(self, result_id: str, view: ResultView) -> ApiCall[list[dict[str, Any]]]:
        """Return the views of a snapshot."""
        path = f"{self._prefix}/results/{quote(result_id, safe='')}/views"
        reply = yield from send(ClientRequest(path=path, params={"view": view}))
        return decode(reply, ViewsEnvelope).views

    def hold(self, result_id: str, reason: str | None) -> ApiCall[JobSummary]:
        """Keep a result from retention; return its job."""
        reply = yield from send(_post(self._hold_path(result_id), {"reason": reason}))
        return decode(reply, JobEnvelope).job

    def release(self, result_id: str) -> ApiCall[JobSummary]:
        """Let retention remove a result again; return its job."""
        reply = yield from send(ClientRequest(method="DELETE", path=self._hold_path(result_id)))
        return decode(reply, JobEnvelope).job

    def held(self, limit: int | None) -> ListPages[JobSummary]:
        """Return the jobs whose results are held, in pages."""
        return ListPages(f"{self._prefix}/held", {}, limit, page_of_jobs)

    def provenance(self, result_id: str, *, prov: bool) -> ApiCall[dict[str, Any]]:
        """Return how a result came about."""
        path = f"{self._prefix}/results/{quote(result_id, safe='')}/provenance"
        reply = yield from send(ClientRequest(path=path, params={"format": "prov"} if prov else {}))
        return decode(reply, ProvenanceEnvelope).provenance

    def _hold_path(self, result_id: str) -> str:
        return f"{self._prefix}/results/{quote(result_id, safe='')}/hold"

    def snapshots(self, job_id: str) -> ApiCall[list[JobSnapshot]]:
        """Return all snapshots of a job, without their payloads."""
        reply = yield from send(ClientRequest(path=f"{self._job_path(job_id)}/results"))
        return decode(reply, SnapshotsEnvelope).results

    def notifications(self, job_id: str, channel: str | None, limit: int | None) -> ApiCall[list[JobNotification]]:
        """Return the messages about a job, latest first."""
        params = {name: value for name, value in (("channel", channel), ("limit", limit)) if value is not None}
        reply = yield from send(ClientRequest(path=f"{self._job_path(job_id)}/notifications", params=params))
        return decode(reply, NotificationsEnvelope).notifications

    def schedules(self) -> ApiCall[list[RemoteSchedule]]:
        """Return the org's schedules by name."""
        reply = yield from send(ClientRequest(path=f"{self._prefix}/schedules"))
        return decode(reply, SchedulesEnvelope).schedules

    def add_schedule(self, fields: Mapping[str, Any]) -> ApiCall[RemoteSchedule]:
        """Add a schedule."""
        given = {name: value for name, value in fields.items() if value is not None}
        reply = yield from send(_post(f"{self._prefix}/schedules", given))
        return decode(reply, ScheduleEnvelope).schedule

    def change_schedule(self, name: str, changes: Mapping[str, Any]) -> ApiCall[RemoteSchedule]:
        """Change some fields of a schedule."""
        request = msgspec.structs.replace(_post(self._schedule_path(name), changes), method="PATCH")
        reply = yield from send(request)
        return decode(reply, ScheduleEnvelope).schedule

    def remove_schedule(self, name: str) -> ApiCall[None]:
        """Remove a schedule; its jobs stay."""
        yield from send(ClientRequest(path=self._schedule_path(name), method="DELETE"))

    def run_schedule(self, name: str, idempotency_key: str | None) -> ApiCall[JobSummary]:
        """Submit one run of a schedule now, with an idempotency key as in `submit`."""
        return self._post_job(f"{self._schedule_path(name)}/run", {}, idempotency_key)

    def _schedule_path(self, name: str) -> str:
        return f"{self._prefix}/schedules/{quote(name, safe='')}"

    def inbox(self, *, unread: bool, limit: int | None) -> ListPages[InboxMessage]:
        """Return the org's messages, newest first, in pages."""
        return ListPages(f"{self._prefix}/inbox", {"unread": "true"} if unread else {}, limit, page_of_messages)

    def mark_read(self, ids: Sequence[str], until: datetime | None) -> ApiCall[ReadMarks]:
        """Mark messages as read, by their ids or up to an instant."""
        body: dict[str, Any] = {"notification_ids": list(ids)} if ids else {}
        if until is not None:
            body["until"] = (until.astimezone() if until.tzinfo is None else until).isoformat()
        reply = yield from send(_post(f"{self._prefix}/inbox/read", body))
        return decode(reply, ReadMarks)

    def jobs(
        self, *, status: str | None, analysis: str | None, q: str | None, limit: int | None
    ) -> ListPages[JobSummary]:
        """Return the org's jobs, newest first, in pages."""
        filters = {"status": status, "analysis": analysis, "q": q}
        given = {name: value for name, value in filters.items() if value}
        return ListPages(f"{self._prefix}/jobs", given, limit, page_of_jobs)

    def _job_path(self, job_id: str) -> str:
        return f"{self._prefix}/jobs/{quote(job_id, safe='')}"


def http_arguments(request: ClientRequest, timeout: float) -> dict[str, Any]:
    """Return the arguments with which the HTTP library sends a request."""
    seconds = timeout + request.extra
    return {
        "method": request.method,
        "url": request.path,
        "params": request.params or None,
        "headers": request.headers,
        "content": request.body,
        "timeout": seconds if request.at_most is None else min(seconds, request.at_most),
    }


def _post(path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> ClientRequest:
    """Return a POST request; NaN and infinities raise here instead of becoming null."""
    data = json.dumps(msgspec.to_builtins(body, str_keys=True), allow_nan=False).encode()
    fields = {"Content-Type": "application/json", **(headers or {})}
    return ClientRequest(method="POST", path=path, body=data, headers=fields)


def _check_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # unclosed brackets, or a port that is not a number
        usable = False
    if not usable:
        raise SettingsError(f"LANGLAUF_URL={url!r}: give a URL like http://127.0.0.1:8080")
    return url.rstrip("/")


def _check_header(name: str, value: str) -> str:
    if not (value.isascii() and value.isprintable()):
        known = BY_NAME.get(name)
        raise SettingsError(
            f"{known.environment if known else name} must be printable ASCII, as it is sent in a header"
        )
    return value
