"""The real store in this process: its schema, its statements and its handlers, without threads and with set time."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from typing import Any
from unittest.mock import patch

import apsw
import msgspec

from langlauf import clock
from langlauf.domain.attempt import Lease
from langlauf.domain.instant import Instant
from langlauf.store.queries import load
from langlauf.store.sqlite.connection import MEMORY, migrate, open_connection
from langlauf.store.sqlite.driver import _FENCE, _HANDLERS
from langlauf.store.sqlite.sweeping import graces
from langlauf.store.sqlite.transaction import Row, Transaction
from tests.simulation.disagreement import Disagreement

PACKAGE = "langlauf.store.sqlite"


class Fate(StrEnum):
    """What became of a transaction, and what its callers heard of it."""

    TOLD = "committed"
    UNTOLD = "committed, but the callers were told that it failed"
    UNDONE = "rolled back, and the callers were told so"


class ListSweepable(msgspec.Struct, frozen=True, kw_only=True):
    """The first half of a sweep: a page of attempts whose lease or time seems over."""

    after: tuple[str, str]
    limit: int
    grace_seconds: float


def _list_sweepable(tx: Transaction, page: ListSweepable) -> list[Lease]:
    values = {"after_org": page.after[0], "after_job": page.after[1], "limit": page.limit}
    rows = tx.rows("sweepable", now=tx.now, **graces(page.grace_seconds), **values)
    return [Lease(*row) for row in rows]


HANDLERS: dict[type, Callable[[Transaction, Any], Any]] = {**_HANDLERS, ListSweepable: _list_sweepable}


class Dice(random.Random):
    """Chance that draws what it was set to."""

    value = 0.0

    def random(self) -> float:
        """The number that was set."""
        return self.value


def statements() -> dict[str, str]:
    """The store's statements by name, as they stand in its files."""
    return load(PACKAGE, "writes.sql")


def _quick_connection() -> apsw.Connection:
    """The store's own connection, for speed alone with more statements kept ready and with smaller pages."""
    with patch.object(apsw, "Connection", partial(apsw.Connection, statementcachesize=500)):
        connection = open_connection(MEMORY)
    connection.execute("PRAGMA page_size = 1024")
    return connection


class World:
    """One store in memory, for one schedule after another. Its statements may be altered, to see whether that shows."""

    def __init__(self, queries: Mapping[str, str] | None = None) -> None:
        self._dice = Dice()
        self._queries = {name: sql.replace("{fence}", _FENCE) for name, sql in (queries or statements()).items()}
        self.connection = _quick_connection()
        migrate(self.connection)
        # Those that refer to others come first.
        names = self.connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid DESC")
        self._born: dict[str, list[Row]] = {
            str(name): self.connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in names.fetchall()
        }

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """While this lasts, the store draws from our dice."""
        with patch.object(clock, "_jitter", self._dice):
            yield

    def fresh(self, jitter: float) -> None:
        """Every table as the migrations left it."""
        self._dice.value = jitter
        self.connection.execute("BEGIN")
        for table, rows in self._born.items():
            self.connection.execute(f"DELETE FROM {table}")
            for row in rows:
                self.connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        self.connection.execute("COMMIT")

    def transact(self, operations: Sequence[Any], now: Instant, fate: Fate) -> list[Any]:
        """One transaction with all operations, as a group commit has; what they answered, whoever hears of it."""
        connection = self.connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            tx = Transaction(connection, self._queries, now)
            answers = [HANDLERS[type(operation)](tx, operation) for operation in operations]
            tx.flush()
            connection.execute("ROLLBACK" if fate is Fate.UNDONE else "COMMIT")
        except Exception as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise Disagreement(f"the store broke down: {type(error).__name__}: {error}") from error
        return answers

    def rows(self, sql: str) -> list[Row]:
        """Looks into the tables past the store."""
        return self.connection.execute(sql).fetchall()
