"""Snapshots of a file: read-only, beside a running server, row by row; and its verification."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from langlauf.clock import machine_time
from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.instant import Instant
from langlauf.store.migrate import migrations_in
from langlauf.store.queries import load
from langlauf.store.sqlite.clock import SteadyClock
from langlauf.store.sqlite.connection import MEMORY, applied_migrations, migrate, open_connection
from langlauf.store.sqlite.transaction import Row
from langlauf.store.tools.blocking_payloads import BlockingPayloads
from langlauf.store.tools.store_copy import half_copied
from langlauf.store.tools.verify import Violation, Watch, check, rule_queries

_SPELLING = {"is_json": "json_valid({})", "json": "{}"}


class SqliteSnapshot:
    """The rows of named queries on one snapshot."""

    def __init__(self, path: str, connection: apsw.Connection) -> None:
        self.connection = connection
        self._path = path
        self._queries = load("langlauf.store.sqlite", "verify.sql", "transfer.sql", "admin.sql") | rule_queries(
            _SPELLING
        )

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


def verify_file(path: str) -> list[Violation]:
    """Return the violations in the file without warnings; raise `StoreError` where it cannot be checked."""
    return [found for found in check_file(path) if not found.warning]


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
