"""Overviews, the backlog and load figures: each query is a bounded index scan."""

from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Literal, Protocol

import apsw

from langlauf.domain.eta import Lane, QueueLoad, RunProgress
from langlauf.domain.instant import Instant
from langlauf.domain.read_models import (
    MOST_QUEUES,
    MOST_RETRYING,
    Backlog,
    EndedJob,
    Overview,
    StartedJob,
    StoreUsage,
    WaitingJobs,
    truncated_overview,
)
from langlauf.store.group_commit import GroupCommit
from langlauf.store.sqlite.connection import MEMORY
from langlauf.store.sqlite.transaction import Row

Whose = Literal["read", "all"]
#: The most jobs of a lane that are read at once; the first time one, since most lanes have none among the newest.
_AT_ONCE = 256


class RunQuery(Protocol):
    """Runs a query by name."""

    def __call__(self, query: str, /, **values: int) -> list[Row]: ...


def read_overview(rows: RunQuery, whose: Whose, since: Instant, most: int) -> Overview:
    """Return the overview of one org, or of all, by the queries with that prefix."""
    return truncated_overview(
        [EndedJob(*row) for row in rows(f"{whose}_ended", since=since, most=most + 1)],
        _queued(rows, whose, since, most + 1),
        [WaitingJobs(*row) for row in rows(f"{whose}_queues", since=since, most=MOST_QUEUES + 1)],
        [StartedJob(*row) for row in rows(f"{whose}_underway", since=since, most=most + 1)],
        most,
    )


def _queued(rows: RunQuery, whose: Whose, since: Instant, most: int) -> list[Instant]:
    """Return when the newest waiting jobs were queued: all lanes from their ends, however many jobs wait before."""
    tails = rows(f"{whose}_tails", since=since, most=2 * MOST_QUEUES)
    newest = merge(*(_lane(rows, whose, tail) for tail in tails), reverse=True)
    return list(islice(takewhile(lambda queued_at: queued_at >= since, newest), most))


def _lane(rows: RunQuery, whose: Whose, tail: Row) -> Iterator[Instant]:
    """Yield when the jobs of a lane and class were queued, the last one first."""
    org, analysis, expedite, behind = tail
    most = 1
    while found := rows(f"{whose}_waiting", org=org, analysis=analysis, expedite=expedite, behind=behind, most=most):
        for _, queued_at in found:
            yield queued_at
        behind = found[-1][0]
        most = min(_AT_ONCE, most * 2)


def backlog(connection: apsw.Connection, queries: Mapping[str, str], now: Instant, *, orgs: bool) -> Backlog:
    """Return the backlog, read on one snapshot."""

    def rows(query: str) -> list[Any]:
        return connection.execute(queries[query], {"now": now, "most": MOST_RETRYING}).fetchall()

    running = rows("backlog_running")
    [(oldest_waiting_at,)] = rows("backlog_oldest")
    [(retrying,)] = rows("backlog_retrying")
    return Backlog(
        seen_at=now,
        waiting=dict(rows("backlog_waiting")),
        scheduled=dict(rows("backlog_scheduled")),
        running={analysis: live for analysis, live, _, _ in running},
        retrying=retrying,
        oldest_waiting_at=oldest_waiting_at,
        oldest_attempt_at=min((began for *_, began in running if began is not None), default=None),
        overdue=sum(ended for _, _, ended, _ in running),
        org_waiting=dict(rows("backlog_orgs_waiting")) if orgs else {},
        org_running=dict(rows("backlog_orgs_running")) if orgs else {},
    )


def paces(connection: apsw.Connection, queries: Mapping[str, str]) -> dict[str, float]:
    """Return the mean of recent runs, by analysis."""
    found: list[Any] = connection.execute(queries["read_paces"]).fetchall()
    return dict(found)


def load(connection: apsw.Connection, queries: Mapping[str, str], now: Instant) -> QueueLoad:
    """Return the load; it reads one row per waiting lane and per running job, however many jobs wait in a lane."""

    def rows(query: str) -> list[Any]:
        return connection.execute(queries[query], {"now": now}).fetchall()

    [(virtual_now,)] = rows("virtual_now")
    lanes = [Lane(*row) for row in rows("all_waiting_lanes")]
    runs = [RunProgress(*row) for row in rows("all_runs")]
    return QueueLoad(now, lanes, runs, paces(connection, queries), virtual_now)


def usage(path: str, queues: Iterable[GroupCommit[Any, Any]]) -> StoreUsage:
    """Return queue lengths and file sizes; a store in memory has no files."""
    waiting = {queue.queue: queue.waiting for queue in queues}
    if path == MEMORY:
        return StoreUsage(kind="memory", queues=waiting)
    return StoreUsage(kind="sqlite", queues=waiting, file_bytes=_size(path), log_bytes=_size(f"{path}-wal"))


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:  # the log is not there yet, or the disk is gone
        return 0
