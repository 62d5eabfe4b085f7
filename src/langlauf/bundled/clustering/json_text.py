"""A table from JSON: a list of objects by column, or a list of lists by position."""

import json
from typing import Any

from .cells import is_missing
from .csv_text import has_header
from .errors import bad_table, shown
from .table import MOST_COLUMNS, MOST_ROWS, Cell, Table, column_name


def read_json(text: str) -> Table:
    """The table of a JSON text, or PermanentError `bad_table` that names the row."""
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise bad_table(f"The table begins like JSON and is none: {error}.") from None
    if not isinstance(rows, list):
        raise bad_table("A table in JSON is a list of objects or a list of lists.")
    if not rows:
        raise bad_table("The table is empty.")
    if len(rows) > MOST_ROWS + 1:
        raise bad_table(f"The table has more than {MOST_ROWS:,} rows.")
    return _from_objects(rows) if isinstance(rows[0], dict) else _from_lists(rows)


def _from_objects(rows: list[Any]) -> Table:
    names: dict[str, None] = {}
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise bad_table(f"Row {number} is no object, the first row is one.", row=number)
        names.update(dict.fromkeys(row))
        if len(names) > MOST_COLUMNS:
            raise bad_table(f"The table has more than {MOST_COLUMNS} columns by row {number}.", row=number)
    cells = [[_cell(row.get(name), number, name) for name in names] for number, row in enumerate(rows, start=1)]
    return _table([column_name(name, position) for position, name in enumerate(names)], cells, header=True)


def _from_lists(rows: list[Any]) -> Table:
    width = len(rows[0]) if isinstance(rows[0], list) else 0
    if not 1 <= width <= MOST_COLUMNS:
        raise bad_table(f"Every row must be an object, or a list of 1 to {MOST_COLUMNS} cells.", row=1)
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, list):
            raise bad_table(f"Row {number} is no list, the first row is one.", row=number)
        if len(row) != width:
            raise bad_table(f"Row {number} has {len(row)} cells, the first row has {width}.", row=number)
    texts = all(isinstance(cell, str) for cell in rows[0])
    header = texts and has_header([rows[0]])
    body = rows[1:] if header else rows
    names = [column_name(rows[0][at] if header else "", at) for at in range(width)]
    cells = [
        [_cell(cell, number, name) for name, cell in zip(names, row, strict=True)]
        for number, row in enumerate(body, start=1)
    ]
    return _table(names, cells, header=header)


def _table(names: list[str], rows: list[list[Cell]], *, header: bool) -> Table:
    if len(set(names)) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise bad_table(f"Two columns are called {shown(twice)}; names must differ.", column=twice)
    if len(rows) > MOST_ROWS:
        raise bad_table(f"The table has more than {MOST_ROWS:,} rows.")
    return Table(names=names, rows=rows, format="json", header=header)


def _cell(value: Any, row: int, column: str) -> Cell:
    if isinstance(value, dict | list):
        raise bad_table(
            f"Row {row}, column {shown(column)}: a cell is a number, a text, true, false or null.",
            row=row,
            column=column,
        )
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    return None if is_missing(text) else text
