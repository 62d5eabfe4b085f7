"""Migrated databases for PostgreSQL stores: copies of a template, or one that is reused.

A database for one test costs a copy, and every new connection plans each function anew: half a second a test. Tests
that only call verbs of the store share one database per process and its connections (`ReusedDatabase`); it is emptied
between them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import asyncpg
import pytest

from langlauf.hints import Hints
from langlauf.store.postgres.connection import DatabaseConnection, connect
from langlauf.store.postgres.driver import PostgresStore
from tests.support.postgres import execute, fresh_database, template

#: Stores the rows of a migrated database, and creates `tests.reset()`, which restores them.
_RESET = """
CREATE SCHEMA tests;
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT relname FROM pg_class WHERE relnamespace = 'langlauf'::regnamespace AND relkind = 'r' LOOP
        EXECUTE format('CREATE TABLE tests.%1$I AS TABLE langlauf.%1$I', name);
    END LOOP;
END $$;
CREATE FUNCTION tests.reset() RETURNS void LANGUAGE plpgsql SET session_replication_role = replica AS $$
DECLARE name text;
    differs boolean;
BEGIN
    FOR name IN SELECT relname FROM pg_class WHERE relnamespace = 'tests'::regnamespace AND relkind = 'r' LOOP
        EXECUTE format('SELECT EXISTS (TABLE langlauf.%1$I EXCEPT TABLE tests.%1$I)
            OR (SELECT count(*) FROM langlauf.%1$I) <> (SELECT count(*) FROM tests.%1$I)', name) INTO differs;
        IF differs THEN
            EXECUTE format('DELETE FROM langlauf.%1$I', name);
            EXECUTE format('INSERT INTO langlauf.%1$I TABLE tests.%1$I', name);
        END IF;
    END LOOP;
    PERFORM setval(format('%I.%I', schemaname, sequencename), start_value, false) FROM pg_sequences
        WHERE schemaname = 'langlauf';
END $$;
"""


@contextmanager
def migrated_database() -> Iterator[str]:
    """Return the URL of a database with an empty schema; it is dropped at the end."""
    with fresh_database(template=template("migrated", _migrate)) as url:
        yield url


def _migrate(url: str) -> None:
    async def main() -> None:
        store = await PostgresStore.open(url, hints=Hints())
        await store.close()

    asyncio.run(main())


class ReusedDatabase:
    """One database for many tests, on one event loop, with connections that outlive their stores."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._runner = asyncio.Runner()
        self._url: str | None = None
        #: idle connections by the name of the store connection that used them: they have planned its functions
        self._idle: dict[str, list[Any]] = {}

    def run(self, use: Callable[[str], Awaitable[None]]) -> None:
        """Run a test with the URL of the database; if it fails, the next one gets a new database."""
        if self._url is None:
            self._url = self._stack.enter_context(migrated_database())
            execute(self._url, _RESET)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DatabaseConnection, "_connected", _reusing(self._idle))
            patch.setattr(DatabaseConnection, "close", _keeping(self._idle))
            try:
                self._runner.run(_alone(use(self._url)))
                self._runner.run(self._reset())
            except BaseException:
                self._forget()
                raise

    def close(self) -> None:
        """Drop the database."""
        self._forget()
        self._runner.close()

    async def _reset(self) -> None:
        for connection in self._idle["maintenance"][:1]:
            await connection.execute("SELECT tests.reset()")

    def _forget(self) -> None:
        async def terminate() -> None:
            for connection in [one for idle in self._idle.values() for one in idle]:
                connection.terminate()
            await asyncio.sleep(0)

        self._runner.run(terminate())
        self._idle.clear()
        self._url = None
        self._stack.close()


async def _alone(work: Awaitable[None]) -> None:
    """Cancel tasks that the test left running, as `asyncio.run` does."""
    try:
        await work
    finally:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def _reusing(idle: dict[str, list[Any]]) -> Callable[[DatabaseConnection], Awaitable[Any]]:
    async def connected(owner: DatabaseConnection) -> Any:
        if not owner.open:
            kept = idle.get(owner._name, ())
            owner._connection = kept.pop() if kept else await connect(owner._url)
        return owner._connection

    return connected


def _keeping(idle: dict[str, list[Any]]) -> Callable[[DatabaseConnection], Awaitable[None]]:
    async def close(owner: DatabaseConnection) -> None:
        async with owner._lock:
            connection, owner._connection = owner._connection, None
            if isinstance(connection, asyncpg.Connection) and not connection.is_closed():
                idle.setdefault(owner._name, []).append(connection)

    return close
