"""The chosen columns as a matrix: gaps filled, categories spread out, scales made equal."""

from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from .columns import Column
from .errors import bad_table

Floats = npt.NDArray[np.float64]

MOST_FEATURES: Final = 400
_FEWEST_ROWS: Final = 4
_NO_VALUE: Final = "(missing)"


class Matrix(msgspec.Struct, frozen=True):
    """What is compared. `rows` says which row of the table each row of the matrix is, from 0."""

    values: Floats
    rows: list[int]
    columns: list[Column]
    distinct: int
    gaps: list[dict[str, Any]]

    @property
    def count(self) -> int:
        """How many rows are compared."""
        return len(self.rows)


def build(columns: list[Column], *, scale: bool) -> Matrix:
    """Rows without a single value are left out; other gaps get the column's median, or a category of their own."""
    total = len(columns[0].numbers or columns[0].texts)
    rows = [row for row in range(total) if any(cells_of(column)[row] is not None for column in columns)]
    parts: list[Floats] = []
    kept: list[Column] = []
    for column in columns:
        part = _numbers(column, rows, scale=scale) if column.kind == "number" else _categories(column, rows)
        if part is not None:
            parts.append(part)
            kept.append(column)
    if not kept:
        raise bad_table("No column can be compared: their values lie too close together to be told apart.")
    values = np.hstack(parts)
    if values.shape[1] > MOST_FEATURES:
        raise bad_table(f"The columns and their categories make {values.shape[1]} features; at most {MOST_FEATURES}.")
    distinct = len(np.unique(values, axis=0))
    if len(rows) < _FEWEST_ROWS or distinct <= 2:  # noqa: PLR2004
        raise bad_table(
            f"The table has {len(rows)} rows to compare, {distinct} of them different; clusters need at least "
            f"{_FEWEST_ROWS} rows, 3 of them different."
        )
    return Matrix(values, rows, kept, distinct, [gap for column in kept if (gap := _gap(column, rows))])


def cells_of(column: Column) -> list[float | None] | list[str | None]:
    """The cells of a column, whatever it holds."""
    return column.numbers if column.kind == "number" else column.texts


def known_numbers(column: Column, rows: list[int]) -> Floats:
    """The numbers of some rows, NaN where one is missing."""
    return np.array([np.nan if (value := column.numbers[row]) is None else value for row in rows], dtype=np.float64)


def _numbers(column: Column, rows: list[int], *, scale: bool) -> Floats | None:
    values = known_numbers(column, rows)
    values = np.where(np.isnan(values), np.nanmedian(values), values)
    deviation = float(values.std())
    if not deviation > 0 or not np.isfinite(deviation):
        return None
    return ((values - values.mean()) / deviation if scale else values).reshape(-1, 1)


def _categories(column: Column, rows: list[int]) -> Floats:
    """One feature per category, 1 where the row has it."""
    texts = [column.texts[row] or _NO_VALUE for row in rows]
    places = {text: at for at, text in enumerate(sorted(set(texts)))}
    spread = np.zeros((len(rows), len(places)))
    spread[np.arange(len(rows)), [places[text] for text in texts]] = 1.0
    return spread


def _gap(column: Column, rows: list[int]) -> dict[str, Any] | None:
    empty = sum(cells_of(column)[row] is None for row in rows)
    if not empty:
        return None
    if column.kind == "category":
        return {"column": column.name, "cells": empty, "filled_with": "a category of its own"}
    median = float(f"{float(np.nanmedian(known_numbers(column, rows))):.6g}")
    return {"column": column.name, "cells": empty, "filled_with": f"the median, {median:g}"}
