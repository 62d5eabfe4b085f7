"""Takes over a store of the earlier system into a file; a file that is new appears with its jobs or not at all."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw

from langlauf.clock import Clock, new_id
from langlauf.compat.v1_import import ImportReport, ImportTransaction, V1File
from langlauf.compat.v1_records import UNNAMED
from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.domain.instant import Instant
from langlauf.domain.job import JobRecord, payload_hash
from langlauf.store.queries import load
from langlauf.store.sqlite.clock import clock_of
from langlauf.store.sqlite.connection import migrate, open_connection
from langlauf.store.sqlite.snapshot import refuse_unfinished
from langlauf.store.sqlite.store_copy import put_rows
from langlauf.store.tools.location import PostgresLocation, StoreLocation
from langlauf.store.tools.store_copy import Row
from langlauf.store.tools.tables import Table


def import_into(place: StoreLocation, file: Path, **how: Any) -> ImportReport:
    """Import a store of the earlier system into a store of either kind, completely or not at all."""
    if isinstance(place, PostgresLocation):
        from langlauf.compat import postgres_import  # its library comes with an extra

        return postgres_import.import_v1(place.url, file, **how)
    return import_v1(place.path, file, **how)


def import_v1(
    db_path: str, json_path: Path, *, default_analysis: str = UNNAMED, clock: Clock | None = None, once: bool = True
) -> ImportReport:
    """Import the JSON store into the SQLite file, completely or not at all.

    Who does not know the application leaves its jobs without a name: `unnamed_jobs` gives them one.
    With `once`, a file of that name that was imported before is left alone, whatever it holds by now; else only the
    same content is. Raises `StoreError` with what is wrong and where; nothing is written then.
    """
    earlier = V1File(json_path, default_analysis, once)
    if Path(db_path).exists():
        return _into(db_path, earlier, clock)
    return _into_new(Path(db_path), earlier, clock)


def _into_new(path: Path, earlier: V1File, clock: Clock | None) -> ImportReport:
    """Create the file under another name and move it when complete: no process sees a store without its jobs."""
    making = path.with_name(f".{path.name}.{new_id()}")
    try:
        report = _into(str(making), earlier, clock)
        try:
            os.link(making, path)
        except FileExistsError:  # another process was faster; its file has the jobs
            return _into(str(path), earlier, clock)
        except OSError:  # a file system without links
            making.replace(path)
        _sync_folder(path.parent)
        return report
    finally:
        for left in (making, *(making.with_name(making.name + end) for end in ("-wal", "-shm"))):
            left.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _into(path: str, earlier: V1File, clock: Clock | None) -> ImportReport:
    connection = open_connection(path)
    try:
        migrate(connection)
        refuse_unfinished(path, connection)
        clock = clock or clock_of(connection)
        connection.execute("BEGIN IMMEDIATE")
        report = earlier.run(_SqliteImport(connection, clock.now()))
        connection.execute("COMMIT")
    except apsw.ConstraintError as error:
        raise StoreError(f"{earlier.path} does not fit into {path}: {error}") from error
    except apsw.Error as error:
        raise StoreUnavailable(f"the store {path} did not take the import: {error}") from error
    finally:
        connection.close()  # what was not committed is gone
    return report


class _SqliteImport(ImportTransaction):
    """The one writer of the file, until its transaction ends."""

    messages = "notifications"

    def __init__(self, connection: apsw.Connection, now: Instant) -> None:
        super().__init__("langlauf.store.sqlite", "transfer.sql")
        self.now = now
        self._connection = connection

    def known_job(self, jobs: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
        return next((job for job in jobs if self._rows("known_job", job_id=job[1])), None)

    def lock(self, moving: Sequence[JobRecord]) -> None:
        """Do nothing: the transaction locks the file."""

    def _bring(self, tables: Mapping[Table, Sequence[Row]], moving: Sequence[JobRecord]) -> None:  # noqa: ARG002 - all are counted
        for table, rows in tables.items():
            put_rows(self._connection, table, rows)
        for query in ("recount_lanes", "recount_waiting", "recount_running", "touch_all_orgs"):
            self._rows(query)

    def _rows(self, query: str, /, **values: Any) -> list[Any]:
        return self._connection.execute(self._queries[query], values).fetchall()


def name_jobs(db_path: str, analysis: str) -> int:
    """Give jobs without a name that of the application's default analysis; return how many.

    Repeating it does nothing.
    """
    connection = open_connection(db_path)
    try:
        migrate(connection)
        refuse_unfinished(db_path, connection)
        queries = load("langlauf.store.sqlite", "transfer.sql")
        if not connection.execute(queries["an_unnamed_job"]).fetchall():
            return 0
        connection.execute("BEGIN IMMEDIATE")
        count = _name(connection, queries, analysis)
        connection.execute("COMMIT")
    except apsw.Error as error:
        raise StoreUnavailable(f"the store {db_path} cannot be opened: {error}") from error
    finally:
        connection.close()  # what was not committed is gone
    return count


def _name(connection: apsw.Connection, queries: Mapping[str, str], analysis: str) -> int:
    """Move jobs from the lanes of no name to those of the analysis, behind what waits there."""
    connection.execute(queries["make_analysis"], {"name": analysis})
    given: dict[tuple[str, str], int] = {}
    changes = []
    for org_id, job_id, priority_class, queued, ticket, kept, payload in connection.execute(queries["unnamed_jobs"]):
        lane = (org_id, priority_class)
        in_line = queued and ticket >= 0
        if in_line:
            if lane not in given:
                values = {"org_id": org_id, "analysis": analysis, "priority_class": priority_class}
                given[lane] = connection.execute(queries["last_given_ticket"], values).get
            given[lane] += 1
        known = None if payload is None else payload_hash(UNNAMED, payload)
        changes.append(
            {
                "job_id": job_id,
                "analysis": analysis,
                "ticket": given[lane] if in_line else ticket,
                # A hash that the earlier system brought stays; one of our making covers the name.
                "payload_hash": payload_hash(analysis, payload) if kept == known else kept,
            }
        )
    connection.executemany(queries["name_job"], changes)
    for query in ("forget_unnamed_lanes", "recount_lanes", "recount_waiting", "recount_running", "touch_all_orgs"):
        connection.execute(queries[query])
    return len(changes)
