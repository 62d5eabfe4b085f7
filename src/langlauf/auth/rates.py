"""Rate limits by org, credential and address, counted in this process or in memory that all API processes share."""

import math
import mmap
import os
import tempfile
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Literal, Protocol

import msgspec
from starlette.requests import Request

from langlauf.auth.caller import Address, Caller, network_of
from langlauf.clock import monotonic
from langlauf.domain.access import Rate, RateStatus, Scope, take_one
from langlauf.problems import Problem
from langlauf.settings import Settings

# -- where it is counted -----------------------------------------------------------------------------------------------
# Shared memory has no lock, so that no process can hold up another. Each number is one aligned word of memory. A slot
# count is written by one process only and summed over all; a process counts itself before it looks at the sum, so that
# a limit is never exceeded. A rate is one number that all processes write: two requests of one caller that are counted
# within the same microseconds may cost it only one.

#: Callers remembered for each kind of rate; a flood of names makes the server forget, not grow.
MOST_REMEMBERED = 50_000

_KEY_BYTES = 16
_PAGE_BYTES = 4_096
_WORD_BYTES = 8
_RATE_ENTRIES = 65_536
_COUNT_ENTRIES = 32_768
#: An entry is in one of these many places behind the one that its hash names.
_PROBES = 16
_TABLE_BYTES = 2 * _WORD_BYTES


class LimitMemory(Protocol):
    """Counts by name. The first part of a name says what is counted."""

    def full_at(self, name: tuple[str, ...]) -> float:
        """Return when the quota of a caller is full again; 0 for an unknown one."""

    def remember(self, name: tuple[str, ...], full_at: float) -> None:
        """Keep when the quota of a caller is full again."""

    def add(self, name: tuple[str, ...], number: int) -> int:
        """Add to the count of a name, and return the sum."""

    def count(self, name: tuple[str, ...]) -> int:
        """Return the count of a name."""


class LocalMemory:
    """Counts of this process alone."""

    def __init__(self, most_remembered: int = MOST_REMEMBERED) -> None:
        self._most_remembered = most_remembered
        #: by kind and depth, so that a flood of credentials does not make orgs be forgotten
        self._full_at: defaultdict[tuple[str, int], OrderedDict[tuple[str, ...], float]] = defaultdict(OrderedDict)
        self._counts: Counter[tuple[str, ...]] = Counter()

    def full_at(self, name: tuple[str, ...]) -> float:
        """Return when the quota of a caller is full again; 0 for an unknown one."""
        return self._full_at[name[0], len(name)].get(name, 0.0)

    def remember(self, name: tuple[str, ...], full_at: float) -> None:
        """Keep when the quota of a caller is full again."""
        known = self._full_at[name[0], len(name)]
        known[name] = full_at
        known.move_to_end(name)
        if len(known) > self._most_remembered:
            known.popitem(last=False)  # the caller that was counted the longest ago: its quota is the fullest

    def add(self, name: tuple[str, ...], number: int) -> int:
        """Add to the count of a name, and return the sum."""
        self._counts[name] += number
        count = self._counts[name]
        if not count:
            del self._counts[name]
        return count

    def count(self, name: tuple[str, ...]) -> int:
        """Return the count of a name."""
        return self._counts.get(name, 0)


def make_shared_memory(processes: int) -> int:
    """Return the descriptor of new shared memory for so many processes; it lives as long as a process has it open."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("langlauf-limits")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, _size(processes))
    os.pwrite(descriptor, os.urandom(_KEY_BYTES), 0)
    return descriptor


def _size(processes: int) -> int:
    return _PAGE_BYTES + (_RATE_ENTRIES + processes * _COUNT_ENTRIES) * _TABLE_BYTES


class SharedMemory:
    """The shared tables, seen by process number `process` of `processes`."""

    def __init__(self, descriptor: int, process: int, processes: int) -> None:
        memory = memoryview(mmap.mmap(descriptor, _size(processes)))
        self._key = bytes(memory[:_KEY_BYTES])
        self._process = process
        rates_end = _PAGE_BYTES + _RATE_ENTRIES * _TABLE_BYTES
        self._rate_hashes, self._full_at = _columns(memory[_PAGE_BYTES:rates_end], "d")
        part = _COUNT_ENTRIES * _TABLE_BYTES
        starts = range(rates_end, rates_end + processes * part, part)
        #: for each process
        self._counts = [_columns(memory[start : start + part], "q") for start in starts]

    def full_at(self, name: tuple[str, ...]) -> float:
        """Return when the quota of a caller is full again; 0 for an unknown one."""
        hash_ = self._hash(name)
        for place in _places(hash_, _RATE_ENTRIES):
            if self._rate_hashes[place] == hash_:
                return float(self._full_at[place])
        return 0.0

    def remember(self, name: tuple[str, ...], full_at: float) -> None:
        """Keep when the quota of a caller is full again; the entry that it takes over is the fullest quota nearby."""
        hash_ = self._hash(name)
        places = _places(hash_, _RATE_ENTRIES)
        place = next((one for one in places if self._rate_hashes[one] == hash_), None)
        if place is None:
            place = min(places, key=self._full_at.__getitem__)
            self._rate_hashes[place] = hash_
        self._full_at[place] = full_at

    def add(self, name: tuple[str, ...], number: int) -> int:
        """Add to the count of a name, and return its sum over all processes."""
        hash_ = self._hash(name)
        places = _places(hash_, _COUNT_ENTRIES)
        hashes, counts = self._counts[self._process]
        place = next((one for one in places if counts[one] and hashes[one] == hash_), None)
        if place is None and number > 0:
            # A name without a free place nearby is not counted: counted with another, it would leave a count behind.
            place = next((one for one in places if not counts[one]), None)
            if place is not None:
                hashes[place] = hash_
        if place is not None:
            counts[place] = max(0, counts[place] + number)
        return self._sum(hash_, places)

    def count(self, name: tuple[str, ...]) -> int:
        """Return the count of a name, summed over all processes."""
        hash_ = self._hash(name)
        return self._sum(hash_, _places(hash_, _COUNT_ENTRIES))

    def _sum(self, hash_: int, places: list[int]) -> int:
        return sum(counts[one] for hashes, counts in self._counts for one in places if hashes[one] == hash_)

    def forget(self, process: int) -> None:
        """Clear the counts of a process that is gone."""
        _, counts = self._counts[process]
        for place in range(_COUNT_ENTRIES):
            if counts[place]:
                counts[place] = 0

    def _hash(self, name: tuple[str, ...]) -> int:
        """Return a number that a caller cannot choose: names are hashed with a key that only this server has."""
        text = "\0".join(name).encode()
        return int.from_bytes(blake2b(text, digest_size=_WORD_BYTES, key=self._key).digest()) or 1


def _columns(part: memoryview, kind: Literal["d", "q"]) -> tuple[memoryview, Any]:
    """Return the hashes and the numbers of one table."""
    middle = len(part) // 2
    return part[:middle].cast("Q"), part[middle:].cast(kind)


def _places(hash_: int, entries: int) -> list[int]:
    start = hash_ % entries
    return [place % entries for place in range(start, start + _PROBES)]


# -- rate limits -------------------------------------------------------------------------------------------------------

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
