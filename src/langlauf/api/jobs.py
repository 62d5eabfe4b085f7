"""Handlers of jobs: status, list, log, messages, cancel and retry."""

from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from langlauf.analysis.schema import read_input
from langlauf.api.context import (
    REVALIDATED,
    ApiContext,
    CachedStatus,
    StatusCache,
    StatusCacheKey,
    etag_hold_suffix,
    etag_matches,
    etags_of_caller,
    json_response,
    not_modified,
)
from langlauf.api.events import JobEventStreams
from langlauf.api.record_schemas import JobStatusOut, JobWithEventsOut
from langlauf.api.request_schemas import CancelBody, NotifyJobBody, RetryBody
from langlauf.api.requests import (
    choice_parameter,
    int_parameter,
    read_cursor,
    refuse_unknown_parameters,
    text_parameter,
    write_cursor,
)
from langlauf.api.response_schemas import (
    CancelResponse,
    EncodedStatusResponse,
    EventsResponse,
    JobsResponse,
    NotificationsResponse,
    ResultsResponse,
)
from langlauf.api.sse import wants_stream
from langlauf.api.submit import SubmitHandler
from langlauf.api.submit_request import PreferHeader, idempotency_key
from langlauf.api.wire import ApiLinks, event_out, job_members, job_out, notification_out, raw_json, snapshot_out
from langlauf.auth.caller import Caller
from langlauf.domain.delivery import CHANNELS, ChannelName
from langlauf.domain.read_models import JobFilter, JobView, fingerprint_of
from langlauf.domain.state import Status
from langlauf.problems import Problem, not_found
from langlauf.server.asgi import watch_client
from langlauf.service.control import HasEnded, NotCancelable, NotTerminal
from langlauf.service.read import kept_parts

EVENTS_IN_STATUS = 100
INLINE_RESULT = 256 * 1024
_LONGEST_PAGE = 200


