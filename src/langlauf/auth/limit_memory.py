"""Where rates and slots are counted: in this process, or in memory that all API processes of one server map.

Shared memory has no lock, so that no process can hold up another. Each number is one aligned word of memory. A slot
count is written by one process only and summed over all; a process counts itself before it looks at the sum, so that a
limit is never exceeded. A rate is one number that all processes write: two requests of one caller that are counted
within the same microseconds may cost it only one.
"""

import mmap
import os
import tempfile
from collections import Counter, OrderedDict, defaultdict
from hashlib import blake2b
from typing import Any, Literal, Protocol

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
