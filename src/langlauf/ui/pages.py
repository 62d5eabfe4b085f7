"""The routes of the web pages."""

from starlette.routing import BaseRoute, Route

from langlauf.http.context import Context
from langlauf.ui.job import JobPage
from langlauf.ui.problem import ProblemPages
from langlauf.ui.reference import ReferencePage
from langlauf.ui.rendering import STYLESHEET, Rendering
from langlauf.ui.result import ResultPage
from langlauf.ui.signin import SignInPages
from langlauf.ui.start import StartPage


def page_routes(context: Context) -> list[BaseRoute]:
    """Every page."""
    rendering = Rendering(context)
    problems, signing = ProblemPages(rendering), SignInPages(context, rendering)
    return [
        rendering.tenant_page("/", StartPage(context, rendering).show, missing="missing.page"),
        rendering.tenant_page("/jobs/{job_id}", JobPage(context, rendering).show, missing="missing.job"),
        rendering.tenant_page("/results/{result_id}", ResultPage(context, rendering).show, missing="missing.result"),
        rendering.public_page("/login", GET=signing.show, POST=signing.sign_in),
        rendering.public_page("/logout", POST=signing.sign_out),
        rendering.public_page("/docs", GET=ReferencePage(context, rendering).show),
        rendering.public_page("/problems", GET=problems.list),
        rendering.public_page("/problems/{code}", GET=problems.show),
        Route(STYLESHEET, rendering.stylesheet),
    ]
