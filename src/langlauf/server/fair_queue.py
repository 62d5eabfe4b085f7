"""A queue of things that have holders: the oldest of the holder that has the most goes first."""

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class FairQueue(Generic[T]):
    """All operations take about the same time, however many there are."""

    def __init__(self) -> None:
        self._holder_of: dict[T, str] = {}
        self._of: dict[str, dict[T, None]] = {}
        #: holders by how many they have; there are never many different numbers
        self._by_size: dict[int, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._holder_of)

    def __contains__(self, one: T) -> bool:
        return one in self._holder_of

    def add(self, one: T, holder: str) -> None:
        """Put it at the end of what its holder has; one that is here moves there."""
        self.discard(one)
        theirs = self._of.setdefault(holder, {})
        self._holder_of[one] = holder
        theirs[one] = None
        self._resize(holder, len(theirs) - 1, len(theirs))

    def discard(self, one: T) -> None:
        """Take it out, if it is here."""
        holder = self._holder_of.pop(one, None)
        if holder is None:
            return
        theirs = self._of[holder]
        del theirs[one]
        self._resize(holder, len(theirs) + 1, len(theirs))
        if not theirs:
            del self._of[holder]

    def pop(self, *, at_least: int = 1) -> T | None:
        """Take out the oldest of the holder that has the most; None where no holder has that many."""
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
