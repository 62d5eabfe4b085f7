"""A queue that is fair between holders: the oldest item of the holder with the most items comes first."""

from collections.abc import Hashable
from typing import Generic, TypeVar

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
