"""Takes over a store of the earlier system into a file; a file that is new appears with its jobs or not at all."""

import os
from collections.abc import Sequence
from pathlib import Path

import apsw
import msgspec

from langlauf.clock import Clock, new_id
from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.domain.instant import Instant
from langlauf.domain.state import Status
from langlauf.store.importing import Earlier, ImportReport
from langlauf.store.queries import load
from langlauf.store.sqlite.connection import migrate, open_connection
from langlauf.store.sqlite.snapshot import refuse_unfinished
from langlauf.store.sqlite.steady import clock_of
from langlauf.store.sqlite.transaction import Transaction
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
        queries = load("langlauf.store.sqlite", "writes.sql", "transfer.sql")
        report = earlier.run(_Importing(Transaction(connection, queries, clock.now())))
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

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    @property
    def now(self) -> Instant:
        return self._tx.now

    def digest_by_name(self, file_name: str) -> str | None:
        row = self._tx.one("import_by_name", file_name=file_name)
        return None if row is None else str(row[0])

    def knows_content(self, sha256: str) -> bool:
        return self._tx.one("import_by_content", sha256=sha256) is not None

    def known_job(self, jobs: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
        known = (job for job in jobs if self._tx.one("known_job", org_id=job[0], job_id=job[1]))
        return next(known, None)

    def write(self, records: Sequence[ImportedJob]) -> None:
        for record in records:
            _write(self._tx, record)
        self._tx.flush()

    def note(self, file_name: str, sha256: str, jobs: int) -> None:
        self._tx.run("note_import", file_name=file_name, sha256=sha256, now=self._tx.now, jobs=jobs)


def _write(tx: Transaction, record: ImportedJob) -> None:
    job = tx.ticketed(record.job) if record.job.status is Status.QUEUED else record.job
    tx.run_many("insert_job", [msgspec.structs.astuple(job)])
    tx.append("insert_input", (job.org_id, job.job_id, record.payload))
    if record.idempotency_key is not None:
        tx.run(
            "insert_key",
            org_id=job.org_id,
            key=record.idempotency_key,
            job_id=job.job_id,
            payload_hash=job.request_payload_hash,
            now=job.queued_at,
        )
    for chunk in record.chunks:
        tx.append("insert_chunk", (job.org_id, job.job_id, *chunk))
    for event in record.events:
        tx.past_event(event)
    for result in record.results:
        row = (*msgspec.structs.astuple(result.snapshot), result.payload, result.views, result.schema_text)
        tx.append("insert_imported_result", row)
    for message in record.notifications:
        tx.append("insert_notification", msgspec.structs.astuple(message))
    if job.status is Status.QUEUED:
        tx.waiting(job.org_id, job.analysis, +1)
