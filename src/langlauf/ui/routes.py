"""The routes of the web pages, and `/stream`: server-sent hints that a job or the org has changed."""

import asyncio
from contextlib import AbstractContextManager

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from langlauf.api.app import RouteHandler
from langlauf.api.context import ApiContext
from langlauf.api.requests import choice_parameter, refuse_unknown_parameters, text_parameter
from langlauf.api.sse import EventStreamResponse, StreamSender, message, opening
from langlauf.auth.caller import Caller
from langlauf.domain.access import Scope
from langlauf.problems import bad_request
from langlauf.service.follow import now_of, watching
from langlauf.service.follower import Topic, Watcher
from langlauf.ui.pages.ended_jobs import FailurePages, InboxPages
from langlauf.ui.pages.job import JobActions, JobDetailPage
from langlauf.ui.pages.job_list import BulkActionPages, JobListPage
from langlauf.ui.pages.ops import OpsPages
from langlauf.ui.pages.public import ProblemPages, SettingsPage, SignInPages, StatesPage, UnsubscribePage
from langlauf.ui.pages.reference import ReferencePage
from langlauf.ui.pages.result import HoldForms, ResultPage
from langlauf.ui.pages.result_comparison import ComparisonPage
from langlauf.ui.pages.result_downloads import Downloads, ViewFiles
from langlauf.ui.pages.schedules import SchedulePages
from langlauf.ui.pages.start import StartPage
from langlauf.ui.pages.webhooks import WebhookPages
from langlauf.ui.renderer import FormPage, PageRenderer, is_browser
from langlauf.ui.responses import ASSET_PATH

# -- stream of hints ---------------------------------------------------------------------------------------------------
# One stream serves all tabs of a browser. It carries no data: a tab fetches the page again, so that the server alone
# renders. Bursts are combined, and the last hint of a burst is always sent.

STREAM_PATH = "/stream"
MAX_STREAM_JOBS = 50
_MAX_ID_LENGTH = 128
#: A topic is sent at most twice a second.
HINT_INTERVAL_SECONDS = 0.5


def stream_route(context: ApiContext) -> Route:
    """Return the route; its errors are the API's, because scripts read them."""

    async def answer(request: Request) -> Response:
        caller = await context.caller(request, Scope.READ)
        refuse_unknown_parameters(request, "jobs", "org")
        job_ids = _job_ids(text_parameter(request, "jobs", MAX_STREAM_JOBS * (_MAX_ID_LENGTH + 1)) or "")
        org = choice_parameter(request, "org", ("1",)) is not None
        if not job_ids and not org:
            raise bad_request("Name jobs to hear of, or org=1.", "jobs")
        return HintStream(context, caller, job_ids, org=org)

    return Route(STREAM_PATH, RouteHandler(answer), methods=["GET"])


def _job_ids(text: str) -> list[str]:
    names = list(dict.fromkeys(name for name in text.split(",") if name))
    if len(names) > MAX_STREAM_JOBS:
        raise bad_request(f"jobs may name at most {MAX_STREAM_JOBS} jobs.", "jobs")
    return names


class HintStream(EventStreamResponse[Watcher]):
    """A stream of hints about several jobs, or about the caller's org."""

    def __init__(self, context: ApiContext, caller: Caller, job_ids: list[str], *, org: bool) -> None:
        super().__init__(context, caller, opening("what changed"))
        self._reads = context.services.reads
        self._job_ids = job_ids
        self._org = org

    def following(self) -> AbstractContextManager[Watcher]:
        """Watch the requested jobs and the org."""
        return watching(self.followers, self.caller, self._job_ids, org=self._org)

    async def follow(self, watcher: Watcher, /, sender: StreamSender, ends_at: float) -> None:
        """Send the current state of each topic, then its changes."""
        loop = asyncio.get_running_loop()
        while not self.over(watcher) and loop.time() < ends_at:
            watcher.event.clear()
            for topic in watcher.topics:
                if topic.is_set() and topic.next_at <= loop.time():
                    topic.clear()
                    await self._tell(topic, sender)
            held = [topic.next_at for topic in watcher.topics if topic.is_set()]
            await self.wait(watcher, sender, min([ends_at, *held]))

    async def _tell(self, topic: Topic, sender: StreamSender) -> None:
        """Send the state of a topic, unless it was sent already."""
        topic.next_at = asyncio.get_running_loop().time() + HINT_INTERVAL_SECONDS
        now = await now_of(topic, self.followers, self._reads, self.caller)
        if now is None or now == topic.sent:
            return
        topic.sent = now
        await sender.send(message({"org": now} if topic.job_id is None else {"job": topic.job_id, "seq": now}))


