"""Which columns of a table are compared, and as what."""

import difflib
from collections import Counter
from itertools import pairwise
from typing import Final, Literal

import msgspec

from langlauf.bundled.clustering.table import LARGEST, Cell, InputTable, column_name, quoted, read_numbers, table_error

#: A text column with more different values than this is a name or a remark, not a category.
MOST_CATEGORIES: Final = 12
#: From this share of numbers on a column is meant to hold numbers, so that other texts in it are mistakes.
_MEANT_AS_NUMBERS: Final = 0.8
_FEWEST_FILLED: Final = 0.5
_NUMBERING: Final = frozenset({"id", "index", "nr", "no", "number", "row", "#"})


class FeatureColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column that is compared: numbers, or the categories of a text column."""

    name: str
    kind: Literal["number", "category"]
    numbers: list[float | None] = []
    texts: list[Cell] = []

    @property
    def missing(self) -> int:
        """How many cells are empty."""
        return sum(value is None for value in (self.numbers if self.kind == "number" else self.texts))


class SkippedColumn(msgspec.Struct, frozen=True):
    """A column that is not compared, and why."""

    column: str
    reason: str


class ColumnSelection(msgspec.Struct, frozen=True):
    """The columns that are compared, those that are not, what is worth knowing, and what the rows are called."""

    used: list[FeatureColumn]
    left_out: list[SkippedColumn]
    notes: list[str]
    row_names: list[Cell] | None


class _NotComparable(Exception):
    """Why a column is left out."""


def select_columns(table: InputTable, asked: list[str] | None) -> ColumnSelection:
    """Return the columns asked for; else all numbers and all texts with few different values that tell rows apart."""
    wanted = _known(table, asked) if asked else range(len(table.names))
    used: list[FeatureColumn] = []
    left_out: list[SkippedColumn] = []
    commas: list[str] = []
    for position in wanted:
        try:
            used.append(_read(table, position, commas, asked=bool(asked)))
        except _NotComparable as reason:
            left_out.append(SkippedColumn(table.names[position], str(reason)))
    if not used:
        reasons = "; ".join(f"{quoted(each.column)} {each.reason}" for each in left_out[:5])
        raise table_error(f"No column can be compared: {reasons}.")
    notes = [f"Read with a decimal comma: {', '.join(commas)}."] if commas else []
    return ColumnSelection(used, left_out, notes, _row_names(table, used))


def _known(table: InputTable, asked: list[str]) -> list[int]:
    positions = []
    for name in dict.fromkeys(asked):
        if name not in table.names:
            near = difflib.get_close_matches(name, table.names, n=1)
            hint = f"did you mean {quoted(near[0])}?" if near else f"it has {', '.join(map(quoted, table.names[:10]))}."
            raise table_error(f"The table has no column {quoted(name)}; {hint}", column=name)
        positions.append(table.names.index(name))
    return positions


def _read(table: InputTable, position: int, commas: list[str], *, asked: bool) -> FeatureColumn:
    """Return a column as numbers where most of it are numbers, else as categories."""
    name = table.names[position]
    cells = [row[position] for row in table.rows]
    filled = [cell for cell in cells if cell is not None]
    if not filled:
        raise _NotComparable("is empty")
    if not asked and len(filled) < _FEWEST_FILLED * len(cells):
        raise _NotComparable(f"is empty in {len(cells) - len(filled):,} of {len(cells):,} rows")
    if len(set(filled)) == 1:
        raise _NotComparable("has the same value in every row")
    numbers = read_numbers(cells, comma_first=table.delimiter == ";")
    if len(filled) - len(numbers.wrong) < _MEANT_AS_NUMBERS * len(filled):
        return _categories(name, cells, asked=asked)
    if numbers.wrong:
        raise _no_number(table, position, numbers.wrong)
    if not asked and _numbers_rows(name, numbers.values):
        raise _NotComparable("numbers the rows")
    if numbers.mark == "," and any("," in cell for cell in filled):
        commas.append(name)
    return FeatureColumn(name=name, kind="number", numbers=numbers.values)


def _categories(name: str, cells: list[Cell], *, asked: bool) -> FeatureColumn:
    filled = [cell for cell in cells if cell is not None]
    different = len(set(filled))
    reason = f"holds {different:,} different texts"
    if asked and different > MOST_CATEGORIES:
        raise table_error(f"Column {quoted(name)} {reason}; at most {MOST_CATEGORIES} can be compared.", column=name)
    if not asked and (different > MOST_CATEGORIES or 2 * different > len(filled)):
        raise _NotComparable(reason)
    return FeatureColumn(name=name, kind="category", texts=cells)


def _no_number(table: InputTable, position: int, wrong: list[int]) -> Exception:
    at, name = wrong[0], table.names[position]
    more = f" ({len(wrong) - 1:,} more cells of this column are none either)" if len(wrong) > 1 else ""
    return table_error(
        f"{table.place(at)}, column {quoted(name)}: {quoted(table.rows[at][position] or '')} is no number "
        f"up to {LARGEST:g}{more}.",
        row=at + 1,
        column=name,
    )


def _numbers_rows(name: str, values: list[float | None]) -> bool:
    """Whether a column only counts the rows, which would put neighbours in the table into one group."""
    known = [value for value in values if value is not None]
    if len(known) < len(values) or not all(value.is_integer() for value in known):
        return False
    if name == column_name("", 0):
        return all(after - before == 1 for before, after in pairwise(known))
    return name.casefold() in _NUMBERING and len(set(known)) == len(known)


def _row_names(table: InputTable, used: list[FeatureColumn]) -> list[Cell] | None:
    """Return the first text column that is not compared and has another value in nearly every row."""
    compared = {column.name for column in used}
    for position, name in enumerate(table.names):
        cells = [row[position] for row in table.rows]
        counts = Counter(cell for cell in cells if cell is not None)
        if name not in compared and len(counts) >= 0.9 * len(cells):
            return cells
    return None
