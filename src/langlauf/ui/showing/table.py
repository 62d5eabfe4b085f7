"""Rows become a table: which columns there are, and what stands in each cell."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Raw

from langlauf.domain.showing import Column
from langlauf.ui.showing.written import (
    first_byte,
    is_hidden,
    is_list,
    is_number,
    is_object,
    is_text,
    items,
    masked,
    members,
    text_of,
)

MOST_ROWS = 200
MOST_COLUMNS = 40
_LONGEST_TEXT = 300
_LONGEST_NESTED = 120
#: What is larger is not even looked into for a cell.
_LARGEST_NESTED = 4_096
#: The heading of values that stand in a list by themselves.
VALUE = "value"

CellKind = Literal["number", "text", "nested", "hidden", "none"]


class Cell(msgspec.Struct, frozen=True):
    """What stands in one place. Numbers are as they were written."""

    kind: CellKind
    text: str = ""


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """A table to look at: its first rows, and how many there are."""

    columns: list[Column]
    #: whether a column holds numbers, which stand at the right
    numeric: list[bool]
    rows: list[list[Cell]]
    total: int
    #: columns that are too many to be shown
    left_out: int = 0

    @property
    def complete(self) -> bool:
        """Whether all rows are here."""
        return len(self.rows) == self.total


def grid_of(rows: list[Raw], columns: list[Column], most: int = MOST_ROWS) -> Grid:
    """The first rows; columns are those that were named, else every field that these rows have, in order."""
    named = [fields_of(row, columns) for row in rows[:most]]
    heads = columns or [Column(name=name) for name in names_of(named)]
    shown = heads[:MOST_COLUMNS]
    cells = [[cell_of(head.name, fields.get(head.name)) for head in shown] for fields in named]
    return Grid(
        columns=shown,
        numeric=[_numeric([row[at] for row in cells]) for at in range(len(shown))],
        rows=cells,
        total=len(rows),
        left_out=len(heads) - len(shown),
    )


def fields_of(row: Raw, columns: Sequence[Column] = ()) -> dict[str, Raw]:
    """A row by name: an object has names; what stands in a list has the name of its column, or its number."""
    if is_object(row):
        return members(row)
    if is_list(row):
        names = [column.name for column in columns]
        return {_name(names, number): value for number, value in enumerate(items(row))}
    return {columns[0].name if columns else VALUE: row}


def _name(names: list[str], number: int) -> str:
    return names[number] if number < len(names) else str(number + 1)


def names_of(rows: list[dict[str, Raw]]) -> list[str]:
    """Every name once, as they come."""
    return list(dict.fromkeys(name for row in rows for name in row))


def cell_of(name: str, value: Raw | None) -> Cell:
    """What is shown of a value: long ones are cut, secrets are hidden, nested ones are short JSON."""
    if value is None or first_byte(value) == b"n":
        return Cell("none")
    if is_hidden(name, value):
        return Cell("hidden")
    if is_number(value):
        return Cell("number", text_of(value))
    if is_text(value):
        return Cell("text", cut(text_of(value), _LONGEST_TEXT))
    if is_object(value) or is_list(value):
        return Cell("nested", _nested(value))
    return Cell("text", text_of(value))


def _nested(value: Raw) -> str:
    if memoryview(value).nbytes > _LARGEST_NESTED:
        return "{…}" if is_object(value) else "[…]"
    return cut(text_of(masked(value)), _LONGEST_NESTED)


def cut(text: str, longest: int) -> str:
    """Not more than so many characters."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _numeric(cells: list[Cell]) -> bool:
    kinds = {cell.kind for cell in cells} - {"none"}
    return kinds == {"number"}
