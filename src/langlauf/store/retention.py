"""Retention, the same for every store: expired records are found page by page and removed in small batches.

A driver brings a `RetentionStore` that finds, removes and counts. The size of a batch follows from how long the last
ones took, so that other writes wait no longer for it than for each other, on a fast machine and on a slow one.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from langlauf.clock import monotonic
from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.domain.instant import SECOND, Instant
from langlauf.domain.result import RetentionCount, RetentionPolicy, RetentionReport
from langlauf.telemetry.log import LogEvent, log_event

Kind = Literal["results", "events", "jobs"]
#: The largest page, and the largest write: a single job is never divided.
JOBS_PER_PAGE = 200
_MOST_ROWS = 500
_FEWEST_ROWS = 8
_BYTES_PER_BATCH = 8 * 1024 * 1024
#: Seconds that a write should take, and the rest after it as a factor of what it took: there is always room
#: for others, those in other processes too.
_WRITE_SECONDS = 0.002
_REST = 3.0
_LONGEST_REST = 0.05
#: Jobs that fail are logged and skipped; with so many of them something else is wrong.
_MOST_FAILURES = 20
#: Code that was seen more recently is kept: a worker says every hour which code it runs.
_CODE_UNSEEN = 86_400 * SECOND
#: A cutoff before every job: the kind is kept for ever.
NEVER = -(2**62)


class Cutoffs(msgspec.Struct, frozen=True, kw_only=True):
    """The latest end of a job whose records expire, for each kind, at one instant."""

    final_results: Instant
    partial_results: Instant
    events: Instant
    jobs: Instant

    @property
    def completed_partials(self) -> Instant:
        """Partials of completed jobs go with their final at the latest, unless they are kept for ever."""
        return NEVER if self.partial_results == NEVER else max(self.partial_results, self.final_results)

    def latest(self, kind: Kind) -> Instant:
        """Return the latest end that matters for a kind."""
        if kind == "results":
            return max(self.final_results, self.partial_results)
        return self.events if kind == "events" else self.jobs


class RetireBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A few jobs whose records of one kind are removed in one transaction."""

    kind: Kind
    jobs: tuple[tuple[str, str], ...]
    cutoffs: Cutoffs


class RetirableJob(NamedTuple):
    """A job with expired records. The next page continues behind it, by end and then by `position`."""

    finished_at: Instant
    position: Any
    org_id: str
    job_id: str
    rows: int
    bytes: int
    leaves_none: bool
    #: a pending delivery or a hold still needs it
    kept_back: bool

    @property
    def due(self) -> bool:
        """Whether there is something to write: rows to take, or only the note that none are left."""
        return not self.kept_back and bool(self.rows or self.leaves_none)


class RetentionStore(Protocol):
    """The part of a driver that retention needs."""

    async def page(self, kind: Kind, cutoffs: Cutoffs, behind: RetirableJob | None, most: int) -> list[RetirableJob]:
        """Return the next old jobs that still have something of a kind, the oldest end first."""

    async def take(self, batch: RetireBatch) -> int:
        """Remove one kind of records from a few jobs, if still expired; return how many rows."""

    async def prune_codes(self, before: Instant) -> int:
        """Remove code that was last seen before an instant and that no job names; return how many."""

    async def ended(self) -> tuple[int, int]:
        """Return how many jobs have ended, and how many of them at a known time, without blocking others."""

    async def kept(self) -> tuple[int, int]:
        """Return how many results and how many events there are; counted likewise."""


class Pace:
    """How many rows the next write removes, adapted to the duration of the last ones."""

    def __init__(self) -> None:
        self.rows = _FEWEST_ROWS

    async def rest(self, rows: int, seconds: float) -> None:
        """Learns from a write, and leaves room for others behind it."""
        fitting = max(rows, 1) * _WRITE_SECONDS / max(seconds, 1e-6)
        # Half-way towards it, since one write that waited for the disk says little.
        self.rows = round(min(_MOST_ROWS, max(_FEWEST_ROWS, (self.rows + min(fitting, self.rows * 2)) / 2)))
        await asyncio.sleep(min(_LONGEST_REST, seconds * _REST))


class _Counts(msgspec.Struct):
    deleted: int = 0
    eligible: int = 0


