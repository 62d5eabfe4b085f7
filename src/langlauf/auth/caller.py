"""The caller of a request: org, grants and ids, the address of the client, and the host names it may ask for."""

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from langlauf.clock import new_id, new_trace_id
from langlauf.domain.access import ALL_SCOPES, CAPABILITY_ISSUER, Grant, Scope
from langlauf.domain.provenance import Trace, read_trace
from langlauf.domain.ssrf import Network, is_loopback
from langlauf.problems import bad_request, forbidden
from langlauf.settings import Settings

if TYPE_CHECKING:  # a process that only runs analyses does not load the library
    from starlette.requests import Request

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


def caller_of(request: "Request", grant: Grant) -> Caller:
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


def _org_named(request: "Request") -> str | None:
    org = _name_header(request, "x-org-id")
    alias = _name_header(request, "x-tenant-id")
    if org is not None and alias is not None and org != alias:
        raise bad_request("X-Org-Id and X-Tenant-Id name different orgs; send one of them.", "X-Org-Id")
    return org or alias


def _name_header(request: "Request", name: str) -> str | None:
    values = request.headers.getlist(name)
    if not values:
        return None
    if len(values) > 1 or not is_valid_name(values[0]):
        title = name.title()
        raise bad_request(f"{title} must be given once, with 1 to 128 of the characters A-Z a-z 0-9 _ . : -", title)
    return values[0]


# -- address of the client ---------------------------------------------------------------------------------------------

Address = IPv4Address | IPv6Address
#: No chain of proxies is longer; further hops are not parsed.
_MOST_HOPS = 32
_SITE_BITS = 64


class TrustedProxies(msgspec.Struct, frozen=True):
    """Networks of trusted proxies, and the header in which they forward the client's address."""

    networks: tuple[Network, ...]
    #: in lower case, as in the ASGI scope
    header: bytes

    def client_of(self, peer: str | None, headers: Iterable[tuple[bytes, bytes]]) -> Address | None:
        """Return the right-most address that is not a trusted proxy; None where the connection has no address.

        A client may send the header itself, so it counts only behind a trusted proxy, and only up to the first
        address, from the right, that no trusted proxy wrote. Where that is malformed, the proxy's address counts.
        """
        address = _read_address(peer or "")
        if address is None or not self._trusts(address):
            return address
        named = b",".join(value for name, value in headers if name == self.header).decode("latin-1")
        for hop in reversed(named.rsplit(",", _MOST_HOPS)[-_MOST_HOPS:]):
            further = _read_address(hop)
            if further is None:
                return address
            address = further
            if not self._trusts(address):
                return address
        return address

    def _trusts(self, address: Address) -> bool:
        return any(address in network for network in self.networks)


def trusted_proxies(settings: Settings) -> TrustedProxies:
    """Return the trusted proxies of the settings."""
    return TrustedProxies(settings.trusted_proxies, settings.proxy_header.lower().encode())


def network_of(address: Address) -> str:
    """Return the unit that rate limits count: the address, or the /64 network of an IPv6 address."""
    if isinstance(address, IPv6Address):
        return str(ip_network((address, _SITE_BITS), strict=False))
    return str(address)


def _read_address(text: str) -> Address | None:
    """Parse an address with or without a port; return None where it is invalid."""
    text = text.strip(" \t")
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


# -- allowed host names ------------------------------------------------------------------------------------------------
# A website can resolve its own name to 127.0.0.1. To a browser, its pages then have the origin of this server, and may
# read and change everything here. They cannot send another `Host` than their own name. So a server without keys, meant
# for this machine, only answers to IP addresses, to `localhost` and to its configured names.

#: Scope key under which our server passes the allowed names; None allows any name.
ALLOWED_HOSTS = "langlauf.names"
_LOCAL_HOSTS = "localhost"


def allowed_hosts(settings: Settings) -> frozenset[str]:
    """Return the host names of the settings."""
    public = urlsplit(settings.public_url).hostname if settings.public_url else None
    return frozenset({_LOCAL_HOSTS, settings.host.lower(), public or _LOCAL_HOSTS})


def check_host(request: "Request") -> None:
    """Raise 403 where `Host` is not an allowed name."""
    names: frozenset[str] | None = request.scope.get(ALLOWED_HOSTS)
    host = request.headers.get("host")
    if names is None or host is None or _is_ours(host, names):
        return
    raise forbidden(
        "unknown_host",
        "Without keys, this server answers only to names that it knows, and the one in Host is none of them: use "
        "localhost, or set LANGLAUF_PUBLIC_URL on the server.",
    )


def serves_this_machine(request: "Request", settings: Settings) -> bool:
    """Whether only people on this machine can reach our server: a loopback bind, known names, no public URL.

    A program that Langlauf is mounted in may listen anywhere.
    """
    ours = request.scope.get(ALLOWED_HOSTS) is not None
    return ours and settings.public_url is None and is_loopback(settings.host)


@lru_cache(256)
def _is_ours(host: str, names: frozenset[str]) -> bool:
    try:
        name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
    except ValueError:
        return False
    return name in names or name.endswith(f".{_LOCAL_HOSTS}") or _is_address(name)


def _is_address(name: str) -> bool:
    """Whether it is an IP address: an address cannot be redirected by DNS."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
