"""Copying all of a file, and into one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from langlauf.clock import machine_time
from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.store.copying import CopyRefused, Progress, Row
from langlauf.store.queries import load
from langlauf.store.sqlite.connection import migrate, open_connection
from langlauf.store.sqlite.snapshot import snapshot_of
from langlauf.store.sqlite.steady import SteadyClock
from langlauf.store.tables import Table

_JOB = "SELECT job FROM job_rows WHERE job_id = ?"


class _Order(NamedTuple):
    """The order in which rows are read, and how to find the place behind one of them from its key."""

    key: tuple[str, ...]
    order: str
    behind: str


def _by(*key: str) -> _Order:
    return _Order(key, ", ".join(key), ", ".join("?" * len(key)))


#: Jobs and what belongs to them come in the order of their numbers, which is that of their arrival.
_ORDERS = {
    "jobs": _Order(("job_id",), "row", _JOB),
    "job_inputs": _Order(("job_id",), "row", _JOB),
    "job_events": _Order(("job_id", "event_seq"), "row, event_seq", f"({_JOB}), ?"),
    "job_results": _Order(("result_id",), "row", "SELECT result FROM result_rows WHERE result_id = ?"),
    "outbox": _by("org_id", "notification_id"),
    "delivery_attempts": _by("org_id", "notification_id", "attempt"),
    "delivery_lanes": _by("org_id", "lane"),
    "job_wishes": _by("job_id", "channel"),
    "webhook_endpoints": _by("org_id", "endpoint_id"),
    "mail_marks": _by("org_id", "address", "mark"),
    "inbox_marks": _by("org_id"),
    "job_chunks": _Order(
        ("job_id", "chunk_key"),
        "row",
        "SELECT chunk FROM chunk_rows JOIN job_rows USING (job) WHERE job_id = ? AND chunk_key = ?",
    ),
    "leases": _Order(("job_id",), "row", _JOB),
    "idempotency_keys": _Order(("job_id",), "row", _JOB),
    "pace": _by("analysis"),
    "imports": _by("file_name", "sha256"),
    "api_keys": _by("key_id"),
    "signing_secrets": _by("purpose"),
    "ended_sessions": _by("session_id"),
}
_QUERIES = load("langlauf.store.sqlite", "copying.sql", "transfer.sql")


def file_name(path: str) -> str:
    """A file by a name that does not depend on where a program runs."""
    return str(Path(path).absolute())


class SqliteSource:
    """What is copied from a file."""

    def __init__(self, path: str, connection: apsw.Connection) -> None:
        self.name = file_name(path)
        self._connection = connection

    def rows(self, table: Table, behind: Sequence[Any] | None = None) -> Iterator[Row]:
        query = _QUERIES["read_rows" if behind is None else "read_rows_behind"]
        _, order, place = _ORDERS[table.name]
        statement = query.format(columns=", ".join(table.columns), table=table.name, order=order, behind=place)
        rows: Iterator[Row] = iter(self._connection.execute(statement, tuple(behind or ())))
        if "retryable" not in table.columns:
            return rows
        return (_with_truth(row, table.columns.index("retryable")) for row in rows)

    def key(self, table: Table, row: Row) -> list[Any]:
        return [row[table.columns.index(column)] for column in _ORDERS[table.name].key]

    def count(self, table: Table) -> int:
        found: Any = self._connection.execute(_QUERIES["count_rows"].format(table=table.name)).get
        return int(found)

    def live_leases(self) -> int:
        now = SteadyClock(machine_time()).look(self._connection)
        found: Any = self._connection.execute(_QUERIES["live_leases"], {"now": now}).get
        return int(found)


def _with_truth(row: Row, place: int) -> Row:
    """This database keeps truth as a number."""
    return row if row[place] is None else (*row[:place], bool(row[place]), *row[place + 1 :])


@contextmanager
def source_of(path: str, *, unfinished: bool = False) -> Iterator[SqliteSource]:
    """A file to read, as it is now."""
    try:
        with snapshot_of(path, unfinished=unfinished) as snapshot:
            yield SqliteSource(path, snapshot.connection)
    except apsw.CorruptError as error:
        raise StoreUnavailable(f"the store {path} cannot be read: {error}") from error


class SqliteTarget:
    """What is copied into a file."""

    def __init__(self, path: str, connection: apsw.Connection) -> None:
        self._path = path
        self._connection = connection

    def progress(self) -> Progress | None:
        rows: list[Row] = self._connection.execute(_QUERIES["read_progress"]).fetchall()
        return Progress(*rows[0]) if rows else None

    def begin(self, progress: Progress) -> None:
        with self._transaction():
            self._run("begin_copy", **_values(progress))

    def put(self, table: Table, rows: Sequence[Row], before: Progress, after: Progress) -> None:
        with self._transaction():
            self._move("move_copy", **_values(after), from_table=before.table, from_position=before.position)
            statement = _QUERIES["put_rows"].format(
                table=table.name, columns=", ".join(table.columns), marks=", ".join("?" * len(table.columns))
            )
            self._connection.executemany(statement, rows)

    def finish(self, before: Progress) -> None:
        with self._transaction():
            self._run("place_events")
            self._move("end_copy", **_values(before))
            for query in ("recount_lanes", "recount_waiting", "recount_running"):
                self._run(query)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except apsw.ConstraintError as error:
            raise StoreError(f"{self._path} did not take what was copied: {error}") from error
        except apsw.Error as error:
            raise StoreUnavailable(f"the store {self._path} did not take the copy: {error}") from error

    def _run(self, query: str, **values: Any) -> int:
        self._connection.execute(_QUERIES[query], values)
        return self._connection.changes()

    def _move(self, query: str, **values: Any) -> None:
        if self._run(query, **values) != 1:
            raise CopyRefused(f"another program copies into {self._path}")


def _values(progress: Progress) -> dict[str, Any]:
    return {"source": progress.source, "table": progress.table, "position": progress.position}


@contextmanager
def target_of(path: str) -> Iterator[SqliteTarget]:
    """A file to fill; it is made where it is missing."""
    connection = open_connection(path)
    try:
        try:
            migrate(connection)
        except apsw.Error as error:
            raise StoreUnavailable(f"the store {path} cannot be opened: {error}") from error
        # What is sorted at the end is as large as the log: that goes to the disk.
        connection.execute("PRAGMA temp_store = FILE")
        yield SqliteTarget(path, connection)
    finally:
        connection.close()