def cutoffs_of(policy: RetentionPolicy, now: Instant) -> Cutoffs:
    """Return when records expire: after their parts, which go with them, and never where a part is kept for ever."""
    ages = (policy.final_results, policy.partial_results, policy.events, policy.jobs)
    known = [age for age in ages if age is not None]
    oldest = max(known) if len(known) == len(ages) else None
    final, partial, events, jobs = (NEVER if age is None else now - round(age * SECOND) for age in (*ages[:3], oldest))
    return Cutoffs(final_results=final, partial_results=partial, events=events, jobs=jobs)


async def retire(
    retention_store: RetentionStore, policy: RetentionPolicy, now: Instant, *, dry_run: bool, counted: bool
) -> RetentionReport:
    """Remove results, then events, then jobs, so that a job outlives its parts also during a run."""
    run = _Run(retention_store, cutoffs_of(policy, now), dry_run=dry_run)
    ended, with_end = await retention_store.ended() if counted else (None, None)
    results = await run.retire("results")
    events = await run.retire("events")
    jobs = await run.retire("jobs")
    run.raise_failures()
    if not dry_run and run.limits.jobs != NEVER:
        await retention_store.prune_codes(min(run.limits.jobs, now - _CODE_UNSEEN))
    kept_results, kept_events = await retention_store.kept() if counted else (None, None)
    missing = None if ended is None or with_end is None else ended - with_end
    return RetentionReport(
        dry_run=dry_run,
        terminal_job_count=ended,
        results=_count(results, kept_results, missing, dry_run=dry_run),
        events=_count(events, kept_events, missing, dry_run=dry_run),
        jobs_deleted=jobs.deleted,
    )


class _Run:
    """One run of retention."""

    def __init__(self, retention_store: RetentionStore, limits: Cutoffs, *, dry_run: bool) -> None:
        self._store = retention_store
        self.limits = limits
        self._dry_run = dry_run
        self._pace = Pace()
        self._failures = 0

    async def retire(self, kind: Kind) -> _Counts:
        """Remove all expired records of one kind."""
        tally = _Counts()
        last: RetirableJob | None = None
        while page := await self._store.page(kind, self.limits, last, JOBS_PER_PAGE):
            last = page[-1]
            tally.eligible += sum(found.rows > 0 for found in page)
            due = [found for found in page if found.due]
            if self._dry_run:
                tally.deleted += sum(found.rows for found in due)
                continue
            for batch in _batches(due, self._pace):
                tally.deleted += await self._take(kind, batch)
        return tally

    async def _take(self, kind: Kind, batch: list[RetirableJob]) -> int:
        """Remove records of a few jobs. Where one of them fails, the others are processed all the same."""
        jobs = tuple((found.org_id, found.job_id) for found in batch)
        began = monotonic()
        try:
            removed = await self._store.take(RetireBatch(kind=kind, jobs=jobs, cutoffs=self.limits))
        except StoreUnavailable:
            raise
        except StoreError as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                return await self._take(kind, batch[:middle]) + await self._take(kind, batch[middle:])
            self._note_failure(kind, batch[0], error)
            return 0
        await self._pace.rest(sum(found.rows for found in batch), monotonic() - began)
        return removed

    def _note_failure(self, kind: Kind, found: RetirableJob, error: StoreError) -> None:
        self._failures += 1
        log_event(
            LogEvent.MAINTENANCE_FAILED,
            logging.ERROR,
            duty="retention",
            kind=kind,
            org_id=found.org_id,
            job_id=found.job_id,
            reason=str(error),
        )
        if self._failures >= _MOST_FAILURES:
            self.raise_failures()

    def raise_failures(self) -> None:
        """A run that left something behind is no success."""
        if self._failures:
            raise StoreError(f"{self._failures} jobs could not be cleaned up; the log says which and why")


def _count(tally: _Counts, there: int | None, missing: int | None, *, dry_run: bool) -> RetentionCount:
    """Return the count of one kind; what a dry run would remove still counts as kept."""
    return RetentionCount(
        delete_count=tally.deleted,
        kept_count=None if there is None else there - tally.deleted * dry_run,
        eligible_terminal=tally.eligible,
        skipped_missing_timestamp=missing,
    )


def _batches(page: list[RetirableJob], pace: Pace) -> Iterator[list[RetirableJob]]:
    """Divide a page so that no write takes long, whatever the jobs hold."""
    batch: list[RetirableJob] = []
    rows = size = 0
    for found in page:
        if batch and (rows + found.rows > pace.rows or size + found.bytes > _BYTES_PER_BATCH):
            yield batch
            batch, rows, size = [], 0, 0
        batch.append(found)
        rows += found.rows
        size += found.bytes
    if batch:
        yield batch
