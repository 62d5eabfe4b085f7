"""A consistent read-only snapshot of a database, its verification, and a database as source and target of a copy."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import msgspec

from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.instant import Instant
from langlauf.store.blobs.owner import BlockingPayloads
from langlauf.store.postgres.blocking_connection import PAGE, WIDE_PAGE, BlockingConnection, BulkInsert, Row
from langlauf.store.postgres.connection import parse_url
from langlauf.store.postgres.migrate import PACKAGE, applied_migrations, prepare
from langlauf.store.shared_sql import shared_queries
from langlauf.store.sql import load_queries, migrations_in
from langlauf.store.tools.store_copy import CopyProgress, CopySource, CopyTarget, RowOrder, Table, by, half_copied
from langlauf.store.tools.verify import Violation, Watch, check, rule_queries

SPELLING = {"is_json": "is_json({})", "json": "{}::json"}
#: Rows per fetch of queries that return payloads.
_PAGES = {"hashed_inputs": 64, "every_job": 64, "every_chunk": WIDE_PAGE, "every_result": WIDE_PAGE}
_JOIN_BY_ID = re.compile(r"\b(result|event|former|input|lease|job)\.job_id = (job|event|result)\.job_id\b")


def _join_by_key(sql: str) -> str:
    """Return a query that joins the records of a job by its key, which is indexed, instead of its id."""
    return _JOIN_BY_ID.sub(r"\1.job = \2.job", sql)


class PostgresSnapshot:
    """Runs named queries on the snapshot of the connection's transaction."""

    def __init__(self, url: str, connection: BlockingConnection) -> None:
        self.connection = connection
        self._url = url
        rules = {name: _join_by_key(sql) for name, sql in rule_queries(SPELLING).items()}
        own = load_queries(PACKAGE, "verify.sql", "transfer.sql", "inspection.sql")
        self._queries = own | shared_queries("postgres") | rules

    def knows(self, query: str) -> bool:
        return query in self._queries

    def rows(self, query: str, /, **values: Any) -> Iterable[Row]:
        return self.connection.stream(self._queries[query], page=_PAGES.get(query, PAGE), **values)

    def rows_now(self, query: str, /, **values: Any) -> list[Row]:
        with BlockingConnection(self._url) as connection, connection.transaction(read_only=True):
            return connection.fetch(self._queries[query], **values)

    def tables_of_orgs(self) -> list[str]:
        return [name for (name,) in self.rows("org_tables")]

    def rows_of_org(self, table: str, org_id: str) -> Iterator[dict[str, Any]]:
        named = '"' + table.replace('"', '""') + '"'
        sql = f"SELECT to_json(one)::text FROM {named} AS one WHERE org_id = :org_id"  # noqa: S608 - the database's own
        for (text,) in self.connection.stream(sql, page=WIDE_PAGE, org_id=org_id):
            yield msgspec.json.decode(text)

    def damages(self) -> Iterator[str]:
        return (words for (words,) in self.rows("damages"))

    def changed_objects(self) -> Iterator[str]:
        return (words for (words,) in self.rows("changed_objects"))


@contextmanager
def snapshot_of(url: str, *, unfinished: bool = False) -> Iterator[PostgresSnapshot]:
    """Open a snapshot; raise `StoreUnavailable` if the schema is another one, or if a copy into it is unfinished.

    With `unfinished`, the target of an unfinished copy is read too.
    """
    with BlockingConnection(url) as connection, connection.transaction(read_only=True):
        _refuse_other_schema(connection)
        if not unfinished:
            refuse_unfinished(connection)
        yield PostgresSnapshot(url, connection)


@contextmanager
def prepared(url: str) -> Iterator[BlockingConnection]:
    """Open a connection for writing, after migrating the database."""
    with BlockingConnection(url) as connection:
        connection.run(prepare(connection.connection, parse_url(url)))
        yield connection


def refuse_unfinished(connection: BlockingConnection) -> None:
    """Raise `StoreUnavailable` while a copy into the database is unfinished."""
    [[source]] = connection.fetch("SELECT copied_from()")
    if source is not None:
        raise StoreUnavailable(half_copied(connection.name, source))


def _refuse_other_schema(connection: BlockingConnection) -> None:
    found, known = connection.run(applied_migrations(connection.connection)), len(migrations_in(PACKAGE))
    if found != known:
        hint = "run `langlauf migrate`" if found < known else "use the newer program"
        raise StoreUnavailable(f"{connection.name} has schema {found}, this program needs {known}: {hint}")


def check_database(
    url: str,
    *,
    now: Instant | None = None,
    watch: Watch = lambda *_: None,
    payloads: BlockingPayloads | None = None,
) -> Iterator[Violation]:
    """Yield violated rules, warnings included, as they are found. Without `payloads` blobs are only counted."""
    with snapshot_of(url) as snapshot:
        [[at]] = snapshot.rows("now")
        yield from check(snapshot, at if now is None else now, watch=watch, payloads=payloads)


# -- copies ------------------------------------------------------------------------------------------------------------


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
    "job_wishes": by("job_id", "channel", "org_id"),
    "webhook_endpoints": by("endpoint_id", "org_id"),
    "job_chunks": by("job_id", "chunk_key"),
    "leases": _by_job(),
    "idempotency_keys": by("idempotency_key", "org_id"),
}
#: Rows per fetch of tables with payloads.
_COPY_PAGES = {"job_inputs": 64, "job_results": WIDE_PAGE, "job_chunks": WIDE_PAGE}
_QUERIES = load_queries(PACKAGE, "transfer.sql", "verify.sql")


class PostgresSource(CopySource):
    """Reads the tables of a database."""

    orders = _ORDERS

    def __init__(self, connection: BlockingConnection) -> None:
        self.name = connection.name
        self._connection = connection

    def _read(self, table: str, sql: str, **values: Any) -> Iterator[Row]:
        return self._connection.stream(sql, page=_COPY_PAGES.get(table, PAGE), **values)

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
