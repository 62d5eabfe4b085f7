"""What operators see over all orgs in PostgreSQL: load, backlog and overview."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.domain.eta import Lane, QueueLoad, RunProgress
from langlauf.domain.instant import Instant
from langlauf.domain.read_models import (
    MOST_QUEUES,
    MOST_RETRYING,
    Backlog,
    EndedJob,
    JobFingerprint,
    Overview,
    QueueDepth,
    StartedJob,
    StoreUsage,
    WaitingJobs,
    truncated_overview,
)
from langlauf.domain.result import ReferencedPayloads
from langlauf.store.group_commit import GroupCommit
from langlauf.store.postgres.connection import DatabaseConnection, ReadPool
from langlauf.store.postgres.migrate import PACKAGE
from langlauf.store.sql import migrations_in

#: A job by its org and its id.
JobKey = tuple[str, str]
#: Jobs per call, so that other reads get their turn in between.
_JOBS_PER_CALL = 1_000


async def depth(pool: ReadPool, at: Instant | None) -> QueueDepth:
    """Return how many jobs wait and run."""
    [row] = await pool.rows("depth", at)
    return QueueDepth(*row)


async def paces(pool: ReadPool) -> dict[str, float]:
    """Return the mean duration of recent runs by analysis."""
    return {analysis: seconds for analysis, seconds in await pool.rows("paces")}  # noqa: C416 - a row is no pair


async def load(pool: ReadPool, at: Instant | None) -> QueueLoad:
    """Return everything that waits and runs."""
    [(seen_at, virtual_now, lanes, runs)] = await pool.rows("load", at)
    return QueueLoad(
        seen_at, [Lane(*row) for row in lanes], [RunProgress(*row) for row in runs], await paces(pool), virtual_now
    )


async def read_overview(
    rows: Callable[..., Awaitable[list[Any]]], prefix: Literal["read", "all"], since: Instant, most: int
) -> Overview:
    """Return the overview of one org or of all, by the functions with that prefix; each scans one index."""
    return truncated_overview(
        [EndedJob(*row) for row in await rows(f"{prefix}_ended", since, most + 1)],
        [queued_at for (queued_at,) in await rows(f"{prefix}_queued", since, most + 1)],
        [WaitingJobs(*row) for row in await rows(f"{prefix}_queues", MOST_QUEUES + 1)],
        [StartedJob(*row) for row in await rows(f"{prefix}_underway", most + 1)],
        most,
    )


async def backlog(pool: ReadPool, at: Instant | None, *, orgs: bool) -> Backlog:
    """Return the figures for metrics: as many rows as queues, running jobs and jobs that wait for a retry."""
    seen = await load(pool, at)
    queues = [WaitingJobs(*row) for row in await pool.rows("all_queues", MOST_QUEUES)]
    underway = [StartedJob(*row) for row in await pool.rows("all_underway", MOST_RETRYING)]
    waiting, org_waiting = Counter[str](), Counter[str]()
    for lane in seen.lanes:
        waiting[lane.analysis] += lane.waiting
        org_waiting[lane.org_id] += lane.waiting
    leases = [job.lease_until for job in underway if job.lease_until is not None]
    return Backlog(
        seen_at=seen.seen_at,
        waiting=waiting,
        scheduled=dict(await pool.rows("scheduled_counts")),
        running=Counter(run.analysis for run in seen.runs),
        retrying=len(underway) - len(leases),
        oldest_waiting_at=min((queue.oldest_at for queue in queues if queue.oldest_at is not None), default=None),
        oldest_attempt_at=min((run.started_at for run in seen.runs), default=None),
        overdue=sum(until <= seen.seen_at for until in leases),
        org_waiting=org_waiting if orgs else {},
        org_running=Counter(run.org_id for run in seen.runs) if orgs else {},
    )


def usage(queues: Iterable[GroupCommit[Any, Any]], connections: Sequence[DatabaseConnection]) -> StoreUsage:
    """Return the lengths of the write queues, and how many connections are open and busy."""
    return StoreUsage(
        kind="postgresql",
        queues={queue.queue: queue.waiting for queue in queues},
        connections={"open": sum(one.open for one in connections), "busy": sum(one.busy for one in connections)},
    )


async def job_fingerprints(pool: ReadPool, jobs: Sequence[JobKey]) -> dict[JobKey, JobFingerprint]:
    """Return the progress of followed jobs."""
    found: dict[JobKey, JobFingerprint] = {}
    for orgs, ids in _columns_per_call(jobs):
        rows = await pool.rows("pulses", orgs, ids)
        found |= {(org_id, job_id): JobFingerprint(*rest) for org_id, job_id, *rest in rows}
    return found


async def org_versions(pool: ReadPool, org_ids: Sequence[str]) -> dict[str, str]:
    """Return a version of each org that changes with any of its jobs."""
    return {org_id: mark for org_id, mark in await pool.rows("org_pulses", list(org_ids))}  # noqa: C416 - as above


async def kept_payloads(pool: ReadPool, jobs: Sequence[JobKey]) -> dict[JobKey, ReferencedPayloads]:
    """Return the blobs that these jobs still refer to."""
    found: dict[JobKey, ReferencedPayloads] = {}
    for orgs, ids in _columns_per_call(jobs):
        rows = await pool.rows("kept_payloads", orgs, ids)
        found |= {(org_id, job_id): ReferencedPayloads(ended, frozenset(refs)) for org_id, job_id, ended, refs in rows}
    return found


async def check(pool: ReadPool) -> None:
    """Raise `StoreUnavailable` unless the database answers and its schema is this program's."""
    known = len(migrations_in(PACKAGE))
    try:
        found = await pool.call("schema_number")
    except StoreUnavailable:
        raise
    except StoreError as error:
        raise StoreUnavailable(f"the database has no known schema ({error}): run `langlauf migrate`") from error
    if found != known:
        raise StoreUnavailable(f"the store has schema {found}, this program needs {known}")


def _columns_per_call(jobs: Sequence[JobKey]) -> Iterator[tuple[list[str], list[str]]]:
    for start in range(0, len(jobs), _JOBS_PER_CALL):
        part = jobs[start : start + _JOBS_PER_CALL]
        yield [org_id for org_id, _ in part], [job_id for _, job_id in part]
