"""Duties in PostgreSQL."""

from langlauf.domain.duties import DutyDone
from langlauf.store.postgres.links import Desk


class PostgresDuties(Desk):
    """When upkeep last succeeded."""

    async def note(self, name: str, host: str) -> None:
        await self._links.call("note_duty", self._at(), name, host)

    async def seen(self) -> list[DutyDone]:
        return [DutyDone(*row) for row in await self._links.rows("all_duties")]
