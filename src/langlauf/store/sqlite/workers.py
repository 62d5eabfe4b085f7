"""Workers and duties in SQLite."""

from functools import partial

from langlauf.domain.health import SILENT_KEPT_SECONDS, DutySuccess, WorkerReport, WorkerStatus
from langlauf.domain.instant import after
from langlauf.store.admin import worker_from, worker_values
from langlauf.store.sqlite.desk import Desk
from langlauf.store.sqlite.transaction import Transaction


def note_worker(tx: Transaction, report: WorkerReport) -> None:
    """Keeps the report. Few rows, so those that are silent for long are looked for each time."""
    tx.run("note_worker", now=tx.now, **worker_values(report))
    tx.run("forget_silent_workers", before=after(tx.now, -SILENT_KEPT_SECONDS))


def forget_worker(tx: Transaction, worker_id: str) -> None:
    """Removes its row."""
    tx.run("forget_worker", worker_id=worker_id)


class SqliteWorkers(Desk):
    """Who works, over the connections of a store."""

    async def note(self, report: WorkerReport) -> None:
        await self._change(partial(note_worker, report=report))

    async def forget(self, worker_id: str) -> None:
        await self._change(partial(forget_worker, worker_id=worker_id))

    async def seen(self) -> list[WorkerStatus]:
        return [worker_from(row) for row in await self._rows("all_workers")]


class SqliteDuties(Desk):
    """When upkeep last succeeded, over the connections of a store."""

    async def note(self, name: str, host: str) -> None:
        await self._change(lambda tx: tx.run("note_duty", now=tx.now, name=name, host=host))

    async def seen(self) -> list[DutySuccess]:
        return [DutySuccess(*row) for row in await self._rows("all_duties")]
