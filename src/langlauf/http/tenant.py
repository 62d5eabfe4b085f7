"""Who is calling: the org from its header, the operator's token where one is set, and the ids of the request."""

import hmac

from starlette.requests import Request

from langlauf.clock import new_id, new_trace_id
from langlauf.domain.access import EVERYTHING
from langlauf.domain.trace import read_trace
from langlauf.http.problems import Problem, bad_request
from langlauf.service.tenant import DEFAULT_ORG, Caller, usable_name


def request_id_from(header: str | None) -> str:
    """The caller's id where it sent a usable one, else a new one."""
    return header if header and usable_name(header) else new_id()


def caller_of(request: Request, auth_token: str | None) -> Caller:
    """The one place where a request gets its org."""
    if auth_token is not None:
        _check_token(request, auth_token)
    trace = read_trace(request.headers.getlist("traceparent"), request.headers.getlist("tracestate"))
    return Caller(
        org_id=_org_of(request),
        request_id=request.scope["langlauf.request_id"],
        trace_id=trace.trace_id if trace else new_trace_id(),
        traceparent=trace.traceparent if trace else None,
        tracestate=trace.tracestate if trace else None,
        scopes=EVERYTHING,
        user_id=_name_header(request, "x-user-id"),
    )


def _check_token(request: Request, auth_token: str) -> None:
    scheme, _, shown = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        shown = request.headers.get("x-api-key", "")
    if not hmac.compare_digest(shown.strip().encode(), auth_token.encode()):
        raise Problem(
            401,
            "unauthorized",
            "Show a valid key as Authorization: Bearer <key>.",
            headers={"WWW-Authenticate": 'Bearer realm="langlauf"'},
        )


def _org_of(request: Request) -> str:
    org = _name_header(request, "x-org-id")
    alias = _name_header(request, "x-tenant-id")
    if org is not None and alias is not None and org != alias:
        raise bad_request("X-Org-Id and X-Tenant-Id name different orgs; send one of them.", "X-Org-Id")
    return org or alias or DEFAULT_ORG


def _name_header(request: Request, name: str) -> str | None:
    values = request.headers.getlist(name)
    if not values:
        return None
    if len(values) > 1 or not usable_name(values[0]):
        title = name.title()
        raise bad_request(f"{title} must be given once, with 1 to 128 of the characters A-Z a-z 0-9 _ . : -", title)
    return values[0]
