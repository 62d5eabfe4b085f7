"""How a handler becomes a route. Whatever is not open to everybody passes one choke point: who is it, may they."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from langlauf.api.context import Context
from langlauf.api.operations import Operation
from langlauf.api.requests import ReadRequest
from langlauf.auth.caller import Caller
from langlauf.auth.credentials import take_address_token
from langlauf.server.large_response import counted

_SECRET_ADDRESS = {"Cache-Control": "no-store", "X-Robots-Tag": "noindex"}
#: Under this name the scope of a request says which operation it asks for, once that is known.
OPERATION = "langlauf.operation"
#: What metrics call a request for anything but an operation: pages, what they are made of, unknown addresses.
PAGES = "pages"
OpenHandler = Callable[[Request], Awaitable[Response]]
Handler = Callable[[Request, Caller], Awaitable[Response]]


class Endpoint:
    """A handler as an ASGI application: the entrance catches errors, so the framework's own wrapping is not needed."""

    def __init__(self, handler: OpenHandler, operation: str = PAGES) -> None:
        self._handler = handler
        self._operation = operation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[OPERATION] = self._operation
        response = await self._handler(ReadRequest(scope, receive, send))
        await response(scope, receive, send)


def open_route(operation: Operation, context: Context, handler: OpenHandler) -> Route:
    """An operation that everybody may call; HEAD comes with GET."""
    if operation.scope is not None:
        raise ValueError(f"{operation.name} needs the scope {operation.scope}")
    return Route(
        operation.path_under(context.prefix), Endpoint(handler, operation.name), methods=[operation.method.upper()]
    )


def guarded_route(operation: Operation, context: Context, handler: Handler) -> Route:
    """An operation that is called for an org; HEAD comes with GET."""
    scope, by_id = operation.scope, operation.by_id if context.settings.by_id else None
    if scope is None:
        raise ValueError(f"{operation.name} is open to everybody")

    async def checked(request: Request) -> Response:
        # An address may only ever read: addresses are kept and shown in many places.
        in_address = take_address_token(request) if operation.one_job and operation.method == "get" else None
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
        if in_address is not None:  # what the address of this answer opens is nobody else's to keep
            response.headers.update(_SECRET_ADDRESS)
        return counted(response, context.services.room, caller.org_id)

    return Route(
        operation.path_under(context.prefix), Endpoint(checked, operation.name), methods=[operation.method.upper()]
    )
