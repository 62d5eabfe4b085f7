"""Takes over a store of the earlier system, in one transaction, once; into a file that appears complete.

The same for every store: a driver brings the transaction that it is written in.
"""

import hashlib
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec
from msgspec.structs import astuple

from langlauf.clock import Clock, new_id
from langlauf.compat.v1_json import NotAnEarlierStore, read_document
from langlauf.compat.v1_records import UNNAMED, ImportedJob, to_records
from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.domain.instant import Instant
from langlauf.domain.job import JobRecord, payload_hash
from langlauf.domain.state import Status
from langlauf.store.sql import load_queries
from langlauf.store.sqlite.connection import clock_of, migrate, open_connection
from langlauf.store.sqlite.snapshot import put_rows, refuse_unfinished
from langlauf.store.tools.location import PostgresLocation, StoreLocation
from langlauf.store.tools.store_copy import BY_NAME, Row, Table


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an import brought; nothing where the file was taken over before."""

    file: str
    sha256: str
    imported: bool
    jobs: int = 0
    events: int = 0
    results: int = 0
    notifications: int = 0
    #: jobs that were running, and go on as after the loss of their worker
    lost: int = 0


class ImportTransaction(ABC):
    """One transaction of a store that takes an earlier one over; imports of others wait for its end."""

    #: the store's time
    now: Instant
    #: where messages of the earlier system go
    messages: str

    def __init__(self, package: str, *files: str) -> None:
        self._queries = load_queries("langlauf.store.tools", "transfer.sql") | load_queries(package, *files)

    @abstractmethod
    def _rows(self, query: str, /, **values: Any) -> list[Any]:
        """Return what a query by name gives."""

    @abstractmethod
    def _bring(self, tables: Mapping[Table, Sequence[Row]], moving: Sequence[JobRecord]) -> None:
        """Write rows, and count the jobs that go on into their lanes."""

    @abstractmethod
    def known_job(self, jobs: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
        """Return one of some jobs, by org and id, that is in the store already."""

    @abstractmethod
    def lock(self, moving: Sequence[JobRecord]) -> None:
        """Keep others out of the lanes of these jobs, where there are others."""

    def digest_by_name(self, file_name: str) -> str | None:
        """Return the digest of the first file of this name that was taken over."""
        found = self._rows("import_by_name", file_name=file_name)
        return str(found[0][0]) if found else None

    def knows_content(self, sha256: str) -> bool:
        """Whether a file with this content was taken over."""
        return bool(self._rows("import_by_content", sha256=sha256))

    def note(self, file_name: str, sha256: str, jobs: int) -> None:
        """Record that the file was imported."""
        self._rows("note_import", file_name=file_name, sha256=sha256, now=self.now, jobs=jobs)

    def write(self, records: Sequence[ImportedJob]) -> None:
        """Write jobs with all that belongs to them, and count those that wait into their lanes."""
        moving = [record.job for record in records if not record.job.terminal]
        self.lock(moving)
        rows = _rows_of(records, self._ticketed([record.job for record in records]))
        tables = {BY_NAME[name]: rows[name] for name in rows}
        outbox = BY_NAME["outbox"]
        messages = [astuple(message) for record in records for message in record.notifications]
        self._bring({**tables, outbox._replace(name=self.messages): messages}, moving)

    def _ticketed(self, jobs: Iterable[JobRecord]) -> Iterator[JobRecord]:
        """Yield the jobs, where each that waits comes behind what waits in its lane already, or waits for its time."""
        given: dict[tuple[str, str, str], int] = {}
        for job in jobs:
            if job.status is not Status.QUEUED:
                yield job
                continue
            if job.run_at is not None and job.run_at > (job.imported_at or 0):
                yield msgspec.structs.replace(job, ticket=-job.run_at)
                continue
            lane = (job.org_id, job.analysis, job.priority_class)
            if lane not in given:
                [(given[lane],)] = self._rows(
                    "last_given_ticket", **dict(zip(("org_id", "analysis", "priority_class"), lane, strict=True))
                )
            given[lane] += 1
            yield msgspec.structs.replace(job, ticket=given[lane])


def _rows_of(records: Sequence[ImportedJob], jobs: Iterable[JobRecord]) -> dict[str, list[Row]]:
    """Return the rows of each table, jobs before what belongs to them."""
    events = [event for record in records for event in record.events]
    rows: dict[str, list[Row]] = {
        "jobs": [(*astuple(job), None) for job in jobs],
        "job_inputs": [],
        # In the order of time: an event's place in the feed of its org is behind those that are there.
        "job_events": [astuple(event) for event in sorted(events, key=lambda event: event.occurred_at)],
        "job_results": [],
        "job_chunks": [],
        "idempotency_keys": [],
    }
    for record in records:
        job, ids = record.job, (record.job.org_id, record.job.job_id)
        rows["job_inputs"].append((*ids, job.queued_at, record.payload))
        rows["job_results"] += [
            (*astuple(result.snapshot), result.payload, result.views, result.schema_text) for result in record.results
        ]
        rows["job_chunks"] += [(*ids, *chunk, None) for chunk in record.chunks]
        if record.idempotency_key is not None:
            key = (job.org_id, record.idempotency_key, job.job_id, job.request_payload_hash, job.queued_at)
            rows["idempotency_keys"].append(key)
    return rows


class V1File(msgspec.Struct, frozen=True):
    """A file of the earlier system, and how it is taken over.

    With `once`, a file of that name that was imported before is left alone, whatever it holds by now; else only the
    same content is.
    """

    path: Path
    default_analysis: str
    once: bool

    def run(self, into: ImportTransaction) -> ImportReport:
        """Import the file into a store; raise `StoreError` with what is wrong and where."""
        name = self.path.name
        if self.once and (before := into.digest_by_name(name)) is not None:
            return ImportReport(file=str(self.path), sha256=before, imported=False)
        content = self._content()
        digest = hashlib.sha256(content).hexdigest()
        if into.knows_content(digest):
            return ImportReport(file=str(self.path), sha256=digest, imported=False)
        records = self._records(content, into.now)
        if known := into.known_job([(record.job.org_id, record.job.job_id) for record in records]):
            there = f"the job {known[1]} of {known[0]} is in the store already"
            raise StoreError(f"{self.path} cannot be imported: {there}")
        into.write(records)
        into.note(name, digest, len(records))
        return self._report(digest, records, into.now)

    def _content(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read: {error.strerror}") from error

    def _records(self, content: bytes, now: Instant) -> list[ImportedJob]:
        try:
            return to_records(read_document(content), now=now, default_analysis=self.default_analysis)
        except NotAnEarlierStore as error:
            raise StoreError(f"{self.path} cannot be imported: {error}") from None

    def _report(self, digest: str, records: list[ImportedJob], now: Instant) -> ImportReport:
        counts = Counter[str]()
        for record in records:
            counts["events"] += len(record.events)
            counts["results"] += len(record.results)
            counts["notifications"] += len(record.notifications)
            counts["lost"] += record.job.next_attempt_at == now
        return ImportReport(file=str(self.path), sha256=digest, imported=True, jobs=len(records), **counts)


# -- into a file -------------------------------------------------------------------------------------------------------


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
        queries = load_queries("langlauf.store.sqlite", "transfer.sql")
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
