"""Writes a store in the format of the earlier system, row by row, as it was at one moment: the same for every store.

An export of one org has more: under `also`, what every other table has of it, so that a person can be given all there
is. What opens something is left out: hashes and secrets.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

import msgspec

from langlauf.compat.v1_json import SCHEMA_VERSION, event_entry, job_entry, notification_entry, result_entry
from langlauf.domain.delivery import Notification
from langlauf.domain.errors import PayloadUnavailable, StoreUnavailable
from langlauf.domain.event import Event
from langlauf.domain.instant import to_text
from langlauf.domain.job import INLINE_REF
from langlauf.domain.result import Snapshot as Result
from langlauf.domain.result import StoredResult
from langlauf.store.blobs.owner import BlockingPayloads
from langlauf.store.blobs.protocol import folder_of
from langlauf.store.sql import job_from
from langlauf.store.sqlite.snapshot import sound_snapshot_of
from langlauf.store.tools.location import PostgresLocation, StoreLocation
from langlauf.store.tools.verify import Row, StoreSnapshot, job_position

Entry = tuple[str, Any]
Write = Callable[[bytes], object]


#: Tables that the document itself holds, those that it is made from, and what only numbers orgs.
_ELSEWHERE = frozenset({
    "jobs", "job_inputs", "job_events", "job_results", "job_chunks", "notifications", "idempotency_keys",
    "outbox", "messages", "orgs",
})  # fmt: skip
_HIDDEN = re.compile("secret|hash")


def _shown(name: str, value: Any) -> Any:
    return to_text(value) if name.endswith(("_at", "_until")) and isinstance(value, int) else value


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """How much was written."""

    schema_version: int
    jobs: int
    events: int
    results: int
    notifications: int
    #: of one org: rows of every other table
    also: dict[str, int] = {}


def export_from(
    place: StoreLocation, write: Write, payloads: BlockingPayloads | None = None, org_id: str | None = None
) -> ExportReport:
    """Write a store, or all of one org, in the format of the earlier system, piece by piece, blobs included.

    Raises `StoreError` where the store cannot be read.
    """
    if isinstance(place, PostgresLocation):
        from langlauf.store.postgres.snapshot import snapshot_of  # its library comes with an extra

        with snapshot_of(place.url) as snapshot:
            return _Export(snapshot, write, payloads, org_id).run()
    with sound_snapshot_of(place.path) as file:
        return _Export(file, write, payloads, org_id).run()


class _Export:
    """One export of one snapshot."""

    def __init__(
        self, snapshot: StoreSnapshot, write: Write, payloads: BlockingPayloads | None, org_id: str | None
    ) -> None:
        self._snapshot = snapshot
        self._org_id = org_id
        self._payloads = payloads
        self._blob_folder = folder_of(snapshot.rows)
        self._write = write
        self._events_written = 0

    def run(self) -> ExportReport:
        self._write(f'{{"schema_version":{SCHEMA_VERSION}'.encode())
        jobs = self._object("jobs", self._jobs())
        self._object("events", self._logs())
        results = self._object("results", self._results())
        notifications = self._object("notifications", self._notifications())
        also = {} if self._org_id is None else self._also(self._org_id)
        self._write(b"}\n")
        return ExportReport(
            schema_version=SCHEMA_VERSION,
            jobs=jobs,
            events=self._events_written,
            results=results,
            notifications=notifications,
            also=also,
        )

    def _also(self, org_id: str) -> dict[str, int]:
        """Write the tables that the document has no member for: keys, endpoints, marks and later ones."""
        self._write(b',\n"org_id":' + msgspec.json.encode(org_id) + b',\n"also":{')
        counts: dict[str, int] = {}
        for table in self._snapshot.tables_of_orgs():
            if table in _ELSEWHERE:
                continue
            self._write((b"," if counts else b"") + b"\n" + msgspec.json.encode(table) + b":[")
            counts[table] = self._list(self._snapshot.rows_of_org(table, org_id))
            self._write(b"]")
        self._write(b"}")
        return counts

    def _list(self, rows: Iterable[dict[str, Any]]) -> int:
        count = 0
        for row in rows:
            shown = {name: _shown(name, value) for name, value in row.items() if not _HIDDEN.search(name)}
            self._write((b",\n" if count else b"\n") + msgspec.json.encode(shown))
            count += 1
        return count

    def _object(self, name: str, entries: Iterator[Entry]) -> int:
        """Write one member of the document, an entry per line."""
        self._write(f',\n"{name}":{{'.encode())
        count = 0
        for key, entry in entries:
            self._write(b",\n" if count else b"\n")
            self._write(msgspec.json.encode(key) + b":" + msgspec.json.encode(entry))
            count += 1
        self._write(b"}")
        return count

    def _rows(self, query: str) -> Iterable[Row]:
        return self._snapshot.rows(query, org_id=self._org_id)

    def _jobs(self) -> Iterator[Entry]:
        """Walk over jobs and their chunks side by side: both are in the order of their keys."""
        chunks = iter(self._rows("every_chunk"))
        chunk = next(chunks, None)
        for *columns, payload, key in self._rows("every_job"):
            job = job_from(columns)
            here, mine = job_position(job.org_id, job.job_id), {}
            while chunk is not None and (there := job_position(chunk[0], chunk[1])) <= here:
                if there == here:
                    mine[chunk[2]] = (chunk[3], chunk[4])
                chunk = next(chunks, None)
            yield job.job_id, job_entry(job, payload or "{}", key, mine)

    def _logs(self) -> Iterator[Entry]:
        events = (Event(*row) for row in self._rows("every_event"))
        for (_, job_id), log in groupby(events, key=lambda event: (event.org_id, event.job_id)):
            entries = [event_entry(event) for event in log]
            self._events_written += len(entries)
            yield job_id, entries

    def _results(self) -> Iterator[Entry]:
        for *columns, text, views, schema_text in self._rows("every_result"):
            result = Result(*columns)
            payload = text if result.result_payload_ref == INLINE_REF else self._blob(result)
            stored = StoredResult(snapshot=result, payload=payload, views=views, schema_text=schema_text)
            yield result.result_id, result_entry(stored)

    def _blob(self, result: Result) -> str:
        if self._payloads is None:
            raise StoreUnavailable("the store keeps large results as blobs: set LANGLAUF_BLOBS to where they are")
        try:
            return self._payloads.read(self._blob_folder, result.org_id, result.job_id, result.result_payload_ref)
        except PayloadUnavailable as error:
            hint = "export again if retention ran meanwhile, else look with `langlauf verify`"
            raise StoreUnavailable(f"result {result.result_id}: {error}; {hint}") from error

    def _notifications(self) -> Iterator[Entry]:
        for row in self._rows("every_notification"):
            message = Notification(*row)
            yield message.notification_id, notification_entry(message)
