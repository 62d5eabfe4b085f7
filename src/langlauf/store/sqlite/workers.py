"""Workers in SQLite."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import apsw
import msgspec

from langlauf.domain.instant import after
from langlauf.domain.workers import SILENT_KEPT_SECONDS, WorkerReport, WorkerSeen
from langlauf.store.sqlite.lists import RunRead
from langlauf.store.sqlite.transaction import Row, Transaction
from langlauf.store.workers import worker_from, worker_values


class ForgetWorker(msgspec.Struct, frozen=True):
    """A worker that has stopped."""

    worker_id: str


def note_worker(tx: Transaction, report: WorkerReport) -> None:
    """Keeps the report. Few rows, so those that are silent for long are looked for each time."""
    tx.run("note_worker", now=tx.now, **worker_values(report))
    tx.run("forget_silent_workers", before=after(tx.now, -SILENT_KEPT_SECONDS))


def forget_worker(tx: Transaction, wish: ForgetWorker) -> None:
    """Removes its row."""
    tx.run("forget_worker", worker_id=wish.worker_id)


HANDLERS: dict[type, Callable[[Transaction, Any], Any]] = {WorkerReport: note_worker, ForgetWorker: forget_worker}


class SqliteWorkers:
    """Who works, over the connections of a store."""

    def __init__(self, read: RunRead, write: Callable[[Any], Awaitable[Any]], queries: Mapping[str, str]) -> None:
        self._read = read
        self._write = write
        self._query = queries["all_workers"]

    async def note(self, report: WorkerReport) -> None:
        await self._write(report)

    async def forget(self, worker_id: str) -> None:
        await self._write(ForgetWorker(worker_id))

    async def seen(self) -> list[WorkerSeen]:
        def read(connection: apsw.Connection) -> list[Row]:
            return connection.execute(self._query).fetchall()

        return [worker_from(row) for row in await self._read(read)]
