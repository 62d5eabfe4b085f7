"""Who asks too often. Kept in this process alone: with several API processes each has its own count."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from enum import StrEnum

import msgspec

from langlauf.clock import steady
from langlauf.domain.access import Scope
from langlauf.domain.rate import Rate, Standing, take
from langlauf.settings import Settings

#: So many callers are remembered for each kind; a flood of names makes the server forget, not grow.
MOST_REMEMBERED = 50_000
#: How often an org may have a test event sent, and deliveries replayed.
TESTS, REPLAYS = Rate(10, 60), Rate(60, 60)


class Kind(StrEnum):
    """What is counted apart. The word is the name of the policy on the wire."""

    DEFAULT = "default"
    SUBMIT = "submit"
    #: wrong keys, by the address they come from
    WRONG_KEY = "wrong-key"
    #: test events to an endpoint, by org: each makes this server call somebody
    WEBHOOK_TEST = "webhook-test"
    #: replays of deliveries, by org
    REPLAY = "replay"


class Quota(msgspec.Struct, frozen=True):
    """What a caller is told about its quota."""

    kind: Kind
    rate: Rate
    standing: Standing


class Rates:
    """Counts by kind and by who asks: an org, or an address. A kind without a rate is not counted."""

    def __init__(
        self,
        rates: Mapping[Kind, Rate],
        *,
        now: Callable[[], float] = steady,
        most: int = MOST_REMEMBERED,
    ) -> None:
        self._rates = rates
        self._now = now
        self._most = most
        self._full_at: dict[Kind, OrderedDict[str, float]] = {kind: OrderedDict() for kind in rates}

    def take(self, kind: Kind, who: str) -> Quota | None:
        """Counts one request; None where there is no limit. A refused one is not counted."""
        rate = self._rates.get(kind)
        if rate is None:
            return None
        known = self._full_at[kind]
        standing = take(rate, known.get(who, 0.0), self._now())
        known[who] = standing.full_at
        known.move_to_end(who)
        if len(known) > self._most:
            known.popitem(last=False)  # asked the longest ago: of all, its quota is the fullest
        return Quota(kind, rate, standing)

    def kind_of(self, scope: Scope) -> Kind:
        """By which rate an operation counts."""
        return Kind.SUBMIT if scope is Scope.SUBMIT and Kind.SUBMIT in self._rates else Kind.DEFAULT


def rates_from(settings: Settings) -> Rates:
    """The rates that the settings name; none unless one is set."""
    wanted = {
        Kind.DEFAULT: settings.rate_limit,
        Kind.SUBMIT: settings.rate_limit_submit,
        Kind.WRONG_KEY: settings.rate_limit_wrong_keys,
        Kind.WEBHOOK_TEST: TESTS,
        Kind.REPLAY: REPLAYS,
    }
    return Rates({kind: rate for kind, rate in wanted.items() if rate is not None})
