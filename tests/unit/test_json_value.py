"""What values of an analysis become in JSON, what is refused and where, and that reading one always ends."""

import array
import base64
import collections
import datetime as dt
import decimal
import enum
import json
import pathlib
import types
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import attrs
import msgspec
import numpy as np
import pydantic
import pytest

from langlauf.analysis import payload
from langlauf.domain.errors import ResultTooLarge, ResultUnstorable

LARGE = 1_000_000


class Color(enum.Enum):
    """An enumeration."""

    RED = "red"
    BOTH = ("red", 2)


class Level(enum.IntEnum):
    """An enumeration of numbers."""

    HIGH = 3


@dataclass
class Node:
    """A dataclass."""

    name: str
    next: Any = None


@attrs.define
class Point:
    """A class of attrs."""

    x: int


class Model(pydantic.BaseModel):
    """A model of pydantic."""

    day: dt.date


class Tagged(msgspec.Struct, tag="tagged", tag_field="kind", omit_defaults=True, rename="camel"):
    """A struct with everything that changes how it is written."""

    some_name: int
    left_out: str = "x"
    made_anew: list[int] = []
    by_factory: dict[str, int] = msgspec.field(default_factory=dict)
    is_unset: int | msgspec.UnsetType = msgspec.UNSET


class Row(msgspec.Struct, array_like=True, tag=7):
    """A struct that is a list."""

    a: int
    b: list[Any] = []


class Day(dt.date):
    """A kind of date."""


Pair = collections.namedtuple("Pair", "a b")

UTC = dt.UTC
ID = uuid.UUID(int=7)

