"""What a schedule can be played on: a store in this process with set time, and what is asked of it beyond its verbs."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from langlauf.domain.attempt import Backoff
from langlauf.domain.instant import Instant

Row = tuple[Any, ...]


class Fate(StrEnum):
    """What became of a transaction, and what its callers heard of it."""

    TOLD = "committed"
    UNTOLD = "committed, but the callers were told that it failed"
    UNDONE = "rolled back, and the callers were told so"


class ListSweepable(msgspec.Struct, frozen=True, kw_only=True):
    """The first half of a sweep: a page of attempts whose lease or time seems over."""

    after: tuple[str, str]
    limit: int
    grace_seconds: float


class SweepAll(msgspec.Struct, frozen=True, kw_only=True):
    """A sweep of a store that finds and takes back in one statement, a page at a time."""

    limit: int
    grace_seconds: float
    backoff: Backoff


class Stage(Protocol):
    """A store on which schedules are played."""

    #: how to sort jobs as they came
    arrival: str
    #: whether a sweep is one operation, or a look and then one operation for each attempt
    sweeps_at_once: bool

    def fresh(self, jitter: float) -> None:
        """Every table as the migrations left it; chance draws this number."""

    def transact(self, operations: Sequence[Any], now: Instant, fate: Fate) -> list[Any]:
        """One transaction with all operations; what they answered, whoever hears of it."""

    def order(self, operations: Sequence[Any]) -> Sequence[int]:
        """The places of the operations of a transaction in the order in which they are carried out."""

    def seen(self, *queries: str) -> list[list[Row]]:
        """What queries find now."""

    def rows(self, sql: str) -> list[Row]:
        """Looks into the tables past the store."""
