"""A connection for commands that go over a whole store: asked from plain code, an answer at a time.

It has a loop of its own in a thread of its own, so that what is the same for every store need not know that this one is
asked over a network. Everything happens in transactions: nothing is left on a connection that a pooler hands on.
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
from langlauf.store.postgres.address import read_address

T = TypeVar("T")
Row = tuple[Any, ...]
_CONNECT_SECONDS = 10.0
_CLOSE_SECONDS = 2.0
#: Rows per answer, of which a few at most are large.
PAGE = 500
#: The same where every one may be as large as a result can be: then as many as the last ones let expect to be little.
WIDE_PAGE = 32
_FIRST_WIDE_PAGE = 4
_BYTES_PER_PAGE = 4 * 1024 * 1024
#: Set in every transaction: it may take as long as it takes, and waits for no lock for long.
_SETTINGS = """
SET LOCAL search_path = langlauf, pg_temp;
SET LOCAL statement_timeout = 0;
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL lock_timeout = '10s';
SET LOCAL jit = off;
SET LOCAL cursor_tuple_fraction = 1;
"""
#: It runs as the role that may see every org, where this login may be it.
_ROLE = """
SELECT set_config('role', rolname, true) FROM pg_roles
WHERE rolname = 'langlauf_engine' AND pg_has_role(current_user, oid, 'MEMBER');
"""


def _shown(url: str) -> str:
    """A URL may hold a password: only host and database are shown."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2] or dict(parse_qsl(parts.query)).get("host", "local")
    return f"postgresql://{host}{parts.path}"


class BlockingConnection:
    """One connection. Errors of the database come as `StoreError`; a statement that it refused leaves no trace."""

    def __init__(self, url: str) -> None:
        self.name = _shown(url)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="langlauf-keeping", daemon=True)
        self._thread.start()
        try:
            opened = asyncpg.connect(read_address(url).dsn, timeout=_CONNECT_SECONDS, statement_cache_size=0)
            self.connection: Any = self.run(opened)
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            self.run(self._close())
        finally:
            self._end()

    async def _close(self) -> None:
        try:
            await self.connection.close(timeout=_CLOSE_SECONDS)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            self.connection.terminate()
            await asyncio.sleep(0)  # its socket is closed in the loop's next round

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for something to be done on the loop of the connection."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except asyncpg.InsufficientPrivilegeError as error:
            hint = "whoever goes over a whole store needs the login that migrates it"
            raise StoreError(f"the store {self.name} refused: {error}; {hint}") from error
        except asyncpg.PostgresError as error:
            broken = isinstance(error, asyncpg.PostgresConnectionError | asyncpg.OperatorInterventionError)
            kind = StoreUnavailable if broken else StoreError
            raise kind(f"the store {self.name} refused: {error}") from error
        except (OSError, TimeoutError, asyncpg.InterfaceError) as error:
            words = str(error) or type(error).__name__
            raise StoreUnavailable(f"the store {self.name} does not answer: {words}") from error

    @contextmanager
    def transaction(self, *, read_only: bool = False, as_login: bool = False) -> Iterator[None]:
        """What is done inside is done together; what is read only is read as of one moment."""
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
        """Runs statements that give nothing."""
        self.run(self.connection.execute(sql))

    def fetch(self, sql: str, /, **values: Any) -> list[Row]:
        """All rows of a query, of which there are few. `:name` stands for a value."""
        statement, arguments = numbered(sql, values)
        return [tuple(row) for row in self.run(self.connection.fetch(statement, *arguments))]

    def stream(self, sql: str, /, *, page: int = PAGE, **values: Any) -> Iterator[Row]:
        """The rows of a query, a page at a time; several may be under way in one transaction."""
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
    """A statement with `:name` for its values as one with `$1`; values that it does not name are left out."""
    used: list[str] = []

    def number(match: re.Match[str]) -> str:
        name = match[1]
        if name not in values:
            return match[0]
        if name not in used:
            used.append(name)
        return f"${used.index(name) + 1}"

    statement = re.sub(r"(?<![:'\w]):([a-z][a-z0-9_]*)\b", number, sql)
    return statement, [values[name] for name in used]
