"""The schema of a file in plain words, sorted: what a change of a migration changes shows line by line.

`python -m tests.support.schema_dump > tests/unit/sqlite_schema.txt` writes the one that a test compares.
"""

import re
from collections.abc import Iterator

import apsw

from langlauf.store.sqlite.connection import MEMORY, migrate, open_connection


def dump() -> str:
    """The schema of a new file."""
    connection = open_connection(MEMORY)
    try:
        migrate(connection)
        rows = connection.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
        parts = ["\n".join(_described(connection, *map(str, row))) for row in sorted(rows, key=str)]
    finally:
        connection.close()
    return "\n".join(parts) + "\n"


def _described(connection: apsw.Connection, kind: str, name: str, sql: str) -> Iterator[str]:
    """Tables line by line, views by their columns, triggers by what fires them."""
    lines = [" ".join(re.sub(r"--.*", "", line).split()) for line in sql.splitlines()]
    said = [line for line in lines if line]
    if kind == "table":
        yield f"table {name} {said[-1].removeprefix(')').strip()}".rstrip()
        yield from (f"    {line.rstrip(',')}" for line in said[1:-1])
    elif kind == "view":
        columns = [str(column) for _, column, *_ in connection.execute(f"PRAGMA table_info({name})").fetchall()]
        yield f"view {name} ({', '.join(columns)})"
    else:
        yield " ".join(said).partition(" BEGIN ")[0].removeprefix("CREATE ")


if __name__ == "__main__":
    print(dump(), end="")
