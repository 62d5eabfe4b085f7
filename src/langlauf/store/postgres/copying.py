"""Copying all of a database, and into one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from langlauf.store.copying import CopyRefused, Progress, Row
from langlauf.store.postgres.blocking import PAGE, WIDE_PAGE, BlockingConnection
from langlauf.store.postgres.migrating import PACKAGE
from langlauf.store.postgres.putting import Putting
from langlauf.store.postgres.snapshot import prepared, snapshot_of
from langlauf.store.queries import load
from langlauf.store.tables import Table

#: What a row is found by, in the order of the database's own index.
_KEYS = {
    "jobs": ("job_id",),
    "job_inputs": ("job_id",),
    "job_events": ("job_id", "event_seq"),
    "job_results": ("job_id", "result_seq"),
    "outbox": ("notification_id", "org_id"),
    "delivery_attempts": ("notification_id", "attempt", "org_id"),
    "delivery_lanes": ("org_id", "lane"),
    "job_wishes": ("job_id", "channel", "org_id"),
    "webhook_endpoints": ("endpoint_id", "org_id"),
    "mail_marks": ("org_id", "address", "mark"),
    "inbox_marks": ("org_id",),
    "job_chunks": ("job_id", "chunk_key"),
    "leases": ("job_id",),
    "idempotency_keys": ("idempotency_key", "org_id"),
    "pace": ("analysis",),
    "imports": ("file_name", "sha256"),
    "api_keys": ("key_id",),
    "signing_secrets": ("purpose",),
    "ended_sessions": ("session_id",),
}
#: Rows that may be large come fewer at a time.
_PAGES = {"job_inputs": 64, "job_results": WIDE_PAGE, "job_chunks": WIDE_PAGE}
_QUERIES = load(PACKAGE, "copying.sql", "verify.sql")


class PostgresSource:
    """What is copied from a database."""

    def __init__(self, connection: BlockingConnection) -> None:
        self.name = connection.name
        self._connection = connection

    def rows(self, table: Table, behind: Sequence[Any] | None = None) -> Iterator[Row]:
        query = _QUERIES["read_rows" if behind is None else "read_rows_behind"]
        key = _KEYS[table.name]
        values = {f"key{place}": value for place, value in enumerate(behind or ())}
        statement = query.format(
            columns=", ".join(table.columns),
            table=table.name,
            key=", ".join(key),
            marks=", ".join(f":{name}" for name in values),
        )
        return self._connection.stream(statement, page=_PAGES.get(table.name, PAGE), **values)

    def key(self, table: Table, row: Row) -> list[Any]:
        return [row[table.columns.index(column)] for column in _KEYS[table.name]]

    def count(self, table: Table) -> int:
        return int(self._connection.fetch(_QUERIES["count_rows"].format(table=table.name))[0][0])

    def live_leases(self) -> int:
        [[now]] = self._connection.fetch(_QUERIES["now"])
        return int(self._connection.fetch(_QUERIES["live_leases"], now=now)[0][0])


@contextmanager
def source_of(url: str, *, unfinished: bool = False) -> Iterator[PostgresSource]:
    """A database to read, as it is now."""
    with snapshot_of(url, unfinished=unfinished) as snapshot:
        yield PostgresSource(snapshot.connection)


class PostgresTarget:
    """What is copied into a database."""

    def __init__(self, connection: BlockingConnection) -> None:
        self._connection = connection
        self._putting = Putting(connection)

    def progress(self) -> Progress | None:
        with self._connection.transaction(read_only=True):
            rows = self._connection.fetch(_QUERIES["read_progress"])
        return Progress(*rows[0]) if rows else None

    def begin(self, progress: Progress) -> None:
        with self._connection.transaction():
            self._connection.fetch(_QUERIES["begin_copy"], **_values(progress))

    def put(self, table: Table, rows: Sequence[Row], before: Progress, after: Progress) -> None:
        with self._connection.transaction():
            self._move("move_copy", **_values(after), from_table=before.table, from_position=before.position)
            self._putting.begin()
            self._putting.put(table, rows)

    def finish(self, before: Progress) -> None:
        with self._connection.transaction():
            self._move("end_copy", **_values(before))
            self._connection.fetch(_QUERIES["rebuild_lanes"])
            self._connection.fetch(_QUERIES["recount_leases"])
        with self._connection.transaction(as_login=True):
            self._connection.execute(_QUERIES["analyze"])

    def _move(self, query: str, **values: Any) -> None:
        if not self._connection.fetch(_QUERIES[query], **values):
            raise CopyRefused(f"another program copies into {self._connection.name}")


def _values(progress: Progress) -> dict[str, Any]:
    return {"source": progress.source, "table": progress.table, "position": progress.position}


@contextmanager
def target_of(url: str) -> Iterator[PostgresTarget]:
    """A database to fill; its schema is made where it is missing."""
    with prepared(url) as connection:
        yield PostgresTarget(connection)