OBVIOUS: list[tuple[Any, Any]] = [
    (np.int64(7), 7),
    (np.float64(0.5), 0.5),
    (np.float32(0.5), 0.5),
    (np.bool_(True), True),
    (np.str_("x"), "x"),
    (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    (np.array(5), 5),
    (np.arange(100_000), list(range(100_000))),
    (np.zeros((2, 40_000), dtype=bool), [[False] * 40_000] * 2),
    (np.ma.masked_array(["2026-01-02"] * 2, mask=[False, True], dtype="datetime64[D]"), ["2026-01-02", None]),
    (np.array(["a", None, 1.5], dtype=object), ["a", None, 1.5]),
    (np.ma.masked_array([1, 2], mask=[False, True]), [1, None]),
    (np.array([(1, "x")], dtype=[("n", "i4"), ("s", "U1")]), [{"n": 1, "s": "x"}]),
    (np.datetime64("2026-01-02"), "2026-01-02"),
    (np.datetime64("2026-01-02T03:04:05", "ns"), "2026-01-02T03:04:05"),
    (np.datetime64("2026-01-02T03:04:05.000000007", "ns"), "2026-01-02T03:04:05.000000007"),
    (np.datetime64("NaT", "us"), None),
    (np.array(["2026-01-02", "NaT"], dtype="datetime64[D]"), ["2026-01-02", None]),
    (np.timedelta64(90, "s"), "PT90S"),
    (decimal.Decimal("1.50"), "1.50"),
    (pathlib.PurePosixPath("a/b"), "a/b"),
    (Color.RED, "red"),
    (Color.BOTH, ["red", 2]),
    (Level.HIGH, 3),
    ({3, 1, 2}, [1, 2, 3]),
    (frozenset({"b", "a"}), ["a", "b"]),
    (Node("a", Node("b")), {"name": "a", "next": {"name": "b", "next": None}}),
    (Point(1), {"x": 1}),
    (Model(day=dt.date(2026, 1, 2)), {"day": "2026-01-02"}),
    (dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05Z"),
    (dt.datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05"),  # noqa: DTZ001 - what people return
    (dt.date(2026, 1, 2), "2026-01-02"),
    (Day(2026, 1, 2), "2026-01-02"),
    (dt.time(3, 4), "03:04:00"),
    (dt.timedelta(minutes=1, seconds=30), "PT90S"),
    (ID, str(ID)),
    (b"ab", base64.b64encode(b"ab").decode()),
    (Pair(1, 2), [1, 2]),
    (collections.Counter("aa"), {"a": 2}),
    (collections.deque([1, 2]), [1, 2]),
    (types.MappingProxyType({"a": 1}), {"a": 1}),
    ({"a": 1}.values(), [1]),
    (range(3), [0, 1, 2]),
    (array.array("i", [1, 2]), [1, 2]),
    ({np.int64(3): 1, Level.HIGH.name: 2}, {"3": 1, "HIGH": 2}),
    ({dt.date(2026, 1, 2): 1, Color.RED: 2}, {"2026-01-02": 1, "red": 2}),
    (Row(1, [np.int8(2)]), [7, 1, [2]]),
]


@pytest.mark.parametrize(
    ("value", "becomes"), OBVIOUS, ids=[f"{type(value).__name__}{number}" for number, (value, _) in enumerate(OBVIOUS)]
)
def test_a_value_becomes_the_obvious_json(value: Any, becomes: Any) -> None:
    """At the top, and inside others."""
    assert json.loads(payload.encode(value, LARGE)) == becomes
    assert json.loads(payload.encode({"rows": [value]}, LARGE)) == {"rows": [becomes]}


@pytest.mark.parametrize(
    "value",
    [
        Tagged(1),
        Tagged(1, "y", [2], {"a": 1}, 4),
        Tagged(0, "x", [], {}),
        Row(1),
        [Tagged(2, is_unset=0), Row(3, [Row(4)])],
    ],
)
def test_a_struct_is_written_as_msgspec_writes_it(value: Any) -> None:
    """With its tag, its names and without what it leaves out."""
    assert payload.encode(value, LARGE) == msgspec.json.encode(value).decode()


REFUSED: list[tuple[Any, str, str]] = [
    ({"rows": [1, 2, 3, {"level": float("nan")}]}, "/rows/3/level: ", "finite"),
    ({"rows": [{"level": object()}]}, "/rows/0/level: ", "of type object"),
    (np.array([[1.0, np.inf]]), "/0/1: ", "finite"),
    ({"a/b": {"c~d": 2**64}}, "/a~1b/c~0d: ", "64 bits"),
    ([decimal.Decimal("NaN")], "/0: ", "finite"),
    ([1j], "/0: ", "imaginary"),
    ({"list": iter([1])}, "/list: ", "list(…)"),
    ([np.longdouble(1)], "/0: ", "give a float"),
    ([np.timedelta64(3, "M")], "/0: ", "timedelta64[us]"),
    ({"a": {("x", 1): 1}}, "a name in /a: ", "of type tuple"),
    ({"a": {True: 1}}, "a name in /a: ", "of type bool"),
    ({"a": {1: 1, "1": 2}}, "a name in /a: ", "same text, '1'"),
    ({"a": {"\x00": 1}}, "a name in /a: ", "NUL"),
    (object(), "the value: ", "numbers, texts, lists and dicts"),
]


@pytest.mark.parametrize(("value", "where", "why"), REFUSED, ids=[where + why for _, where, why in REFUSED])
def test_a_value_without_json_form_is_refused_with_its_path(value: Any, where: str, why: str) -> None:
    """And with what to do about it."""
    with pytest.raises(ResultUnstorable) as refused:
        payload.encode(value, LARGE)
    assert str(refused.value).startswith(where)
    assert why in str(refused.value)


def _itself() -> Iterator[tuple[str, Any]]:
    """Values that contain themselves."""
    by_name: dict[str, Any] = {"rows": []}
    by_name["rows"].append({"up": by_name})
    yield "/rows/0/up", by_name
    twice: list[Any] = []
    twice += [twice, twice]
    yield "/0", twice
    node = Node("a")
    node.next = [node]
    yield "/next/0", node
    boxed = np.empty(1, dtype=object)
    boxed[0] = boxed
    yield "/0", boxed


@pytest.mark.parametrize(("where", "value"), list(_itself()), ids=["dict", "twice", "dataclass", "array"])
def test_a_value_that_contains_itself_is_refused(where: str, value: Any) -> None:
    """At once, and by name."""
    with pytest.raises(ResultUnstorable, match=f"^{where}: it contains itself"):
        payload.encode(value, LARGE)


class Endless(Mapping[str, int]):
    """An object without an end."""

    def __getitem__(self, name: str) -> int:
        return 0

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        number = 0
        while True:
            yield f"name {number}"
            number += 1


def _deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def _doubled(levels: int) -> Any:
    value: Any = ["x"]
    for _ in range(levels):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    "value", [Endless(), _doubled(64), range(10**12), np.zeros(10**6)], ids=["endless", "doubled", "range", "array"]
)
def test_a_value_without_end_is_too_large(value: Any) -> None:
    """A few levels may have more parts than can be read in a lifetime."""
    with pytest.raises(ResultTooLarge):
        payload.encode(value, 10_000)


def test_a_shared_part_stands_in_each_of_its_places() -> None:
    """It is no circle."""
    part = {"text": "x" * 300}
    assert json.loads(payload.encode([part, {"again": part}, part], LARGE)) == [part, {"again": part}, part]


def test_the_depth_has_a_limit() -> None:
    """As deep as the limit, and not one deeper."""
    assert payload.encode(_deep(499), LARGE) == "[" * 500 + "]" * 500
    for levels in (500, 100_000):
        with pytest.raises(ResultUnstorable, match="nested deeper than 500 levels"):
            payload.encode(_deep(levels), LARGE)


class Hostile(str):
    """A text whose own methods are of no use."""

    __slots__ = ()

    def __str__(self) -> str:
        raise SystemExit

    __repr__ = __str__


class Trap(dict[str, int]):
    """A dict that does not let itself be read, but for its real content."""

    def items(self) -> Any:
        raise RuntimeError("not this way")


class Broken(Mapping[str, int]):
    """An object whose code fails."""

    def __getitem__(self, name: str) -> int:
        raise OSError("/etc/secret/place is closed")

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])


