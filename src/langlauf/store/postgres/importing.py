"""Takes over a store of the earlier system into a database, in one transaction, also beside running servers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from langlauf.clock import Clock
from langlauf.domain.errors import StoreError
from langlauf.domain.instant import Instant
from langlauf.domain.state import Status
from langlauf.store.importing import Earlier, ImportReport
from langlauf.store.postgres.blocking import BlockingConnection, Row
from langlauf.store.postgres.migrating import PACKAGE
from langlauf.store.postgres.putting import Putting
from langlauf.store.postgres.snapshot import prepared, refuse_unfinished
from langlauf.store.queries import load
from langlauf.store.tables import BY_NAME
from langlauf.store.v1_records import ImportedJob


def import_v1(
    url: str, json_path: Path, *, default_analysis: str, clock: Clock | None = None, once: bool = True
) -> ImportReport:
    """Brings the JSON store into the database, completely or not at all.

    With `once`, a file of that name that was imported before is left alone, whatever it holds by now; else only the
    same content is. Raises `StoreError` with what is wrong and where; nothing is written then.
    """
    earlier = Earlier(json_path, default_analysis, once)
    with prepared(url) as connection:
        try:
            with connection.transaction():
                refuse_unfinished(connection)
                return earlier.run(_Importing(connection, clock))
        except StoreError as error:
            if not isinstance(error.__cause__, asyncpg.IntegrityConstraintViolationError):
                raise
            raise StoreError(f"{json_path} does not fit into {connection.name}: {error.__cause__}") from error


class _Importing:
    """A transaction; imports take turns, and the lanes of what they bring are locked as a submission locks them."""

    def __init__(self, connection: BlockingConnection, clock: Clock | None) -> None:
        self._connection = connection
        self._queries = load(PACKAGE, "verify.sql", "transfer.sql")
        self._rows("import_lock")
        self._now: Instant = self._rows("now")[0][0] if clock is None else clock.now()

    @property
    def now(self) -> Instant:
        return self._now

    def digest_by_name(self, file_name: str) -> str | None:
        rows = self._rows("import_by_name", file_name=file_name)
        return str(rows[0][0]) if rows else None

    def knows_content(self, sha256: str) -> bool:
        return bool(self._rows("import_by_content", sha256=sha256))

    def known_job(self, jobs: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
        rows = self._rows("known_job", org_ids=[org for org, _ in jobs], job_ids=[job for _, job in jobs])
        return (rows[0][0], rows[0][1]) if rows else None

    def write(self, records: Sequence[ImportedJob]) -> None:
        moving = [record.job for record in records if not record.job.terminal]
        lanes: dict[str, Any] = {
            "org_ids": [job.org_id for job in moving],
            "names": [job.analysis for job in moving],
        }
        self._rows("lock_lanes", **lanes)
        put = Putting(self._connection)
        put.begin()
        for name, rows in _rows_of(self._ticketed(records)).items():
            put.put(BY_NAME[name], rows)
        self._rows("recount_lanes", **lanes)

    def note(self, file_name: str, sha256: str, jobs: int) -> None:
        self._rows("note_import", file_name=file_name, sha256=sha256, now=self._now, jobs=jobs)

    def _rows(self, query: str, /, **values: Any) -> list[Row]:
        return self._connection.fetch(self._queries[query], **values)

    def _ticketed(self, records: Sequence[ImportedJob]) -> list[ImportedJob]:
        """The records, where each that waits has the ticket behind the last of its lane and class."""
        last: dict[tuple[str, str, str], int] = {}
        orgs = sorted({record.job.org_id for record in records})
        for org_id, analysis, urgent, others in self._rows("last_tickets", org_ids=orgs):
            last[org_id, analysis, "expedite"], last[org_id, analysis, "default"] = urgent, others
        given = []
        for record in records:
            job = record.job
            if job.status is Status.QUEUED:
                lane = (job.org_id, job.analysis, job.priority_class)
                last[lane] += 1
                job = msgspec.structs.replace(job, ticket=last[lane])
            given.append(msgspec.structs.replace(record, job=job))
        return given


def _rows_of(records: Sequence[ImportedJob]) -> dict[str, list[Row]]:
    """The rows of each table."""
    astuple = msgspec.structs.astuple
    rows: dict[str, list[Row]] = {
        "jobs": [(*astuple(record.job), None) for record in records],
        "job_inputs": [],
        "job_events": [astuple(event) for record in records for event in record.events],
        "job_results": [],
        "outbox": [astuple(message) for record in records for message in record.notifications],
        "job_chunks": [],
        "idempotency_keys": [],
    }
    for record in records:
        job, ids = record.job, (record.job.org_id, record.job.job_id)
        rows["job_inputs"].append((*ids, job.queued_at, record.payload))
        rows["job_results"] += [
            (*astuple(result.snapshot), result.payload, result.views, result.schema_text) for result in record.results
        ]
        rows["job_chunks"] += [(*ids, *chunk) for chunk in record.chunks]
        if record.idempotency_key is not None:
            key = (job.org_id, record.idempotency_key, job.job_id, job.request_payload_hash, job.queued_at)
            rows["idempotency_keys"].append(key)
    return rows
