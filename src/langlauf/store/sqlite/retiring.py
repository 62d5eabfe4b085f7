"""Retention: a reader finds what is old, page by page; the writer takes it in small batches between other writes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import apsw
import msgspec

from langlauf.domain.instant import SECOND, Instant
from langlauf.domain.result import KeptPayloads
from langlauf.domain.retention import RetentionCount, RetentionPolicy, RetentionReport
from langlauf.domain.state import Status
from langlauf.store.rows import json_text
from langlauf.store.sqlite.connection import MEMORY, open_connection
from langlauf.store.sqlite.reads import RunRead
from langlauf.store.sqlite.transaction import Row, Transaction

Kind = Literal["results", "events", "jobs"]
#: What one page and one write may hold at most, so that nobody waits for retention. A single job is never divided.
JOBS_PER_BATCH = 200
_ROWS_PER_BATCH = 500
_BYTES_PER_BATCH = 8 * 1024 * 1024
#: A job of this end or before is never reached: the kind is kept for ever.
_NEVER = -(2**62)


class Cutoffs(msgspec.Struct, frozen=True, kw_only=True):
    """Which ends of jobs are old enough, for each kind of records, seen from one instant."""

    final_results: Instant
    partial_results: Instant
    events: Instant
    jobs: Instant

    @property
    def completed_partials(self) -> Instant:
        """Partials of completed jobs go with their final at the latest, unless they are kept for ever."""
        return _NEVER if self.partial_results == _NEVER else max(self.partial_results, self.final_results)

    def latest(self, kind: Kind) -> Instant:
        """The latest end that matters for a kind."""
        if kind == "results":
            return max(self.final_results, self.partial_results)
        return self.events if kind == "events" else self.jobs


class RetireBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A few jobs to take something from, in one transaction."""

    kind: Kind
    jobs: tuple[tuple[str, str], ...]
    cutoffs: Cutoffs


class _Found(NamedTuple):
    """An old job, as the finders give it."""

    finished_at: Instant
    position: int
    org_id: str
    job_id: str
    rows: int
    bytes: int
    leaves_none: int
    delivery_pending: int

    @property
    def due(self) -> bool:
        """Whether there is something to write: rows to take, or only the note that none are left."""
        return not self.delivery_pending and bool(self.rows or self.leaves_none)


class _Tally(msgspec.Struct):
    deleted: int = 0
    eligible: int = 0


def cutoffs(policy: RetentionPolicy, now: Instant) -> Cutoffs:
    """A job's record takes its parts along, so it goes last, and stays where one of them is kept for ever."""
    ages = (policy.final_results, policy.partial_results, policy.events, policy.jobs)
    known = [age for age in ages if age is not None]
    oldest = max(known) if len(known) == len(ages) else None
    final, partial, events, jobs = (_NEVER if age is None else now - round(age * SECOND) for age in (*ages[:3], oldest))
    return Cutoffs(final_results=final, partial_results=partial, events=events, jobs=jobs)


