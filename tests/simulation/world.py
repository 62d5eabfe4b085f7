"""The real store in this process: its schema, its statements and its handlers, without threads and with set time."""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import apsw

from langlauf import clock
from langlauf.domain.attempt import Lease
from langlauf.domain.instant import Instant
from langlauf.store.group_commit import Recording, rounds
from langlauf.store.sql import load_queries
from langlauf.store.sqlite import batch
from langlauf.store.sqlite.connection import MEMORY, migrate, open_connection
from langlauf.store.sqlite.end import grace_periods
from langlauf.store.sqlite.engine import _FENCE
from langlauf.store.sqlite.transaction import Row, Transaction
from tests.simulation.disagreement import Disagreement
from tests.simulation.environment import Fate, ListSweepable

PACKAGE = "langlauf.store.sqlite"
#: A transaction that takes more than the product of these is in a loop; usual are some thousand steps.
_STEPS_OF_A_TICK = 20_000
_MOST_TICKS = 10


def _list_sweepable(tx: Transaction, page: ListSweepable) -> list[Lease]:
    found: list[Row] = tx.connection.execute("SELECT job FROM job_rows WHERE job_id = ?", (page.after[1],)).fetchall()
    values = {"after": found[0][0] if found else 0, "limit": page.limit}
    rows = tx.rows("sweepable", now=tx.now, **grace_periods(page.grace_seconds), **values)
    return [Lease(*row[:-1]) for row in rows]


batch.SINGLES.setdefault(ListSweepable, _list_sweepable)


class Dice(random.Random):
    """Chance that draws what it was set to."""

    value = 0.0

    def random(self) -> float:
        """The number that was set."""
        return self.value


def statements() -> dict[str, str]:
    """The store's statements by name, as they stand in its files."""
    return load_queries(PACKAGE, "writes.sql")


def _quick_connection() -> apsw.Connection:
    """The store's own connection, for speed alone with more statements kept ready and with smaller pages."""
    with patch.object(apsw, "Connection", partial(apsw.Connection, statementcachesize=500)):
        connection = open_connection(MEMORY)
    connection.execute("PRAGMA page_size = 1024")
    return connection


def _birth(connection: apsw.Connection) -> Iterator[str]:
    """The statements that bring every table back to what it holds now. Those that refer to others come first."""
    yield "BEGIN"
    names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid DESC").fetchall()
    for (name,) in names:
        yield f"DELETE FROM {name}"
        for row in connection.execute(f"SELECT * FROM {name}"):
            yield f"INSERT INTO {name} VALUES ({', '.join(map(apsw.format_sql_value, row))})"
    yield "COMMIT"


class World:
    """One store in memory, for one schedule after another. Its statements may be altered, to see whether that shows."""

    arrival = "job.row"
    sweeps_at_once = False

    def __init__(self, queries: Mapping[str, str] | None = None) -> None:
        self._dice = Dice()
        told = load_queries(PACKAGE, "deliveries.sql")
        self._queries = {
            name: sql.replace("{fence}", _FENCE) for name, sql in {**told, **(queries or statements())}.items()
        }
        self.connection = _quick_connection()
        migrate(self.connection)
        self._seen_at = -1
        self._seen: list[list[Row]] = []
        self._ticks = 0
        self.connection.set_progress_handler(self._never_ends, _STEPS_OF_A_TICK)
        self._fresh = "; ".join(_birth(self.connection))

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """While this lasts, the store draws from our dice."""
        with patch.object(clock, "_jitter", self._dice):
            yield

    def fresh(self, jitter: float) -> None:
        """Every table as the migrations left it."""
        self._dice.value = jitter
        self.connection.execute(self._fresh)

    def transact(self, operations: Sequence[Any], now: Instant, fate: Fate) -> list[Any]:
        """One transaction with all operations, as a group commit has; what they answered, whoever hears of it."""
        connection = self.connection
        self._ticks = 0
        connection.execute("BEGIN IMMEDIATE")
        try:
            answers = batch.run_batch(Transaction(connection, self._queries, now), operations)
            connection.execute("ROLLBACK" if fate is Fate.UNDONE else "COMMIT")
        except Exception as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise Disagreement(f"the store broke down: {type(error).__name__}: {error}") from error
        return answers

    def order(self, operations: Sequence[Any]) -> list[int]:
        """Sets first; of writes for one job the earlier ones."""
        together, singles = batch.order_of(operations)
        return [*(place for places in together for place in self._rounds(operations, places)), *singles]

    def _rounds(self, operations: Sequence[Any], places: list[int]) -> Iterator[int]:
        if isinstance(operations[places[0]], Recording):
            for part in rounds([operations[place] for place in places], lambda one: [one.lease.job_id]):
                yield from (places[at] for at in part)
        else:
            yield from places

    def _never_ends(self) -> bool:
        """Asked by SQLite now and then, each time as many steps of its machine later: true breaks off."""
        self._ticks += 1
        return self._ticks > _MOST_TICKS

    def seen(self, *queries: str) -> list[list[Row]]:
        """What queries find now. Where nothing was written since they were asked last, that is what they found then."""
        changes = self.connection.total_changes()
        if self._seen_at != changes:
            self._seen_at, self._seen = changes, [self.rows(sql) for sql in queries]
        return self._seen

    def rows(self, sql: str) -> list[Row]:
        """Looks into the tables past the store."""
        return self.connection.execute(sql).fetchall()
