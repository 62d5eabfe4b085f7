"""The statements that a server sends to its store, recorded by the drivers of the databases themselves."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from langlauf.store.postgres.connection import DatabaseConnection
from langlauf.store.postgres.driver import PostgresStore
from tests.support.live import Live

#: Called with the text of each statement and its values.
Recorder = Callable[[str, Any], None]
#: Runs once a second over all jobs that are followed at that moment, and not for a request. A request follows a job
#: before it reads whether there is one.
_PERIODIC = "SELECT * FROM pulses("


class RecordedSql:
    """The statements since the last `clear`, in their order."""

    def __init__(self, server: Live) -> None:
        self._server = server
        self._recorded: list[tuple[str, set[str]]] = []

    def record(self, sql: str, values: Any) -> None:
        """Add one; called in the thread that runs it."""
        self._recorded.append((sql, set(_texts(values))))

    def clear(self) -> None:
        """Forget what was recorded."""
        self._recorded.clear()

    def about(self, names: set[str]) -> list[str]:
        """Return those that were given one of these names: others run beside them."""
        # asyncpg calls its loggers in the next round of the loop, which may be after the response was sent.
        self._server.run(asyncio.sleep(0))
        return [sql for sql, values in list(self._recorded) if names & values]


@contextmanager
def recorded(server: Live) -> Iterator[RecordedSql]:
    """Record the statements of a server until the block ends."""
    assert server.app.runtime is not None
    store: Any = server.app.runtime.store
    statements = RecordedSql(server)
    with (_on_postgres if isinstance(store, PostgresStore) else _on_sqlite)(server, store, statements.record):
        yield statements


@contextmanager
def _on_sqlite(_: Live, store: Any, record: Recorder) -> Iterator[None]:
    def trace(_: Any, sql: str, values: Any) -> bool:
        record(sql, values)
        return True

    store._reader.exec_trace = store._writer.exec_trace = trace
    try:
        yield
    finally:
        store._reader.exec_trace = store._writer.exec_trace = None


@contextmanager
def _on_postgres(server: Live, store: Any, record: Recorder) -> Iterator[None]:
    connections: list[DatabaseConnection] = [*store._connections.values(), *store._pool.connections]

    def log(query: Any) -> None:
        if not query.query.startswith(_PERIODIC):
            record(query.query, query.args)

    async def add(connection: Any) -> None:
        connection.add_query_logger(log)

    async def remove(connection: Any) -> None:
        connection.remove_query_logger(log)

    async def on_every_connection(change: Any) -> None:
        for connection in connections:
            await connection.use(change)  # opens what has not been needed so far

    server.run(on_every_connection(add))
    try:
        yield
    finally:
        server.run(on_every_connection(remove))


def _texts(values: Any) -> Iterable[str]:
    """Every value as text, those in arrays and mappings too."""
    if isinstance(values, dict):
        values = values.values()
    for value in values or ():
        if isinstance(value, list | tuple):
            yield from _texts(value)
        else:
            yield str(value)
