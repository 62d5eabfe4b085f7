"""Schedules in PostgreSQL."""

from collections.abc import Callable, Sequence
from typing import cast

from msgspec.structs import astuple

from langlauf.domain.instant import Instant, after
from langlauf.domain.schedule import MOST_SCHEDULES, PlannedRun, Schedule, ScheduleEnd
from langlauf.store.postgres.connection import DatabaseConnection
from langlauf.store.postgres.pool import ReadPool
from langlauf.store.rows import schedule_from


class PostgresSchedules:
    """Schedules of all orgs."""

    def __init__(self, pool: ReadPool, connection: DatabaseConnection, at: Callable[[], Instant | None]) -> None:
        self._pool = pool
        #: firing has a connection of its own, so that it waits for no reader
        self._connection = connection
        self._at = at

    async def add(self, new: Schedule) -> bool:
        return cast("bool", await self._pool.call("add_schedule", astuple(new), MOST_SCHEDULES))

    async def change(self, changed: Schedule, *, seen_at: Instant) -> bool:
        return cast("bool", await self._pool.call("change_schedule", astuple(changed), seen_at))

    async def remove(self, org_id: str, name: str) -> bool:
        return cast("bool", await self._pool.call("remove_schedule", org_id, name))

    async def next_planned(self, analyses: Sequence[str]) -> Instant | None:
        return cast("Instant | None", await self._connection.call("next_planned", list(analyses)))

    async def claim_due(self, analyses: Sequence[str], *, seconds: float, most: int) -> list[Schedule]:
        rows = await self._connection.rows("claim_schedules", self._at(), list(analyses), after(0, seconds), most)
        return [schedule_from(row) for row in rows]

    async def unfinished(self, runs: Sequence[PlannedRun]) -> set[tuple[str, str]]:
        if not runs:
            return set()
        columns = [list(column) for column in zip(*runs, strict=True)]
        return {(org_id, name) for org_id, name in await self._pool.rows("unfinished_runs", *columns)}

    async def advance(self, ends: Sequence[ScheduleEnd]) -> int:
        columns = [list(column) for column in zip(*map(astuple, ends), strict=True)] if ends else [[]] * 7
        return cast("int", await self._connection.call("advance_schedules", *columns))

    async def of_code(self) -> list[Schedule]:
        return [schedule_from(row) for row in await self._pool.rows("code_schedules")]
