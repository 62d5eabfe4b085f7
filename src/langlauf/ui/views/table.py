"""Rows as a table, and JSON as a tree, with secrets hidden and long values shortened."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from langlauf.domain.result import Column
from langlauf.ui.formats import MAX_JSON_BYTES, in_words, is_counted
from langlauf.ui.language import MIN_GROUPED_DIGITS, AnalysisWords
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
#: A column of numbers with more decimals is not aligned by them.
_MAX_PAD = 12
#: The heading of a list of plain values.
VALUE_COLUMN = "value"

CellKind = Literal["number", "text", "nested", "hidden", "none"]


class TableCell(msgspec.Struct, frozen=True):
    """One value. Numbers keep their digits."""

    kind: CellKind
    text: str = ""
    #: what is missing behind a number, so that the decimals of its column stand below each other
    pad: str = ""


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


def readable_table(table: TableData, words: AnalysisWords) -> TableData:
    """Return a table for its reader: headings in words, numbers by locale and aligned, texts translated."""
    columns = [
        Column(name=column.name, title=words.text(column.title or in_words(column.name)), unit=words.text(column.unit))
        for column in table.columns
    ]
    written = [
        _readable_cells([row[at] for row in table.rows], column.name, words) for at, column in enumerate(table.columns)
    ]
    return replace(table, columns=columns, rows=[list(row) for row in zip(*written, strict=True)])


def _readable_cells(cells: list[TableCell], name: str, words: AnalysisWords) -> list[TableCell]:
    """Return the cells of a column. Its thousands are separated in all rows or in none."""
    numbers = [cell.text.lstrip("-").partition(".") for cell in cells if cell.kind == "number"]
    grouped = is_counted(name) and any(len(whole) >= MIN_GROUPED_DIGITS for whole, _, _ in numbers)
    decimals = max((len(fraction) for _, _, fraction in numbers), default=0)
    return [_readable_cell(cell, words, grouped=grouped, decimals=decimals) for cell in cells]


def _readable_cell(cell: TableCell, words: AnalysisWords, *, grouped: bool, decimals: int) -> TableCell:
    if cell.kind == "text":
        return TableCell("text", words.cell(cell.text))
    if cell.kind != "number":
        return cell
    own = len(cell.text.partition(".")[2])
    point = words.language.separators[1] if decimals and not own else ""
    return TableCell(
        "number", words.language.number(cell.text, grouped=grouped), (point + "0" * (decimals - own))[:_MAX_PAD]
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


MAX_SIZES = 100


class MemberSize(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a large object: its kind, how many values it has, and its size."""

    name: str
    kind: Literal["object", "list", "text", "number", "other"]
    count: int | None
    size: int


def member_sizes(value: Raw) -> list[MemberSize]:
    """Return the members of an object that is too large to show, the largest first."""
    sizes = [_member_size(name, one) for name, one in members(value).items()]
    return sorted(sizes, key=lambda one: -one.size)[:MAX_SIZES]


def _member_size(name: str, value: Raw) -> MemberSize:
    size = memoryview(value).nbytes
    shown = truncate(name, _MAX_MEMBER_NAME)
    if is_list(value):
        return MemberSize(name=shown, kind="list", count=len(items(value)), size=size)
    if is_object(value):
        return MemberSize(name=shown, kind="object", count=len(members(value)), size=size)
    kind: Literal["text", "number", "other"] = "text" if is_text(value) else "number" if is_number(value) else "other"
    return MemberSize(name=shown, kind=kind, count=None, size=size)


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
