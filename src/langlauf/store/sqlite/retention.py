"""Retention of a file: a reader finds expired records, the writer removes them between other writes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from langlauf.domain.instant import Instant
from langlauf.domain.result import ReferencedPayloads
from langlauf.domain.state import Status
from langlauf.store.retention import NEVER, Cutoffs, Kind, RetirableJob, RetireBatch
from langlauf.store.sql import json_text
from langlauf.store.sqlite.connection import MEMORY, LongReads, RunRead
from langlauf.store.sqlite.transaction import Row, Transaction

#: A page of the file is read once, so that a large cache is of no use.
_CACHE_KIB = 8_192


class PruneCodes(msgspec.Struct, frozen=True):
    """Code that was last seen before an instant: what jobs name is kept, the rest goes."""

    named: tuple[int, ...]
    unnamed: tuple[int, ...]
    before: Instant


class SqliteRetention:
    """Finds and removes expired records. `write` queues behind all other writes.

    Finding and counting scan many rows: they have a thread and a connection of their own, so that no
    reader waits behind them. A store in memory has one connection for everything: there `read` is used.
    """

    def __init__(
        self, path: str, read: RunRead, write: Callable[[Any], Awaitable[Any]], queries: Mapping[str, str]
    ) -> None:
        self._apart = None if path == MEMORY else LongReads(path, "langlauf-retention", cache_kib=_CACHE_KIB)
        self._read = read if self._apart is None else self._apart.run
        self._write = write
        self._queries = queries

    async def page(self, kind: Kind, cutoffs: Cutoffs, behind: RetirableJob | None, most: int) -> list[RetirableJob]:
        values = {
            "cutoff": cutoffs.latest(kind),
            "final_cutoff": cutoffs.final_results,
            "partial_cutoff": cutoffs.partial_results,
            "completed_cutoff": cutoffs.completed_partials,
            "after_time": NEVER if behind is None else behind.finished_at,
            "after_row": 0 if behind is None else behind.position,
            "limit": most,
        }
        query = self._queries[f"retirable_{kind}"]
        rows: list[Row] = await self._read(lambda connection: connection.execute(query, values).fetchall())
        return [RetirableJob(*row) for row in rows]

    async def take(self, batch: RetireBatch) -> int:
        return int(await self._write(batch))

    async def prune_codes(self, before: Instant) -> int:
        query = self._queries["old_codes"]
        old: list[Row] = await self._read(lambda connection: connection.execute(query, {"before": before}).fetchall())
        if not old:
            return 0
        named, unnamed = (tuple(code for code, is_named in old if bool(is_named) is kind) for kind in (True, False))
        return int(await self._write(PruneCodes(named, unnamed, before)))

    async def ended(self) -> tuple[int, int]:
        return await self._number("count_ended"), await self._number("count_with_end")

    async def kept(self) -> tuple[int, int]:
        return await self._number("count_snapshots"), await self._number("count_events")

    async def close(self) -> None:
        """Close the connection."""
        if self._apart is not None:
            await self._apart.close()

    async def _number(self, query: str) -> int:
        return await self._read(lambda connection: int(str(connection.execute(self._queries[query]).get)))


async def kept_payloads(
    read: RunRead, queries: Mapping[str, str], jobs: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], ReferencedPayloads]:
    """Return the blobs that these jobs still reference."""
    query, asked = queries["kept_payloads"], {"jobs": json_text(jobs)}
    rows: list[Row] = await read(lambda connection: connection.execute(query, asked).fetchall())
    return payloads_from(rows)


def payloads_from(rows: Sequence[Row]) -> dict[tuple[str, str], ReferencedPayloads]:
    """Return referenced payloads by job from the rows of their query."""
    refs: dict[tuple[str, str], set[str]] = {}
    ended: dict[tuple[str, str], bool] = {}
    for org_id, job_id, over, ref in rows:
        ended[org_id, job_id] = bool(over)
        refs.setdefault((org_id, job_id), set()).update({ref} - {None})
    return {job: ReferencedPayloads(ended[job], frozenset(refs[job])) for job in ended}


def prune_codes(tx: Transaction, request: PruneCodes) -> int:
    """Remove code that no job named a moment ago; a worker that runs it says so often enough to keep it."""
    for code in request.named:
        tx.run("code_is_named", code=code, now=tx.now)
    return sum(tx.run("prune_code", code=code, before=request.before) for code in request.unnamed)


def retire_batch(tx: Transaction, batch: RetireBatch) -> int:
    """Remove one kind of records from a few jobs; return how many rows."""
    removed = 0
    cutoff = batch.cutoffs.latest(batch.kind)
    for org_id, job_id in batch.jobs:
        due = tx.one("may_retire", org_id=org_id, job_id=job_id, kind=batch.kind, cutoff=cutoff)
        if due is None:
            continue
        job, finished_at, status = due
        if batch.kind == "results":
            removed += _remove_results(tx, job, finished_at, status, batch.cutoffs)
        elif batch.kind == "events":
            removed += tx.run("delete_events", job=job)
            tx.run("mark_events_expired", job=job, now=tx.now)
        else:
            removed += tx.run("delete_job", job=job)
    return removed


def _remove_results(tx: Transaction, job: int, finished_at: Instant, status: str, limits: Cutoffs) -> int:
    partial_cutoff = limits.completed_partials if status == Status.COMPLETED else limits.partial_results
    removed = tx.run(
        "entomb_results",
        job=job,
        now=tx.now,
        finished_at=finished_at,
        final_cutoff=limits.final_results,
        partial_cutoff=partial_cutoff,
    )
    tx.run("mark_results_expired", job=job, now=tx.now)
    return removed
