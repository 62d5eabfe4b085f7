"""Rates on the wire: the RateLimit fields (draft-ietf-httpapi-ratelimit-headers-10), and 429 for who asks too often."""

import ipaddress

from starlette.requests import Request

from langlauf.domain.access import Grant, Scope
from langlauf.http.problems import Problem
from langlauf.service.rates import Kind, Quota, Rates

#: Where a request keeps the headers that every answer to it must have.
HEADERS = "langlauf.headers"


def count_request(rates: Rates, request: Request, scope: Scope, org_id: str) -> None:
    """Counts a request for its org; what an operator asks over all orgs is nobody's."""
    if scope is Scope.OPERATE:
        return
    quota = rates.take(rates.kind_of(scope), org_id)
    if quota is None:
        return
    request.scope[HEADERS] = _fields(quota)
    if not quota.standing.allowed:
        raise _too_many(quota, "This org has sent too many requests")


def count_apart(rates: Rates, request: Request, kind: Kind, org_id: str, what: str) -> None:
    """Counts what is limited apart from other requests."""
    quota = rates.take(kind, org_id)
    if quota is None:
        return
    request.scope[HEADERS] = _fields(quota)
    if not quota.standing.allowed:
        raise _too_many(quota, what)


def refuse_guesses(rates: Rates, request: Request, grant: Grant | None) -> None:
    """Raises where an address has shown too many wrong keys, whether the next one is good or not.

    A good key cannot have been guessed: it passes, so that one who guesses does not shut out all at the same address.
    """
    if grant is not None and not grant.guessable:
        return
    quota = rates.peek(Kind.WRONG_KEY, _address(request)) if rates.remembers(Kind.WRONG_KEY) else None
    if quota is not None and not quota.standing.allowed:
        raise _too_many(quota, "Too many wrong keys came from this address")


def count_guess(rates: Rates, request: Request) -> None:
    """Counts a wrong key against the address it came from; no key at all is no guess."""
    if "authorization" in request.headers or "x-api-key" in request.headers:
        count_wrong_key(rates, request)


def count_wrong_key(rates: Rates, request: Request) -> None:
    """Counts a key that was shown and is not good."""
    if address := _address(request):
        rates.take(Kind.WRONG_KEY, address)


def _address(request: Request) -> str:
    """Who connects; empty on this machine, where a proxy stands for everybody. Of IPv6 a whole site counts as one."""
    try:
        address = ipaddress.ip_address(request.client.host if request.client else "")
    except ValueError:
        return ""
    if address.is_loopback:
        return ""
    return str(ipaddress.ip_network((address, 64), strict=False)) if address.version == 6 else str(address)  # noqa: PLR2004


def _fields(quota: Quota) -> dict[str, str]:
    standing = quota.standing
    return {
        "RateLimit-Policy": f'"{quota.kind}";q={quota.rate.quota};w={quota.rate.window}',
        "RateLimit": f'"{quota.kind}";r={standing.remaining};t={standing.seconds}',
    }


def _too_many(quota: Quota, what: str) -> Problem:
    seconds = quota.standing.seconds
    return Problem(
        429,
        "rate_limited",
        f"{what}: {quota.rate.quota:,} in {quota.rate.window:,} s are allowed; try again in {seconds} s.",
        headers={"Retry-After": str(seconds)},
    )
