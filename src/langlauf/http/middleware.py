"""The outermost layer, in pure ASGI: the request id, and one error shape for whatever goes wrong below."""

import logging

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from langlauf.analysis.schema import InvalidInput
from langlauf.domain.errors import StoreUnavailable
from langlauf.http.mounting import root_address
from langlauf.http.problems import Problem, bad_request, not_found, problem_response
from langlauf.http.tenant import request_id_from
from langlauf.telemetry import Fact, tell

_RETRY_SECONDS = "5"


class Entrance:
    """Gives each request its id, and turns every error into a problem that tells no secrets."""

    def __init__(self, app: ASGIApp, public_url: str | None = None) -> None:
        self._app = app
        self._public_url = public_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = request_id_from(Headers(scope=scope).get("x-request-id"))
        scope["langlauf.request_id"] = request_id
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                headers["X-Content-Type-Options"] = "nosniff"
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except ClientDisconnect:
            return  # nobody is there to be answered
        except Exception as error:
            if started:
                raise
            response = problem_response(_as_problem(error, scope), request_id, root_address(scope, self._public_url))
            await response(scope, receive, send_with_id)


def _as_problem(error: Exception, scope: Scope) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, InvalidInput):
        return bad_request(f"{error.field}: {error.message}" if error.field else error.message, error.field or None)
    if isinstance(error, HTTPException):
        return _from_starlette(error)
    if isinstance(error, StoreUnavailable):
        tell(Fact.STORE_UNAVAILABLE, logging.ERROR, reason=str(error))
        return Problem(
            503,
            "unavailable",
            "The store does not take writes right now; nothing was accepted. Try again.",
            headers={"Retry-After": _RETRY_SECONDS},
        )
    tell(Fact.REQUEST_FAILED, logging.ERROR, error=error, path=scope["path"], request_id=scope["langlauf.request_id"])
    return Problem(500, "internal", "Something went wrong on our side; the request id finds it in the log.")


def _from_starlette(error: HTTPException) -> Problem:
    if error.status_code == 405:  # noqa: PLR2004
        return Problem(405, "method_not_allowed", "This address does not know that method.", headers=error.headers)
    if error.status_code == 404:  # noqa: PLR2004
        return not_found()
    return Problem(error.status_code, "bad_request", str(error.detail), headers=error.headers)
