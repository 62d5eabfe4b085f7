"""Copying all of a file, and into one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from langlauf.clock import machine_time
from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.store.copying import CopyRefused, Progress, Row
from langlauf.store.queries import load
from langlauf.store.sqlite.connection import migrate, open_connection
from langlauf.store.sqlite.snapshot import snapshot_of
from langlauf.store.sqlite.steady import SteadyClock
from langlauf.store.tables import Table

#: What a row is found by, in the order of the file's own index.
_KEYS = {
    "jobs": ("org_id", "job_id"),
    "job_inputs": ("org_id", "job_id"),
    "job_events": ("org_id", "job_id", "event_seq"),
    "job_results": ("org_id", "result_id"),
    "notifications": ("org_id", "notification_id"),
    "delivery_attempts": ("org_id", "notification_id", "attempt"),
    "delivery_lanes": ("org_id", "lane"),
    "job_wishes": ("org_id", "job_id", "channel"),
    "webhook_endpoints": ("org_id", "endpoint_id"),
    "mail_marks": ("org_id", "address", "mark"),
    "inbox_marks": ("org_id",),
    "job_chunks": ("org_id", "job_id", "chunk_key"),
    "leases": ("org_id", "job_id"),
    "idempotency_keys": ("org_id", "idempotency_key"),
    "pace": ("analysis",),
    "imports": ("file_name", "sha256"),
    "api_keys": ("key_id",),
    "signing_secrets": ("purpose",),
    "ended_sessions": ("session_id",),
}
#: The table of inputs does not keep what its job says as well.
_INPUTS = """(
    SELECT input.org_id, input.job_id, job.queued_at, input.payload
    FROM job_inputs AS input LEFT JOIN jobs AS job USING (org_id, job_id))"""
_QUERIES = load("langlauf.store.sqlite", "copying.sql")


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
        key = _KEYS[table.name]
        statement = query.format(
            columns=", ".join(table.columns),
            table=_INPUTS if table.name == "job_inputs" else table.name,
            key=", ".join(key),
            marks=", ".join("?" * len(key)),
        )
        rows: Iterator[Row] = iter(self._connection.execute(statement, tuple(behind or ())))
        if "retryable" not in table.columns:
            return rows
        return (_with_truth(row, table.columns.index("retryable")) for row in rows)

    def key(self, table: Table, row: Row) -> list[Any]:
        return [row[table.columns.index(column)] for column in _KEYS[table.name]]

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
            columns = [place for place, column in enumerate(table.columns) if (table.name, column) != _LEFT_OUT]
            statement = _QUERIES["put_rows"].format(
                table=table.name,
                columns=", ".join(table.columns[place] for place in columns),
                marks=", ".join("?" * len(columns)),
            )
            self._connection.executemany(statement, ([row[place] for place in columns] for row in rows))

    def finish(self, before: Progress) -> None:
        with self._transaction():
            self._move("end_copy", **_values(before))
            self._run("rebuild_lanes")

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


#: What only a job's own row says here.
_LEFT_OUT = ("job_inputs", "queued_at")


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
        yield SqliteTarget(path, connection)
    finally:
        connection.close()
