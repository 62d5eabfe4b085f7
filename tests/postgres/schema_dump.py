"""The tables, columns, constraints, indexes, triggers and policies of a PostgreSQL store, one per line and sorted.

`python -m tests.postgres.schema_dump > tests/postgres/schema.txt` writes the one that a test compares.
"""

from tests.support.postgres import fetch
from tests.support.postgres_stores import migrated_database

_OBJECTS = """
SELECT kind || ' ' || name || ': ' || definition AS line FROM langlauf.schema_objects
WHERE kind IN ('table', 'constraint', 'index', 'trigger', 'policy') OR (kind = 'column' AND EXISTS (
    SELECT FROM pg_class WHERE oid = ('langlauf.' || split_part(name, '.', 1))::regclass AND relkind = 'r'))
ORDER BY kind, name COLLATE "C"
"""


def dump(url: str) -> str:
    """Return the schema of a migrated database."""
    return "\n".join(row["line"] for row in fetch(url, _OBJECTS)) + "\n"


if __name__ == "__main__":
    with migrated_database() as database:
        print(dump(database), end="")
