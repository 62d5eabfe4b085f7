"""Rows as a table, and JSON as a tree, with secrets hidden and long values shortened."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Raw

from langlauf.domain.view import Column
from langlauf.ui.formatting import MAX_JSON_BYTES
from langlauf.ui.views.raw_json import (
    first_byte,
    is_hidden,
    is_list,
    is_number,
    is_object,
    is_text,
    items,
    mask_secrets,
    members,
    raw_text,
)

MAX_ROWS = 200
MAX_COLUMNS = 40
_MAX_TEXT = 300
_MAX_NESTED_TEXT = 120
#: Larger nested values are not read for a cell.
_MAX_NESTED_BYTES = 4_096
#: The heading of a list of plain values.
VALUE_COLUMN = "value"

CellKind = Literal["number", "text", "nested", "hidden", "none"]


class TableCell(msgspec.Struct, frozen=True):
    """One value. Numbers keep their digits."""

    kind: CellKind
    text: str = ""


class TableData(msgspec.Struct, frozen=True, kw_only=True):
    """The first rows of a table, and the total number."""

    columns: list[Column]
    #: whether a column contains only numbers, which are aligned right
    numeric: list[bool]
    rows: list[list[TableCell]]
    total: int
    #: number of columns that are not shown
    left_out: int = 0

    @property
    def complete(self) -> bool:
        """Whether all rows are included."""
        return len(self.rows) == self.total


def table_data(rows: list[Raw], columns: list[Column], most: int = MAX_ROWS) -> TableData:
    """Return the first rows; the columns are the named ones, else all fields of these rows in order."""
    named = [row_fields(row, columns) for row in rows[:most]]
    heads = columns or [Column(name=name) for name in column_names(named)]
    shown = heads[:MAX_COLUMNS]
    cells = [[table_cell(head.name, fields.get(head.name)) for head in shown] for fields in named]
    return TableData(
        columns=shown,
        numeric=[_is_numeric([row[at] for row in cells]) for at in range(len(shown))],
        rows=cells,
        total=len(rows),
        left_out=len(heads) - len(shown),
    )


def row_fields(row: Raw, columns: Sequence[Column] = ()) -> dict[str, Raw]:
    """Return the fields of a row by name; list items are named by their column, or by number."""
    if is_object(row):
        return members(row)
    if is_list(row):
        names = [column.name for column in columns]
        return {_column_name(names, number): value for number, value in enumerate(items(row))}
    return {columns[0].name if columns else VALUE_COLUMN: row}


def _column_name(names: list[str], number: int) -> str:
    return names[number] if number < len(names) else str(number + 1)


def column_names(rows: list[dict[str, Raw]]) -> list[str]:
    """Return every name once, in order of appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def table_cell(name: str, value: Raw | None) -> TableCell:
    """Return a cell: long texts shortened, secrets hidden, nested values as short JSON."""
    if value is None or first_byte(value) == b"n":
        return TableCell("none")
    if is_hidden(name, value):
        return TableCell("hidden")
    if is_number(value):
        return TableCell("number", raw_text(value))
    if is_text(value):
        return TableCell("text", truncate(raw_text(value), _MAX_TEXT))
    if is_object(value) or is_list(value):
        return TableCell("nested", _nested_text(value))
    return TableCell("text", raw_text(value))


def _nested_text(value: Raw) -> str:
    if memoryview(value).nbytes > _MAX_NESTED_BYTES:
        return "{…}" if is_object(value) else "[…]"
    return truncate(raw_text(mask_secrets(value)), _MAX_NESTED_TEXT)


def truncate(text: str, longest: int) -> str:
    """Shorten a text to a maximum length."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _is_numeric(cells: list[TableCell]) -> bool:
    kinds = {cell.kind for cell in cells} - {"none"}
    return kinds == {"number"}


MAX_NODES = 5_000
MAX_TREE_DEPTH = 24
#: Levels that are open at first.
_OPEN_DEPTH = 2
#: A branch with more children is closed at first.
_MAX_OPEN_CHILDREN = 50
_MAX_MEMBER_NAME = 200


class TreeStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step through the tree: into a branch, over a leaf, or out of a branch."""

    kind: Literal["into", "leaf", "out"]
    name: str = ""
    #: of a branch: its type, the number of children, whether it is open
    shape: Literal["object", "list"] = "object"
    count: int = 0
    open: bool = False
    cell: TableCell | None = None


def tree_steps(value: Raw) -> list[TreeStep] | None:
    """Return the steps through a value, or None where they are too many."""
    if memoryview(value).nbytes > MAX_JSON_BYTES:
        return None
    steps: list[TreeStep] = []
    return steps if _add_steps(value, "", 0, steps) else None


def _add_steps(value: Raw, name: str, depth: int, steps: list[TreeStep]) -> bool:
    """Append the steps of a value; return False where they are too many."""
    if len(steps) > 2 * MAX_NODES:
        return False
    shown = truncate(name, _MAX_MEMBER_NAME)
    branch = (is_object(value) or is_list(value)) and depth < MAX_TREE_DEPTH and not is_hidden(name, value)
    if not branch:
        steps.append(TreeStep(kind="leaf", name=shown, cell=table_cell(name, value)))
        return True
    inside = members(value) if is_object(value) else {str(number): one for number, one in enumerate(items(value))}
    if len(inside) > MAX_NODES:
        return False
    open_now = depth < _OPEN_DEPTH and len(inside) <= _MAX_OPEN_CHILDREN
    shape: Literal["object", "list"] = "object" if is_object(value) else "list"
    steps.append(TreeStep(kind="into", name=shown, shape=shape, count=len(inside), open=open_now))
    if not all(_add_steps(one, key, depth + 1, steps) for key, one in inside.items()):
        return False
    steps.append(TreeStep(kind="out"))
    return True
