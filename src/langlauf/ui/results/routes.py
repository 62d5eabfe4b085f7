"""The addresses of results."""

from starlette.routing import Route

from langlauf.api.context import Context
from langlauf.domain.access import Scope
from langlauf.ui.rendering import Rendering
from langlauf.ui.results.comparison import ComparisonPage
from langlauf.ui.results.downloads import Downloads
from langlauf.ui.results.holding import HoldForms
from langlauf.ui.results.media import Media
from langlauf.ui.results.page import ResultPage


def result_routes(context: Context, rendering: Rendering) -> list[Route]:
    """Everything below `/results`."""
    page, media = ResultPage(context, rendering), Media(context)
    shown = {
        "/results/{result_id}": page.show,
        "/results/{result_id}/v/{number}": page.version,
        "/results/{result_id}/diff": ComparisonPage(context, rendering).show,
        "/results/{result_id}/download": Downloads(context).send,
        "/results/{result_id}/views/{number}.svg": media.chart,
        "/results/{result_id}/views/{number}": media.piece,
    }
    holding = HoldForms(context)
    done = {"/results/{result_id}/hold": holding.hold, "/results/{result_id}/release": holding.release}
    return [
        *(rendering.tenant_page(path, show, missing="missing.result") for path, show in shown.items()),
        *(rendering.tenant_form(path, do, scope=Scope.ADMIN, missing="missing.result") for path, do in done.items()),
    ]
