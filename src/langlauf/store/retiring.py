"""Retention, the same for every store: what is old is found page by page, and taken in small batches between other writes.

A driver brings the shelf: it finds, it takes, and it counts.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from langlauf.domain.instant import SECOND, Instant
from langlauf.domain.retention import RetentionCount, RetentionPolicy, RetentionReport

Kind = Literal["results", "events", "jobs"]
#: What one page and one write may hold at most, so that nobody waits for retention. A single job is never divided.
JOBS_PER_BATCH = 200
_ROWS_PER_BATCH = 500
_BYTES_PER_BATCH = 8 * 1024 * 1024
#: A job of this end or before is never reached: the kind is kept for ever.
NEVER = -(2**62)


class Cutoffs(msgspec.Struct, frozen=True, kw_only=True):
    """Which ends of jobs are old enough, for each kind of records, seen from one instant."""

    final_results: Instant
    partial_results: Instant
    events: Instant
    jobs: Instant

    @property
    def completed_partials(self) -> Instant:
        """Partials of completed jobs go with their final at the latest, unless they are kept for ever."""
        return NEVER if self.partial_results == NEVER else max(self.partial_results, self.final_results)

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


class Found(NamedTuple):
    """An old job, as the finders give it. Behind it, in the order of ends and then of `position`, a page goes on."""

    finished_at: Instant
    position: Any
    org_id: str
    job_id: str
    rows: int
    bytes: int
    leaves_none: bool
    delivery_pending: bool

    @property
    def due(self) -> bool:
        """Whether there is something to write: rows to take, or only the note that none are left."""
        return not self.delivery_pending and bool(self.rows or self.leaves_none)


class Shelf(Protocol):
    """What retention asks a store for."""

    async def page(self, kind: Kind, cutoffs: Cutoffs, behind: Found | None, most: int) -> list[Found]:
        """The next old jobs that still have something of a kind, the oldest end first."""

    async def take(self, batch: RetireBatch) -> int:
        """Takes one kind of records from a few jobs, if they may still go; returns how many rows went."""

    async def ended(self) -> tuple[int, int]:
        """How many jobs have ended, and how many of them at a known time; counted without holding anybody up."""

    async def kept(self) -> tuple[int, int]:
        """How many results and how many events there are; counted likewise."""


class _Tally(msgspec.Struct):
    deleted: int = 0
    eligible: int = 0


def cutoffs_of(policy: RetentionPolicy, now: Instant) -> Cutoffs:
    """A job's record takes its parts along, so it goes last, and stays where one of them is kept for ever."""
    ages = (policy.final_results, policy.partial_results, policy.events, policy.jobs)
    known = [age for age in ages if age is not None]
    oldest = max(known) if len(known) == len(ages) else None
    final, partial, events, jobs = (NEVER if age is None else now - round(age * SECOND) for age in (*ages[:3], oldest))
    return Cutoffs(final_results=final, partial_results=partial, events=events, jobs=jobs)


async def retire(shelf: Shelf, policy: RetentionPolicy, now: Instant, *, dry_run: bool) -> RetentionReport:
    """Takes results, then events, then records, so that a record outlives its parts also inside a run."""
    limits = cutoffs_of(policy, now)
    ended, with_end = await shelf.ended()
    results = await _retire(shelf, "results", limits, dry_run=dry_run)
    events = await _retire(shelf, "events", limits, dry_run=dry_run)
    jobs = await _retire(shelf, "jobs", limits, dry_run=dry_run)
    kept_results, kept_events = await shelf.kept()
    missing = ended - with_end
    return RetentionReport(
        dry_run=dry_run,
        terminal_job_count=ended,
        results=_count(results, kept_results - results.deleted * dry_run, missing),
        events=_count(events, kept_events - events.deleted * dry_run, missing),
        jobs_deleted=jobs.deleted,
    )


async def _retire(shelf: Shelf, kind: Kind, limits: Cutoffs, *, dry_run: bool) -> _Tally:
    tally = _Tally()
    last: Found | None = None
    while page := await shelf.page(kind, limits, last, JOBS_PER_BATCH):
        last = page[-1]
        tally.eligible += sum(found.rows > 0 for found in page)
        due = [found for found in page if found.due]
        if dry_run:
            tally.deleted += sum(found.rows for found in due)
            continue
        for jobs in _batches(due):
            tally.deleted += await shelf.take(RetireBatch(kind=kind, jobs=jobs, cutoffs=limits))
    return tally


def _count(tally: _Tally, kept: int, missing: int) -> RetentionCount:
    return RetentionCount(
        delete_count=tally.deleted,
        kept_count=kept,
        eligible_terminal=tally.eligible,
        skipped_missing_timestamp=missing,
    )


def _batches(page: list[Found]) -> Iterator[tuple[tuple[str, str], ...]]:
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
