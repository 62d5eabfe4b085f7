"""Writes a store in the format of the earlier system, row by row, as it was at one moment."""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import apsw
import msgspec

from langlauf.domain.errors import PayloadUnavailable, StoreUnavailable
from langlauf.domain.event import Event
from langlauf.domain.job import INLINE
from langlauf.domain.notification import Notification
from langlauf.domain.result import Snapshot, StoredResult
from langlauf.store.blobs.blocking import BlockingPayloads
from langlauf.store.migrate import migrations_in
from langlauf.store.queries import load
from langlauf.store.rows import job_from
from langlauf.store.sqlite.connection import applied_migrations, open_connection
from langlauf.store.sqlite.folders import blob_folder
from langlauf.store.sqlite.transaction import Row
from langlauf.store.v1_json import SCHEMA_VERSION, event_entry, job_entry, notification_entry, result_entry

Entry = tuple[str, Any]


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """How much was written."""

    schema_version: int
    jobs: int
    events: int
    results: int
    notifications: int


def export_v1(db_path: str, write: Callable[[bytes], object], payloads: BlockingPayloads | None = None) -> ExportReport:
    """Hands the document out in pieces, blobs included; raises `StoreError` where the store cannot be read."""
    connection = open_connection(db_path, read_only=True)
    try:
        found, known = applied_migrations(connection), len(migrations_in("langlauf.store.sqlite"))
        if found != known:
            raise StoreUnavailable(f"{db_path} has schema {found}, this program knows {known}: run `langlauf migrate`")
        connection.execute("BEGIN")
        return _Export(connection, write, payloads).run()
    except apsw.Error as error:
        raise StoreUnavailable(f"the store {db_path} cannot be read: {error}") from error
    finally:
        connection.close()


class _Export:
    """One export of one snapshot."""

    def __init__(
        self, connection: apsw.Connection, write: Callable[[bytes], object], payloads: BlockingPayloads | None
    ) -> None:
        self._connection = connection
        self._payloads = payloads
        self._blob_folder = blob_folder(connection)
        self._write = write
        self._queries = load("langlauf.store.sqlite", "transfer.sql")
        self._events_written = 0

    def run(self) -> ExportReport:
        self._write(f'{{"schema_version":{SCHEMA_VERSION}'.encode())
        jobs = self._object("jobs", self._jobs())
        self._object("events", self._logs())
        results = self._object("results", self._results())
        notifications = self._object("notifications", self._notifications())
        self._write(b"}\n")
        return ExportReport(
            schema_version=SCHEMA_VERSION,
            jobs=jobs,
            events=self._events_written,
            results=results,
            notifications=notifications,
        )

    def _object(self, name: str, entries: Iterator[Entry]) -> int:
        """Writes one member of the document, an entry per line."""
        self._write(f',\n"{name}":{{'.encode())
        count = 0
        for key, entry in entries:
            self._write(b",\n" if count else b"\n")
            self._write(msgspec.json.encode(key) + b":" + msgspec.json.encode(entry))
            count += 1
        self._write(b"}")
        return count

    def _rows(self, query: str, /, **values: Any) -> Iterator[Row]:
        return iter(self._connection.execute(self._queries[query], values))

    def _jobs(self) -> Iterator[Entry]:
        for *columns, payload, key in self._rows("every_job"):
            job = job_from(columns)
            chunks = {
                name: (text, at) for name, text, at in self._rows("chunks_of_job", org_id=job.org_id, job_id=job.job_id)
            }
            yield job.job_id, job_entry(job, payload or "{}", key, chunks)

    def _logs(self) -> Iterator[Entry]:
        events = (Event(*row) for row in self._rows("every_event"))
        for (_, job_id), log in groupby(events, key=lambda event: (event.org_id, event.job_id)):
            entries = [event_entry(event) for event in log]
            self._events_written += len(entries)
            yield job_id, entries

    def _results(self) -> Iterator[Entry]:
        for *columns, text in self._rows("every_result"):
            snapshot = Snapshot(*columns)
            is_blob = snapshot.result_payload_ref != INLINE and snapshot.removed_at is None
            payload = self._blob(snapshot) if is_blob else text
            yield snapshot.result_id, result_entry(StoredResult(snapshot=snapshot, payload=payload))

    def _blob(self, snapshot: Snapshot) -> str:
        if self._payloads is None:
            raise StoreUnavailable("the store keeps large results as blobs: set LANGLAUF_BLOBS to where they are")
        ids = (snapshot.org_id, snapshot.job_id)
        try:
            return self._payloads.read(self._blob_folder, *ids, snapshot.result_payload_ref)
        except PayloadUnavailable as error:
            hint = "export again if retention ran meanwhile, else look with `langlauf verify`"
            raise StoreUnavailable(f"result {snapshot.result_id}: {error}; {hint}") from error

    def _notifications(self) -> Iterator[Entry]:
        for row in self._rows("every_notification"):
            message = Notification(*row)
            yield message.notification_id, notification_entry(message)
