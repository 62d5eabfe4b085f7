"""Retention in PostgreSQL. Its statements have a longer timeout than those of requests."""

from langlauf.domain.instant import Instant
from langlauf.hints import Hints
from langlauf.store.commit_hints import announce
from langlauf.store.postgres.connection import DatabaseConnection
from langlauf.store.retention import NEVER, Cutoffs, Kind, RetirableJob, RetireBatch


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

    async def prune_codes(self, before: Instant) -> int:
        [[removed]] = await self._connection.slow_rows("prune_codes", self._at, before)
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
