"""How many requests may stay at once: streams and long polls, of one org and in all."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from langlauf.domain.errors import NoPlace

Kind = Literal["stream", "poll"]


class Places:
    """Counts who stays. Each takes a connection and some memory, whatever it waits for, so all count alike."""

    def __init__(self, *, most_of_org: int, most: int) -> None:
        self._most_of_org = most_of_org
        self._most = most
        self._orgs: Counter[str] = Counter()
        self._kinds: Counter[Kind] = Counter()

    def taken(self, kind: Kind) -> int:
        """How many of a kind stay now."""
        return self._kinds[kind]

    @contextmanager
    def take(self, org_id: str, kind: Kind) -> Iterator[None]:
        """A place for as long as the block lasts; raises `NoPlace` where none is left."""
        if self._orgs[org_id] >= self._most_of_org:
            raise NoPlace("org")
        if self._kinds.total() >= self._most:
            raise NoPlace("all")
        self._orgs[org_id] += 1
        self._kinds[kind] += 1
        try:
            yield
        finally:
            self._kinds[kind] -= 1
            self._orgs[org_id] -= 1
            if not self._orgs[org_id]:
                del self._orgs[org_id]
