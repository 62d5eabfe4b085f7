"""Takes over a store of the earlier system into a database, in one transaction, also beside running servers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import asyncpg

from langlauf.clock import Clock
from langlauf.compat.v1_import import ImportReport, ImportTransaction, V1File
from langlauf.domain.errors import StoreError
from langlauf.domain.job import JobRecord
from langlauf.store.postgres.blocking_connection import BlockingConnection, BulkInsert, Row
from langlauf.store.postgres.migrate import PACKAGE
from langlauf.store.postgres.snapshot import prepared, refuse_unfinished
from langlauf.store.tools.store_copy import Table


def import_v1(
    url: str, json_path: Path, *, default_analysis: str, clock: Clock | None = None, once: bool = True
) -> ImportReport:
    """Import the JSON store into the database, completely or not at all.

    With `once`, a file of that name that was imported before is left alone, whatever it holds by now; else only the
    same content is. Raises `StoreError` with what is wrong and where; nothing is written then.
    """
    earlier = V1File(json_path, default_analysis, once)
    with prepared(url) as connection:
        try:
            with connection.transaction():
                refuse_unfinished(connection)
                return earlier.run(_PostgresImport(connection, clock))
        except StoreError as error:
            if not isinstance(error.__cause__, asyncpg.IntegrityConstraintViolationError):
                raise
            raise StoreError(f"{json_path} does not fit into {connection.name}: {error.__cause__}") from error


class _PostgresImport(ImportTransaction):
    """A transaction; imports take turns, and the lanes of what they bring are locked as a submission locks them."""

    messages = "outbox"

    def __init__(self, connection: BlockingConnection, clock: Clock | None) -> None:
        super().__init__(PACKAGE, "verify.sql", "transfer.sql")
        self._connection = connection
        self._rows("import_lock")
        self.now = self._rows("now")[0][0] if clock is None else clock.now()

    def known_job(self, jobs: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
        rows = self._rows("known_job", org_ids=[org for org, _ in jobs], job_ids=[job for _, job in jobs])
        return (rows[0][0], rows[0][1]) if rows else None

    def lock(self, moving: Sequence[JobRecord]) -> None:
        self._rows("lock_lanes", **_lanes(moving))

    def _bring(self, tables: Mapping[Table, Sequence[Row]], moving: Sequence[JobRecord]) -> None:
        bulk_insert = BulkInsert(self._connection)
        bulk_insert.begin()
        for table, rows in tables.items():
            bulk_insert.insert(table, rows)
        self._rows("recount_lanes", **_lanes(moving))

    def _rows(self, query: str, /, **values: Any) -> list[Row]:
        return self._connection.fetch(self._queries[query], **values)


def _lanes(jobs: Sequence[JobRecord]) -> dict[str, list[str]]:
    return {"org_ids": [job.org_id for job in jobs], "names": [job.analysis for job in jobs]}
