"""Takes over a store of the earlier system: all of it in one transaction, once, and its file is never changed.

The same for every store: a driver brings the transaction that it is written in.
"""

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import astuple

from langlauf.compat.v1_json import NotAnEarlierStore, read_document
from langlauf.compat.v1_records import ImportedJob, to_records
from langlauf.domain.errors import StoreError
from langlauf.domain.instant import Instant
from langlauf.domain.job import JobRecord
from langlauf.domain.state import Status
from langlauf.store.queries import load
from langlauf.store.tools.store_copy import Row
from langlauf.store.tools.tables import BY_NAME, Table


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
        self._queries = load("langlauf.store.tools", "transfer.sql") | load(package, *files)

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
