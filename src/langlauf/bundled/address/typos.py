"""Names found in spite of typing errors."""

from array import array
from collections.abc import Iterable
from typing import Final

_EDGE: Final = 3
_SHORTEST: Final = 5
_TWO_ERRORS_FROM: Final = 8


def allowed_errors(name: str) -> int:
    """How many typing errors a folded name may hold: none under 5 letters, one under 8, two from there on."""
    letters = len(name.replace(" ", ""))
    if letters < _SHORTEST:
        return 0
    return 1 if letters < _TWO_ERRORS_FROM else 2


class TypoIndex:
    """Folded names by their first and last three letters.

    A name with one error keeps one of its two ends, if it has six letters or more, so one error is always found;
    two errors are found where they leave one end alone. That bounds the search to a few thousand comparisons.
    """

    __slots__ = ("_by_end", "_by_start", "_names")

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(names)
        self._by_start: dict[str, array[int]] = {}
        self._by_end: dict[str, array[int]] = {}
        for index, name in enumerate(self._names):
            self._by_start.setdefault(name[:_EDGE], array("I")).append(index)
            self._by_end.setdefault(name[-_EDGE:], array("I")).append(index)

    def near(self, name: str) -> list[tuple[int, str]]:
        """The indexed names within the allowed errors of `name`, as (errors, name), best first; never `name` itself."""
        limit = allowed_errors(name)
        if limit == 0:
            return []
        starts, ends = {name[:_EDGE]}, {name[-_EDGE:]}
        if len(name) < 2 * _EDGE:
            # In a short name an error may touch both ends; a swap or a change within them is tried as well.
            starts |= _swapped(name[:_EDGE])
            ends |= _swapped(name[-_EDGE:])
        candidates = {index for start in starts for index in self._by_start.get(start, ())}
        candidates.update(index for end in ends for index in self._by_end.get(end, ()))
        found: list[tuple[int, str]] = []
        for index in candidates:
            other = self._names[index]
            if abs(len(other) - len(name)) <= limit:
                errors = edit_distance(name, other, limit)
                if 0 < errors <= limit and (errors == 1 or _spread_fairly(name, other)):
                    found.append((errors, other))
        return sorted(set(found))


def _spread_fairly(name: str, other: str) -> bool:
    """Whether no single word holds more errors than it may: `saint moritz` is not `saint jorioz`."""
    words, others = name.split(), other.split()
    if len(words) != len(others):
        return True
    pairs = [(word, allowed_errors(word), match) for word, match in zip(words, others, strict=True)]
    return all(edit_distance(word, match, limit) <= limit for word, limit, match in pairs)


def _swapped(edge: str) -> set[str]:
    return {edge[:at] + edge[at + 1] + edge[at] + edge[at + 2 :] for at in range(len(edge) - 1)}


def edit_distance(left: str, right: str, limit: int) -> int:
    """Insertions, deletions, changes and swaps of neighbours between two words; `limit + 1` for anything above it."""
    if left == right:
        return 0
    start = 0
    shorter = min(len(left), len(right))
    while start < shorter and left[start] == right[start]:
        start += 1
    end = 0
    while end < shorter - start and left[-1 - end] == right[-1 - end]:
        end += 1
    # A swap needs both its letters, and shared ends never hide one of them.
    left, right = left[start : len(left) - end], right[start : len(right) - end]
    if not left or not right:
        return min(limit + 1, len(left) + len(right))
    return _distance(left, right, limit)


def _distance(left: str, right: str, limit: int) -> int:
    before: list[int] = []
    previous = list(range(len(right) + 1))
    for row, letter in enumerate(left, start=1):
        current = [row]
        for column, other in enumerate(right, start=1):
            cost = min(previous[column] + 1, current[-1] + 1, previous[column - 1] + (letter != other))
            if row > 1 and column > 1 and letter == right[column - 2] and left[row - 2] == other:
                cost = min(cost, before[column - 2] + 1)
            current.append(cost)
        if min(current) > limit:
            return limit + 1
        before, previous = previous, current
    return min(previous[-1], limit + 1)
