"""A database as the source and as the target of a copy of a whole store."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from langlauf.domain.instant import Instant
from langlauf.store.postgres.blocking_connection import PAGE, WIDE_PAGE, BlockingConnection, BulkInsert
from langlauf.store.postgres.migrate import PACKAGE
from langlauf.store.postgres.snapshot import prepared, snapshot_of
from langlauf.store.queries import load
from langlauf.store.tools.store_copy import CopyProgress, CopySource, CopyTarget, Row, RowOrder, by
from langlauf.store.tools.tables import Table


def _by_job(*further: str) -> RowOrder:
    """RowOrder by the key of the job, then by further columns."""
    behind = ", ".join(["key_of(:key0)", *(f":key{place}" for place in range(1, len(further) + 1))])
    return RowOrder(("job_id", *further), ", ".join(["job", *further]), behind)


#: The order of each table, which is that of one of its indexes.
_ORDERS = {
    "jobs": _by_job(),
    "job_inputs": _by_job(),
    "job_events": _by_job("event_seq"),
    "job_results": _by_job("result_seq"),
    "outbox": by("notification_id", "org_id"),
    "delivery_attempts": by("notification_id", "attempt", "org_id"),
    "delivery_lanes": by("org_id", "lane"),
    "job_wishes": by("job_id", "channel", "org_id"),
    "webhook_endpoints": by("endpoint_id", "org_id"),
    "schedules": by("org_id", "name"),
    "mail_marks": by("org_id", "address", "mark"),
    "inbox_marks": by("org_id"),
    "job_chunks": by("job_id", "chunk_key"),
    "leases": _by_job(),
    "idempotency_keys": by("idempotency_key", "org_id"),
    "pace": by("analysis"),
    "pauses": by("org_id", "analysis"),
    "codes": by("code"),
    "imports": by("file_name", "sha256"),
    "api_keys": by("key_id"),
    "signing_secrets": by("purpose"),
    "ended_sessions": by("session_id"),
}
#: Rows per fetch of tables with payloads.
_PAGES = {"job_inputs": 64, "job_results": WIDE_PAGE, "job_chunks": WIDE_PAGE}
_QUERIES = load(PACKAGE, "transfer.sql", "verify.sql")


class PostgresSource(CopySource):
    """Reads the tables of a database."""

    orders = _ORDERS

    def __init__(self, connection: BlockingConnection) -> None:
        self.name = connection.name
        self._connection = connection

    def _read(self, table: str, sql: str, **values: Any) -> Iterator[Row]:
        return self._connection.stream(sql, page=_PAGES.get(table, PAGE), **values)

    def _now(self) -> Instant:
        [[now]] = self._connection.fetch(_QUERIES["now"])
        return int(now)


@contextmanager
def source_of(url: str, *, unfinished: bool = False) -> Iterator[PostgresSource]:
    """Open a snapshot of a database to copy from."""
    with snapshot_of(url, unfinished=unfinished) as snapshot:
        yield PostgresSource(snapshot.connection)


class PostgresTarget(CopyTarget):
    """Writes the tables of a database."""

    def __init__(self, connection: BlockingConnection) -> None:
        self.name = connection.name
        self._connection = connection
        self._bulk_insert = BulkInsert(connection)

    def finish(self, before: CopyProgress) -> None:
        super().finish(before)
        with self._connection.transaction(as_login=True):
            self._connection.execute(_QUERIES["analyze"])

    def _transaction(self) -> AbstractContextManager[None]:
        return self._connection.transaction()

    def _run(self, sql: str, **values: Any) -> list[Row]:
        return self._connection.fetch(sql, **values)

    def _put(self, table: Table, rows: Sequence[Row]) -> None:
        self._bulk_insert.begin()
        self._bulk_insert.insert(table, rows)

    def _complete(self) -> None:
        self._run(_QUERIES["rebuild_lanes"])
        self._run(_QUERIES["recount_leases"])


@contextmanager
def target_of(url: str) -> Iterator[PostgresTarget]:
    """Open a database to copy into, after migrating it."""
    with prepared(url) as connection:
        yield PostgresTarget(connection)
