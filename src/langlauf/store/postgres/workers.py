"""Workers in PostgreSQL."""

from langlauf.domain.instant import after
from langlauf.domain.workers import SILENT_KEPT_SECONDS, WorkerReport, WorkerSeen
from langlauf.store.admin import worker_from, worker_values
from langlauf.store.postgres.links import Desk


class PostgresWorkers(Desk):
    """Who works, over the connections of a store."""

    async def note(self, report: WorkerReport) -> None:
        values = worker_values(report).values()
        await self._links.call("note_worker", self._at(), after(0, SILENT_KEPT_SECONDS), *values)

    async def forget(self, worker_id: str) -> None:
        await self._links.call("forget_worker", worker_id)

    async def seen(self) -> list[WorkerSeen]:
        return [worker_from(tuple(row)) for row in await self._links.rows("all_workers")]
