"""The outermost layer, in pure ASGI: request ids, CORS, and one response format for all errors."""

import asyncio
import logging
from collections.abc import Callable, Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from langlauf.analysis.schema import InvalidInput
from langlauf.api.requests import OPERATION, PAGES, read_headers
from langlauf.auth.caller import request_id_from
from langlauf.auth.rates import FLOOD_SECONDS, HEADERS
from langlauf.clock import draw, monotonic
from langlauf.domain.errors import (
    AccessLost,
    NoStreamSlot,
    NotRunning,
    Overloaded,
    PayloadUnavailable,
    ResponseMemoryFull,
    StoreUnavailable,
)
from langlauf.problems import Problem, bad_request, not_found, unauthorized
from langlauf.server.asgi import response_memory_full, root_url
from langlauf.server.problem_response import problem_response
from langlauf.telemetry.log import LogEvent, log_event, log_store_failure
from langlauf.telemetry.metrics import REQUESTS

_RETRY_SECONDS = "5"
_PLACE_SECONDS, _PLACE_SPREAD = 5, 10
_OVERLOADED_SECONDS = 1.0
_ALWAYS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))
_CLASSES = {number: f"{number}xx" for number in range(1, 6)}
ALLOWED_METHODS = "GET, HEAD, POST, PATCH, DELETE"
ALLOWED_HEADERS = (
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "If-None-Match",
    "Last-Event-ID",
    "MCP-Protocol-Version",
    "Mcp-Method",
    "Mcp-Name",
    "Prefer",
    "X-API-Key",
    "X-Org-Id",
    "X-Request-Id",
    "X-Tenant-Id",
    "X-User-Id",
    "traceparent",
    "tracestate",
)
EXPOSED_HEADERS = (
    "Content-Location",
    "ETag",
    "Idempotent-Replayed",
    "Link",
    "Location",
    "Preference-Applied",
    "RateLimit",
    "RateLimit-Policy",
    "Retry-After",
    "X-Request-Id",
)
_ANY = "*"
_REMEMBERED_SECONDS = "600"


class Cors:
    """The allowed origins of the settings. Cookies are not allowed: a page of another origin sends its key itself."""

    def __init__(self, origins: tuple[str, ...]) -> None:
        self._origins = frozenset(origins)

    def preflight(self, method: str, headers: Headers) -> Response | None:
        """Return the response to a CORS preflight. It needs no key, and reveals nothing about the path."""
        if not self._origins or method != "OPTIONS" or "access-control-request-method" not in headers:
            return None
        vary = "Access-Control-Request-Method, Access-Control-Request-Headers"
        answer = Response(status_code=204, headers={"Vary": vary, "Cache-Control": "no-store"})
        if self._allowed(headers.get("origin")) is not None:
            answer.headers["Access-Control-Allow-Methods"] = ALLOWED_METHODS
            answer.headers["Access-Control-Allow-Headers"] = ", ".join(ALLOWED_HEADERS)
            answer.headers["Access-Control-Max-Age"] = _REMEMBERED_SECONDS
        return answer

    def mark(self, origin: str | None, start: Message) -> None:
        """Allow the page to read a response, including errors. `Vary` is set where it depends on the origin."""
        if not self._origins:
            return
        answer = MutableHeaders(scope=start)
        if _ANY not in self._origins:
            answer.add_vary_header("Origin")
        allowed = self._allowed(origin)
        if allowed is not None:
            answer["Access-Control-Allow-Origin"] = allowed
            answer["Access-Control-Expose-Headers"] = ", ".join(EXPOSED_HEADERS)

    def _allowed(self, origin: str | None) -> str | None:
        if origin is None:
            return None
        if _ANY in self._origins:
            return _ANY
        return origin if origin in self._origins else None