def test_methods_of_subclasses_are_not_called() -> None:
    """What they hold counts."""
    assert payload.encode({"a": Hostile("x"), Hostile("b"): Trap(c=1)}, LARGE) == '{"a":"x","b":{"c":1}}'


def test_code_that_raises_is_reported_with_its_path() -> None:
    """Without where things lie on the machine."""
    with pytest.raises(ResultUnstorable) as refused:
        payload.encode({"part": Broken()}, LARGE)
    assert str(refused.value) == "/part: it cannot be read: OSError: [path] is closed"


class DataFrame:
    """As much of a frame of pandas as is asked of one; pandas itself is no dependency."""

    __module__ = "pandas.core.frame"

    def __init__(self, columns: dict[str, list[Any]], index: "Index") -> None:
        self._columns = columns
        self.index = index
        self.columns = list(columns)
        self.iloc = self

    def __getitem__(self, place: tuple[slice, int]) -> Any:
        return np.array(self._columns[self.columns[place[1]]], dtype=object)

    def reset_index(self) -> "DataFrame":
        """The index as a column before the others."""
        name = self.index.names[0] or "index"
        return DataFrame({name: self.index.values, **self._columns}, Index(list(range(len(self.index.values)))))


@dataclass
class Index:
    """As much of an index."""

    __module__ = "pandas.core.indexes.base"

    values: list[Any]
    names: list[str | None] = field(default_factory=lambda: [None])

    @property
    def dtype(self) -> Any:
        """The type of its labels."""
        return np.array(self.values).dtype

    def tolist(self) -> list[Any]:
        """Its labels."""
        return self.values


class Series:
    """As much of a series."""

    __module__ = "pandas.core.series"

    def __init__(self, values: list[Any], index: Index) -> None:
        self._values = values
        self.index = index

    def tolist(self) -> list[Any]:
        """Its values."""
        return self._values


class Timestamp(dt.datetime):
    """A moment of pandas is one of Python's, with nanoseconds."""

    __module__ = "pandas._libs.tslibs.timestamps"
    nanosecond = 0


class NaTType(dt.datetime):
    """No moment."""

    __module__ = "pandas._libs.tslibs.nattype"


@pytest.mark.parametrize(
    ("value", "becomes"),
    [
        (DataFrame({"n": [1, 2]}, Index([0, 1])), [{"n": 1}, {"n": 2}]),
        (DataFrame({"n": [1]}, Index([5], ["year"])), [{"year": 5, "n": 1}]),
        (DataFrame({"n": [1]}, Index(["mean"])), [{"index": "mean", "n": 1}]),
        (Series([1, 2], Index([0, 1])), [1, 2]),
        (Series([1, 2], Index(["a", "b"])), {"a": 1, "b": 2}),
        (Timestamp(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
        (NaTType(2026, 1, 2), None),
    ],
    ids=["numbered", "named", "labelled", "list", "object", "moment", "none"],
)
def test_what_pandas_makes_is_recognised_by_name(value: Any, becomes: Any) -> None:
    """Rows are objects, and labels that say something are kept."""
    assert json.loads(payload.encode({"found": value}, LARGE)) == {"found": becomes}
