"""Takes over a store of the earlier system: all of it in one transaction, once, and its file is never changed."""

import hashlib
import os
from collections import Counter
from pathlib import Path

import apsw
import msgspec

from langlauf.clock import Clock, machine_time, new_id
from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.domain.state import Status
from langlauf.store.queries import load
from langlauf.store.sqlite.connection import migrate, open_connection
from langlauf.store.sqlite.steady import SteadyClock
from langlauf.store.sqlite.transaction import Transaction
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


def import_v1(
    db_path: str, json_path: Path, *, default_analysis: str = "address", clock: Clock | None = None, once: bool = True
) -> ImportReport:
    """Brings the JSON store into the SQLite file, completely or not at all.

    With `once`, a file of that name that was imported before is left alone, whatever it holds by now; else only the
    same content is. Raises `StoreError` with what is wrong and where; nothing is written then.
    """
    run = _Import(json_path, default_analysis, clock, once=once)
    if Path(db_path).exists():
        return run.into(db_path)
    return _into_new(run, Path(db_path))


def _into_new(run: "_Import", path: Path) -> ImportReport:
    """Makes the file beside its place and puts it there when it is whole: no moment sees a store without its jobs."""
    making = path.with_name(f".{path.name}.{new_id()}")
    try:
        report = run.into(str(making))
        try:
            os.link(making, path)
        except FileExistsError:  # another process was faster; its file has the jobs
            return run.into(str(path))
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


class _Import:
    """One import of one file, into whichever store."""

    def __init__(self, json_path: Path, default_analysis: str, clock: Clock | None, *, once: bool) -> None:
        self._json_path = json_path
        self._default_analysis = default_analysis
        self._clock = clock
        self._once = once
        self._queries = load("langlauf.store.sqlite", "writes.sql", "transfer.sql")

    def into(self, path: str) -> ImportReport:
        connection = open_connection(path)
        try:
            migrate(connection)
            clock = self._clock or _clock_of(connection)
            connection.execute("BEGIN IMMEDIATE")
            report = self._run(Transaction(connection, self._queries, clock.now()))
            connection.execute("COMMIT")
        except NotAnEarlierStore as error:
            raise StoreError(f"{self._json_path} cannot be imported: {error}") from None
        except apsw.ConstraintError as error:
            raise StoreError(f"{self._json_path} does not fit into {path}: {error}") from error
        except apsw.Error as error:
            raise StoreUnavailable(f"the store {path} did not take the import: {error}") from error
        finally:
            connection.close()  # what was not committed is gone
        return report

    def _run(self, tx: Transaction) -> ImportReport:
        name = self._json_path.name
        if self._once and (before := tx.one("import_by_name", file_name=name)):
            return ImportReport(file=str(self._json_path), sha256=before[0], imported=False)
        try:
            content = self._json_path.read_bytes()
        except OSError as error:
            raise StoreError(f"{self._json_path} cannot be read: {error.strerror}") from error
        digest = hashlib.sha256(content).hexdigest()
        if tx.one("import_by_content", sha256=digest):
            return ImportReport(file=str(self._json_path), sha256=digest, imported=False)
        records = to_records(read_document(content), now=tx.now, default_analysis=self._default_analysis)
        self._refuse_known(tx, records)
        for record in records:
            _write(tx, record)
        tx.flush()
        tx.run("note_import", file_name=name, sha256=digest, now=tx.now, jobs=len(records))
        return self._report(digest, records, tx.now)

    def _refuse_known(self, tx: Transaction, records: list[ImportedJob]) -> None:
        for record in records:
            job = record.job
            if tx.one("known_job", org_id=job.org_id, job_id=job.job_id):
                known = f"the job {job.job_id} of {job.org_id} is in the store already"
                raise StoreError(f"{self._json_path} cannot be imported: {known}")

    def _report(self, digest: str, records: list[ImportedJob], now: int) -> ImportReport:
        counts = Counter[str]()
        for record in records:
            counts["events"] += len(record.events)
            counts["results"] += len(record.results)
            counts["notifications"] += len(record.notifications)
            counts["lost"] += record.job.next_attempt_at == now
        return ImportReport(file=str(self._json_path), sha256=digest, imported=True, jobs=len(records), **counts)


def _clock_of(connection: apsw.Connection) -> Clock:
    """The store's own clock: what is due after the import must not wait for a wall clock that is ahead."""
    clock = SteadyClock(machine_time())
    clock.settle(connection)
    return clock


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
        tx.append("insert_event", msgspec.structs.astuple(event))
    for result in record.results:
        tx.append("insert_result", (*msgspec.structs.astuple(result.snapshot), result.payload))
    for message in record.notifications:
        tx.append("insert_notification", msgspec.structs.astuple(message))
    if job.status is Status.QUEUED:
        tx.waiting(job.org_id, job.analysis, +1)
