"""The protocol of schedules, for the processes that fire them. Reads of an org are in `TenantReads`."""

from collections.abc import Sequence
from typing import Protocol

from langlauf.domain.instant import Instant
from langlauf.domain.schedule import PlannedRun, Schedule, ScheduleEnd


class ScheduleStore(Protocol):
    """Schedules of all orgs. Each verb is one atomic change."""

    async def add(self, new: Schedule) -> bool:
        """Store a schedule; False where the org has one of that name already, or too many."""

    async def change(self, changed: Schedule, *, seen_at: Instant) -> bool:
        """Replace a schedule as it was at `seen_at`; False where it has changed since or is gone."""

    async def remove(self, org_id: str, name: str) -> bool:
        """Remove a schedule; its jobs stay. False where there is none."""

    async def next_planned(self, analyses: Sequence[str]) -> Instant | None:
        """Return when the first schedule of these analyses is due that no process fires; perhaps in the past."""

    async def claim_due(self, analyses: Sequence[str], *, seconds: float, most: int) -> list[Schedule]:
        """Return due schedules of these analyses, and keep other processes from them for so many seconds."""

    async def unfinished(self, runs: Sequence[PlannedRun]) -> set[tuple[str, str]]:
        """Return the schedules, by org and name, of which an earlier run than the planned one has not ended."""

    async def advance(self, ends: Sequence[ScheduleEnd]) -> int:
        """Record what became of due runs, and when the next ones are; return how many were still due."""

    async def of_code(self) -> list[Schedule]:
        """Return the schedules that come with code."""
