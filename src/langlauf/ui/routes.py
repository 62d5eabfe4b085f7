"""The routes of the web pages."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from langlauf.api.context import ApiContext
from langlauf.domain.access import Scope
from langlauf.ui.assets import ASSET_PATH
from langlauf.ui.pages.failures import FailurePages
from langlauf.ui.pages.inbox import InboxPages
from langlauf.ui.pages.job import JobActions, JobDetailPage
from langlauf.ui.pages.job_list import BulkActionPages, JobListPage
from langlauf.ui.pages.ops import OpsPages
from langlauf.ui.pages.public import ProblemPages, SettingsPage, StatesPage, UnsubscribePage
from langlauf.ui.pages.reference import ReferencePage
from langlauf.ui.pages.result import HoldForms, ResultPage
from langlauf.ui.pages.result_comparison import ComparisonPage
from langlauf.ui.pages.result_downloads import Downloads, ViewFiles
from langlauf.ui.pages.schedules import SchedulePages
from langlauf.ui.pages.signin import SignInPages
from langlauf.ui.pages.start import StartPage
from langlauf.ui.pages.webhooks import WebhookPages
from langlauf.ui.renderer import FormPage, PageRenderer, is_browser
from langlauf.ui.stream import stream_route

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
