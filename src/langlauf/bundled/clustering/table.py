"""A table as it was sent: names of columns, and rows of texts."""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from io import StringIO
from itertools import islice
from math import isfinite
from typing import Any, Final, Literal

import msgspec

from langlauf.domain.errors import PermanentError

#: Characters; what a server takes of it is up to its limit for requests.
LONGEST_TABLE: Final = 50_000_000
MOST_ROWS: Final = 100_000
MOST_COLUMNS: Final = 200

Cell = str | None


class InputTable(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of cells, each as text or None where it is missing. `lines` says where each row began in a CSV text."""

    names: list[str]
    rows: list[list[Cell]]
    format: Literal["csv", "json"]
    header: bool
    delimiter: str | None = None
    lines: list[int] = []

    def place(self, index: int) -> str:
        """Return where a row stands, in words."""
        return f"Row {index + 1} (line {self.lines[index]})" if self.lines else f"Row {index + 1}"


def column_name(text: str, position: int) -> str:
    """Return the name of a column; one without a name is called after its position, from 0."""
    return text.strip() or f"column {position + 1}"


_LONGEST_SHOWN = 60


def table_error(message: str, *, row: int | None = None, column: str | None = None) -> PermanentError:
    """Return the error of an unusable table; row and column are also in its meta where they are known."""
    place = {name: value for name, value in (("row", row), ("column", column)) if value is not None}
    return PermanentError(message, code="bad_table", meta=place)


def quoted(text: str) -> str:
    """Return a text of the table in quotes, shortened."""
    return f'"{text[:_LONGEST_SHOWN]}…"' if len(text) > _LONGEST_SHOWN else f'"{text}"'


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

DecimalMark = Literal[".", ","]


class NumericCells(msgspec.Struct, frozen=True):
    """A column read as numbers: each value, None where it is missing or no number, and which cells are no numbers."""

    values: list[float | None]
    mark: DecimalMark
    wrong: list[int]


def is_missing(cell: str | None) -> bool:
    """Whether a cell says that there is nothing."""
    return cell is None or cell.strip().casefold() in _MISSING


def is_number(cell: str) -> bool:
    """Whether a cell reads as a number with either decimal mark."""
    return number(cell, ".") is not None or number(cell, ",") is not None


def number(cell: str, mark: DecimalMark) -> float | None:
    """Return the number in a cell, with or without thousands separators; None for no number or one too large."""
    text = cell.strip().replace("\u2212", "-")
    if not (_POINT if mark == "." else _COMMA).fullmatch(text):
        return None
    text = _GROUPING.sub("", text)
    text = text.replace(",", "") if mark == "." else text.replace(".", "").replace(",", ".")
    value = float(text)
    return value if isfinite(value) and abs(value) <= LARGEST else None


def read_numbers(cells: Iterable[str | None], *, comma_first: bool) -> NumericCells:
    """Return a column with the decimal mark that fits more of its cells; `comma_first` decides where both fit all."""
    known = [None if is_missing(cell) else cell for cell in cells]
    order: tuple[DecimalMark, DecimalMark] = (",", ".") if comma_first else (".", ",")
    read = [_with_mark(known, mark) for mark in order]
    return min(read, key=lambda numbers: len(numbers.wrong))


def _with_mark(cells: list[str | None], mark: DecimalMark) -> NumericCells:
    values = [None if cell is None else number(cell, mark) for cell in cells]
    wrong = [
        at for at, (cell, value) in enumerate(zip(cells, values, strict=True)) if cell is not None and value is None
    ]
    return NumericCells(values, mark, wrong)


#: In this order where several fit as well: decimal commas stand in every row of a file with semicolons.
_DELIMITERS: Final = "\t;|,"
_LOOKED_AT: Final = 200

CsvRow = tuple[int, list[str]]


def read_csv(text: str) -> InputTable:
    """Read a table from CSV; raise PermanentError `bad_table` that names the line."""
    delimiter = find_delimiter(text)
    rows = list(islice(_rows(text, delimiter), MOST_ROWS + 2))
    if not rows:
        raise table_error("The table is empty.")
    header = has_header([cells for _, cells in rows[:2]])
    names = _names(rows[0][1], header=header)
    body = rows[1:] if header else rows
    if len(body) > MOST_ROWS:
        raise table_error(f"The table has more than {MOST_ROWS:,} rows.")
    for number, (line, cells) in enumerate(body, start=1):
        if len(cells) != len(names):
            raise table_error(
                f"Row {number} (line {line}) has {_counted(len(cells))}, {'the header' if header else 'the first row'} "
                f"has {len(names)}.",
                row=number,
            )
    return InputTable(
        names=names,
        rows=[[None if is_missing(cell) else cell for cell in cells] for _, cells in body],
        format="csv",
        header=header,
        delimiter=delimiter,
        lines=[line for line, _ in body],
    )


def find_delimiter(text: str) -> str:
    """Return the delimiter that most often splits the first lines into the same number of cells; else a comma."""
    sample = "\n".join(text.split("\n", _LOOKED_AT)[:_LOOKED_AT])
    fits: dict[str, float] = {}
    for delimiter in _DELIMITERS:
        widths = Counter(len(row) for row in csv.reader(StringIO(sample, newline=""), delimiter=delimiter) if row)
        if not widths:
            continue
        width, count = widths.most_common(1)[0]
        if width > 1:
            fits[delimiter] = count / widths.total()
    return max(fits, key=lambda delimiter: fits[delimiter], default=",")


def has_header(first_rows: list[list[str]]) -> bool:
    """Whether the first row names the columns: it has texts, and not one number."""
    named = [cell for cell in first_rows[0] if not is_missing(cell)]
    return bool(named) and not any(is_number(cell) for cell in named)


def _rows(text: str, delimiter: str) -> Iterator[CsvRow]:
    """Yield every row that is not blank, with the line it begins on."""
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise table_error(f"The table cannot be read as CSV from line {line} on: {error}.") from None


def _names(first: list[str], *, header: bool) -> list[str]:
    if len(first) > MOST_COLUMNS:
        raise table_error(f"The table has {len(first):,} columns; at most {MOST_COLUMNS} are taken.")
    names = [column_name(cell if header else "", position) for position, cell in enumerate(first)]
    for position, name in enumerate(names):
        if (earlier := names.index(name)) < position:
            raise table_error(
                f"Columns {earlier + 1} and {position + 1} are both called {quoted(name)}; names must differ.",
                column=name,
            )
    return names


def _counted(cells: int) -> str:
    return "1 cell" if cells == 1 else f"{cells} cells"


def read_json(text: str) -> InputTable:
    """Read a table from JSON; raise PermanentError `bad_table` that names the row."""
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise table_error(f"The table begins like JSON and is none: {error}.") from None
    if not isinstance(rows, list):
        raise table_error("A table in JSON is a list of objects or a list of lists.")
    if not rows:
        raise table_error("The table is empty.")
    if len(rows) > MOST_ROWS + 1:
        raise table_error(f"The table has more than {MOST_ROWS:,} rows.")
    return _from_objects(rows) if isinstance(rows[0], dict) else _from_lists(rows)


def _from_objects(rows: list[Any]) -> InputTable:
    names: dict[str, None] = {}
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise table_error(f"Row {number} is no object, the first row is one.", row=number)
        names.update(dict.fromkeys(row))
        if len(names) > MOST_COLUMNS:
            raise table_error(f"The table has more than {MOST_COLUMNS} columns by row {number}.", row=number)
    cells = [[_cell(row.get(name), number, name) for name in names] for number, row in enumerate(rows, start=1)]
    return _table([column_name(name, position) for position, name in enumerate(names)], cells, header=True)


def _from_lists(rows: list[Any]) -> InputTable:
    width = len(rows[0]) if isinstance(rows[0], list) else 0
    if not 1 <= width <= MOST_COLUMNS:
        raise table_error(f"Every row must be an object, or a list of 1 to {MOST_COLUMNS} cells.", row=1)
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, list):
            raise table_error(f"Row {number} is no list, the first row is one.", row=number)
        if len(row) != width:
            raise table_error(f"Row {number} has {len(row)} cells, the first row has {width}.", row=number)
    texts = all(isinstance(cell, str) for cell in rows[0])
    header = texts and has_header([rows[0]])
    body = rows[1:] if header else rows
    names = [column_name(rows[0][at] if header else "", at) for at in range(width)]
    cells = [
        [_cell(cell, number, name) for name, cell in zip(names, row, strict=True)]
        for number, row in enumerate(body, start=1)
    ]
    return _table(names, cells, header=header)


def _table(names: list[str], rows: list[list[Cell]], *, header: bool) -> InputTable:
    if len(set(names)) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise table_error(f"Two columns are called {quoted(twice)}; names must differ.", column=twice)
    if len(rows) > MOST_ROWS:
        raise table_error(f"The table has more than {MOST_ROWS:,} rows.")
    return InputTable(names=names, rows=rows, format="json", header=header)


def _cell(value: Any, row: int, column: str) -> Cell:
    if isinstance(value, dict | list):
        raise table_error(
            f"Row {row}, column {quoted(column)}: a cell is a number, a text, true, false or null.",
            row=row,
            column=column,
        )
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    return None if is_missing(text) else text


def read_table(text: str) -> InputTable:
    """Read a table from JSON or CSV; raise PermanentError `bad_table`."""
    known = text.removeprefix("\ufeff")
    table = read_json(known) if known.lstrip()[:1] in {"[", "{"} else read_csv(known)
    if not table.rows:
        raise table_error("The table has a header and no rows.")
    return table
