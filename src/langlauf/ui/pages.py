"""The routes of the web pages."""

from starlette.routing import BaseRoute

from langlauf.http.context import Context


def page_routes(context: Context) -> list[BaseRoute]:
    """Every page."""
    return []
