"""`/jobs/{job_id}`: progress, versions of the result, timeline, events, and the actions on a job."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import msgspec
from starlette.responses import Response

from langlauf.analysis.schema import InvalidInput
from langlauf.api.context import ApiContext
from langlauf.api.wire import trace_of
from langlauf.auth.caller import Caller
from langlauf.domain.delivery import Notification, Subscription
from langlauf.domain.event import Event
from langlauf.domain.failure import ErrorCause, read_cause
from langlauf.domain.instant import seconds_between
from langlauf.domain.job import Accepted, Duplicate, JobRecord, QueueFull, Replayed, SubmitOutcome
from langlauf.domain.mail import masked_mail_address
from langlauf.domain.read_models import JobView
from langlauf.domain.result import Snapshot, StoredResult
from langlauf.domain.state import Status
from langlauf.problems import not_found
from langlauf.service.control import HasEnded, NotCancelable, NotTerminal
from langlauf.service.read import kept_parts
from langlauf.ui.form_validation import input_error
from langlauf.ui.formats import display_state, format_duration, format_stopwatch, result_facts
from langlauf.ui.job_input import JobInput, faulty_field, job_input
from langlauf.ui.language import Language
from langlauf.ui.page_request import PageRequest
from langlauf.ui.pages.job_headline import JobObservation, job_headline
from langlauf.ui.pages.job_timeline import event_log, job_timeline
from langlauf.ui.pages.public import has_problem_page
from langlauf.ui.pages.snapshots import VersionPicker, job_family, version_picker, with_payload
from langlauf.ui.renderer import PageRenderer
from langlauf.ui.responses import see_other
from langlauf.ui.views.panels import PanelRenderer

#: Newest events that the timeline and the log are made from.
MAX_EVENTS = 400
_MAX_NOTIFICATIONS = 20
#: Without a script the whole page reloads, which should not happen every second.
_MIN_REFRESH_SECONDS = 2
#: Seconds between reloads of an open page: a worker falls silent without an event.
_RELOAD_SECONDS = 5


class VersionContent(msgspec.Struct, frozen=True, kw_only=True):
    """The version of the result that the page shows, with its payload."""

    versions: VersionPicker
    stored: StoredResult


class JobDetailPage:
    """`/jobs/{job_id}`."""

    def __init__(self, context: ApiContext, renderer: PageRenderer) -> None:
        self._context = context
        self._renderer = renderer
        self._panels = PanelRenderer(renderer)

    async def show(self, request: PageRequest, caller: Caller) -> Response:
        """Show the page. Scripts keep it up to date; without them the browser reloads it, unless that is off."""
        reads = self._context.services.reads
        view = await reads.of(caller).job(request.path_params["job_id"])
        if view is None:
            raise not_found()
        job = view.job
        request = await self._renderer.mark_read(request, caller, job)
        events = await self._events(caller, job)
        observed = JobObservation(
            view=view,
            moment=await reads.derived_fields(view),
            now=reads.now(),
            events=events,
            ahead=await reads.ahead(view),
            worker_seen=await self._context.services.overviews.workers_seen(job.analysis),
        )
        paused = request.query_params.get("refresh") == "off"
        shown = await self._shown_version(request, caller, job)
        words = self._renderer.analyses.words(job.analysis, request.language)
        messages = await reads.of(caller).notifications(job.job_id, channel=None, limit=_MAX_NOTIFICATIONS)
        return self._renderer.page(
            request,
            "jobs/job.html",
            here="jobs",
            job=job,
            observed=observed,
            headline=job_headline(observed, self._context.settings, request.language),
            refresh=None if job.terminal or paused else max(_MIN_REFRESH_SECONDS, observed.moment.poll_after),
            reload_seconds=_RELOAD_SECONDS,
            paused=paused,
            result_link=self._result_link(request, job),
            cancelable=self._cancelable(job),
            kept_parts=await kept_parts(reads.of(caller), job),
            family=await job_family(reads, reads.of(caller), job),
            faulty=faulty_field(job, self._context.services.registry.get(job.analysis)),
            took=_run_time(job, request.language),
            clock=format_stopwatch,
            timeline=job_timeline(job, events, observed.now),
            log=event_log(events, job.event_seq, request.http),
            shown=shown,
            rows=[] if shown is None else result_facts(shown.stored.snapshot.summary_json, shown.stored.payload, words),
            panels=[] if shown is None else await self._panels.panels(request, words, shown.stored),
            input=await self._input(request, caller, job),
            messages=messages,
            mail_to=await self._mail_receiver(caller, job),
            mail_works=self._context.settings.smtp is not None,
            targets={one.notification_id: masked_target(one) for one in messages},
            code_known=has_problem_page(job.error_code),
            cause=_error_cause(job) if caller.sees_traces else None,
            api=self._context.links(request.http).job(job.job_id),
        )

    async def _events(self, caller: Caller, job: JobRecord) -> Sequence[Event]:
        after = max(0, job.event_seq - MAX_EVENTS)
        return await self._context.services.reads.of(caller).events(job.job_id, after=after, limit=MAX_EVENTS)

    async def _shown_version(self, request: PageRequest, caller: Caller, job: JobRecord) -> VersionContent | None:
        """Return the version in the address, or the newest."""
        reads = self._context.services.reads.of(caller)
        snapshots: Sequence[Snapshot] = await reads.results(job.job_id) if job.result_id is not None else []
        versions = version_picker(snapshots, request.http)
        if versions is None:
            return None
        known = await reads.result(versions.chosen.result_id, latest=False, payload=False)
        if known is None:
            return None
        read = await with_payload(reads, request, known)
        return None if read.delivered.payload is None else VersionContent(versions=versions, stored=read.delivered)

    async def _mail_receiver(self, caller: Caller, job: JobRecord) -> str | None:
        """Return the masked address that gets a mail at the end, of a job that has not ended."""
        if job.terminal:
            return None
        return mail_receiver(await self._context.services.reads.of(caller).subscriptions(job.job_id))

    async def _input(self, request: PageRequest, caller: Caller, job: JobRecord) -> JobInput | None:
        payload = await self._context.services.reads.of(caller).payload(job.job_id)
        return None if payload is None else job_input(self._context, request, caller, job, payload)

    def _result_link(self, request: PageRequest, job: JobRecord) -> str | None:
        """Return where to redirect on completion, unless the reader pinned a version or stopped the reload."""
        query = request.query_params
        if job.status is not Status.COMPLETED or job.result_id is None or job.result_expired_at is not None:
            return None
        return None if "v" in query or query.get("refresh") == "off" else request.link("results", job.result_id)

    def _cancelable(self, job: JobRecord) -> bool:
        analysis = self._context.services.registry.get(job.analysis)
        return not job.terminal and job.cancel_requested_at is None and (analysis is None or analysis.cancelable)


def _error_cause(job: JobRecord) -> ErrorCause | None:
    trace = trace_of(job)
    return None if trace is None else read_cause(trace)


def _run_time(job: JobRecord, language: Language) -> str | None:
    if job.started_at is None or job.finished_at is None:
        return None
    return format_duration(seconds_between(job.started_at, job.finished_at), language)


def mail_receiver(subscriptions: Sequence[Subscription]) -> str | None:
    """Return the masked address that a job sends a mail to."""
    return next((masked_mail_address(one.target) for one in subscriptions if one.channel == "email"), None)


def masked_target(message: Notification) -> str:
    """Return the origin of a webhook address, or a masked e-mail address.

    A path can contain a secret, and a mailbox belongs to a person. The full address is for admins of the org.
    """
    if message.target is None:
        return ""
    if message.channel == "email":
        return masked_mail_address(message.target)
    whole = urlsplit(message.target)
    return f"{whole.scheme}://{whole.netloc}"


MAX_REASON = 500


class JobActions:
    """`/jobs/{job_id}/cancel`, `/jobs/{job_id}/notify` and `/jobs/{job_id}/retry`."""

    def __init__(self, context: ApiContext, renderer: PageRenderer) -> None:
        self._services = context.services
        self._renderer = renderer
        self._mail_works = context.settings.smtp is not None

    async def confirm_cancel(self, request: PageRequest, caller: Caller) -> Response:
        """Ask for confirmation, for readers without scripts."""
        view = await self._existing(request, caller)
        if view.job.terminal:
            return self._go(request, view.job.job_id)
        shown = display_state(view.job.status, self._services.reads.phase(view))
        return self._renderer.page(request, "jobs/cancel.html", job=view.job, display_state=shown)

    async def cancel(self, request: PageRequest, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Cancel a job, or ask its worker to stop. A job that has ended meanwhile is shown as it ended."""
        job_id = request.path_params["job_id"]
        reason = fields.get("reason", "").strip()[:MAX_REASON]
        done = await self._services.control.cancel(caller, job_id, reason or None)
        if done is None:
            raise not_found()
        if isinstance(done, NotCancelable):
            return self._refused(request, done.view, 409, "not_cancelable")
        return self._go(request, job_id)

    async def ask_address(self, request: PageRequest, caller: Caller) -> Response:
        """Ask for the address that gets a mail when the job ends, for readers without scripts."""
        view = await self._existing(request, caller)
        return self._go(request, view.job.job_id) if view.job.terminal else await self._mail_form(request, caller, view)

    async def notify(self, request: PageRequest, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Send a mail when the job ends, in the language of the page."""
        job_id, address = request.path_params["job_id"], fields.get("email", "").strip()
        try:
            done = await self._services.control.notify(caller, job_id, address, request.language.code)
        except InvalidInput as error:
            view, message = await self._existing(request, caller), input_error(error).message(request.language)
            return await self._mail_form(request, caller, view, address=address, error=message)
        if done is None:
            raise not_found()
        if isinstance(done, HasEnded):
            return self._refused(request, done.view, 409, "has_ended")
        return self._go(request, job_id)

    async def _mail_form(
        self, request: PageRequest, caller: Caller, view: JobView, *, address: str = "", error: str = ""
    ) -> Response:
        return self._renderer.page(
            request,
            "jobs/notify.html",
            400 if error else 200,
            job=view.job,
            display_state=display_state(view.job.status, self._services.reads.phase(view)),
            mail_to=mail_receiver(await self._services.reads.of(caller).subscriptions(view.job.job_id)),
            mail_works=self._mail_works,
            address=address,
            error=error,
        )

    async def retry(self, request: PageRequest, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Run a job again as a new one, and redirect to it."""
        view = await self._existing(request, caller)
        resume = fields.get("resume") == "yes"
        try:
            made = await self._services.control.retry(caller, view.job.job_id, resume=resume, idempotency_key=None)
        except InvalidInput as error:  # the analysis has changed since, or is not known here
            return self._refused(request, view, 422, "validation_error", detail=error.message)
        return self._answer(request, view, made)

    def _answer(self, request: PageRequest, view: JobView, made: SubmitOutcome | NotTerminal | None) -> Response:
        match made:
            case Accepted(job=job) | Replayed(job=job):
                return self._go(request, job.job_id)
            case NotTerminal(view=now):
                return self._refused(request, now, 409, "not_terminal")
            case Duplicate(job=job):
                return self._refused(request, view, 409, "duplicate_job", other=job.job_id)
            case QueueFull(scope=scope):
                status = 503 if scope == "all" else 429
                headers = {"Retry-After": str(made.retry_after)}
                return self._refused(request, view, status, "queue_full", detail=made.reason, headers=headers)
        raise not_found()

    async def _existing(self, request: PageRequest, caller: Caller) -> JobView:
        view = await self._services.reads.of(caller).job(request.path_params["job_id"])
        if view is None:
            raise not_found()
        return view

    def _refused(
        self,
        request: PageRequest,
        view: JobView,
        status: int,
        code: str,
        *,
        detail: str = "",
        other: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        return self._renderer.page(
            request, "jobs/refused.html", status, headers=headers, job=view.job, code=code, detail=detail, other=other
        )

    def _go(self, request: PageRequest, job_id: str) -> Response:
        return see_other(request.link("jobs", job_id))
