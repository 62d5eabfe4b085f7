"""The raw ceiling: the rows of a job's life, written by a bare loop over SQLite.

The file, its schema, its settings and the statements are the store's own. What the store adds is left out: nothing is
looked up, decided or read back, no fence is checked, and every row is made before the clock starts. One transaction per
stage and group, so that a job costs as many syncs as it does in the store.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw

from langlauf.bench.rounds import ANALYSIS, LEASE_SECONDS, ORG, RESULT, new_job
from langlauf.clock import SystemClock, new_id
from langlauf.domain.attempt import JobBounds
from langlauf.domain.event import OUTBOUND, ActorType, EventType
from langlauf.domain.instant import after
from langlauf.domain.job import NewJob
from langlauf.domain.result import SCHEMA_VERSION, ResultKind
from langlauf.store.sql import json_text, load_queries
from langlauf.store.sqlite.connection import migrate, open_connection

#: A statement by name and the values it runs with, once per entry.
Step = tuple[str, Sequence[Any]]
#: The numbers of the org and of the analysis.
_LANE = {"org": 1, "analysis": 1}


def measure_ceiling(path: Path, jobs: int, group: int) -> float:
    """Jobs per second on a fresh file, in groups of that size."""
    statements = {name: _bare(sql) for name, sql in load_queries("langlauf.store.sqlite", "writes.sql").items()}
    transactions = [stage for start in range(0, jobs, group) for stage in _stages(start, min(group, jobs - start))]
    connection = open_connection(str(path))
    try:
        migrate(connection)
        connection.execute(statements["make_org"], (ORG,))
        connection.execute(statements["make_analysis"], (ANALYSIS,))
        began = time.perf_counter()
        for steps in transactions:
            _write(connection, statements, steps)
        return jobs / (time.perf_counter() - began)
    finally:
        connection.close()


def _bare(sql: str) -> str:
    """Return the statement without what only the store needs: its fence and what it reads back."""
    return sql.replace("AND {fence}", "").partition("RETURNING")[0]


def _write(connection: apsw.Connection, statements: dict[str, str], steps: list[Step]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for name, values in steps:
        connection.executemany(statements[name], values)
    connection.execute("COMMIT")


class _Jobs:
    """Some jobs of a file, with the keys that they have in it."""

    def __init__(self, first: int, count: int) -> None:
        clock = SystemClock()
        self.new = [new_job(clock) for _ in range(count)]
        self.keys = range(first + 1, first + 1 + count)
        self.now = clock.now()

    def event(self, place: int, seq: int, kind: EventType, actor: ActorType, facts: dict[str, Any]) -> tuple[Any, ...]:
        key = self.keys[place]
        feed_at = key * 10 + seq if kind in OUTBOUND else None
        return (key, seq, 1, kind.value, self.now, feed_at, actor, json_text(facts), None, None, None)

    def snapshot(self, place: int, result_id: str, kind: ResultKind, seq: int) -> tuple[Any, ...]:
        return (self.keys[place], seq, 1, result_id, kind, SCHEMA_VERSION, None, self.now, None, RESULT, None)

    def places(self) -> range:
        return range(len(self.new))


def _stages(first: int, count: int) -> list[list[Step]]:
    """Return the four transactions of so many jobs: submitted, claimed, shown in part, completed."""
    jobs = _Jobs(first, count)
    return [_submit(jobs), _claim(jobs), _partial(jobs), _complete(jobs)]


def _submit(jobs: _Jobs) -> list[Step]:
    return [
        ("insert_job", [_row(key, new, jobs.now) for key, new in zip(jobs.keys, jobs.new, strict=True)]),
        ("insert_event", [jobs.event(at, 1, EventType.QUEUED, "user", {"analysis": ANALYSIS}) for at in jobs.places()]),
        ("lane_join", [{**_LANE, "change": len(jobs.new)}]),
        ("count_jobs", [(len(jobs.new), 0, 0, 1)]),
    ]


def _row(key: int, new: NewJob, now: int) -> tuple[Any, ...]:
    job = new.job
    known = (key, 1, 1, job.job_id, 0, key, now, bytes.fromhex(job.request_payload_hash), None, job.timeout_seconds)
    rest = (job.max_retries, job.trace_id, job.request_id, None, None, job.estimated_seconds, None, None, None)
    later = (None,) * 8  # label, client, times, schedule, origin and reuse: most jobs have none
    return (*known, *rest, new.payload, *later)


def _claim(jobs: _Jobs) -> list[Step]:
    expires_at, deadline = after(jobs.now, LEASE_SECONDS), after(jobs.now, 1_800)
    return [
        ("clock_advance", [{"virtual_now": 0, "turns": 1}]),
        ("org_advance", [{"org": 1, "virtual_start": len(jobs.new), "behind": 0}]),
        ("claim_jobs", [(key, jobs.now, "bench-worker", expires_at, deadline, None) for key in jobs.keys]),
        ("insert_event", [jobs.event(at, 2, EventType.RUNNING, "worker", {"attempt": 1}) for at in jobs.places()]),
        ("lane_leave", [{**_LANE, "change": -len(jobs.new)}]),
        ("count_jobs", [(-len(jobs.new), len(jobs.new), 0, 1)]),
    ]


def _partial(jobs: _Jobs) -> list[Step]:
    ids = [new_id() for _ in jobs.new]
    facts = [{"result_id": result_id, "result_seq": 1, "progress_percent": 50} for result_id in ids]
    size, most, last = len(RESULT), JobBounds().partial_bytes, JobBounds().last_progress_event
    changes = [
        (key, jobs.new[at].job.job_id, 1, 1, jobs.now, 50, None, False, ids[at], size, most, last)
        for at, key in enumerate(jobs.keys)
    ]
    return [
        ("record_partial", changes),
        ("insert_result", [jobs.snapshot(at, ids[at], "partial", 1) for at in jobs.places()]),
        ("insert_event", [jobs.event(at, 3, EventType.PARTIAL, "worker", facts[at]) for at in jobs.places()]),
    ]


def _complete(jobs: _Jobs) -> list[Step]:
    ids = [new_id() for _ in jobs.new]
    facts = [{"result_id": result_id, "result_seq": 2, "progress_percent": 100} for result_id in ids]
    return [
        ("end_completed", [(key, ids[at], jobs.now, 1) for at, key in enumerate(jobs.keys)]),
        ("insert_result", [jobs.snapshot(at, ids[at], "final", 2) for at in jobs.places()]),
        ("insert_event", [jobs.event(at, 4, EventType.COMPLETED, "worker", facts[at]) for at in jobs.places()]),
        ("count_jobs", [(0, -len(jobs.new), 0, 1)]),
        ("pace_update", [{"analysis": 1, "runs": len(jobs.new), "mean": 0.01, "weight": 0.2}]),
    ]
