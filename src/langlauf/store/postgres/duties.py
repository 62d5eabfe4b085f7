"""Duties in PostgreSQL."""

from collections.abc import Callable

from langlauf.domain.duties import DutyDone
from langlauf.domain.instant import Instant
from langlauf.store.postgres.links import Links


class PostgresDuties:
    """When upkeep last succeeded. `at` tells the time to act at; none is the database's."""

    def __init__(self, links: Links, at: Callable[[], Instant | None]) -> None:
        self._links = links
        self._at = at

    async def note(self, name: str, host: str) -> None:
        await self._links.call("note_duty", self._at(), name, host)

    async def seen(self) -> list[DutyDone]:
        return [DutyDone(*row) for row in await self._links.rows("all_duties")]
