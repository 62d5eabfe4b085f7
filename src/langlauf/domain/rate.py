"""Rates and rate limiting by the generic cell rate algorithm (GCRA).

One number per caller is enough: the time at which its quota is full again. A caller may be ahead of the clock by one
window; each request moves that time by the share of one. So the quota can be used at once, refills evenly, and does not
accumulate beyond the window.
"""

import math
import re

import msgspec

_RATE = re.compile(r"^(\d{1,9})/(\d{0,6})([smhd])$")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Rate(msgspec.Struct, frozen=True):
    """A quota per window of seconds."""

    quota: int
    window: int

    def __str__(self) -> str:
        return f"{self.quota}/{self.window}s"


class RateStatus(msgspec.Struct, frozen=True):
    """The state of a caller's quota after a request."""

    allowed: bool
    #: requests left right now
    remaining: int
    #: whole seconds until the quota is full again; if nothing is left, until the next request is allowed
    seconds: int
    #: when the quota is full again: all that is stored
    full_at: float


def read_rate(text: str) -> Rate:
    """Parse a rate like `20/s`, `100/1m` or `1000/24h`."""
    match = _RATE.match(text.strip())
    if match is None:
        raise ValueError("give a rate like 20/s, 100/1m or 1000/24h")
    rate = Rate(int(match[1]), int(match[2] or 1) * _SECONDS[match[3]])
    if rate.quota < 1 or rate.window < 1:
        raise ValueError("must allow at least 1 in at least 1 s")
    return rate


def take_one(rate: Rate, full_at: float, now: float) -> RateStatus:
    """Take one request from a quota that is full again at `full_at`; a refusal costs nothing."""
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
