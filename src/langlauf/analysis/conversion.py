"""Conversion of other types towards JSON: what has one obvious form gets it, everything else is refused.

numpy, pandas and pydantic are recognised without being imported. No method of an unknown type is called: `str(value)`
of it may be slow, endless, or meaningless.
"""

import base64
import dataclasses
import itertools
import os
import sys
from collections import deque
from collections.abc import (
    Callable,
    Coroutine,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    Set,
    ValuesView,
)
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

import msgspec

_NANOSECONDS = 1_000
#: Numbers of an array that are copied at once.
_PIECE = 65_536
_SORTABLE = (frozenset({str}), frozenset({int}), frozenset({float}), frozenset({int, float}))


class Unstorable(Exception):
    """The value has no form in JSON; the message says what to return instead."""


class Members:
    """The members of a future list, read one by one: there may be no end."""

    def __init__(self, values: Iterable[Any]) -> None:
        self.values = values


class Entries:
    """The names and values of a future object, read one by one."""

    def __init__(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        self.pairs = pairs


def convert_once(value: Any) -> Any:
    """Return a value of another type one step closer to JSON; it may take further steps."""
    kind = type(value)
    if issubclass(kind, Enum):
        return value.value
    for base, convert in _RULES:
        if issubclass(kind, base):
            return convert(value)
    for origin, name, convert in _BY_NAME:
        if _is_named(kind, origin, name):
            return convert(value)
    if dataclasses.is_dataclass(kind):
        return _fields_of(value, [field.name for field in dataclasses.fields(kind)])
    if attributes := getattr(kind, "__attrs_attrs__", None):
        return _fields_of(value, [attribute.name for attribute in attributes])
    if (numpy := sys.modules.get("numpy")) is not None and issubclass(kind, numpy.ndarray | numpy.generic):
        return _from_numpy(value, numpy)
    raise Unstorable(f"a value of type {kind.__name__} has no form in JSON; {_advice(kind)}")


def _advice(kind: type) -> str:
    if issubclass(kind, Coroutine):
        return "await it first"
    if issubclass(kind, Iterator):
        return "make it a list: list(…)"
    if hasattr(kind, "tolist"):
        return "give what its tolist() returns"
    if issubclass(kind, complex):
        return "give its real and its imaginary part"
    return "give numbers, texts, lists and dicts instead"


def _is_named(kind: type, origin: str, name: str) -> bool:
    """Whether it is, or inherits from, a class of this name in a package that need not be importable here."""
    return any(base.__name__ == name and base.__module__.partition(".")[0] == origin for base in kind.__mro__)


def _fields_of(value: Any, names: Sequence[str]) -> Entries:
    found = ((name, getattr(value, name, msgspec.UNSET)) for name in names)
    return Entries((name, item) for name, item in found if item is not msgspec.UNSET)


def _from_struct(value: msgspec.Struct) -> Any:
    """Return its fields as msgspec would, one level only: they may be of any type."""
    kind = type(value)
    options, values = kind.__struct_config__, [getattr(value, name) for name in kind.__struct_fields__]
    if options.array_like:
        return values if options.tag is None else [options.tag, *values]
    pairs = list(zip(kind.__struct_encode_fields__, values, strict=True))
    if options.omit_defaults:
        first_default = len(pairs) - len(kind.__struct_defaults__)
        defaults = (*[msgspec.NODEFAULT] * first_default, *kind.__struct_defaults__)
        pairs = [pair for pair, default in zip(pairs, defaults, strict=True) if not _is_default(pair[1], default)]
    shown = [pair for pair in pairs if pair[1] is not msgspec.UNSET]
    return Entries(shown if options.tag is None else [(options.tag_field, options.tag), *shown])


def _is_default(value: Any, default: Any) -> bool:
    """Whether msgspec would omit it: the default itself, or an empty container from a factory."""
    made = getattr(default, "factory", None)
    if made in (list, dict, set):
        return type(value) is made and not value
    return value is default or (
        type(default) in (str, int, float, bool) and type(value) is type(default) and value == default
    )


def _from_decimal(value: Decimal) -> str:
    if not Decimal.is_finite(value):
        raise Unstorable("not a finite number; use None or a text")
    return Decimal.__str__(value)


def _from_datetime(value: datetime) -> Any:
    if _is_named(type(value), "pandas", "NaTType"):
        return None
    if getattr(value, "nanosecond", 0):  # of pandas, with nanoseconds
        return value.isoformat()
    exact = datetime.combine(datetime.date(value), datetime.timetz(value))
    return msgspec.to_builtins(exact)


def _from_date(value: date) -> Any:
    return msgspec.to_builtins(date(value.year, value.month, value.day))


def _from_time(value: time) -> Any:
    return msgspec.to_builtins(datetime.combine(date.min, value).timetz())


def _from_timedelta(value: timedelta) -> Any:
    if getattr(value, "nanoseconds", 0):
        raise Unstorable("a duration with nanoseconds; round it to microseconds")
    return msgspec.to_builtins(timedelta(value.days, value.seconds, value.microseconds))


def _from_set(value: Set[Any]) -> Any:
    """Return the members, sorted if possible: a chunk's item must have the same order in every process."""
    members = list(value) if isinstance(value, set | frozenset) else None
    if members is None:
        return Members(value)
    return sorted(members) if frozenset(map(type, members)) in _SORTABLE else members


def _from_numpy(value: Any, numpy: Any) -> Any:
    if value.dtype.kind in "Mm":
        return _from_numpy_time(value, numpy)
    if value.dtype.names is not None and value.ndim == 0:
        return Entries((name, value[name]) for name in value.dtype.names)
    if value.ndim and (value.size > _PIECE or value.dtype.kind not in "biufcSUO"):
        return _in_pieces(value, numpy)
    plain = value.tolist()
    if type(plain) is type(value):
        raise Unstorable(f"a number of type {value.dtype} has more digits than JSON readers keep; give a float")
    return plain


def _in_pieces(value: Any, numpy: Any) -> Members:
    """Return the rows of an array; one that exceeds the limit is not copied as a whole first."""
    rows = value.view(numpy.ndarray) if isinstance(value, numpy.matrix) else value  # a row of a matrix is a matrix
    if value.ndim == 1 and value.dtype.kind in "biufcSUO":
        pieces = (rows[start : start + _PIECE].tolist() for start in range(0, len(rows), _PIECE))
        return Members(itertools.chain.from_iterable(pieces))
    return Members(rows)


def _from_numpy_time(value: Any, numpy: Any) -> Any:
    if value.ndim:
        return _in_pieces(value, numpy)
    if numpy.isnat(value):
        return None
    plain = value.item()
    if type(plain) is int and numpy.datetime_data(value.dtype)[0] == "ns" and plain % _NANOSECONDS == 0:
        plain = value.astype(f"{value.dtype.kind}8[us]").item()
    if isinstance(plain, date | timedelta):
        return plain
    if value.dtype.kind == "M":
        return str(value)
    raise Unstorable(f"a duration of type {value.dtype} has no form in JSON; convert it to timedelta64[us]")


def _has_row_numbers(index: Any) -> bool:
    """Whether an index only counts rows, and so carries no data."""
    return all(name is None for name in index.names) and getattr(index.dtype, "kind", "O") in "iu"


def _from_frame(value: Any) -> Any:
    """Return its rows as objects; an index with data is a column."""
    frame = value if _has_row_numbers(value.index) else value.reset_index()
    names = list(frame.columns)
    columns = [frame.iloc[:, place].tolist() for place in range(len(names))]
    return Members(Entries(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def _from_series(value: Any) -> Any:
    return (
        value.tolist()
        if _has_row_numbers(value.index)
        else Entries(zip(value.index.tolist(), value.tolist(), strict=True))
    )


#: The first match counts. Methods of the known type are called, not overrides of a subclass.
_RULES: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (dict, lambda value: Entries(dict.items(value))),
    (list, lambda value: Members(list.__iter__(value))),
    (tuple, lambda value: Members(tuple.__iter__(value))),
    (bytes | bytearray | memoryview, lambda value: base64.b64encode(value).decode()),
    (datetime, _from_datetime),
    (date, _from_date),
    (time, _from_time),
    (timedelta, _from_timedelta),
    (Decimal, _from_decimal),
    (UUID, UUID.__str__),
    (PurePath, os.fspath),
    (msgspec.Struct, _from_struct),
    (Mapping, lambda value: Entries(value.items())),
    (set | frozenset | KeysView | ItemsView | Set, _from_set),
    (ValuesView | deque | Sequence, Members),
)
#: By package and name of the class.
_BY_NAME: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("pandas", "DataFrame", _from_frame),
    ("pandas", "Series", _from_series),
    ("pandas", "Index", lambda value: value.tolist()),
    ("pandas", "ExtensionArray", lambda value: value.tolist()),
    ("pandas", "NAType", lambda _: None),
    ("pydantic", "BaseModel", lambda value: value.model_dump()),
)
