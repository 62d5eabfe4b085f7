"""An org as a whole, in PostgreSQL. Its statements may take longer than those that somebody waits for."""

from collections.abc import Callable
from typing import Any

from langlauf.domain.instant import Instant
from langlauf.store.admin import KNOWN_AS
from langlauf.store.postgres.link import Link
from langlauf.store.postgres.texts import name_of

#: Tables that this store calls otherwise than people do.
_OWN_NAMES = ("event_rows", "outbox")


class PostgresOrgs:
    """Orgs, by functions of the schema."""

    def __init__(self, link: Link, at: Callable[[], Instant | None]) -> None:
        self._link = link
        self._at = at

    async def rows(self, org_id: str) -> dict[str, int]:
        found = await self._link.slow_rows("org_rows", name_of(org_id))
        return dict(sorted((KNOWN_AS.get(table, table), count) for table, count in found))

    async def held(self, org_id: str) -> int:
        return await self._number("org_held", name_of(org_id))

    async def unended(self, org_id: str, limit: int) -> list[str]:
        return [job_id for (job_id,) in await self._link.slow_rows("org_unended", name_of(org_id), limit)]

    async def forget_keys(self, org_id: str) -> int:
        return await self._number("forget_keys", self._at(), name_of(org_id))

    async def remove_jobs(self, org_id: str, limit: int, *, with_held: bool, forced: bool) -> int:
        return await self._number("erase_jobs", name_of(org_id), limit, with_held, forced)

    async def remove_rows(self, org_id: str, table: str, limit: int) -> int:
        own = {known: name for name, known in KNOWN_AS.items() if name in _OWN_NAMES}
        return await self._number("erase_rows", name_of(org_id), own.get(table, table), limit)

    async def _number(self, function: str, *values: Any) -> int:
        [(number,)] = await self._link.slow_rows(function, *values)
        return int(number)
