"""The ASGI application: routes, the entrance before them, and CORS before that."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from langlauf.http.context import Context
from langlauf.http.endpoints import Handler, OpenHandler, guarded_route, open_route
from langlauf.http.jobs import Jobs
from langlauf.http.keys import ApiKeys
from langlauf.http.middleware import Entrance
from langlauf.http.openapi import Description
from langlauf.http.operations import OPERATIONS
from langlauf.http.results import Results
from langlauf.http.submitting import Submitting
from langlauf.http.system import System
from langlauf.http.tokens import Tokens

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


def api_routes(context: Context) -> list[BaseRoute]:
    """Every operation that is described, each with what answers it."""
    submitting, results, system = Submitting(context), Results(context), System(context)
    jobs, description = Jobs(context, submitting), Description(context)
    keys, tokens = ApiKeys(context), Tokens(context)
    open_handlers: dict[str, OpenHandler] = {
        "health": system.health,
        "ready": system.ready,
        "openapi": description.document,
    }
    guarded_handlers: dict[str, Handler] = {
        "analyze": submitting.analyze,
        "listJobs": jobs.list,
        "jobStatus": jobs.status,
        "jobEvents": jobs.events,
        "jobResults": jobs.results,
        "jobNotifications": jobs.notifications,
        "cancelJob": jobs.cancel,
        "retryJob": jobs.retry,
        "createJobToken": tokens.create,
        "result": results.result,
        "history": results.history,
        "listKeys": keys.list,
        "createKey": keys.create,
        "revokeKey": keys.revoke,
        "metrics": system.metrics,
    }
    return [
        open_route(one, context, open_handlers[one.name])
        if one.scope is None
        else guarded_route(one, context, guarded_handlers[one.name])
        for one in OPERATIONS
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
