"""How much memory large answers may take at once, of one org and in all."""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from langlauf.domain.errors import NoRoom


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
