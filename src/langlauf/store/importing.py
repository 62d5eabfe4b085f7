"""Takes over a store of the earlier system: all of it in one transaction, once, and its file is never changed.

The same for every store: a driver brings the transaction that it is written in.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from langlauf.domain.errors import StoreError
from langlauf.domain.instant import Instant
from langlauf.store.v1_json import NotAnEarlierStore, read_document
from langlauf.store.v1_records import ImportedJob, to_records


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


class Importing(Protocol):
    """One transaction of a store that takes an earlier one over; imports of others wait for its end."""

    @property
    def now(self) -> Instant:
        """The store's time."""

    def digest_by_name(self, file_name: str) -> str | None:
        """The digest of the first file of this name that was taken over."""

    def knows_content(self, sha256: str) -> bool:
        """Whether a file with this content was taken over."""

    def known_job(self, jobs: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
        """One of some jobs, by org and id, that is in the store already."""

    def write(self, records: Sequence[ImportedJob]) -> None:
        """Writes jobs with all that belongs to them, and counts those that wait into their lanes."""

    def note(self, file_name: str, sha256: str, jobs: int) -> None:
        """Notes that the file was taken over."""


class Earlier(msgspec.Struct, frozen=True):
    """A file of the earlier system, and how it is taken over.

    With `once`, a file of that name that was imported before is left alone, whatever it holds by now; else only the
    same content is.
    """

    path: Path
    default_analysis: str
    once: bool

    def run(self, into: Importing) -> ImportReport:
        """Brings the file into a store; raises `StoreError` with what is wrong and where."""
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
