"""The caller of a request: the org, what they may do there, and the ids of the request."""

import re

import msgspec
from starlette.requests import Request

from langlauf.clock import new_id, new_trace_id
from langlauf.domain.access import ALL_SCOPES, CAPABILITY_ISSUER, Grant, Scope
from langlauf.domain.provenance import Trace, read_trace
from langlauf.problems import bad_request, forbidden

DEFAULT_ORG = "default-org"
_NAME = re.compile(r"^[A-Za-z0-9_.:-]{1,128}$", re.ASCII)


def is_valid_name(text: str) -> bool:
    """Whether a text is a valid name of an org, a user or a request."""
    return _NAME.fullmatch(text) is not None


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The org of a request, its scopes there, and the ids it is recorded with."""

    org_id: str
    request_id: str
    trace_id: str
    scopes: frozenset[Scope]
    #: the trace context of the request, passed on to the job
    traceparent: str | None = None
    tracestate: str | None = None
    user_id: str | None = None
    api_key_id: str | None = None
    #: the grant of the credential; None for calls from inside the program
    grant: Grant | None = None

    @property
    def counted_as(self) -> tuple[str, ...]:
        """Return the levels that a request counts for: the org, and within it the credential."""
        return (self.org_id,) if self.grant is None else (self.org_id, *self.grant.counted_as)

    @property
    def sees_traces(self) -> bool:
        """Whether the caller may see the stack traces of failed attempts."""
        return Scope.DEBUG in self.scopes

    @property
    def trace(self) -> Trace | None:
        """Return the trace that the request named."""
        if self.traceparent is None:
            return None
        return Trace(self.trace_id, self.traceparent, self.tracestate)


def internal_caller(org_id: str, trace: Trace | None = None) -> Caller:
    """Return a caller for code inside the program: all scopes in one org."""
    return Caller(
        org_id=org_id,
        request_id=new_id(),
        trace_id=trace.trace_id if trace else new_trace_id(),
        scopes=ALL_SCOPES,
        traceparent=trace.traceparent if trace else None,
        tracestate=trace.tracestate if trace else None,
    )


def request_id_from(header: str | None) -> str:
    """Return the X-Request-Id of the client where it is valid, else a new id."""
    return header if header and is_valid_name(header) else new_id()


def caller_of(request: Request, grant: Grant) -> Caller:
    """Return the caller of a request. Its org is the key's; a header names it only where the grant is for any org."""
    named = _org_named(request)
    if grant.issuer != CAPABILITY_ISSUER and grant.org_id is not None and named not in (None, grant.org_id):
        raise forbidden(
            "other_org",
            "This key belongs to another org than the one in X-Org-Id: leave the header out, or use a key of that org.",
        )
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
    if len(values) > 1 or not is_valid_name(values[0]):
        title = name.title()
        raise bad_request(f"{title} must be given once, with 1 to 128 of the characters A-Z a-z 0-9 _ . : -", title)
    return values[0]
