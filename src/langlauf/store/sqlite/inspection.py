"""The inspection of a file in any state: opened read-only, one short read per query."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw

from langlauf.clock import SystemClock, machine_time
from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.domain.result import ReferencedPayloads
from langlauf.store.blobs.owner import StoreIdentity
from langlauf.store.shared_sql import shared_queries
from langlauf.store.sql import json_text, load_queries, migrations_in
from langlauf.store.sqlite.connection import (
    BUSY_MILLISECONDS,
    OLDEST_SAFE_SQLITE,
    SteadyClock,
    applied_migrations,
    open_connection,
)
from langlauf.store.sqlite.engine import LARGEST_LOG
from langlauf.store.sqlite.health import file_identity, file_system_of, why_unwritable
from langlauf.store.sqlite.retention import payloads_from
from langlauf.store.sqlite.snapshot import changed_objects
from langlauf.store.tools.inspection import (
    ClockFacts,
    FileFacts,
    FileInspector,
    Kind,
    PathFacts,
    SchemaFacts,
)

PACKAGE = "langlauf.store.sqlite"
_FILES = ("inspection.sql", "overview.sql", "admin.sql", "deliveries.sql", "retention.sql", "verify.sql")
_MOST_DAMAGES = 20


class SqliteInspector(FileInspector):
    """Inspects one file."""

    kind: Kind = "sqlite"

    def __init__(self, path: str) -> None:
        if not Path(path).is_file():
            raise StoreUnavailable(f"there is no store at {path}")
        self._path = path
        self._queries = load_queries(PACKAGE, *_FILES) | shared_queries("sqlite")
        self._connection = _opened(path)

    # -- the file ------------------------------------------------------------------------------------------------------

    def file(self) -> FileFacts:
        path = Path(self._path)
        log = Path(f"{path}-wal")
        free = shutil.disk_usage(path.parent)
        return FileFacts(
            library=apsw.sqlite_lib_version(),
            oldest_safe=".".join(map(str, OLDEST_SAFE_SQLITE)),
            journal_mode=str(self._pragma("journal_mode")),
            synchronous=int(self._pragma("synchronous")),
            foreign_keys=bool(self._pragma("foreign_keys")),
            busy_milliseconds=BUSY_MILLISECONDS,
            mapped_bytes=int(self._pragma("mmap_size") or 0),
            paths=_paths(path),
            unwritable=why_unwritable(path),
            file_system=file_system_of(path),
            page_size=int(self._pragma("page_size")),
            pages=int(self._pragma("page_count")),
            free_pages=int(self._pragma("freelist_count")),
            log_bytes=log.stat().st_size if log.exists() else 0,
            largest_log=LARGEST_LOG,
            disk_free=free.free,
            disk_size=free.total,
        )

    def damages(self) -> list[str]:
        try:
            found = [str(line) for (line,) in self._connection.execute(f"PRAGMA quick_check({_MOST_DAMAGES})")]
        except apsw.InterruptError as error:
            raise TimeoutError from error
        except apsw.Error as error:
            return [str(error)]
        return [line for line in found if line != "ok"]

    def loose_rows(self) -> list[str]:
        try:
            loose = self._connection.execute("PRAGMA foreign_key_check").fetchall()
            lost = self._connection.execute(self._queries["own_orphans"]).fetchall()
        except apsw.InterruptError as error:
            raise TimeoutError from error
        except apsw.Error as error:
            raise StoreUnavailable(f"{self._path} cannot be read: {error}") from error
        return [f"a row of {table} belongs to nothing in {parent}" for table, _, parent, _ in loose] + [
            str(evidence) for _, _, evidence in lost
        ]

    def _pragma(self, name: str) -> Any:
        try:
            return self._connection.pragma(name)
        except apsw.Error as error:
            raise StoreUnavailable(f"{self._path} cannot be read: {error}") from error

    # -- what every store can be asked ---------------------------------------------------------------------------------

    def schema(self) -> SchemaFacts:
        try:
            found, known = applied_migrations(self._connection), len(migrations_in(PACKAGE))
            tables = self._connection.execute("SELECT name FROM sqlite_schema WHERE name IN ('copying', 'jobs')")
            names = {name for (name,) in tables}
            copied: Any = self._connection.execute("SELECT source FROM copying").get if "copying" in names else None
        except apsw.Error as error:
            raise StoreUnavailable(f"{self._path} cannot be read: {error}") from error
        if found and "jobs" not in names:
            raise StoreError(f"{self._path} is a database, and not a store of this program")
        return SchemaFacts(found, known, None if copied is None else str(copied))

    def changed_objects(self) -> list[str]:
        return list(changed_objects(self._connection, self._queries["schema_objects"]))

    def clock(self) -> ClockFacts:
        clock = SteadyClock(machine_time())
        try:
            store = clock.look(self._connection)
        except apsw.Error as error:
            raise StoreUnavailable(f"{self._path} cannot be read: {error}") from error
        return ClockFacts(store, SystemClock().now(), 0.0)

    def kept_payloads(self, jobs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], ReferencedPayloads]:
        return payloads_from(self._ask("kept_payloads", jobs=json_text(jobs)))

    def _identity(self) -> StoreIdentity:
        return file_identity(self._path)

    def interrupt(self) -> None:
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()

    def _ask(self, query: str, /, **values: Any) -> list[Any]:
        try:
            return self._connection.execute(self._queries[query], values).fetchall()
        except apsw.Error as error:
            raise StoreUnavailable(f"{self._path} cannot be read: {error}") from error


def _opened(path: str) -> apsw.Connection:
    """Return a connection as the program uses it; a plain one for a file that is too damaged for that."""
    try:
        return open_connection(path, read_only=True)
    except StoreUnavailable as error:
        if isinstance(error.__cause__, apsw.CorruptError | apsw.NotADBError):
            return apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        raise


def _paths(path: Path) -> list[PathFacts]:
    """Return the file, its log, its shared memory and its folder."""
    beside = (path, Path(f"{path}-wal"), Path(f"{path}-shm"))
    there = [one for one in (*beside, path.absolute().parent) if one.exists()]
    return [PathFacts(str(one), one.stat().st_mode) for one in there]
