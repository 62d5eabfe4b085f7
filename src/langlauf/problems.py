"""HTTP errors: problem details (RFC 9457) with `ok`, `error`, `message` and `request_id`."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Literal

import msgspec

#: Headers that select a response, for caches in between.
VARY = "Authorization, X-API-Key, Cookie, X-Org-Id, X-Tenant-Id, Accept, Prefer"
#: The meaning of each code, the same in every case.
TITLES: Mapping[str, str] = {
    "bad_request": "The request cannot be read as it is",
    "unauthorized": "The request needs a valid key",
    "forbidden": "The key does not allow this",
    "not_found": "There is nothing here",
    "method_not_allowed": "This address does not know that method",
    "request_timeout": "The request took too long to arrive",
    "duplicate_job": "The same job has not ended yet",
    "not_cancelable": "This analysis cannot be canceled",
    "not_terminal": "The job has not ended yet",
    "has_ended": "The job has ended",
    "canceled": "The job was canceled",
    "schedule_exists": "The org has a schedule of this name already",
    "endpoint_exists": "The org has an endpoint for this address already",
    "endpoint_disabled": "The endpoint is switched off",
    "expired": "Retention has removed this",
    "payload_too_large": "The request body is too large",
    "head_too_large": "The address or the headers are too large",
    "unsupported_media_type": "The request body must be plain application/json",
    "idempotency_mismatch": "The idempotency key was used with another payload",
    "queue_full": "Too many jobs are waiting",
    "rate_limited": "Too many requests",
    "internal": "Something went wrong on our side",
    "unavailable": "The service cannot take the request right now",
    "timeout": "It took too long",
}


#: Codes of failed jobs, which a request that waits for such a job gets too.
JOB_TITLES: Mapping[str, str] = {
    "timeout_max_retries": "Every attempt took too long",
    "network_error": "Another service could not be reached",
    "validation_error": "The analysis cannot work with this input",
    "worker_lost": "The worker vanished too often",
    "result_too_large": "The result is larger than the limit",
    "result_unstorable": "The result cannot be stored",
}
_NO_PAGE = "about:blank"


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
        after: float = 0.0,
        **members: Any,
    ) -> None:
        super().__init__(message)
        #: seconds by which the response is delayed: an instant refusal would speed up a flood
        self.after = after
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})
        self.members = members
        if field is not None:
            pointer = "#/" + field.replace("~", "~0").replace("/", "~1").replace(".", "/")
            self.members = {**members, "field": field, "errors": [FieldError(field, message, pointer)]}


def bad_request(message: str, field: str | None = None) -> Problem:
    """Return a 400 that names the field where there is one."""
    return Problem(400, "bad_request", message, field=field)


def unauthorized() -> Problem:
    """Return a 401, the same to the byte for a key that is missing, malformed, unknown, revoked or expired."""
    return Problem(
        401,
        "unauthorized",
        "Send a valid key as Authorization: Bearer <key>; the operator of the server issues keys.",
        headers={"WWW-Authenticate": 'Bearer realm="langlauf"'},
    )


#: Why a caller may not do something, for programs: `scope` comes with `required_scope`.
ForbiddenReason = Literal[
    "scope", "operator", "all_orgs", "other_org", "one_job", "key_limits", "other_site", "unknown_host"
]


def forbidden(reason: ForbiddenReason, message: str, **members: Any) -> Problem:
    """Return a 403: the caller is known, and may not do this."""
    return Problem(403, "forbidden", message, reason=reason, **members)


def not_found() -> Problem:
    """Return a 404, the same to the byte for a record of another org, a missing one and a removed one."""
    return Problem(
        404,
        "not_found",
        "There is nothing here, or it belongs to another org: check the address, and the org of the request.",
    )


#: As in RFC 9110; Python follows it since 3.13.
_PHRASES = {
    413: "Content Too Large",
    414: "URI Too Long",
    416: "Range Not Satisfiable",
    422: "Unprocessable Content",
}


def type_of(code: str, base: str) -> str:
    """Return the URL that explains a code; a code of an analysis has no page."""
    return f"{base}/problems/{code}" if code in TITLES or code in JOB_TITLES else _NO_PAGE


def title_of(code: str, status: int) -> str:
    """Return the meaning of a code; for a code of an analysis, that of the status."""
    return TITLES.get(code) or JOB_TITLES.get(code) or phrase_of(status)


def phrase_of(status: int) -> str:
    """Return the reason phrase of a status, the same in every version of Python."""
    return _PHRASES.get(status) or HTTPStatus(status).phrase
