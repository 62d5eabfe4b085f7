"""Conversion of a value to JSON types: in one pass, with a path for errors, and never past the size limit.

The value may be anything: it may contain itself, share a part a million times, or be endless.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import msgspec

from langlauf.analysis.conversion import Entries, Members, Unstorable, convert_once
from langlauf.domain.errors import LanglaufError, ResultTooLarge, ResultUnstorable, error_saying
from langlauf.domain.redact import exception_text, without_paths
from langlauf.domain.text import LARGEST_INTEGER, SMALLEST_INTEGER, pointer_to, scalar_flaw, string_flaw

#: Results may be nested deeper than requests; this bounds what readers must handle.
DEEPEST_RESULT = 500
#: Conversion steps that one value may take.
_MOST_STEPS = 8
#: A part of at least this many bytes is remembered, so that it is not converted again.
_WORTH_REMEMBERING = 256
_MOST_NAMES = 10_000
_LARGEST_NAME_BITS = 128
_LONGEST_POINTER = 300
_LONGEST_REASON = 300
_LONGEST_SHOWN = 60
_CONTAINERS = frozenset({dict, list, tuple, Members, Entries})


def to_json_value(value: Any, largest: int) -> Any:
    """Return the value in JSON types; otherwise raise, with a JSON pointer to the part that has no form in JSON."""
    if value is None or type(value) is bool or (type(value) is int and SMALLEST_INTEGER <= value <= LARGEST_INTEGER):
        return value
    return _Walk(largest).run(value)


class _UnusableName(Unstorable):
    """A name of an object cannot be stored."""


class _Level:
    """A list or an object that is being read."""

    __slots__ = ("children", "name", "out", "size", "source")

    def __init__(self, source: Any, children: Iterator[tuple[Any, Any]], out: Any) -> None:
        self.source = source
        self.children = children
        self.out = out
        #: the child being read; None between children
        self.name: Any = None
        #: lower bound of its size in bytes of JSON
        self.size = 1


class _Walk:
    """Converts one value. It does not recurse, so a deep one cannot exhaust the stack of the analysis."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._left = largest + 1  # every child counts with a comma, and the whole has none
        self._levels: list[_Level] = []
        #: ids of the containers being read, from the top down
        self._open: set[int] = set()
        #: by id: the source, which is thereby kept alive, its conversion, and its size
        self._known: dict[int, tuple[Any, Any, int]] = {}
        self._names: set[str] = set()

    def run(self, value: Any) -> Any:
        """Convert the whole value."""
        top = _Level(None, iter(((0, value),)), [])
        self._levels.append(top)
        while self._levels:
            level = self._levels[-1]
            opened = self._read_safely(level)
            if opened is None:
                self._close(level)
            else:
                self._levels.append(opened)
        return top.out[0]

    def _close(self, level: _Level) -> None:
        self._levels.pop()
        if not self._levels:
            return
        self._open.discard(id(level.source))
        self._levels[-1].size += level.size
        if level.size >= _WORTH_REMEMBERING:
            self._known[id(level.source)] = level.source, level.out, level.size

    def _read_safely(self, level: _Level) -> _Level | None:
        try:
            return self._read(level)
        except (LanglaufError, MemoryError):
            raise
        except _UnusableName as error:
            self._refuse(str(error), before="a name in ")
        except Unstorable as error:
            self._refuse(str(error))
        except Exception as error:  # noqa: BLE001 - whatever the code of a value raises when it is read
            self._refuse(f"it cannot be read: {without_paths(exception_text(error)[:_LONGEST_REASON])}")

    def _refuse(self, flaw: str, before: str = "") -> NoReturn:
        names = [level.name for level in self._levels[1:] if level.name is not None]
        where = pointer_to(names, _LONGEST_POINTER)
        raise ResultUnstorable(f"{before}{where or 'the value'}: {flaw}") from None

    def _read(self, level: _Level) -> _Level | None:
        """Read children up to one that must be read itself; return that level, or None at the end."""
        out = level.out
        listed = type(out) is list
        level.name = None
        for name, child in level.children:
            level.name = name
            opened = None
            size = _scalar_size(child)
            if size:
                taken = child
            else:
                taken, size, opened = self._other(child)
            if listed:
                out.append(taken)
            else:
                out[name] = taken
                size += len(name) + 3
            level.size += size
            self._left -= size
            if self._left < 0:
                raise error_saying(ResultTooLarge, "larger_than", limit=self._largest)
            if opened is not None:
                return opened
            level.name = None
        return None

    def _other(self, source: Any) -> tuple[Any, int, _Level | None]:
        """Return what another type becomes, its size, and the level to read for it."""
        known = self._known.get(id(source))
        if known is not None:
            return known[1], known[2], None
        if id(source) in self._open:
            raise Unstorable("it contains itself; remove that reference, or replace it by a text")
        item = source
        for _ in range(_MOST_STEPS):
            if type(item) in _CONTAINERS:
                level = self._opened(source, item)
                return level.out, 1, level
            item = convert_once(item)
            if size := _scalar_size(item):
                return item, size, None
        raise Unstorable(f"a value of type {type(source).__name__} has no form in JSON")

    def _opened(self, source: Any, item: Any) -> _Level:
        if len(self._levels) > DEEPEST_RESULT:
            raise Unstorable(f"nested deeper than {DEEPEST_RESULT} levels")
        kind = type(item)
        out: Any = {} if kind in (dict, Entries) else []
        children: Iterator[tuple[Any, Any]]
        if kind is dict:
            children = self._entries_of(item, out)
        elif kind is Entries:
            children = self._named(item.pairs, out)
        else:
            children = enumerate(item.values if kind is Members else item)
        self._open.add(id(source))
        return _Level(source, children, out)

    def _entries_of(self, item: dict[Any, Any], out: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """Return the entries of a dict as they are now: the analysis may go on changing it."""
        pairs = list(item.items())
        if any(type(name) is not str for name, _ in pairs):
            return self._named(pairs, out)
        names = self._names
        for name, _ in pairs:
            if name not in names:
                self._check_name(name)
        return iter(pairs)

    def _named(self, pairs: Iterable[tuple[Any, Any]], out: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield entries with text names; two that become the same would silently lose one."""
        for name, child in pairs:
            text = name if type(name) is str else _name_text(name)
            self._check_name(text)
            if text in out:
                raise _UnusableName(f"two names become the same text, {_shown(text)}")
            yield text, child

    def _check_name(self, name: str) -> None:
        if flaw := string_flaw(name):
            raise _UnusableName(flaw)
        if len(self._names) < _MOST_NAMES:
            self._names.add(name)


def _scalar_size(item: Any) -> int:
    """Return the least bytes of JSON of a number, text or constant, with a comma; 0 for all else."""
    kind = type(item)
    if kind is str:
        size = len(item) + 3
    elif kind is int or kind is float:
        size = 2
    else:
        return 5 if kind is bool or item is None else 0
    if flaw := scalar_flaw(item):
        raise Unstorable(flaw)
    return size


def _name_text(name: Any) -> str:
    """Return the text of a name of another type: numbers, texts and times have one."""
    item = name
    for _ in range(_MOST_STEPS):
        kind = type(item)
        if kind is str:
            return str(item)
        if kind is int and item.bit_length() <= _LARGEST_NAME_BITS:
            return str(item)
        if kind is float and scalar_flaw(item) is None:
            return msgspec.json.encode(item).decode()
        if kind in _CONTAINERS or kind in (int, float, bool, type(None)):
            break
        try:
            item = convert_once(item)
        except Unstorable:
            break
    raise _UnusableName(f"one of type {type(name).__name__} cannot be written as a text; use texts as names")


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…")
