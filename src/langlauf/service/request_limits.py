"""Limits on what requests hold at once: slots for streams, long polls and waits, memory, and queues fair to holders."""

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, Literal, TypeVar

from langlauf.auth.rates import REFUSALS, LimitMemory, LocalMemory, RateKind, RateLimits
from langlauf.domain.errors import NoStreamSlot, ResponseMemoryFull

# -- fair queue --------------------------------------------------------------------------------------------------------

T = TypeVar("T", bound=Hashable)


class FairQueue(Generic[T]):
    """Items with holders. All operations take about constant time."""

    def __init__(self) -> None:
        self._holder_of: dict[T, str] = {}
        self._of: dict[str, dict[T, None]] = {}
        #: holders by their number of items; there are never many different numbers
        self._by_size: dict[int, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._holder_of)

    def __contains__(self, one: T) -> bool:
        return one in self._holder_of

    def add(self, one: T, holder: str) -> None:
        """Append an item to those of its holder; a known item moves to the end."""
        self.discard(one)
        theirs = self._of.setdefault(holder, {})
        self._holder_of[one] = holder
        theirs[one] = None
        self._resize(holder, len(theirs) - 1, len(theirs))

    def discard(self, one: T) -> None:
        """Remove an item, if it is in the queue."""
        holder = self._holder_of.pop(one, None)
        if holder is None:
            return
        theirs = self._of[holder]
        del theirs[one]
        self._resize(holder, len(theirs) + 1, len(theirs))
        if not theirs:
            del self._of[holder]

    def pop(self, *, at_least: int = 1) -> T | None:
        """Remove and return the oldest item of the holder with the most items; None where no holder has `at_least`."""
        most = max(self._by_size, default=0)
        if most < at_least:
            return None
        holder = next(iter(self._by_size[most]))
        one = next(iter(self._of[holder]))
        self.discard(one)
        return one

    def _resize(self, holder: str, before: int, after: int) -> None:
        if before:
            del self._by_size[before][holder]
            if not self._by_size[before]:
                del self._by_size[before]
        if after:
            self._by_size.setdefault(after, {})[holder] = None


# -- slots and memory --------------------------------------------------------------------------------------------------

#: A "wait" is a submission that is answered when its job has ended: synchronous, or with `Prefer: wait`.
SlotKind = Literal["stream", "poll", "wait"]

_KIND, _LEVEL = "slot-kind", "slot-level"
#: whose limit it is, by the length of the counted name
_SCOPES: tuple[Literal["all"], Literal["org"], Literal["credential"]] = ("all", "org", "credential")


class StreamSlots:
    """Counts streams, long polls and waits. Each holds a connection and some memory, so all count alike.

    A request counts for its org and, within it, for its credential: see `Caller.counted_as`. Each level may take the
    fraction `share` of the level above.
    """

    def __init__(self, *, most_of_org: int, most: int, share: float = 1.0, memory: LimitMemory | None = None) -> None:
        self._most_of_org = most_of_org
        self._most = most
        self._share = share
        self._memory = memory or LocalMemory()
        self._refusals = RateLimits({RateKind.REFUSAL: REFUSALS}, memory=memory)

    def taken(self, kind: SlotKind) -> int:
        """Return the number of open requests of a kind."""
        return self._memory.count((_KIND, kind))

    def take(self, counted_as: Sequence[str], kind: SlotKind) -> "StreamSlot":
        """Take a slot until the block ends; raise `NoStreamSlot` where none is left."""
        limits = {
            (_LEVEL, *counted_as[: depth + 1]): math.ceil(self._most_of_org * self._share**depth)
            for depth in range(len(counted_as))
        }
        limits[_LEVEL,] = self._most
        slot = StreamSlot(self._memory, [(_KIND, kind), *limits])
        for name, limit in limits.items():
            if self._memory.count(name) > limit:
                slot.__exit__()
                scope = _SCOPES[min(len(name) - 1, 2)]
                raise NoStreamSlot(scope, is_flood=self._refusals.is_flood(*counted_as))
        return slot


class StreamSlot:
    """A slot that is taken until its block ends."""

    __slots__ = ("_memory", "_names")

    def __init__(self, memory: LimitMemory, names: Sequence[tuple[str, ...]]) -> None:
        self._memory = memory
        self._names = names
        for name in names:
            memory.add(name, 1)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        for name in self._names:
            self._memory.add(name, -1)


class ResponseMemory:
    """Counts the bytes held in memory to build or send responses."""

    def __init__(self, *, most_of_org: int, most: int) -> None:
        self.most_of_org = most_of_org
        self.most = most
        self.orgs: Counter[str] = Counter()
        self.shares: Counter[tuple[Hashable, int]] = Counter()

    @property
    def taken(self) -> int:
        """Return the number of bytes taken."""
        return self.orgs.total()

    @contextmanager
    def share(self, org_id: str) -> "Iterator[MemoryShare]":
        """Open the share of one response, until the block ends."""
        part = MemoryShare(self, org_id)
        try:
            yield part
        finally:
            part.leave()


class MemoryShare:
    """The memory of one response, taken step by step.

    Only the memory of other responses can refuse it, never its own size alone: otherwise a response larger than the
    limit could never be sent.
    """

    def __init__(self, memory: ResponseMemory, org_id: str) -> None:
        self._memory = memory
        self._org_id = org_id
        self._own = 0
        self._common: list[tuple[Hashable, int]] = []

    def take(self, size: int, common: Hashable | None = None) -> None:
        """Reserve so many bytes more; a common part counts once. Raise `ResponseMemoryFull` if too little is left."""
        if common is None or not self._memory.shares[common, size]:
            self._refuse(size)
            self._memory.orgs[self._org_id] += size
        if common is None:
            self._own += size
        else:
            self._memory.shares[common, size] += 1
            self._common.append((common, size))

    def _refuse(self, size: int) -> None:
        memory = self._memory
        own = self._own + sum(taken for _, taken in self._common)
        if own < memory.orgs[self._org_id] > memory.most_of_org - size:
            raise ResponseMemoryFull("org")
        if own < memory.taken > memory.most - size:
            raise ResponseMemoryFull("all")

    def leave(self) -> None:
        """Give back what it took."""
        free, self._own = self._own, 0
        common, self._common = self._common, []
        for one in common:
            self._memory.shares[one] -= 1
            if not self._memory.shares[one]:  # no other response shares it
                del self._memory.shares[one]
                free += one[1]
        self._memory.orgs[self._org_id] -= free
        if not self._memory.orgs[self._org_id]:
            del self._memory.orgs[self._org_id]
