"""One error shape on the wire: problem details (RFC 9457) with `ok`, `error`, `message` and `request_id`."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

#: What selects an answer; a cache between must know.
VARY = "Authorization, X-API-Key, Cookie, X-Org-Id, X-Tenant-Id, Accept, Prefer"
#: What each code means, in a sentence that does not change from case to case.
TITLES: Mapping[str, str] = {
    "bad_request": "The request cannot be read as it is",
    "unauthorized": "The request needs a valid key",
    "forbidden": "The key does not allow this",
    "not_found": "There is nothing here",
    "method_not_allowed": "This address does not know that method",
    "duplicate_job": "The same job has not ended yet",
    "not_cancelable": "This analysis cannot be canceled",
    "not_terminal": "The job has not ended yet",
    "canceled": "The job was canceled",
    "expired": "Retention has removed this",
    "payload_too_large": "The request body is too large",
    "unsupported_media_type": "The request body must be plain application/json",
    "idempotency_mismatch": "The idempotency key was used with another payload",
    "queue_full": "Too many jobs are waiting",
    "rate_limited": "Too many requests",
    "internal": "Something went wrong on our side",
    "unavailable": "The service cannot take the request right now",
    "timeout": "It took too long",
}


class FieldError(msgspec.Struct, frozen=True):
    """What is wrong with one field of a request."""

    field: str
    detail: str
    pointer: str


class Problem(Exception):
    """Raised anywhere below a route; becomes the response."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})
        self.members = members
        if field is not None:
            pointer = "#/" + field.replace("~", "~0").replace("/", "~1").replace(".", "/")
            self.members = {**members, "field": field, "errors": [FieldError(field, message, pointer)]}


def bad_request(message: str, field: str | None = None) -> Problem:
    """400, naming the field where there is one."""
    return Problem(400, "bad_request", message, field=field)


def not_found() -> Problem:
    """The one 404: of another org, never there, or gone, all the same to the byte."""
    return Problem(404, "not_found", "There is nothing here, or it is not yours to see.")


def problem_response(problem: Problem, request_id: str) -> Response:
    """The problem as a response. An error is never cached."""
    body = {
        "type": f"/problems/{problem.code}",
        "title": TITLES.get(problem.code, HTTPStatus(problem.status).phrase),
        "status": problem.status,
        "detail": problem.message,
        "ok": False,
        "error": problem.code,
        "message": problem.message,
        "request_id": request_id,
        **problem.members,
    }
    headers = {"Cache-Control": "no-store", "Vary": VARY, **problem.headers}
    return Response(msgspec.json.encode(body), problem.status, headers=headers, media_type="application/problem+json")
