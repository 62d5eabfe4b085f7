"""How often something may be done, and the arithmetic of it (the generic cell rate algorithm).

One number per caller is enough: the moment at which everything it took has flowed back. A caller may run ahead of the
clock by one window; each request puts that moment off by the share of one. So the quota may be taken at once, then it
comes back evenly, and nothing is saved up beyond it.
"""

import math
import re

import msgspec

_RATE = re.compile(r"^(\d{1,9})/(\d{0,6})([smhd])$")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Rate(msgspec.Struct, frozen=True):
    """So many in a window of seconds: all at once, or evenly."""

    quota: int
    window: int

    def __str__(self) -> str:
        return f"{self.quota}/{self.window}s"


class RateStatus(msgspec.Struct, frozen=True):
    """Where a caller stands after it asked for one more."""

    allowed: bool
    #: how many more it may ask for right now
    remaining: int
    #: whole seconds until the quota is full again; where nothing remains, until there is one more
    seconds: int
    #: what is remembered of it
    full_at: float


def read_rate(text: str) -> Rate:
    """A rate from `20/s`, `100/1m` or `1000/24h`."""
    match = _RATE.match(text.strip())
    if match is None:
        raise ValueError("give a rate like 20/s, 100/1m or 1000/24h")
    rate = Rate(int(match[1]), int(match[2] or 1) * _SECONDS[match[3]])
    if rate.quota < 1 or rate.window < 1:
        raise ValueError("must allow something in some time")
    return rate


def take_one(rate: Rate, full_at: float, now: float) -> RateStatus:
    """One more, for a caller whose quota is full again at that moment; a refusal costs nothing."""
    share = rate.window / rate.quota
    full_at = max(full_at, now)
    allowed = full_at + share - now <= rate.window + _ROUNDING
    if allowed:
        full_at += share
    ahead = full_at - now
    remaining = max(0, math.floor((rate.window - ahead) / share + _ROUNDING))
    until = ahead if remaining else ahead + share - rate.window
    return RateStatus(allowed, remaining, max(1, math.ceil(until - _ROUNDING)), full_at)


#: Sums of fractions are not exact: a caller is not refused for the last bit.
_ROUNDING = 1e-6
