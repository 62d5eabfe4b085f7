"""Cells as numbers: points and commas as decimal marks, and the ways people write that there is nothing."""

import re
from collections.abc import Iterable
from math import isfinite
from typing import Final, Literal

import msgspec

#: Squares of anything larger could no longer be added up.
LARGEST: Final = 1e100
_MISSING: Final = frozenset({"", "na", "n/a", "nan", "null", "none", "-", "\u2013", "\u2014", "?", "#n/a"})
_GROUPS: Final = "['\u2019 \u00a0\u202f]"
_POINT: Final = re.compile(
    rf"[+-]?(?:\d{{1,3}}(?:(?:,\d{{3}})+|(?:{_GROUPS}\d{{3}})+)(?:\.\d*)?|\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
)
_COMMA: Final = re.compile(
    rf"[+-]?(?:\d{{1,3}}(?:(?:\.\d{{3}})+|(?:{_GROUPS}\d{{3}})+)(?:,\d*)?|\d+,?\d*|,\d+)(?:[eE][+-]?\d+)?"
)
_GROUPING: Final = re.compile(_GROUPS)

Mark = Literal[".", ","]


class Numbers(msgspec.Struct, frozen=True):
    """A column read as numbers: each value, None where it is missing or no number, and which cells are no numbers."""

    values: list[float | None]
    mark: Mark
    wrong: list[int]


def is_missing(cell: str | None) -> bool:
    """Whether a cell says that there is nothing."""
    return cell is None or cell.strip().casefold() in _MISSING


def is_number(cell: str) -> bool:
    """Whether a cell reads as a number with either decimal mark."""
    return number(cell, ".") is not None or number(cell, ",") is not None


def number(cell: str, mark: Mark) -> float | None:
    """The number a cell holds, with groups of thousands or without; None where it holds none, or one too large."""
    text = cell.strip().replace("\u2212", "-")
    if not (_POINT if mark == "." else _COMMA).fullmatch(text):
        return None
    text = _GROUPING.sub("", text)
    text = text.replace(",", "") if mark == "." else text.replace(".", "").replace(",", ".")
    value = float(text)
    return value if isfinite(value) and abs(value) <= LARGEST else None


def read_numbers(cells: Iterable[str | None], *, comma_first: bool) -> Numbers:
    """A column with the decimal mark that fits more of its cells; `comma_first` decides where both fit all."""
    known = [None if is_missing(cell) else cell for cell in cells]
    order: tuple[Mark, Mark] = (",", ".") if comma_first else (".", ",")
    read = [_with_mark(known, mark) for mark in order]
    return min(read, key=lambda numbers: len(numbers.wrong))


def _with_mark(cells: list[str | None], mark: Mark) -> Numbers:
    values = [None if cell is None else number(cell, mark) for cell in cells]
    wrong = [
        at for at, (cell, value) in enumerate(zip(cells, values, strict=True)) if cell is not None and value is None
    ]
    return Numbers(values, mark, wrong)
