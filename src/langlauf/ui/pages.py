"""The routes of the web pages."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from langlauf.http.context import Context
from langlauf.ui.assets import ADDRESS
from langlauf.ui.job import JobPage
from langlauf.ui.ops.pages import OpsPages
from langlauf.ui.problem import ProblemPages
from langlauf.ui.reference import ReferencePage
from langlauf.ui.rendering import Rendering, is_browser
from langlauf.ui.result import ResultPage
from langlauf.ui.signin import SignInPages
from langlauf.ui.start import StartPage


def page_routes(context: Context) -> list[BaseRoute]:
    """Every page."""
    rendering = Rendering(context)
    problems, signing = ProblemPages(rendering), SignInPages(context, rendering)
    ops = OpsPages(context, rendering)
    return [
        rendering.tenant_page("/", StartPage(context, rendering).show, missing="missing.page"),
        rendering.tenant_page("/jobs/{job_id}", JobPage(context, rendering).show, missing="missing.job"),
        rendering.tenant_page("/results/{result_id}", ResultPage(context, rendering).show, missing="missing.result"),
        rendering.tenant_page("/ops", ops.show, missing="missing.page"),
        rendering.tenant_page("/ops/workers", ops.workers, missing="missing.page"),
        rendering.tenant_page("/ops/orgs", ops.orgs, missing="missing.page"),
        rendering.public_page("/login", GET=signing.show, POST=signing.sign_in),
        rendering.public_page("/logout", POST=signing.sign_out),
        rendering.public_page("/docs", GET=ReferencePage(context, rendering).show),
        rendering.public_page("/problems", GET=problems.list),
        rendering.public_page("/problems/{code}", GET=problems.show),
        Route(ADDRESS, rendering.assets.serve),
    ]


def missing_page(context: Context) -> ASGIApp:
    """Answers where nothing is: a page for people, the API's error for programs."""
    rendering = Rendering(context)

    async def missing(scope: Scope, receive: Receive, send: Send) -> None:
        if not is_browser(Request(scope)):
            raise HTTPException(404)
        await rendering.missing(Request(scope))(scope, receive, send)

    return missing