class JobHandlers:
    """Handlers under `/analyze/jobs`."""

    def __init__(self, context: ApiContext, submitting: SubmitHandler) -> None:
        self._context = context
        self._services = context.services
        self._submitting = submitting
        self._streams = JobEventStreams(context)
        self._kept = StatusCache()

    async def status(self, request: Request, caller: Caller) -> Response:
        """Return one job with its latest events and, once completed, its result."""
        refuse_unknown_parameters(request, "wait")
        wait = int_parameter(request, "wait", default=0, lowest=0, highest=30)
        known = etags_of_caller(request)
        audience = StatusCacheKey(
            caller.org_id, request.path_params["job_id"], caller.sees_traces, self._context.links(request).base
        )
        kept = self._kept.get(audience)
        if kept is not None and await self._services.reads.pulse(caller, audience.job_id) != kept.pulse:
            self._kept.drop(audience)
            kept = None
        if kept is None and (known is not None or wait):
            await self._services.reads.read_pauses()
            view = await self._settled(request, caller, known, wait)
            if known is not None and etag_matches(known, self._etag(view)):
                moment = await self._services.reads.derived_fields(view)
                return not_modified(self._etag(view), {"Retry-After": str(moment.poll_after)})
        kept = kept or await self._made(caller, audience)
        if known is not None and etag_matches(known, kept.headers["ETag"]):
            return not_modified(kept.headers["ETag"], {"Retry-After": kept.headers["Retry-After"]})
        body = EncodedStatusResponse(request_id=caller.request_id, job=msgspec.Raw(kept.job))
        return json_response(body, headers=kept.headers, cache=REVALIDATED)

    async def _made(self, caller: Caller, audience: StatusCacheKey) -> CachedStatus:
        """Build the response for a job as it is now; cache it where it will not change by itself."""
        found = await self._services.reads.of(caller).status(
            audience.job_id, events=EVENTS_IN_STATUS, inline_limit=INLINE_RESULT
        )
        if found is None:
            raise not_found()
        job = found.view.job
        moment = await self._services.reads.derived_fields(found.view)
        members = job_members(job, moment, ApiLinks(audience.base), trace=audience.trace)
        parts = await kept_parts(self._services.reads.of(caller), job)
        shown = JobStatusOut(
            *members,
            events=list(map(event_out, found.events)),
            result=raw_json(found.result),
            kept_parts=None if parts is None else parts.count,
            total_parts=None if parts is None else parts.total,
        )
        headers = {"Retry-After": str(moment.poll_after), "ETag": self._etag(found.view)}
        made = CachedStatus(fingerprint_of(found.view), headers, msgspec.json.encode(shown))
        # A missing result may be one that cannot be read right now.
        if job.terminal and (job.status is not Status.COMPLETED or found.result is not None):
            self._kept.put(audience, made)
        return made

    async def _settled(self, request: Request, caller: Caller, known: str | None, wait: int) -> JobView:
        """Wait until the job differs from the caller's ETag, or from its state at the request."""
        had, watch = known, partial(watch_client, request.scope, request.receive)

        def differs(view: JobView) -> bool:
            nonlocal had
            etag = self._etag(view)
            had = had or etag
            return not etag_matches(had, etag) or view.job.terminal

        view = await self._services.followers.until(caller, request.path_params["job_id"], wait, differs, poll=watch)
        if view is None:
            raise not_found()
        return view

    def _etag(self, view: JobView) -> str:
        """Return the ETag: it changes with events, the phase, retention and holds, but not with estimates."""
        job = view.job
        expired = f"{'r' if job.result_expired_at else ''}{'e' if job.events_expired_at else ''}"
        return f'W/"{job.event_seq}-{self._services.reads.phase(view)}{expired}{etag_hold_suffix(job)}"'

    async def list(self, request: Request, caller: Caller) -> Response:
        """List the org's jobs, newest first."""
        refuse_unknown_parameters(request, "status", "analysis", "q", "limit", "cursor")
        limit = int_parameter(request, "limit", default=50, lowest=1, highest=_LONGEST_PAGE)
        status = choice_parameter(request, "status", tuple(Status))
        await self._services.reads.read_pauses()
        cursor = text_parameter(request, "cursor")
        which = JobFilter(
            status=Status(status) if status else None,
            analysis=text_parameter(request, "analysis"),
            text=text_parameter(request, "q"),
            limit=limit,
        )
        before = read_cursor(cursor, caller.org_id, which) if cursor else None
        page = await self._services.reads.of(caller).jobs(msgspec.structs.replace(which, before=before))
        links = self._context.links(request)
        shows = partial(job_out, links=links, trace=caller.sees_traces)
        jobs = [shows(view.job, await self._services.reads.derived_fields(view)) for view in page.views]
        next_cursor = write_cursor(page.after, caller.org_id, which) if page.after else None
        headers = {}
        if next_cursor:
            query = request.url.include_query_params(cursor=next_cursor).query
            headers["Link"] = f'<{links.base}/jobs?{query}>; rel="next"'
        return json_response(
            JobsResponse(request_id=caller.request_id, jobs=jobs, next_cursor=next_cursor), headers=headers
        )

    async def events(self, request: Request, caller: Caller) -> Response:
        """Return a page of a job's log, or the log as a stream."""
        refuse_unknown_parameters(request, "after", "limit")
        view = await self._existing(caller, request)
        if wants_stream(request):
            return await self._streams.respond(request, caller, view)
        after = int_parameter(request, "after", default=0, lowest=0, highest=max(view.job.event_seq, 0))
        limit = int_parameter(request, "limit", default=100, lowest=1, highest=1_000)
        events = await self._services.reads.of(caller).events(view.job.job_id, after=after, limit=limit)
        body = EventsResponse(
            request_id=caller.request_id,
            events=[event_out(event) for event in events],
            next_after=events[-1].event_seq if events else after,
            expired=view.job.events_expired_at is not None,
        )
        return json_response(body)

    async def results(self, request: Request, caller: Caller) -> Response:
        """List a job's snapshots, without their payloads."""
        refuse_unknown_parameters(request)
        view = await self._existing(caller, request)
        snapshots = await self._services.reads.of(caller).results(view.job.job_id)
        links = self._context.links(request)
        results = [snapshot_out(snapshot, links) for snapshot in snapshots]
        return json_response(ResultsResponse(request_id=caller.request_id, results=results))

    async def notifications(self, request: Request, caller: Caller) -> Response:
        """List a job's messages, latest first. Reading changes nothing."""
        refuse_unknown_parameters(request, "channel", "limit")
        limit = int_parameter(request, "limit", default=50, lowest=1, highest=_LONGEST_PAGE)
        word = choice_parameter(request, "channel", CHANNELS)
        channel: ChannelName | None = next((known for known in CHANNELS if known == word), None)
        view = await self._existing(caller, request)
        found = await self._services.reads.of(caller).notifications(view.job.job_id, channel=channel, limit=limit)
        messages = [notification_out(one) for one in found]
        return json_response(NotificationsResponse(request_id=caller.request_id, notifications=messages))

    async def cancel(self, request: Request, caller: Caller) -> Response:
        """Cancel a job, or request it from its worker. Repeating it changes nothing."""
        refuse_unknown_parameters(request)
        sent: CancelBody = read_input(CancelBody, await self._context.body(request, optional=True))
        job_id = request.path_params["job_id"]
        done = await self._services.control.cancel(caller, job_id, sent.reason)
        if isinstance(done, NotCancelable):
            raise Problem(
                409, "not_cancelable", f"{done.view.job.analysis} was registered as not cancelable; wait for its end."
            )
        if done is None:
            raise not_found()
        # Read again, so that job and events are consistent: a worker may have written the end meanwhile.
        found = await self._services.reads.of(caller).status(job_id, events=EVENTS_IN_STATUS, inline_limit=0)
        if found is None:
            raise not_found()
        moment = await self._services.reads.derived_fields(found.view)
        links = self._context.links(request)
        events = [event_out(event) for event in found.events]
        members = job_members(found.view.job, moment, links, trace=caller.sees_traces)
        job = JobWithEventsOut(*members, events=events)
        headers = {"Retry-After": str(moment.poll_after), "Content-Location": links.job(job_id)}
        body = CancelResponse(request_id=caller.request_id, job=job)
        return json_response(body, 200 if found.view.job.terminal else 202, headers=headers)

    async def notify(self, request: Request, caller: Caller) -> Response:
        """Send a mail when the job ends. Repeating it changes nothing, another address replaces the first."""
        refuse_unknown_parameters(request)
        sent: NotifyJobBody = read_input(NotifyJobBody, await self._context.body(request))
        done = await self._services.control.notify(caller, request.path_params["job_id"], sent.email, sent.language)
        if done is None:
            raise not_found()
        if isinstance(done, HasEnded):
            message = "The job has ended: read its status instead of waiting for a mail."
            raise Problem(409, "has_ended", message, current_state=done.view.job.status)
        return await self._context.job_answer(request, caller, done, 200)

    async def retry(self, request: Request, caller: Caller) -> Response:
        """Submit an ended job again as a new job."""
        refuse_unknown_parameters(request)
        sent: RetryBody = read_input(RetryBody, await self._context.body(request, optional=True))
        made = await self._services.control.retry(
            caller, request.path_params["job_id"], resume=sent.resume, idempotency_key=idempotency_key(request)
        )
        if made is None:
            raise not_found()
        if isinstance(made, NotTerminal):
            raise Problem(
                409,
                "not_terminal",
                "The job has not ended yet; cancel it first, or wait.",
                current_state=made.view.job.status,
            )
        return await self._submitting.accepted(request, caller, made, PreferHeader())

    async def _existing(self, caller: Caller, request: Request) -> JobView:
        view = await self._services.reads.of(caller).job(request.path_params["job_id"])
        if view is None:
            raise not_found()
        return view
