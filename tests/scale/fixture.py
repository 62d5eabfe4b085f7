"""A large store, and the pages that are asked for over it."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

#: Makes numbers from 1, in either dialect.
_COUNTED = """(
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {jobs})
    SELECT n FROM numbers)"""
_SERIES = "generate_series(1::bigint, {jobs}::bigint) AS numbers (n)"


class Scene(NamedTuple):
    """How a store is filled, and what is then looked at."""

    name: str
    #: the statements that fill an empty store with so many jobs, for PostgreSQL or for SQLite
    statements: Callable[[int, bool], list[str]]
    pages: Callable[[int], tuple[str, ...]]
    #: so many seconds pass between two rounds: by then nothing is remembered that pages keep for a moment
    pause: float = 0.0


def filled_in(sql: str, words: Mapping[str, str], jobs: int, *, postgres: bool) -> str:
    """A statement with its words, some of which are the dialect's own."""
    dialect = {"numbers": _SERIES if postgres else _COUNTED, "false": "false" if postgres else "0"}
    for word, value in {**dialect, **words, "jobs": str(jobs)}.items():
        sql = sql.replace(f"{{{word}}}", value)
    return sql
