"""Removal of records in PostgreSQL: retention by age, and erasing an org.

Their statements have a longer timeout than those of requests.
"""

from collections.abc import Callable
from typing import Any

from langlauf.domain.instant import Instant
from langlauf.hints import Hints
from langlauf.store.admin import KNOWN_AS
from langlauf.store.commit_hints import announce
from langlauf.store.postgres.batch import storable_or_none
from langlauf.store.postgres.connection import DatabaseConnection
from langlauf.store.retention import NEVER, Cutoffs, Kind, RetirableJob, RetireBatch

#: Tables whose public name is another one.
_OWN_NAMES = ("event_rows", "outbox")


class PostgresRetention:
    """Finds and removes what is older than its retention period."""

    def __init__(self, connection: DatabaseConnection, hints: Hints, at: Instant | None) -> None:
        self._connection = connection
        self._hints = hints
        self._at = at

    async def page(self, kind: Kind, cutoffs: Cutoffs, behind: RetirableJob | None, most: int) -> list[RetirableJob]:
        position = (NEVER, "", "") if behind is None else (behind.finished_at, behind.org_id, behind.job_id)
        rows = await self._connection.slow_rows(
            f"retirable_{kind}", cutoffs.latest(kind), *position, most, *_result_cutoffs(kind, cutoffs)
        )
        return [RetirableJob(finished_at, None, *rest) for finished_at, *rest in rows]

    async def take(self, batch: RetireBatch) -> int:
        orgs, ids = zip(*batch.jobs, strict=True)
        limits = (batch.cutoffs.latest(batch.kind), *_result_cutoffs(batch.kind, batch.cutoffs))
        [[removed]] = await self._connection.slow_rows(f"retire_{batch.kind}", self._at, list(orgs), list(ids), *limits)
        announce(self._hints, batch, removed)
        return int(removed)

    async def ended(self) -> tuple[int, int]:
        [(ended, with_end)] = await self._connection.slow_rows("count_ended")
        return ended, with_end

    async def kept(self) -> tuple[int, int]:
        [(results, events)] = await self._connection.slow_rows("count_kept")
        return results, events


def _result_cutoffs(kind: Kind, cutoffs: Cutoffs) -> tuple[Instant, ...]:
    """Return the cutoffs of each kind of snapshot, which only the retention of results takes."""
    if kind != "results":
        return ()
    return cutoffs.final_results, cutoffs.partial_results, cutoffs.completed_partials


class PostgresOrgs:
    """Counts and erases the records of an org."""

    def __init__(self, connection: DatabaseConnection, at: Callable[[], Instant | None]) -> None:
        self._connection = connection
        self._at = at

    async def rows(self, org_id: str) -> dict[str, int]:
        found = await self._connection.slow_rows("org_rows", storable_or_none(org_id))
        return dict(sorted((KNOWN_AS.get(table, table), count) for table, count in found))

    async def held(self, org_id: str) -> int:
        return await self._number("org_held", storable_or_none(org_id))

    async def unended(self, org_id: str, limit: int) -> list[str]:
        rows = await self._connection.slow_rows("org_unended", storable_or_none(org_id), limit)
        return [job_id for (job_id,) in rows]

    async def forget_keys(self, org_id: str) -> int:
        return await self._number("forget_keys", self._at(), storable_or_none(org_id))

    async def remove_jobs(self, org_id: str, limit: int, *, with_held: bool, forced: bool) -> int:
        return await self._number("erase_jobs", storable_or_none(org_id), limit, with_held, forced)

    async def remove_rows(self, org_id: str, table: str, limit: int) -> int:
        own = {known: name for name, known in KNOWN_AS.items() if name in _OWN_NAMES}
        return await self._number("erase_rows", storable_or_none(org_id), own.get(table, table), limit)

    async def _number(self, function: str, *values: Any) -> int:
        [(number,)] = await self._connection.slow_rows(function, *values)
        return int(number)