class ErrorMiddleware:
    """Assigns request ids, and turns every exception into a problem without secrets."""

    def __init__(self, find: Callable[[Scope], ASGIApp], cors: Cors, public_url: str | None) -> None:
        self._find = find
        self._cors = cors
        self._public_url = public_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await WebSocketClose()(scope, receive, send)
            return
        # Streams stay here for hours: nothing is referenced that only the start needs.
        request_id, origin, preflight = self._read(scope)
        started = False
        began = monotonic()

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                REQUESTS.observe(monotonic() - began, scope.get(OPERATION, PAGES), _CLASSES[message["status"] // 100])
                message = {**message, "headers": _completed(message["headers"], request_id, scope)}
                self._cors.mark(origin, message)
            await send(message)

        try:
            await (preflight or self._find(scope))(scope, receive, send_with_id)
        except ClientDisconnect:
            return  # the client has disconnected
        except Exception as error:
            if started:
                raise
            problem = problem_of(error, scope)
            problem.__traceback__ = None  # it refers to this frame, which refers to the problem: garbage
            if problem.after:
                await asyncio.sleep(problem.after)
            response = problem_response(problem, request_id, root_url(scope, self._public_url))
            await response(scope, receive, send_with_id)

    def _read(self, scope: Scope) -> tuple[str, str | None, Response | None]:
        """Return the request id, the origin of the page that sent it, and the response to a preflight."""
        fields = read_headers(scope)
        scope["langlauf.request_id"] = request_id_from(fields.get("x-request-id"))
        return scope["langlauf.request_id"], fields.get("origin"), self._cors.preflight(scope["method"], fields)


def _completed(headers: Iterable[tuple[bytes, bytes]], request_id: str, scope: Scope) -> list[tuple[bytes, bytes]]:
    """Add the headers that every response has."""
    found = [*headers, (b"x-request-id", request_id.encode())]
    known = {name for name, _ in found}
    found += [header for header in _ALWAYS if header[0] not in known]
    if HEADERS in scope:
        found += [(name.lower().encode(), value.encode()) for name, value in scope[HEADERS].items()]
    return found


def problem_of(error: Exception, scope: Scope) -> Problem:
    """Return the problem that an exception of a handler becomes; one that no client caused is logged."""
    match error:
        case Problem():
            problem = error
        case InvalidInput(field=field, message=message):
            problem = bad_request(message, field or None)
        case HTTPException():
            problem = _from_starlette(error)
        case NoStreamSlot() | ResponseMemoryFull():
            problem = _no_place(error) if isinstance(error, NoStreamSlot) else response_memory_full(error)
        case AccessLost():
            problem = unauthorized()
        case Overloaded():
            log_event(LogEvent.REQUEST_REFUSED, logging.DEBUG, status=503, reason=str(error))
            problem = _unavailable("The server is overloaded right now; nothing was accepted. Try again.", "1")
            problem.after = _OVERLOADED_SECONDS  # an instant refusal would invite more requests than it saves work
        case PayloadUnavailable():
            # The cause was logged where it was found.
            problem = _unavailable("This result cannot be read right now; the status of its job can. Try again.")
        case StoreUnavailable():
            log_store_failure(error)
            problem = _unavailable("The store does not take writes right now; nothing was accepted. Try again.")
        case NotRunning():
            # Logged without its traceback, as an exception: the log of another server then also shows the remedy.
            log_event(LogEvent.NOT_RUNNING, logging.ERROR, error=NotRunning(str(error)))
            problem = _unavailable("The service is not running; nothing was accepted. Try again.")
        case _:
            request_id = scope["langlauf.request_id"]
            log_event(LogEvent.REQUEST_FAILED, logging.ERROR, error=error, path=scope["path"], request_id=request_id)
            problem = Problem(
                500, "internal", "Something went wrong on our side. The operator finds it in the log by the request id."
            )
    return problem


def _unavailable(message: str, seconds: str = _RETRY_SECONDS) -> Problem:
    return Problem(503, "unavailable", message, headers={"Retry-After": seconds})


def _no_place(error: NoStreamSlot) -> Problem:
    """Return a problem with a jittered Retry-After, so that refused clients do not retry all at once."""
    seconds = _PLACE_SECONDS + int(_PLACE_SPREAD * draw())
    headers = {"Retry-After": str(seconds)}
    after = FLOOD_SECONDS if error.is_flood else 0.0
    if error.scope == "all":
        message = "Too many event streams, long polls and synchronous requests are open; try again."
        return Problem(503, "unavailable", message, headers=headers, after=after)
    who = "of this org" if error.scope == "org" else "with this credential"
    what = f"Too many event streams, long polls and synchronous requests {who} are open"
    message = f"{what}: close some, or try again in {seconds} s."
    return Problem(429, "rate_limited", message, headers=headers, after=after)


def _from_starlette(error: HTTPException) -> Problem:
    if error.status_code == 404:  # noqa: PLR2004
        return not_found()
    return Problem(error.status_code, "bad_request", str(error.detail), headers=error.headers)
