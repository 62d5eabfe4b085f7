"""Who asks: the org, and what is known about the request."""

import re

import msgspec

from langlauf.clock import new_id, new_trace_id
from langlauf.domain.access import EVERYTHING, Grant, Scope
from langlauf.domain.trace import Trace

DEFAULT_ORG = "default-org"
_NAME = re.compile(r"^[A-Za-z0-9_.:-]{1,128}$", re.ASCII)


def usable_name(text: str) -> bool:
    """Whether a text can name an org, a user or a request."""
    return _NAME.fullmatch(text) is not None


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The org a request is for, what it may do there, and the ids it is remembered by."""

    org_id: str
    request_id: str
    trace_id: str
    scopes: frozenset[Scope]
    #: what its request told about the trace it belongs to, for others to carry on
    traceparent: str | None = None
    tracestate: str | None = None
    user_id: str | None = None
    api_key_id: str | None = None
    #: by what they may; None inside the program
    grant: Grant | None = None

    @property
    def counted_as(self) -> tuple[str, ...]:
        """Whom its requests count for: the org, and within it the credential, each level a part of the one before."""
        return (self.org_id,) if self.grant is None else (self.org_id, *self.grant.counted_as)

    @property
    def is_operator(self) -> bool:
        """Whether the operator asks, who also sees where an analysis went wrong."""
        return self.grant is not None and self.grant.operator and Scope.OPERATE in self.scopes

    @property
    def trace(self) -> Trace | None:
        """The trace that its request named."""
        if self.traceparent is None:
            return None
        return Trace(self.trace_id, self.traceparent, self.tracestate)


def insider(org_id: str, trace: Trace | None = None) -> Caller:
    """Whoever calls from inside the program, for an org: they may do everything."""
    return Caller(
        org_id=org_id,
        request_id=new_id(),
        trace_id=trace.trace_id if trace else new_trace_id(),
        scopes=EVERYTHING,
        traceparent=trace.traceparent if trace else None,
        tracestate=trace.tracestate if trace else None,
    )