class Retirement:
    """One run over a store. `read` and `write` go through the store's queues like everybody else's."""

    def __init__(
        self, path: str, read: RunRead, write: Callable[[RetireBatch], Awaitable[Any]], queries: Mapping[str, str]
    ) -> None:
        self._path = path
        self._read = read
        self._write = write
        self._queries = queries

    async def run(self, policy: RetentionPolicy, now: Instant, *, dry_run: bool) -> RetentionReport:
        """Takes results, then events, then records, so that a record outlives its parts also inside a run."""
        limits = cutoffs(policy, now)
        ended, with_end = await self._counts("count_ended", "count_with_end")
        results = await self._retire("results", limits, dry_run=dry_run)
        events = await self._retire("events", limits, dry_run=dry_run)
        jobs = await self._retire("jobs", limits, dry_run=dry_run)
        kept_results, kept_events = await self._counts("count_snapshots", "count_events")
        missing = ended - with_end
        return RetentionReport(
            dry_run=dry_run,
            terminal_job_count=ended,
            results=_count(results, kept_results - results.deleted * dry_run, missing),
            events=_count(events, kept_events - events.deleted * dry_run, missing),
            jobs_deleted=jobs.deleted,
        )

    async def _retire(self, kind: Kind, limits: Cutoffs, *, dry_run: bool) -> _Tally:
        tally = _Tally()
        position = (_NEVER, 0)
        while page := await self._page(kind, limits, position):
            position = (page[-1].finished_at, page[-1].position)
            tally.eligible += sum(found.rows > 0 for found in page)
            due = [found for found in page if found.due]
            if dry_run:
                tally.deleted += sum(found.rows for found in due)
                continue
            for jobs in _batches(due):
                tally.deleted += await self._write(RetireBatch(kind=kind, jobs=jobs, cutoffs=limits))
        return tally

    async def _page(self, kind: Kind, limits: Cutoffs, position: tuple[Instant, int]) -> list[_Found]:
        values = {
            "cutoff": limits.latest(kind),
            "final_cutoff": limits.final_results,
            "partial_cutoff": limits.partial_results,
            "completed_cutoff": limits.completed_partials,
            "after_time": position[0],
            "after_row": position[1],
            "limit": JOBS_PER_BATCH,
        }
        query = self._queries[f"retirable_{kind}"]
        rows: list[Row] = await self._read(lambda connection: connection.execute(query, values).fetchall())
        return [_Found(*row) for row in rows]

    async def _counts(self, *queries: str) -> list[int]:
        """Counting walks over whole indexes: it has its own connection, so that no reader waits behind it."""
        if self._path == MEMORY:
            return await self._read(lambda connection: self._count_on(connection, queries))
        return await asyncio.to_thread(self._count_apart, queries)

    def _count_apart(self, queries: Sequence[str]) -> list[int]:
        connection = open_connection(self._path, read_only=True)
        try:
            return self._count_on(connection, queries)
        finally:
            connection.close()

    def _count_on(self, connection: apsw.Connection, queries: Sequence[str]) -> list[int]:
        rows: list[Row] = [connection.execute(self._queries[query]).fetchall()[0] for query in queries]
        return [row[0] for row in rows]


def _count(tally: _Tally, kept: int, missing: int) -> RetentionCount:
    return RetentionCount(
        delete_count=tally.deleted,
        kept_count=kept,
        eligible_terminal=tally.eligible,
        skipped_missing_timestamp=missing,
    )


async def kept_payloads(
    read: RunRead, queries: Mapping[str, str], jobs: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], KeptPayloads]:
    """What these jobs still name outside of the store."""
    query, asked = queries["kept_payloads"], {"jobs": json_text(jobs)}
    rows: list[Row] = await read(lambda connection: connection.execute(query, asked).fetchall())
    refs: dict[tuple[str, str], set[str]] = {}
    ended: dict[tuple[str, str], bool] = {}
    for org_id, job_id, over, ref in rows:
        ended[org_id, job_id] = bool(over)
        refs.setdefault((org_id, job_id), set()).update({ref} - {None})
    return {job: KeptPayloads(ended[job], frozenset(refs[job])) for job in ended}


def _batches(page: list[_Found]) -> Iterator[tuple[tuple[str, str], ...]]:
    """Divides a page so that no write takes long, whatever the jobs hold."""
    batch: list[tuple[str, str]] = []
    rows = size = 0
    for found in page:
        if batch and (rows + found.rows > _ROWS_PER_BATCH or size + found.bytes > _BYTES_PER_BATCH):
            yield tuple(batch)
            batch, rows, size = [], 0, 0
        batch.append((found.org_id, found.job_id))
        rows += found.rows
        size += found.bytes
    if batch:
        yield tuple(batch)


def retire_batch(tx: Transaction, batch: RetireBatch) -> int:
    """Takes one kind of records from a few jobs; returns how many rows went."""
    removed = 0
    for org_id, job_id in batch.jobs:
        job = {"org_id": org_id, "job_id": job_id}
        due = tx.one("may_retire", **job, cutoff=batch.cutoffs.latest(batch.kind))
        if due is None:
            continue
        if batch.kind == "results":
            removed += _entomb(tx, job, due, batch.cutoffs)
        elif batch.kind == "events":
            removed += tx.run("delete_events", **job)
            tx.run("mark_events_expired", **job, now=tx.now)
        else:
            removed += tx.run("delete_job", **job)
    return removed


def _entomb(tx: Transaction, job: dict[str, str], due: Row, limits: Cutoffs) -> int:
    finished_at, status = due
    partial_cutoff = limits.completed_partials if status == Status.COMPLETED else limits.partial_results
    removed = tx.run(
        "entomb_results",
        **job,
        now=tx.now,
        finished_at=finished_at,
        final_cutoff=limits.final_results,
        partial_cutoff=partial_cutoff,
    )
    tx.run("mark_results_expired", **job, now=tx.now)
    return removed
