"""The routes of the web pages."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Asked

from langlauf.api.context import Context
from langlauf.domain.access import Scope
from langlauf.ui.assets import ADDRESS
from langlauf.ui.jobs.actions import JobActions
from langlauf.ui.jobs.page import JobPage
from langlauf.ui.lists.routes import list_routes
from langlauf.ui.ops.pages import OpsPages
from langlauf.ui.problem import ProblemPages
from langlauf.ui.reference import ReferencePage
from langlauf.ui.rendering import Rendering, is_browser
from langlauf.ui.results.routes import result_routes
from langlauf.ui.settings import SettingsPage
from langlauf.ui.signin import SignInPages
from langlauf.ui.start.page import StartPage
from langlauf.ui.states import StatesPage
from langlauf.ui.stream import stream_route
from langlauf.ui.unsubscribe import UnsubscribePage
from langlauf.ui.webhooks.routes import webhook_routes


def page_routes(context: Context) -> list[Route]:
    """Every page."""
    rendering = Rendering(context)
    actions = JobActions(context, rendering)
    problems, signing = ProblemPages(rendering), SignInPages(context, rendering)
    start, settings = StartPage(context, rendering), SettingsPage(context, rendering)
    ops, unsubscribing = OpsPages(context, rendering), UnsubscribePage(context, rendering)
    return [
        rendering.tenant_page("/", start.show, missing="missing.job"),
        rendering.tenant_form(
            "/", start.submit, scope=Scope.SUBMIT, missing="missing.job", largest=context.settings.max_body
        ),
        *list_routes(context, rendering),
        rendering.tenant_page("/jobs/{job_id}", JobPage(context, rendering).show, missing="missing.job"),
        rendering.tenant_page("/jobs/{job_id}/cancel", actions.ask_to_cancel, missing="missing.job"),
        rendering.tenant_form("/jobs/{job_id}/cancel", actions.cancel, scope=Scope.CANCEL, missing="missing.job"),
        rendering.tenant_form("/jobs/{job_id}/retry", actions.retry, scope=Scope.SUBMIT, missing="missing.job"),
        *result_routes(context, rendering),
        *webhook_routes(context, rendering),
        rendering.tenant_page("/ops", ops.show, missing="missing.page"),
        rendering.tenant_page("/ops/workers", ops.workers, missing="missing.page"),
        rendering.tenant_page("/ops/orgs", ops.orgs, missing="missing.page"),
        rendering.public_page("/login", GET=signing.show, POST=signing.sign_in),
        rendering.public_page("/logout", POST=signing.sign_out),
        rendering.public_page("/settings", GET=settings.show, POST=settings.save),
        rendering.public_page("/help/states", GET=StatesPage(rendering).show),
        rendering.public_page("/unsubscribe/{token}", GET=unsubscribing.show, POST=unsubscribing.unsubscribe),
        rendering.public_page("/docs", GET=ReferencePage(context, rendering).show),
        rendering.public_page("/problems", GET=problems.list),
        rendering.public_page("/problems/{code}", GET=problems.show),
        Route(ADDRESS, rendering.assets.serve),
        stream_route(context),
    ]


def missing_page(context: Context) -> ASGIApp:
    """Answers where nothing is: a page for people, the API's error for programs."""
    rendering = Rendering(context)

    async def missing(scope: Asked, receive: Receive, send: Send) -> None:
        if not is_browser(Request(scope)):
            raise HTTPException(404)
        await rendering.missing(Request(scope))(scope, receive, send)

    return missing
