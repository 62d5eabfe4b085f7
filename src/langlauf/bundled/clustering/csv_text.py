"""A table from CSV: the delimiter and the header are found out, and what does not fit is named by its line."""

import csv
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from itertools import islice
from typing import Final

from .cells import is_missing, is_number
from .errors import bad_table, shown
from .table import MOST_COLUMNS, MOST_ROWS, Table, column_name

#: In this order where several fit as well: decimal commas stand in every row of a file with semicolons.
_DELIMITERS: Final = "\t;|,"
_LOOKED_AT: Final = 200

Row = tuple[int, list[str]]


def read_csv(text: str) -> Table:
    """The table of a CSV text, or PermanentError `bad_table` that names the line."""
    delimiter = find_delimiter(text)
    rows = list(islice(_rows(text, delimiter), MOST_ROWS + 2))
    if not rows:
        raise bad_table("The table is empty.")
    header = has_header([cells for _, cells in rows[:2]])
    names = _names(rows[0][1], header=header)
    body = rows[1:] if header else rows
    if len(body) > MOST_ROWS:
        raise bad_table(f"The table has more than {MOST_ROWS:,} rows.")
    for number, (line, cells) in enumerate(body, start=1):
        if len(cells) != len(names):
            raise bad_table(
                f"Row {number} (line {line}) has {_counted(len(cells))}, {'the header' if header else 'the first row'} "
                f"has {len(names)}.",
                row=number,
            )
    return Table(
        names=names,
        rows=[[None if is_missing(cell) else cell for cell in cells] for _, cells in body],
        format="csv",
        header=header,
        delimiter=delimiter,
        lines=[line for line, _ in body],
    )


def find_delimiter(text: str) -> str:
    """The mark that cuts the first lines into the same number of cells most often; a comma where none does."""
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


def _rows(text: str, delimiter: str) -> Iterator[Row]:
    """Every row that is not blank, with the line it begins on."""
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise bad_table(f"The table cannot be read as CSV from line {line} on: {error}.") from None


def _names(first: list[str], *, header: bool) -> list[str]:
    if len(first) > MOST_COLUMNS:
        raise bad_table(f"The table has {len(first):,} columns; at most {MOST_COLUMNS} are taken.")
    names = [column_name(cell if header else "", position) for position, cell in enumerate(first)]
    for position, name in enumerate(names):
        if (earlier := names.index(name)) < position:
            raise bad_table(
                f"Columns {earlier + 1} and {position + 1} are both called {shown(name)}; names must differ.",
                column=name,
            )
    return names


def _counted(cells: int) -> str:
    return "1 cell" if cells == 1 else f"{cells} cells"
