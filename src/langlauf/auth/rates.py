"""Rate limits by org, credential and address."""

import math
from collections.abc import Callable, Mapping
from enum import StrEnum

import msgspec
from starlette.requests import Request

from langlauf.auth.caller import Caller
from langlauf.auth.client_address import Address, network_of
from langlauf.auth.limit_memory import LimitMemory, LocalMemory
from langlauf.clock import monotonic
from langlauf.domain.access import Rate, RateStatus, Scope, take_one
from langlauf.problems import Problem
from langlauf.settings import Settings

#: How often an org may have a test event sent, and deliveries replayed.
TESTS, REPLAYS = Rate(10, 60), Rate(60, 60)
#: Refusals sent without delay to one caller; further ones are delayed.
REFUSALS = Rate(10, 1)


class RateKind(StrEnum):
    """What is counted separately. The value is the name of the policy on the wire."""

    DEFAULT = "default"
    SUBMIT = "submit"
    #: wrong keys, by the address they come from
    WRONG_KEY = "wrong-key"
    #: test events to an endpoint, by org: each makes this server send a request
    WEBHOOK_TEST = "webhook-test"
    #: replays of deliveries, by org
    REPLAY = "replay"
    #: refusals for one of the other reasons, by the refused caller
    REFUSAL = "refusal"


class Quota(msgspec.Struct, frozen=True):
    """The quota of a caller as it is reported in headers."""

    kind: RateKind
    rate: Rate
    standing: RateStatus
    #: whether it is the quota of one credential rather than of the org
    of_credential: bool = False


class RateLimits:
    """Counts requests by kind and by caller: an org and its credentials, or an address. A kind without a rate is free.

    Callers have levels, see `Caller.counted_as`: each level has the fraction `share` of the rate of the level above.
    """

    def __init__(
        self,
        rates: Mapping[RateKind, Rate],
        *,
        share: float = 1.0,
        now: Callable[[], float] = monotonic,
        memory: LimitMemory | None = None,
    ) -> None:
        self._rates = rates
        self._share = share
        self._now = now
        self._memory = memory or LocalMemory()

    def take(self, kind: RateKind, *counted_as: str) -> Quota | None:
        """Count one request at every level; None without a limit. A refused request is not counted.

        Return the quota that refused it, else the one with the least left.
        """
        rate = self._rates.get(kind)
        if rate is None:
            return None
        quotas: list[Quota] = []
        for depth in range(len(counted_as)):
            part = Rate(math.ceil(rate.quota * self._share**depth), rate.window)
            standing = take_one(part, self._memory.full_at((kind, *counted_as[: depth + 1])), self._now())
            quotas.append(Quota(kind, part, standing, of_credential=depth > 0))
        refused = next((quota for quota in quotas if not quota.standing.allowed), None)
        for depth, quota in enumerate(quotas):
            if refused is None or quota is refused:
                self._memory.remember((kind, *counted_as[: depth + 1]), quota.standing.full_at)
        return refused or min(quotas, key=lambda quota: quota.standing.remaining)

    def is_flood(self, *counted_as: str) -> bool:
        """Count a refusal, and return whether the caller is flooding, so that refusals are to be delayed."""
        quota = self.take(RateKind.REFUSAL, *counted_as)
        return quota is not None and not quota.standing.allowed

    def kind_of(self, scope: Scope) -> RateKind:
        """Return the kind of rate that an operation counts for."""
        return RateKind.SUBMIT if scope is Scope.SUBMIT and RateKind.SUBMIT in self._rates else RateKind.DEFAULT


def rate_limits_from(settings: Settings, memory: LimitMemory | None = None) -> RateLimits:
    """Return the rate limits of the settings; none unless one is set."""
    wanted = {
        RateKind.DEFAULT: settings.rate_limit,
        RateKind.SUBMIT: settings.rate_limit_submit,
        RateKind.WRONG_KEY: settings.rate_limit_wrong_keys,
        RateKind.WEBHOOK_TEST: TESTS,
        RateKind.REPLAY: REPLAYS,
        RateKind.REFUSAL: REFUSALS,
    }
    known = {kind: rate for kind, rate in wanted.items() if rate is not None}
    return RateLimits(known, share=settings.credential_share / 100, memory=memory)


#: Scope key of the headers that every response to a request must have.
HEADERS = "langlauf.headers"
#: Delay of a refusal during a flood.
FLOOD_SECONDS = 5.0


def enforce_rate_limit(rates: RateLimits, request: Request, scope: Scope, caller: Caller) -> None:
    """Count a request for its org and credential; raise 429 above the limit. Operator requests are not counted."""
    if scope is Scope.OPERATE:
        return
    quota = rates.take(rates.kind_of(scope), *caller.counted_as)
    if quota is None:
        return
    request.scope[HEADERS] = _fields(quota)
    if not quota.standing.allowed:
        who = "This credential" if quota.of_credential else "This org"
        raise _too_many(quota, f"{who} has sent too many requests", is_flood=rates.is_flood(*caller.counted_as))


def enforce_own_rate_limit(rates: RateLimits, request: Request, kind: RateKind, org_id: str, what: str) -> None:
    """Count a request of a separately limited kind; raise 429 above the limit."""
    quota = rates.take(kind, org_id)
    if quota is None:
        return
    request.scope[HEADERS] = _fields(quota)
    if not quota.standing.allowed:
        raise _too_many(quota, what)


def limit_wrong_keys(rates: RateLimits, address: Address | None) -> None:
    """Count a wrong key against the client's address; raise 429 above the limit.

    Only called for a wrong key: a good key is never refused because of other clients at its address. Loopback is not
    counted: a local proxy that is not trusted stands for all its clients.
    """
    if address is None or address.is_loopback:
        return
    quota = rates.take(RateKind.WRONG_KEY, network_of(address))
    if quota is not None and not quota.standing.allowed:
        flood = rates.is_flood(network_of(address))
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
