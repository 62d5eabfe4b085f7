"""A table as it was sent: names of columns, and rows of texts."""

from typing import Final, Literal

import msgspec

#: Characters; what a server takes of it is up to its limit for requests.
LONGEST_TABLE: Final = 50_000_000
MOST_ROWS: Final = 100_000
MOST_COLUMNS: Final = 200

Cell = str | None


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of cells, each as text or None where it is missing. `lines` says where each row began in a CSV text."""

    names: list[str]
    rows: list[list[Cell]]
    format: Literal["csv", "json"]
    header: bool
    delimiter: str | None = None
    lines: list[int] = []

    def place(self, index: int) -> str:
        """Where a row stands, in words."""
        return f"Row {index + 1} (line {self.lines[index]})" if self.lines else f"Row {index + 1}"


def column_name(text: str, position: int) -> str:
    """The name of a column; one without a name is called after its position, from 0."""
    return text.strip() or f"column {position + 1}"
