"""Writes a store in the format of the earlier system, row by row, as it was at one moment: the same for every store."""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

import msgspec

from langlauf.domain.errors import PayloadUnavailable, StoreUnavailable
from langlauf.domain.event import Event
from langlauf.domain.job import INLINE
from langlauf.domain.notification import Notification
from langlauf.domain.result import Snapshot as Result
from langlauf.domain.result import StoredResult
from langlauf.store.blobs.blocking import BlockingPayloads
from langlauf.store.blobs.folders import folder_of
from langlauf.store.checking import Row, Snapshot
from langlauf.store.rows import job_from
from langlauf.store.v1_json import SCHEMA_VERSION, event_entry, job_entry, notification_entry, result_entry

Entry = tuple[str, Any]
Write = Callable[[bytes], object]


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """How much was written."""

    schema_version: int
    jobs: int
    events: int
    results: int
    notifications: int


def export_snapshot(snapshot: Snapshot, write: Write, payloads: BlockingPayloads | None) -> ExportReport:
    """Hands the document out in pieces, blobs included; raises `StoreError` where the store cannot be read."""
    return _Export(snapshot, write, payloads).run()


class _Export:
    """One export of one snapshot."""

    def __init__(self, snapshot: Snapshot, write: Write, payloads: BlockingPayloads | None) -> None:
        self._snapshot = snapshot
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

    def _rows(self, query: str) -> Iterable[Row]:
        return self._snapshot.rows(query)

    def _jobs(self) -> Iterator[Entry]:
        """Walks over jobs and their chunks side by side: both are in the order of their keys."""
        place = self._snapshot.place
        chunks = iter(self._rows("every_chunk"))
        chunk = next(chunks, None)
        for *columns, payload, key in self._rows("every_job"):
            job = job_from(columns)
            here, mine = place(job.org_id, job.job_id), {}
            while chunk is not None and (there := place(chunk[0], chunk[1])) <= here:
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
        for *columns, text, views in self._rows("every_result"):
            result = Result(*columns)
            is_blob = result.result_payload_ref != INLINE and result.removed_at is None
            payload = self._blob(result) if is_blob else text
            yield result.result_id, result_entry(StoredResult(snapshot=result, payload=payload, views=views))

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
