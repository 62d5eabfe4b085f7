"""Duties in SQLite."""

from langlauf.domain.duties import DutyDone
from langlauf.store.sqlite.desk import Desk


class SqliteDuties(Desk):
    """When upkeep last succeeded, over the connections of a store."""

    async def note(self, name: str, host: str) -> None:
        await self._change(lambda tx: tx.run("note_duty", now=tx.now, name=name, host=host))

    async def seen(self) -> list[DutyDone]:
        return [DutyDone(*row) for row in await self._rows("all_duties")]
