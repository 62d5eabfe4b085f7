"""Brings many rows into tables at once, past the functions of the engine: for imports and copies."""

from collections.abc import Sequence
from typing import Any

from langlauf.store.postgres.blocking import BlockingConnection
from langlauf.store.tools.tables import Table

#: Rows that are brought need not begin as new jobs do; the trigger looks at this.
_COPYING = "SELECT set_config('langlauf.copying', 'on', true)"


class BulkInsert:
    """Puts rows into tables, inside a transaction of the connection.

    Rows arrive in a table of this session first, for which row-level security does not count, and go from there.
    """

    def __init__(self, connection: BlockingConnection) -> None:
        self._connection = connection
        self._arrivals: set[str] = set()

    def begin(self) -> None:
        """Once in each transaction, before its rows."""
        self._connection.execute(_COPYING)

    def put(self, table: Table, rows: Sequence[Sequence[Any]]) -> None:
        """Brings rows; one that is there already, or breaks a rule of the table, is a `StoreError`."""
        if not rows:
            return
        columns, arrivals = ", ".join(table.columns), f"arriving_{table.name}"
        if table.name not in self._arrivals:
            self._connection.execute(
                f"CREATE TEMP TABLE IF NOT EXISTS {arrivals} ON COMMIT DELETE ROWS AS"  # noqa: S608 - names of ours
                f" SELECT {columns} FROM {table.name} WHERE false"
            )
            self._arrivals.add(table.name)
        connection = self._connection.connection
        self._connection.run(connection.copy_records_to_table(arrivals, records=rows, columns=table.columns))
        self._connection.execute(
            f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM {arrivals}; TRUNCATE {arrivals}"  # noqa: S608
        )
