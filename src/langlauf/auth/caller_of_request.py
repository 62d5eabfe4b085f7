"""Who is calling: by what right, for which org, and the ids of the request."""

from starlette.requests import Request

from langlauf.auth.caller import DEFAULT_ORG, Caller, usable_name
from langlauf.auth.credentials import forbidden
from langlauf.clock import new_id, new_trace_id
from langlauf.domain.access import ANYBODY, Grant
from langlauf.domain.trace import read_trace
from langlauf.problems import bad_request


def request_id_from(header: str | None) -> str:
    """The caller's id where it sent a usable one, else a new one."""
    return header if header and usable_name(header) else new_id()


def caller_of(request: Request, grant: Grant) -> Caller:
    """The one place where a request gets its org: its key's; a header names it only where the grant is for any."""
    named = _org_named(request)
    if grant.issuer != ANYBODY and grant.org_id is not None and named not in (None, grant.org_id):
        raise forbidden("This key belongs to another org than the one the request names.")
    trace = read_trace(request.headers.getlist("traceparent"), request.headers.getlist("tracestate"))
    return Caller(
        org_id=grant.org_id or named or DEFAULT_ORG,
        request_id=request.scope["langlauf.request_id"],
        trace_id=trace.trace_id if trace else new_trace_id(),
        traceparent=trace.traceparent if trace else None,
        tracestate=trace.tracestate if trace else None,
        scopes=grant.scopes,
        user_id=_name_header(request, "x-user-id"),
        api_key_id=grant.key_id,
        grant=grant,
    )


def _org_named(request: Request) -> str | None:
    org = _name_header(request, "x-org-id")
    alias = _name_header(request, "x-tenant-id")
    if org is not None and alias is not None and org != alias:
        raise bad_request("X-Org-Id and X-Tenant-Id name different orgs; send one of them.", "X-Org-Id")
    return org or alias


def _name_header(request: Request, name: str) -> str | None:
    values = request.headers.getlist(name)
    if not values:
        return None
    if len(values) > 1 or not usable_name(values[0]):
        title = name.title()
        raise bad_request(f"{title} must be given once, with 1 to 128 of the characters A-Z a-z 0-9 _ . : -", title)
    return values[0]
