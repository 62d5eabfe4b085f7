"""The ASGI application: routes, the entrance before them, and CORS before that."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from langlauf.http.context import Context
from langlauf.http.jobs import Jobs
from langlauf.http.middleware import Entrance
from langlauf.http.openapi import Description
from langlauf.http.results import Results
from langlauf.http.submitting import Submitting
from langlauf.http.system import System

#: Makes the routes of the web pages, which lie above this room.
Pages = Callable[[Context], Sequence[BaseRoute]]
Lifespan = Callable[[Any], AbstractAsyncContextManager[None]]
ALLOWED_HEADERS = (
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "If-None-Match",
    "Last-Event-ID",
    "Prefer",
    "X-API-Key",
    "X-Org-Id",
    "X-Request-Id",
    "X-Tenant-Id",
    "X-User-Id",
    "traceparent",
)
EXPOSED_HEADERS = (
    "Content-Location",
    "ETag",
    "Idempotent-Replayed",
    "Link",
    "Location",
    "Preference-Applied",
    "Retry-After",
    "X-Request-Id",
)


class Application:
    """Routes behind the entrance. The routes are made when the application runs: before, there is nothing to call."""

    def __init__(
        self, context: Callable[[], Context], lifespan: Lifespan, pages: Pages, cors_origins: tuple[str, ...]
    ) -> None:
        self._current = context
        self._pages = pages
        self._lifespan = Router(lifespan=lifespan)
        self._made_for: Context | None = None
        self._router = Router()
        self._entrance = Entrance(_with_cors(self._route, cors_origins) if cors_origins else self._route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        else:
            await self._entrance(scope, receive, send)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        context = self._current()
        if context is not self._made_for:
            routes = [*api_routes(context), *self._pages(context)]
            self._made_for, self._router = context, Router(routes, redirect_slashes=False)
        # With an application in its scope the router raises for unknown paths and methods: they get our error shape.
        scope["app"] = self
        await self._router(scope, receive, send)


class Endpoint:
    """A handler as an ASGI application: the entrance catches errors, so the framework's own wrapping is not needed."""

    def __init__(self, handler: Callable[[Request], Awaitable[Response]]) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._handler(Request(scope, receive, send))
        await response(scope, receive, send)


def route(path: str, handler: Callable[[Request], Awaitable[Response]], method: str = "GET") -> Route:
    """A route of one method; HEAD comes with GET."""
    return Route(path, Endpoint(handler), methods=[method])


def api_routes(context: Context) -> list[BaseRoute]:
    """Every route of the contract."""
    prefix = context.prefix
    submitting, results, system = Submitting(context), Results(context), System(context)
    jobs, description = Jobs(context, submitting), Description(context)
    job = f"{prefix}/jobs/{{job_id}}"
    return [
        route(prefix, submitting.analyze, "POST"),
        route(f"{prefix}/jobs", jobs.list),
        route(job, jobs.status),
        route(f"{job}/events", jobs.events),
        route(f"{job}/results", jobs.results),
        route(f"{job}/notifications", jobs.notifications),
        route(f"{job}/cancel", jobs.cancel, "POST"),
        route(f"{job}/retry", jobs.retry, "POST"),
        route(f"{prefix}/results/{{result_id}}", results.result),
        route(f"{prefix}/history", results.history),
        route("/health", system.health),
        route("/ready", system.ready),
        route("/metrics", system.metrics),
        route("/openapi.json", description.document),
    ]


def _with_cors(app: ASGIApp, origins: tuple[str, ...]) -> ASGIApp:
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=["GET", "HEAD", "POST"],
        allow_headers=ALLOWED_HEADERS,
        expose_headers=EXPOSED_HEADERS,
        max_age=600,
    )
