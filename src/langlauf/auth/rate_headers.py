"""Rates on the wire: the RateLimit fields (draft-ietf-httpapi-ratelimit-headers-10), and 429 for who asks too often."""

from starlette.requests import Request

from langlauf.auth.caller import Caller
from langlauf.auth.client_address import Address, site_of
from langlauf.auth.rates import Kind, Quota, Rates
from langlauf.domain.access import Scope
from langlauf.problems import Problem

#: Where a request keeps the headers that every answer to it must have.
HEADERS = "langlauf.headers"
#: A refusal in a flood of them is held back so long.
FLOOD_SECONDS = 1.0


def count_request(rates: Rates, request: Request, scope: Scope, caller: Caller) -> None:
    """Counts a request for its org and its credential; what an operator asks over all orgs counts for none."""
    if scope is Scope.OPERATE:
        return
    quota = rates.take(rates.kind_of(scope), *caller.counted_as)
    if quota is None:
        return
    request.scope[HEADERS] = _fields(quota)
    if not quota.standing.allowed:
        who = "This credential" if quota.of_credential else "This org"
        raise _too_many(quota, f"{who} has sent too many requests", is_flood=rates.is_flood(*caller.counted_as))


def count_apart(rates: Rates, request: Request, kind: Kind, org_id: str, what: str) -> None:
    """Counts what is limited apart from other requests."""
    quota = rates.take(kind, org_id)
    if quota is None:
        return
    request.scope[HEADERS] = _fields(quota)
    if not quota.standing.allowed:
        raise _too_many(quota, what)


def count_wrong_key(rates: Rates, address: Address | None) -> None:
    """Count a wrong key against the client's address; raise where it has shown too many.

    Only called for a wrong one: a good key is never refused because of what others at its address have shown. This
    machine is not counted: a proxy here that is not trusted stands for all its clients.
    """
    if address is None or address.is_loopback:
        return
    quota = rates.take(Kind.WRONG_KEY, site_of(address))
    if quota is not None and not quota.standing.allowed:
        flood = rates.is_flood(site_of(address))
        raise _too_many(quota, "Too many wrong keys came from this address", is_flood=flood)


def _fields(quota: Quota) -> dict[str, str]:
    standing, name = quota.standing, f"{quota.kind}-credential" if quota.of_credential else quota.kind
    return {
        "RateLimit-Policy": f'"{name}";q={quota.rate.quota};w={quota.rate.window}',
        "RateLimit": f'"{name}";r={standing.remaining};t={standing.seconds}',
    }


def _too_many(quota: Quota, what: str, *, is_flood: bool = False) -> Problem:
    seconds = quota.standing.seconds
    return Problem(
        429,
        "rate_limited",
        f"{what}: {quota.rate.quota:,} in {quota.rate.window:,} s are allowed; try again in {seconds} s.",
        headers={"Retry-After": str(seconds)},
        after=FLOOD_SECONDS if is_flood else 0.0,
    )
