"""Takes over a store of the earlier system into a file; a file that is new appears with its jobs or not at all."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec
from msgspec.structs import astuple

from langlauf.clock import Clock, new_id
from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.domain.instant import Instant
from langlauf.domain.job import Job
from langlauf.domain.result import StoredResult
from langlauf.domain.state import Status
from langlauf.store.importing import Earlier, ImportReport
from langlauf.store.queries import load
from langlauf.store.sqlite.connection import migrate, open_connection
from langlauf.store.sqlite.snapshot import refuse_unfinished
from langlauf.store.sqlite.steady import clock_of
from langlauf.store.v1_records import UNNAMED, ImportedJob


def import_v1(
    db_path: str, json_path: Path, *, default_analysis: str = UNNAMED, clock: Clock | None = None, once: bool = True
) -> ImportReport:
    """Brings the JSON store into the SQLite file, completely or not at all.

    Who does not know the application leaves its jobs without a name: `unnamed_jobs` gives them one.
    With `once`, a file of that name that was imported before is left alone, whatever it holds by now; else only the
    same content is. Raises `StoreError` with what is wrong and where; nothing is written then.
    """
    earlier = Earlier(json_path, default_analysis, once)
    if Path(db_path).exists():
        return _into(db_path, earlier, clock)
    return _into_new(Path(db_path), earlier, clock)


def _into_new(path: Path, earlier: Earlier, clock: Clock | None) -> ImportReport:
    """Makes the file beside its place and puts it there when it is whole: no moment sees a store without its jobs."""
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


def _into(path: str, earlier: Earlier, clock: Clock | None) -> ImportReport:
    connection = open_connection(path)
    try:
        migrate(connection)
        refuse_unfinished(path, connection)
        clock = clock or clock_of(connection)
        connection.execute("BEGIN IMMEDIATE")
        report = earlier.run(_Importing(connection, clock.now()))
        connection.execute("COMMIT")
    except apsw.ConstraintError as error:
        raise StoreError(f"{earlier.path} does not fit into {path}: {error}") from error
    except apsw.Error as error:
        raise StoreUnavailable(f"the store {path} did not take the import: {error}") from error
    finally:
        connection.close()  # what was not committed is gone
    return report


class _Importing:
    """The one writer of the file, until its transaction ends."""

    def __init__(self, connection: apsw.Connection, now: Instant) -> None:
        self.now = now
        self._connection = connection
        self._queries = load("langlauf.store.sqlite", "transfer.sql")

    def digest_by_name(self, file_name: str) -> str | None:
        found = self._rows("import_by_name", file_name=file_name)
        return str(found[0][0]) if found else None

    def knows_content(self, sha256: str) -> bool:
        return bool(self._rows("import_by_content", sha256=sha256))

    def known_job(self, jobs: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
        return next((job for job in jobs if self._rows("known_job", job_id=job[1])), None)

    def write(self, records: Sequence[ImportedJob]) -> None:
        jobs = [record.job for record in records]
        self._bring("job", (astuple(job) for job in self._ticketed(jobs)))
        self._bring("input", ((record.job.org_id, record.job.job_id, record.payload) for record in records))
        self._bring("key", (_key(record) for record in records if record.idempotency_key is not None))
        chunks = ((record.job, chunk) for record in records for chunk in record.chunks)
        self._bring("chunk", ((job.org_id, job.job_id, *chunk) for job, chunk in chunks))
        # In the order of time: an event's place in the feed of its org is behind those that are there.
        events = [event for record in records for event in record.events]
        self._bring("event", (astuple(event) for event in sorted(events, key=lambda event: event.occurred_at)))
        self._bring("result", (_result(result) for record in records for result in record.results))
        self._bring("notification", (astuple(message) for record in records for message in record.notifications))
        for query in ("recount_lanes", "recount_waiting", "recount_running", "touch_all_orgs"):
            self._connection.execute(self._queries[query])

    def note(self, file_name: str, sha256: str, jobs: int) -> None:
        self._rows("note_import", file_name=file_name, sha256=sha256, now=self.now, jobs=jobs)

    def _ticketed(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """What waits comes behind what waits in its lane already."""
        given: dict[tuple[str, str, str], int] = {}
        for job in jobs:
            if job.status is not Status.QUEUED:
                yield job
                continue
            lane = (job.org_id, job.analysis, job.priority_class)
            if lane not in given:
                [(given[lane],)] = self._rows(
                    "last_given_ticket", **dict(zip(("org_id", "analysis", "priority_class"), lane, strict=True))
                )
            given[lane] += 1
            yield msgspec.structs.replace(job, ticket=given[lane])

    def _rows(self, query: str, /, **values: Any) -> list[Any]:
        return self._connection.execute(self._queries[query], values).fetchall()

    def _bring(self, what: str, rows: Iterable[tuple[Any, ...]]) -> None:
        self._connection.executemany(self._queries[f"bring_{what}"], rows)


def _key(record: ImportedJob) -> tuple[Any, ...]:
    return record.job.org_id, record.idempotency_key, record.job.job_id, record.job.queued_at


def _result(result: StoredResult) -> tuple[Any, ...]:
    return (*astuple(result.snapshot), result.payload, result.views, result.schema_text)
