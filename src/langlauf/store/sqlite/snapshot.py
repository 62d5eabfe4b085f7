"""Snapshots of a file, beside a running server; its verification, and a file as source or target of a copy."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from langlauf.clock import machine_time
from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.domain.instant import Instant
from langlauf.store.blobs.owner import BlockingPayloads
from langlauf.store.shared_sql import shared_queries
from langlauf.store.sql import load_queries, migrations_in
from langlauf.store.sqlite.connection import MEMORY, SteadyClock, applied_migrations, migrate, open_connection
from langlauf.store.sqlite.transaction import Row
from langlauf.store.tools.store_copy import CopySource, CopyTarget, RowOrder, Table, by, half_copied
from langlauf.store.tools.verify import Violation, Watch, check, rule_queries

_SPELLING = {"is_json": "json_valid({})", "json": "{}"}


class SqliteSnapshot:
    """The rows of named queries on one snapshot."""

    def __init__(self, path: str, connection: apsw.Connection) -> None:
        self.connection = connection
        self._path = path
        own = load_queries("langlauf.store.sqlite", "verify.sql", "transfer.sql")
        self._queries = own | shared_queries("sqlite") | rule_queries(_SPELLING)

    def knows(self, query: str) -> bool:
        return query in self._queries

    def rows(self, query: str, /, **values: Any) -> Iterable[Row]:
        return self.connection.execute(self._queries[query], values)

    def rows_now(self, query: str, /, **values: Any) -> list[Row]:
        connection = open_connection(self._path, read_only=True)
        try:
            return connection.execute(self._queries[query], values).fetchall()
        finally:
            connection.close()

    def tables_of_orgs(self) -> list[str]:
        return [str(name) for (name,) in self.rows("exported_tables")]

    def rows_of_org(self, table: str, org_id: str) -> Iterator[dict[str, Any]]:
        named = '"' + table.replace('"', '""') + '"'
        cursor = self.connection.execute(f"SELECT * FROM {named} WHERE org_id = ?", (org_id,))  # noqa: S608 - the file's own
        for row in cursor:
            names = [column[0] for column in cursor.get_description()]
            yield dict(zip(names, row, strict=True))

    def damages(self) -> Iterator[str]:
        return (str(line) for (line,) in self.connection.execute("PRAGMA quick_check") if line != "ok")

    def changed_objects(self) -> Iterator[str]:
        return changed_objects(self.connection, self._queries["schema_objects"])


def changed_objects(connection: apsw.Connection, query: str) -> Iterator[str]:
    """Yield schema objects that a fresh store has and the file lacks or has otherwise."""
    fresh = open_connection(MEMORY)
    try:
        migrate(fresh)
        wanted = fresh.execute(query).fetchall()
    finally:
        fresh.close()
    found: list[Any] = connection.execute(query).fetchall()
    there: dict[Any, Any] = dict(found)
    for name, sql in wanted:
        if there.get(name) != sql:
            yield f"{name} is {'changed' if name in there else 'missing'}"


def refuse_unfinished(path: str, connection: apsw.Connection) -> None:
    """Raise `StoreUnavailable` while a copy into the file is under way."""
    source = connection.execute("SELECT source FROM copying").get
    if source is not None:
        raise StoreUnavailable(half_copied(path, str(source)))


@contextmanager
def snapshot_of(path: str, *, unfinished: bool = False) -> Iterator[SqliteSnapshot]:
    """Yield a snapshot of a file of this program's schema; raises `StoreUnavailable` where it cannot be read.

    Corrupt pages raise `apsw.CorruptError` to the caller. A file that a copy into it
    has not filled yet is read only with `unfinished`.
    """
    connection = open_connection(path, read_only=True)
    try:
        found, known = applied_migrations(connection), len(migrations_in("langlauf.store.sqlite"))
        if found != known:
            raise StoreUnavailable(f"{path} has schema {found}, this program needs {known}: run `langlauf migrate`")
        connection.execute("BEGIN")
        if not unfinished:
            refuse_unfinished(path, connection)
        yield SqliteSnapshot(path, connection)
    except apsw.CorruptError:
        raise
    except apsw.Error as error:
        raise StoreUnavailable(f"the store {path} cannot be read: {error}") from error
    finally:
        connection.close()


@contextmanager
def sound_snapshot_of(path: str, *, unfinished: bool = False) -> Iterator[SqliteSnapshot]:
    """Yield a snapshot; corrupt pages raise `StoreUnavailable`."""
    try:
        with snapshot_of(path, unfinished=unfinished) as snapshot:
            yield snapshot
    except apsw.CorruptError as error:
        raise StoreUnavailable(f"the store {path} cannot be read: {error}") from error


def check_file(
    path: str,
    *,
    now: Instant | None = None,
    watch: Watch = lambda *_: None,
    payloads: BlockingPayloads | None = None,
) -> Iterator[Violation]:
    """Yield violations, warnings included, as they are found. Without `payloads` blobs are only counted."""
    try:
        with snapshot_of(path) as snapshot:
            now = SteadyClock(machine_time()).look(snapshot.connection) if now is None else now
            yield from check(snapshot, now, watch=watch, payloads=payloads)
    except apsw.CorruptError as error:
        yield Violation("integrity", None, None, str(error))


# -- copies ------------------------------------------------------------------------------------------------------------

_JOB = "SELECT job FROM job_rows WHERE job_id = :key0"


#: Jobs and their rows are copied in the order of their numbers, which is that of their arrival.
_ORDERS = {
    "jobs": RowOrder(("job_id",), "row", _JOB),
    "job_inputs": RowOrder(("job_id",), "row", _JOB),
    "job_events": RowOrder(("job_id", "event_seq"), "row, event_seq", f"({_JOB}), :key1"),
    "job_results": RowOrder(("result_id",), "row", "SELECT result FROM result_rows WHERE result_id = :key0"),
    "outbox": by("org_id", "notification_id"),
    "delivery_attempts": by("org_id", "notification_id", "attempt"),
    "job_wishes": by("job_id", "channel"),
    "webhook_endpoints": by("org_id", "endpoint_id"),
    "job_chunks": RowOrder(
        ("job_id", "chunk_key"),
        "row",
        "SELECT chunk FROM chunk_rows JOIN job_rows USING (job) WHERE job_id = :key0 AND chunk_key = :key1",
    ),
    "leases": RowOrder(("job_id",), "row", _JOB),
    "idempotency_keys": RowOrder(("job_id",), "row", _JOB),
}
_QUERIES = load_queries("langlauf.store.sqlite", "transfer.sql")


def file_name(path: str) -> str:
    """Return the absolute path of a file."""
    return str(Path(path).absolute())


class SqliteSource(CopySource):
    """A file as the source of a copy."""

    orders = _ORDERS

    def __init__(self, path: str, connection: apsw.Connection) -> None:
        self.name = file_name(path)
        self._connection = connection

    def rows(self, table: Table, behind: Sequence[Any] | None = None) -> Iterator[Row]:
        rows = super().rows(table, behind)
        truth = next((name for name in ("retryable", "paused") if name in table.columns), None)
        if truth is None:
            return rows
        return (_with_truth(row, table.columns.index(truth)) for row in rows)

    def _read(self, table: str, sql: str, **values: Any) -> Iterator[Row]:  # noqa: ARG002 - rows come one by one anyway
        return iter(self._connection.execute(sql, values))

    def _now(self) -> Instant:
        return SteadyClock(machine_time()).look(self._connection)


def _with_truth(row: Row, place: int) -> Row:
    """Convert the number that SQLite stores into a bool."""
    return row if row[place] is None else (*row[:place], bool(row[place]), *row[place + 1 :])


@contextmanager
def source_of(path: str, *, unfinished: bool = False) -> Iterator[SqliteSource]:
    """Yield a snapshot of a file as the source of a copy."""
    with sound_snapshot_of(path, unfinished=unfinished) as snapshot:
        yield SqliteSource(path, snapshot.connection)


def put_rows(connection: apsw.Connection, table: Table, rows: Iterable[Row]) -> None:
    """Insert rows into a table, or through the view that stands for it."""
    marks = ", ".join("?" * len(table.columns))
    sql = _QUERIES["put_rows"].format(table=table.name, columns=", ".join(table.columns), marks=marks)
    connection.executemany(sql, rows)


class SqliteTarget(CopyTarget):
    """A file as the target of a copy."""

    def __init__(self, path: str, connection: apsw.Connection) -> None:
        self.name = path
        self._connection = connection

    def _put(self, table: Table, rows: Sequence[Row]) -> None:
        put_rows(self._connection, table, rows)

    def _complete(self) -> None:
        for query in ("place_events", "recount_lanes", "recount_waiting", "recount_running"):
            self._run(_QUERIES[query])

    def _run(self, sql: str, **values: Any) -> list[Row]:
        return self._connection.execute(sql, values).fetchall()

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
            raise StoreError(f"{self.name} did not take what was copied: {error}") from error
        except apsw.Error as error:
            raise StoreUnavailable(f"the store {self.name} did not take the copy: {error}") from error


@contextmanager
def target_of(path: str) -> Iterator[SqliteTarget]:
    """Yield a file as the target of a copy; it is created where it is missing."""
    connection = open_connection(path)
    try:
        try:
            migrate(connection)
        except apsw.Error as error:
            raise StoreUnavailable(f"the store {path} cannot be opened: {error}") from error
        # The sort at the end is as large as all events: it uses the disk.
        connection.execute("PRAGMA temp_store = FILE")
        yield SqliteTarget(path, connection)
    finally:
        connection.close()
