"""How many requests may stay at once: streams, long polls and waits for a result, of one credential, org and in all."""

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from langlauf.auth.rates import REFUSALS, Rates
from langlauf.auth.rates import Kind as RateKind
from langlauf.domain.errors import NoPlace, NoRoom

#: A "wait" is a submission that is answered when its job has ended: synchronous, or with `Prefer: wait`.
Kind = Literal["stream", "poll", "wait"]


class Places:
    """Counts requests that stay. Each takes a connection and some memory, whatever it waits for, so all count alike.

    A request counts for its org and, within it, for the credential it came with: see `Caller.counted_as`. Each level
    may take the part `share` of what the level above it may.
    """

    def __init__(self, *, most_of_org: int, most: int, share: float = 1.0) -> None:
        self._most_of_org = most_of_org
        self._most = most
        self._share = share
        self._levels: Counter[tuple[str, ...]] = Counter()
        self._kinds: Counter[Kind] = Counter()
        self._refusals = Rates({RateKind.REFUSAL: REFUSALS})

    def taken(self, kind: Kind) -> int:
        """How many of a kind stay now."""
        return self._kinds[kind]

    def take(self, counted_as: Sequence[str], kind: Kind) -> "Place":
        """A place for as long as the block lasts; raises `NoPlace` where none is left."""
        levels = [tuple(counted_as[: depth + 1]) for depth in range(len(counted_as))]
        for depth, level in enumerate(levels):
            if self._levels[level] >= math.ceil(self._most_of_org * self._share**depth):
                raise self._no_place("credential" if depth else "org", counted_as)
        if self._kinds.total() >= self._most:
            raise self._no_place("all", counted_as)
        self._levels.update(levels)
        self._kinds[kind] += 1
        return Place(self, levels, kind)

    def _no_place(self, scope: Literal["credential", "org", "all"], counted_as: Sequence[str]) -> NoPlace:
        return NoPlace(scope, is_flood=self._refusals.is_flood(*counted_as))

    def give_back(self, levels: list[tuple[str, ...]], kind: Kind) -> None:
        """One that stayed is gone."""
        self._kinds[kind] -= 1
        self._levels.subtract(levels)
        for level in levels:
            if not self._levels[level]:
                del self._levels[level]


class Place:
    """A place that is taken until its block is left."""

    __slots__ = ("_kind", "_levels", "_places")

    def __init__(self, places: Places, levels: list[tuple[str, ...]], kind: Kind) -> None:
        self._places = places
        self._levels = levels
        self._kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._places.give_back(self._levels, self._kind)


class Room:
    """Counts the bytes that are in memory only because an answer is made or sent."""

    def __init__(self, *, most_of_org: int, most: int) -> None:
        self.most_of_org = most_of_org
        self.most = most
        self.orgs: Counter[str] = Counter()
        self.shares: Counter[tuple[Hashable, int]] = Counter()

    @property
    def taken(self) -> int:
        """How many bytes are taken."""
        return self.orgs.total()

    @contextmanager
    def share(self, org_id: str) -> "Iterator[Share]":
        """One answer's part of it, for as long as the block lasts."""
        part = Share(self, org_id)
        try:
            yield part
        finally:
            part.leave()


class Share:
    """What one answer takes, step by step.

    It is refused because of what others take and never because of its own size alone: else what is larger than the
    room could never be had.
    """

    def __init__(self, room: Room, org_id: str) -> None:
        self._room = room
        self._org_id = org_id
        self._own = 0
        self._common: list[tuple[Hashable, int]] = []

    def take(self, size: int, common: Hashable | None = None) -> None:
        """So many bytes more; raises `NoRoom` where too little is left. What is common to several is counted once."""
        if common is None or not self._room.shares[common, size]:
            self._refuse(size)
            self._room.orgs[self._org_id] += size
        if common is None:
            self._own += size
        else:
            self._room.shares[common, size] += 1
            self._common.append((common, size))

    def _refuse(self, size: int) -> None:
        room = self._room
        own = self._own + sum(taken for _, taken in self._common)
        if own < room.orgs[self._org_id] > room.most_of_org - size:
            raise NoRoom("org")
        if own < room.taken > room.most - size:
            raise NoRoom("all")

    def leave(self) -> None:
        """Gives back what it took."""
        free, self._own = self._own, 0
        common, self._common = self._common, []
        for one in common:
            self._room.shares[one] -= 1
            if not self._room.shares[one]:  # no other answer shares it
                del self._room.shares[one]
                free += one[1]
        self._room.orgs[self._org_id] -= free
        if not self._room.orgs[self._org_id]:
            del self._room.orgs[self._org_id]
