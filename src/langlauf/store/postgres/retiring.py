"""Retention of a database: functions find what is old and take it, on a connection of their own."""

from langlauf.domain.instant import Instant
from langlauf.hints import Hints
from langlauf.store.commit_hints import announce
from langlauf.store.postgres.link import Link
from langlauf.store.retention import NEVER, Cutoffs, Found, Kind, RetireBatch


class PostgresShelf:
    """What retention asks a database for. Its statements may take longer than those that somebody waits for."""

    def __init__(self, link: Link, hints: Hints, at: Instant | None) -> None:
        self._link = link
        self._hints = hints
        self._at = at

    async def page(self, kind: Kind, cutoffs: Cutoffs, behind: Found | None, most: int) -> list[Found]:
        position = (NEVER, "", "") if behind is None else (behind.finished_at, behind.org_id, behind.job_id)
        rows = await self._link.slow_rows(
            f"retirable_{kind}", cutoffs.latest(kind), *position, most, *_of_results(kind, cutoffs)
        )
        return [Found(finished_at, None, *rest) for finished_at, *rest in rows]

    async def take(self, batch: RetireBatch) -> int:
        orgs, ids = zip(*batch.jobs, strict=True)
        limits = (batch.cutoffs.latest(batch.kind), *_of_results(batch.kind, batch.cutoffs))
        [[removed]] = await self._link.slow_rows(f"retire_{batch.kind}", self._at, list(orgs), list(ids), *limits)
        announce(self._hints, batch, removed)
        return int(removed)

    async def ended(self) -> tuple[int, int]:
        [(ended, with_end)] = await self._link.slow_rows("count_ended")
        return ended, with_end

    async def kept(self) -> tuple[int, int]:
        [(results, events)] = await self._link.slow_rows("count_kept")
        return results, events


def _of_results(kind: Kind, cutoffs: Cutoffs) -> tuple[Instant, ...]:
    """Snapshots have ends of their own, according to what they are."""
    if kind != "results":
        return ()
    return cutoffs.final_results, cutoffs.partial_results, cutoffs.completed_partials
