"""A blocking connection for commands that read or write a whole store.

It runs an event loop in a thread of its own, so that code shared by both stores need not be asynchronous. Everything
runs in transactions: no session state is left on a connection that a pooler reuses.
"""

import asyncio
import re
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.store.postgres.connection import parse_url
from langlauf.store.shared_sql import NAMED
from langlauf.store.tools.store_copy import Table

T = TypeVar("T")
Row = tuple[Any, ...]
_CONNECT_TIMEOUT = 10.0
_CLOSE_TIMEOUT = 2.0
#: Rows per fetch where few of them are large.
PAGE = 500
#: Rows per fetch where each may be as large as a result; fewer if the last ones were large.
WIDE_PAGE = 32
_FIRST_WIDE_PAGE = 4
_BYTES_PER_PAGE = 4 * 1024 * 1024
#: Settings of every transaction: no statement timeout, a short lock timeout.
_SETTINGS = """
SET LOCAL search_path = langlauf, pg_temp;
SET LOCAL statement_timeout = 0;
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL lock_timeout = '10s';
SET LOCAL jit = off;
SET LOCAL cursor_tuple_fraction = 1;
"""
#: Run as the role that sees every org, if the login is a member of it.
_ROLE = """
SELECT set_config('role', rolname, true) FROM pg_roles
WHERE rolname = 'langlauf_engine' AND pg_has_role(current_user, oid, 'MEMBER');
"""
#: Copied and imported rows need not begin as new jobs do; a trigger reads this setting.
_COPYING = "SELECT set_config('langlauf.copying', 'on', true)"


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2] or dict(parse_qsl(parts.query)).get("host", "local")
    return f"postgresql://{host}{parts.path}"


class BlockingConnection:
    """One connection. Database errors are raised as `StoreError`; a failed statement leaves no trace."""

    def __init__(self, url: str) -> None:
        self.name = _without_password(url)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="langlauf-blocking", daemon=True)
        self._thread.start()
        try:
            opened = asyncpg.connect(parse_url(url).dsn, timeout=_CONNECT_TIMEOUT, statement_cache_size=0)
            self.connection: Any = self.run(opened)
        except BaseException:
            self._stop_loop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            self.run(self._close())
        finally:
            self._stop_loop()

    async def _close(self) -> None:
        try:
            await self.connection.close(timeout=_CLOSE_TIMEOUT)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            self.connection.terminate()
            await asyncio.sleep(0)  # the transport is closed in the next iteration of the loop

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of the connection and wait for it."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except asyncpg.InsufficientPrivilegeError as error:
            hint = "use the login that migrates the store"
            raise StoreError(f"the store {self.name} refused: {error}; {hint}") from error
        except asyncpg.PostgresError as error:
            broken = isinstance(error, asyncpg.PostgresConnectionError | asyncpg.OperatorInterventionError)
            kind = StoreUnavailable if broken else StoreError
            raise kind(f"the store {self.name} refused: {error}") from error
        except (OSError, TimeoutError, asyncpg.InterfaceError) as error:
            details = str(error) or type(error).__name__
            raise StoreUnavailable(f"the store {self.name} does not answer: {details}") from error

    @contextmanager
    def transaction(self, *, read_only: bool = False, as_login: bool = False) -> Iterator[None]:
        """Run statements in one transaction; a read-only one reads a single snapshot."""
        isolation = "repeatable_read" if read_only else "read_committed"
        transaction = self.connection.transaction(isolation=isolation, readonly=read_only)
        self.run(transaction.start())
        try:
            self.run(self.connection.execute(_SETTINGS if as_login else _SETTINGS + _ROLE))
            yield
        except BaseException:
            if not self.connection.is_closed():
                self.run(transaction.rollback())
            raise
        self.run(transaction.commit())

    def execute(self, sql: str) -> None:
        """Run statements that return no rows."""
        self.run(self.connection.execute(sql))

    def fetch(self, sql: str, /, **values: Any) -> list[Row]:
        """Return all rows of a query that has few. `:name` stands for a value."""
        statement, arguments = numbered(sql, values)
        return [tuple(row) for row in self.run(self.connection.fetch(statement, *arguments))]

    def stream(self, sql: str, /, *, page: int = PAGE, **values: Any) -> Iterator[Row]:
        """Yield the rows of a query, fetched in pages; several may run in one transaction."""
        statement, arguments = numbered(sql, values)
        cursor = self.run(self._cursor(statement, arguments))
        most = page if page >= PAGE else _FIRST_WIDE_PAGE
        while rows := [tuple(row) for row in self.run(cursor.fetch(most))]:
            yield from rows
            if page < PAGE:
                size = sum(len(value) for row in rows for value in row if isinstance(value, str))
                most = max(1, min(page, _BYTES_PER_PAGE * len(rows) // max(1, size)))

    async def _cursor(self, statement: str, arguments: Sequence[Any]) -> Any:
        return await self.connection.cursor(statement, *arguments)


def numbered(sql: str, values: dict[str, Any]) -> tuple[str, list[Any]]:
    """Return a statement with `$1` in place of `:name`, and its values; values that it does not name are left out."""
    used: list[str] = []

    def number(match: re.Match[str]) -> str:
        name = match[1]
        if name not in values:
            return match[0]
        if name not in used:
            used.append(name)
        return f"${used.index(name) + 1}"

    statement = NAMED.sub(number, sql)
    return statement, [values[name] for name in used]


class BulkInsert:
    """Inserts many rows inside a transaction of a connection, past the functions of the engine.

    Rows are copied into a temporary table first, to which row-level security does not apply, and inserted from there.
    """

    def __init__(self, connection: BlockingConnection) -> None:
        self._connection = connection
        self._staged: set[str] = set()

    def begin(self) -> None:
        """Prepare the current transaction; called before its first rows."""
        self._connection.execute(_COPYING)

    def insert(self, table: Table, rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows; raise `StoreError` if one exists already or breaks a constraint."""
        if not rows:
            return
        columns, staging = ", ".join(table.columns), f"arriving_{table.name}"
        if table.name not in self._staged:
            self._connection.execute(
                f"CREATE TEMP TABLE IF NOT EXISTS {staging} ON COMMIT DELETE ROWS AS"  # noqa: S608 - names of ours
                f" SELECT {columns} FROM {table.name} WHERE false"
            )
            self._staged.add(table.name)
        connection = self._connection.connection
        self._connection.run(connection.copy_records_to_table(staging, records=rows, columns=table.columns))
        self._connection.execute(
            f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM {staging}; TRUNCATE {staging}"  # noqa: S608
        )
