"""What is wrong with a table, said so that people find the place."""

from langlauf.domain.errors import PermanentError

_LONGEST_SHOWN = 60


def bad_table(message: str, *, row: int | None = None, column: str | None = None) -> PermanentError:
    """A table that cannot be used; row and column are also in the error's meta where they are known."""
    place = {name: value for name, value in (("row", row), ("column", column)) if value is not None}
    return PermanentError(message, code="bad_table", meta=place)


def shown(text: str) -> str:
    """A text of the table in quotes, shortened."""
    return f'"{text[:_LONGEST_SHOWN]}…"' if len(text) > _LONGEST_SHOWN else f'"{text}"'
