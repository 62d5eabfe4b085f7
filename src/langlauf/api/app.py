"""The ASGI application: the table of routes, dispatch by path, and the authentication of each route."""

from collections.abc import Awaitable, Callable, Container, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from langlauf.api.admin import KeyHandlers, PauseHandlers, SystemHandlers, TokenHandler
from langlauf.api.context import ApiContext
from langlauf.api.events import FeedHandler, InboxHandlers
from langlauf.api.jobs import JobHandlers
from langlauf.api.middleware import Cors, ErrorMiddleware
from langlauf.api.openapi.document import OpenApiHandler
from langlauf.api.operations import OPERATIONS, Operation
from langlauf.api.requests import OPERATION, PAGES, ApiRequest
from langlauf.api.results import HoldHandlers, ResultHandlers
from langlauf.api.schedules import ScheduleHandlers
from langlauf.api.submit import SubmitHandler
from langlauf.api.webhooks import DeliveryHandlers, WebhookHandlers
from langlauf.auth.caller import Caller
from langlauf.auth.credentials import pop_query_token
from langlauf.problems import Problem, not_found
from langlauf.server.asgi import limit_response_memory, path_within, transport_of
from langlauf.settings import Settings

#: Builds the routes of the web pages, which lie above this package.
Pages = Callable[[ApiContext], Sequence[Route]]
#: Builds the application for paths without a route.
Missing = Callable[[ApiContext], ASGIApp]
Lifespan = Callable[[Any], AbstractAsyncContextManager[None]]


class Application:
    """Dispatches requests to routes. They are built at the first request: the use cases exist only while it runs."""

    def __init__(
        self,
        context: Callable[[], ApiContext],
        lifespan: Lifespan,
        pages: Pages,
        missing: Missing,
        settings: Settings,
        *,
        only: Container[str] | None = None,
    ) -> None:
        self._current = context
        self._pages = pages
        self._missing = missing
        self._only = only
        self._lifespan = Router(lifespan=lifespan)
        self._made_for: ApiContext | None = None
        self._routes: dict[tuple[str, int], list[Route]] = {}
        self._elsewhere: ASGIApp = _nothing_here
        self._entrance = ErrorMiddleware(self._find, Cors(settings.cors_origins), settings.public_url)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        else:  # a mounting application goes on to use its scope; our server does not
            await self._entrance(scope if transport_of(scope) else dict(scope), receive, send)

    def _find(self, scope: Scope) -> ASGIApp:
        """Return the application for a request, by path and method."""
        context = self._current()
        if context is not self._made_for:
            self._routes = _by_shape([*api_routes(context, self._only), *self._pages(context)])
            self._elsewhere = self._missing(context)
            self._made_for = context
        path, methods = path_within(scope), set[str]()
        for route in self._routes.get(_shape(path), ()):
            if (matched := route.path_regex.match(path)) is None:
                continue
            if route.methods is not None and scope["method"] in route.methods:
                scope["path_params"] = matched.groupdict()
                return route.app
            methods |= route.methods or set()
        return _other_method(scope["method"], methods) if methods else self._elsewhere


def _other_method(asked: str, methods: set[str]) -> Response:
    """Answer OPTIONS with the methods of a path; raise 405 for any other method."""
    allow = {"Allow": ", ".join(sorted(methods | {"OPTIONS"}))}
    if asked != "OPTIONS":
        raise Problem(
            405,
            "method_not_allowed",
            "This address does not know that method; the header Allow lists those it knows.",
            headers=allow,
        )
    return Response(status_code=204, headers={**allow, "Cache-Control": "no-store"})


def _shape(path: str) -> tuple[str, int]:
    """Return the first segment of a path and its number of segments, which a path shares with its route."""
    return path[1:].partition("/")[0], path.count("/")


def _by_shape(routes: Sequence[Route]) -> dict[tuple[str, int], list[Route]]:
    """Group routes by shape, so that a request is matched against a few of them."""
    found: dict[tuple[str, int], list[Route]] = {}
    for route in routes:
        found.setdefault(_shape(route.path), []).append(route)
    return found


#: Operations that a process without the API also serves.
SYSTEM = frozenset({"health", "ready", "metrics"})


def system_application(context: Callable[[], ApiContext], lifespan: Lifespan, settings: Settings) -> Application:
    """Return an application with health, readiness and metrics only."""
    return Application(context, lifespan, lambda _: (), lambda _: _nothing_here, settings, only=SYSTEM)


async def _nothing_here(_: Scope, __: Receive, ___: Send) -> None:
    raise not_found()


