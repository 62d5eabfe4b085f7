"""What metrics and estimates look at: all that waits and runs, what runs took lately, and how large the files are."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import apsw

from langlauf.domain.eta import Lane, QueueLoad, RunProgress
from langlauf.domain.instant import Instant
from langlauf.domain.overview import MOST_RETRYING, Backlog, StoreUsage
from langlauf.store.group_commit import GroupCommit
from langlauf.store.sqlite.connection import MEMORY


def backlog(connection: apsw.Connection, queries: Mapping[str, str], now: Instant, *, orgs: bool) -> Backlog:
    """Looks at it, on one snapshot."""

    def rows(query: str) -> list[Any]:
        return connection.execute(queries[query], {"now": now, "most": MOST_RETRYING}).fetchall()

    running = rows("backlog_running")
    [(oldest_waiting_at,)] = rows("backlog_oldest")
    [(retrying,)] = rows("backlog_retrying")
    return Backlog(
        seen_at=now,
        waiting=dict(rows("backlog_waiting")),
        running={analysis: live for analysis, live, _, _ in running},
        retrying=retrying,
        oldest_waiting_at=oldest_waiting_at,
        oldest_attempt_at=min((began for *_, began in running if began is not None), default=None),
        overdue=sum(ended for _, _, ended, _ in running),
        org_waiting=dict(rows("backlog_orgs_waiting")) if orgs else {},
        org_running=dict(rows("backlog_orgs_running")) if orgs else {},
    )


def paces(connection: apsw.Connection, queries: Mapping[str, str]) -> dict[str, float]:
    """The mean of recent runs, by analysis."""
    found: list[Any] = connection.execute(queries["read_paces"]).fetchall()
    return dict(found)


def load(connection: apsw.Connection, queries: Mapping[str, str], now: Instant) -> QueueLoad:
    """As many rows as lanes that wait and jobs that run, whatever waits in a lane."""

    def rows(query: str) -> list[Any]:
        return connection.execute(queries[query], {"now": now}).fetchall()

    [(virtual_now,)] = rows("virtual_now")
    lanes = [Lane(*row) for row in rows("all_waiting_lanes")]
    runs = [RunProgress(*row) for row in rows("all_runs")]
    return QueueLoad(now, lanes, runs, paces(connection, queries), virtual_now)


def usage(path: str, queues: Iterable[GroupCommit[Any, Any]]) -> StoreUsage:
    """What the queues hold and what the files take; a store in memory has none."""
    waiting = {queue.queue: queue.waiting for queue in queues}
    if path == MEMORY:
        return StoreUsage(kind="memory", queues=waiting)
    return StoreUsage(kind="sqlite", queues=waiting, file_bytes=_size(path), log_bytes=_size(f"{path}-wal"))


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:  # the log is not there yet, or the disk is gone
        return 0