# -- routes ------------------------------------------------------------------------------------------------------------

#: Room for a thousand job ids and a reason.
_MAX_BULK_FORM = 65_536


def page_routes(context: ApiContext) -> list[Route]:
    """Return the routes of every page, its assets and the stream of hints."""
    renderer = PageRenderer(context)
    return [
        *_start_routes(context, renderer),
        *_list_routes(context, renderer),
        *_job_routes(context, renderer),
        *_result_routes(context, renderer),
        *_schedule_routes(context, renderer),
        *_webhook_routes(context, renderer),
        *_ops_routes(context, renderer),
        *_public_routes(context, renderer),
        Route(ASSET_PATH, renderer.assets.serve),
        stream_route(context),
    ]


def missing_page(context: ApiContext) -> ASGIApp:
    """Return the app behind every unknown address: a 404 page for browsers, the API's error for programs."""
    renderer = PageRenderer(context)

    async def missing(scope: AsgiScope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        if not is_browser(request):
            raise HTTPException(404)
        await renderer.missing(request)(scope, receive, send)

    return missing


def _start_routes(context: ApiContext, renderer: PageRenderer) -> list[Route]:
    page = StartPage(context, renderer)
    return [
        renderer.tenant_page("/", page.show, missing="missing.job"),
        renderer.tenant_form(
            "/", page.submit, scope=Scope.SUBMIT, missing="missing.job", max_bytes=context.settings.max_body
        ),
    ]


def _list_routes(context: ApiContext, renderer: PageRenderer) -> list[Route]:
    bulk, failures = BulkActionPages(context, renderer), FailurePages(context, renderer)
    inbox = InboxPages(context, renderer)
    page, form, missing = renderer.tenant_page, renderer.tenant_form, "missing.page"
    return [
        page("/jobs", JobListPage(context, renderer).show, missing=missing),
        page("/selected", bulk.confirm, missing=missing),
        form("/selected/cancel", bulk.cancel, scope=Scope.CANCEL, missing=missing, max_bytes=_MAX_BULK_FORM),
        form("/selected/again", bulk.retry, scope=Scope.SUBMIT, missing=missing, max_bytes=_MAX_BULK_FORM),
        page("/errors", failures.show, missing=missing),
        page("/errors/again", failures.confirm_retry, missing="missing.group"),
        form("/errors/again", failures.retry, scope=Scope.SUBMIT, missing="missing.group"),
        page("/inbox", inbox.show, missing=missing),
        form("/inbox/read", inbox.mark_read, scope=Scope.READ, missing=missing),
    ]


def _job_routes(context: ApiContext, renderer: PageRenderer) -> list[Route]:
    actions = JobActions(context, renderer)
    return [
        renderer.tenant_page("/jobs/{job_id}", JobDetailPage(context, renderer).show, missing="missing.job"),
        renderer.tenant_page("/jobs/{job_id}/cancel", actions.confirm_cancel, missing="missing.job"),
        renderer.tenant_form("/jobs/{job_id}/cancel", actions.cancel, scope=Scope.CANCEL, missing="missing.job"),
        renderer.tenant_page("/jobs/{job_id}/notify", actions.ask_address, missing="missing.job"),
        renderer.tenant_form("/jobs/{job_id}/notify", actions.notify, scope=Scope.SUBMIT, missing="missing.job"),
        renderer.tenant_form("/jobs/{job_id}/retry", actions.retry, scope=Scope.SUBMIT, missing="missing.job"),
    ]


def _result_routes(context: ApiContext, renderer: PageRenderer) -> list[Route]:
    page, files, holds = ResultPage(context, renderer), ViewFiles(context, renderer.analyses), HoldForms(context)
    pages = {
        "/results/{result_id}": page.show,
        "/results/{result_id}/v/{number}": page.version,
        "/results/{result_id}/diff": ComparisonPage(context, renderer).show,
        "/results/{result_id}/download": Downloads(context).send,
        "/results/{result_id}/views/{number}.svg": files.chart,
        "/results/{result_id}/views/{number}": files.image_or_file,
    }
    forms = {"/results/{result_id}/hold": holds.hold, "/results/{result_id}/release": holds.release}
    return [
        *(renderer.tenant_page(path, show, missing="missing.result") for path, show in pages.items()),
        *(renderer.tenant_form(path, act, scope=Scope.ADMIN, missing="missing.result") for path, act in forms.items()),
    ]


def _webhook_routes(context: ApiContext, renderer: PageRenderer) -> list[Route]:
    pages = WebhookPages(context, renderer)
    forms: dict[str, FormPage] = {
        "/webhooks/add": pages.add,
        "/webhooks/{endpoint_id}/rotate": pages.rotate,
        "/webhooks/{endpoint_id}/test": pages.test,
        "/webhooks/{endpoint_id}/switch": pages.switch,
        "/webhooks/{endpoint_id}/remove": pages.remove,
        "/webhooks/{endpoint_id}/replay": pages.replay_failed,
        "/deliveries/{notification_id}/replay": pages.replay,
    }
    missing = "missing.endpoint"
    return [
        renderer.tenant_page("/webhooks", pages.show, missing="missing.page"),
        *(renderer.tenant_form(path, act, scope=Scope.ADMIN, missing=missing) for path, act in forms.items()),
        # A reload or a change of language sends GET to the address of a form.
        *(renderer.tenant_page(path, pages.redirect_to_page, missing=missing) for path in forms),
    ]


def _schedule_routes(context: ApiContext, renderer: PageRenderer) -> list[Route]:
    pages = SchedulePages(context, renderer)
    forms: dict[str, FormPage] = {
        "/schedules/{schedule}/pause": pages.pause,
        "/schedules/{schedule}/run": pages.run,
        "/schedules/{schedule}/remove": pages.remove,
    }
    missing = "missing.schedule"
    return [
        renderer.tenant_page("/schedules", pages.show, missing="missing.page"),
        renderer.tenant_form(
            "/schedules", pages.add, scope=Scope.SUBMIT, missing="missing.page", max_bytes=context.settings.max_body
        ),
        *(renderer.tenant_form(path, act, scope=Scope.SUBMIT, missing=missing) for path, act in forms.items()),
        # A reload or a change of language sends GET to the address of a form.
        *(renderer.tenant_page(path, pages.redirect_to_page, missing=missing) for path in forms),
    ]


def _ops_routes(context: ApiContext, renderer: PageRenderer) -> list[Route]:
    ops = OpsPages(context, renderer)
    pages = {"/ops": ops.show, "/ops/workers": ops.workers, "/ops/orgs": ops.orgs}
    forms: dict[str, FormPage] = {"/ops/pause": ops.pause, "/ops/resume": ops.resume}
    missing = "missing.page"
    return [
        *(renderer.tenant_page(path, show, missing=missing) for path, show in pages.items()),
        *(renderer.tenant_form(path, act, scope=Scope.ADMIN, missing=missing) for path, act in forms.items()),
        # A reload or a change of language sends GET to the address of a form.
        *(renderer.tenant_page(path, ops.redirect_to_page, missing=missing) for path in forms),
    ]


def _public_routes(context: ApiContext, renderer: PageRenderer) -> list[Route]:
    signin, settings = SignInPages(context, renderer), SettingsPage(context, renderer)
    problems, unsubscribe = ProblemPages(renderer), UnsubscribePage(context, renderer)
    return [
        renderer.public_page("/login", GET=signin.show, POST=signin.sign_in),
        renderer.public_page("/logout", POST=signin.sign_out),
        renderer.public_page("/settings", GET=settings.show, POST=settings.save),
        renderer.public_page("/help/states", GET=StatesPage(renderer).show),
        renderer.public_page("/unsubscribe/{token}", GET=unsubscribe.show, POST=unsubscribe.unsubscribe),
        renderer.public_page("/docs", GET=ReferencePage(context, renderer).show),
        renderer.public_page("/problems", GET=problems.list),
        renderer.public_page("/problems/{code}", GET=problems.show),
    ]