def api_routes(context: ApiContext, only: Container[str] | None = None) -> list[Route]:
    """Return a route for every operation, or for those in `only`, each with its handler."""
    submitting, results, system = SubmitHandler(context), ResultHandlers(context), SystemHandlers(context)
    jobs, description = JobHandlers(context, submitting), OpenApiHandler(context)
    keys, tokens, holding = KeyHandlers(context), TokenHandler(context), HoldHandlers(context)
    webhooks, deliveries = WebhookHandlers(context), DeliveryHandlers(context)
    inbox, pauses = InboxHandlers(context), PauseHandlers(context)
    schedules = ScheduleHandlers(context, submitting)
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
        "feed": FeedHandler(context).events,
        "jobResults": jobs.results,
        "jobNotifications": jobs.notifications,
        "inbox": inbox.list,
        "readInbox": inbox.read,
        "cancelJob": jobs.cancel,
        "notifyJob": jobs.notify,
        "retryJob": jobs.retry,
        "createJobToken": tokens.create,
        "result": results.result,
        "resultViews": results.views,
        "resultProvenance": results.provenance,
        "holdResult": holding.hold,
        "releaseResult": holding.release,
        "listHeld": holding.list,
        "history": results.history,
        "listKeys": keys.list,
        "createKey": keys.create,
        "revokeKey": keys.revoke,
        "listSchedules": schedules.list,
        "createSchedule": schedules.create,
        "getSchedule": schedules.one,
        "changeSchedule": schedules.change,
        "removeSchedule": schedules.remove,
        "runSchedule": schedules.run,
        "listWebhooks": webhooks.list,
        "createWebhook": webhooks.create,
        "getWebhookSecret": webhooks.secret,
        "getWebhook": webhooks.one,
        "changeWebhook": webhooks.change,
        "removeWebhook": webhooks.remove,
        "rotateWebhook": webhooks.rotate,
        "testWebhook": webhooks.test,
        "replayWebhook": webhooks.replay,
        "listDeliveries": deliveries.list,
        "getDelivery": deliveries.one,
        "replayDelivery": deliveries.replay,
        "pauseAnalysis": pauses.pause,
        "resumeAnalysis": pauses.resume,
        "metrics": system.metrics,
    }
    return [
        open_route(one, context, open_handlers[one.name])
        if one.scope is None
        else guarded_route(one, context, guarded_handlers[one.name])
        for one in OPERATIONS
        if only is None or one.name in only
    ]


_SECRET_ADDRESS = {"Cache-Control": "no-store", "X-Robots-Tag": "noindex"}
OpenHandler = Callable[[Request], Awaitable[Response]]
Handler = Callable[[Request, Caller], Awaitable[Response]]


class RouteHandler:
    """A handler as an ASGI application. `ErrorMiddleware` catches errors, so Starlette's own wrapping is not needed."""

    def __init__(self, handler: OpenHandler, operation: str = PAGES) -> None:
        self._handler = handler
        self._operation = operation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[OPERATION] = self._operation
        response = await self._handler(ApiRequest(scope, receive, send))
        await response(scope, receive, send)


def open_route(operation: Operation, context: ApiContext, handler: OpenHandler) -> Route:
    """Return the route of an operation without authentication; HEAD comes with GET."""
    if operation.scope is not None:
        raise ValueError(f"{operation.name} needs the scope {operation.scope}")
    return Route(
        operation.path_under(context.prefix), RouteHandler(handler, operation.name), methods=[operation.method.upper()]
    )


def guarded_route(operation: Operation, context: ApiContext, handler: Handler) -> Route:
    """Return the route of an operation that needs a caller; HEAD comes with GET."""
    scope, by_id = operation.scope, operation.by_id if context.settings.by_id else None
    if scope is None:
        raise ValueError(f"{operation.name} is open to everybody")

    async def checked(request: Request) -> Response:
        # A token in a URL may only read: URLs are logged and shared.
        in_address = pop_query_token(request) if operation.one_job and operation.method == "get" else None
        if by_id is not None:
            caller = await context.holder(request, by_id, in_address=in_address)
        else:
            caller = await context.caller(
                request,
                scope,
                in_address=in_address,
                one_job=operation.one_job,
                store_may_be_away=operation.store_may_be_away,
            )
        response = await handler(request, caller)
        if in_address is not None:  # the URL holds a token: no cache may store the response
            response.headers.update(_SECRET_ADDRESS)
        return limit_response_memory(response, context.services.response_memory, caller.org_id)

    return Route(
        operation.path_under(context.prefix), RouteHandler(checked, operation.name), methods=[operation.method.upper()]
    )
