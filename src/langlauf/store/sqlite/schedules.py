"""Schedules in SQLite."""

from collections.abc import Sequence
from functools import partial

from msgspec.structs import asdict

from langlauf.domain.instant import Instant, after
from langlauf.domain.schedule import MOST_SCHEDULES, PlannedRun, Schedule, ScheduleEnd
from langlauf.store.rows import json_text, schedule_from
from langlauf.store.sqlite.batch import StoreComponent
from langlauf.store.sqlite.transaction import Transaction


def _add(tx: Transaction, new: Schedule) -> bool:
    return tx.run("add_schedule", **asdict(new), most=MOST_SCHEDULES) > 0


def _change(tx: Transaction, changed: Schedule, seen_at: Instant) -> bool:
    return tx.run("change_schedule", **asdict(changed), seen_at=seen_at) > 0


def _remove(tx: Transaction, org_id: str, name: str) -> bool:
    return tx.run("remove_schedule", org_id=org_id, name=name) > 0


def _claim_due(tx: Transaction, analyses: Sequence[str], seconds: float, most: int) -> list[Schedule]:
    due = [schedule_from(row) for row in tx.rows("due_schedules", now=tx.now, analyses=json_text(analyses), most=most)]
    tx.run_many("claim_schedule", [(one.org_id, one.name, after(tx.now, seconds)) for one in due])
    return due


def _advance(tx: Transaction, ends: Sequence[ScheduleEnd]) -> int:
    return tx.run_many("advance_schedule", [asdict(one) for one in ends])


class SqliteSchedules(StoreComponent):
    """Schedules of all orgs."""

    async def add(self, new: Schedule) -> bool:
        return await self._change(partial(_add, new=new), new.org_id)

    async def change(self, changed: Schedule, *, seen_at: Instant) -> bool:
        return await self._change(partial(_change, changed=changed, seen_at=seen_at), changed.org_id)

    async def remove(self, org_id: str, name: str) -> bool:
        return await self._change(partial(_remove, org_id=org_id, name=name), org_id)

    async def next_planned(self, analyses: Sequence[str]) -> Instant | None:
        [(at,)] = await self._rows("next_planned", analyses=json_text(analyses))
        return at if isinstance(at, int) else None

    async def claim_due(self, analyses: Sequence[str], *, seconds: float, most: int) -> list[Schedule]:
        return await self._change(partial(_claim_due, analyses=analyses, seconds=seconds, most=most))

    async def unfinished(self, runs: Sequence[PlannedRun]) -> set[tuple[str, str]]:
        return {(org_id, name) for org_id, name in await self._rows("unfinished_runs", runs=json_text(runs))}

    async def advance(self, ends: Sequence[ScheduleEnd]) -> int:
        return await self._change(partial(_advance, ends=ends))

    async def of_code(self) -> list[Schedule]:
        return [schedule_from(row) for row in await self._rows("code_schedules")]
