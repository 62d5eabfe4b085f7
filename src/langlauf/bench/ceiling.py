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
from msgspec.structs import astuple

from langlauf.bench.figures import ANALYSIS, ORG
from langlauf.bench.work import LEASE_SECONDS, RESULT, new_job
from langlauf.clock import SystemClock, new_id
from langlauf.domain.bounds import Bounds
from langlauf.domain.event import ActorType, Event, EventType
from langlauf.domain.instant import after, to_text
from langlauf.domain.job import INLINE, NewJob
from langlauf.domain.notification import TEMPLATES, Notification, dedupe_key
from langlauf.domain.result import SCHEMA_VERSION, ResultKind, Snapshot
from langlauf.domain.state import Status
from langlauf.store.queries import load
from langlauf.store.rows import json_text
from langlauf.store.sqlite.connection import migrate, open_connection

#: A statement by name and the values it runs with, once per entry.
Step = tuple[str, Sequence[Any]]
_LANE = {"org_id": ORG, "analysis": ANALYSIS}
_BOUNDS = {"last_news": Bounds().last_news, "most_bytes": Bounds().partial_bytes}


def measure_ceiling(path: Path, jobs: int, group: int) -> float:
    """Jobs per second on a fresh file, in groups of that size."""
    statements = {name: _bare(sql) for name, sql in load("langlauf.store.sqlite", "writes.sql").items()}
    transactions = [stage for start in range(0, jobs, group) for stage in _stages(min(group, jobs - start))]
    connection = open_connection(str(path))
    try:
        migrate(connection)
        began = time.perf_counter()
        for steps in transactions:
            _write(connection, statements, steps)
        return jobs / (time.perf_counter() - began)
    finally:
        connection.close()


def _bare(sql: str) -> str:
    """The statement without what only the store needs: its fence and what it reads back."""
    return sql.replace("AND {fence}", "").partition("RETURNING")[0]


def _write(connection: apsw.Connection, statements: dict[str, str], steps: list[Step]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for name, values in steps:
        connection.executemany(statements[name], values)
    connection.execute("COMMIT")


def _stages(count: int) -> list[list[Step]]:
    """The four transactions of so many jobs: submitted, claimed, shown in part, completed."""
    clock = SystemClock()
    group = [new_job(clock) for _ in range(count)]
    now = clock.now()
    keys = [{"org_id": ORG, "job_id": new.job.job_id, "now": now} for new in group]
    return [_submit(group), _claim(group, keys, now), _partial(group, keys, now), _complete(group, keys, now)]


def _submit(group: list[NewJob]) -> list[Step]:
    return [
        ("insert_job", [astuple(new.job) for new in group]),
        ("insert_input", [(ORG, new.job.job_id, new.payload) for new in group]),
        ("insert_event", [_event(new, 1, EventType.QUEUED, "user", {"analysis": ANALYSIS}) for new in group]),
        ("lane_join", [{**_LANE, "change": len(group)}]),
    ]


def _claim(group: list[NewJob], keys: list[dict[str, Any]], now: int) -> list[Step]:
    expires_at, deadline = after(now, LEASE_SECONDS), after(now, 1_800)
    return [
        ("clock_advance", [{"virtual_now": 0}]),
        ("org_advance", [{**_LANE, "virtual_start": len(group)}]),
        ("claim_job", keys),
        ("insert_lease", [(ORG, new.job.job_id, 1, "bench-worker", expires_at, deadline) for new in group]),
        ("insert_event", [_event(new, 2, EventType.RUNNING, "worker", {"attempt": 1}) for new in group]),
        ("lane_leave", [{**_LANE, "change": -len(group)}]),
    ]


def _partial(group: list[NewJob], keys: list[dict[str, Any]], now: int) -> list[Step]:
    ids = [new_id() for _ in group]
    facts = [{"result_id": result_id, "result_seq": 1, "progress_percent": 50} for result_id in ids]
    said = {"percent": 50, "step": None, "replayed": False, "size": len(RESULT), **_BOUNDS}
    changes = [{**key, **said, "result_id": ids[index]} for index, key in enumerate(keys)]
    return [
        ("record_partial", changes),
        ("insert_result", [_snapshot(new, ids[index], "partial", 1, now) for index, new in enumerate(group)]),
        (
            "insert_event",
            [_event(new, 3, EventType.PARTIAL, "worker", facts[index]) for index, new in enumerate(group)],
        ),
    ]


def _complete(group: list[NewJob], keys: list[dict[str, Any]], now: int) -> list[Step]:
    ids = [new_id() for _ in group]
    facts = [{"result_id": result_id, "result_seq": 2, "progress_percent": 100} for result_id in ids]
    ends = [{**key, "attempt": 1, "result_id": ids[index]} for index, key in enumerate(keys)]
    return [
        ("take_lease", [{"org_id": ORG, "job_id": new.job.job_id, "attempt": 1} for new in group]),
        ("end_completed", ends),
        ("insert_result", [_snapshot(new, ids[index], "final", 2, now) for index, new in enumerate(group)]),
        (
            "insert_event",
            [_event(new, 4, EventType.COMPLETED, "worker", facts[index]) for index, new in enumerate(group)],
        ),
        ("insert_notification", [_notification(new, ids[index], now) for index, new in enumerate(group)]),
        ("pace_update", [{"analysis": ANALYSIS, "runs": len(group), "mean": 0.01, "weight": 0.2}]),
    ]


def _event(new: NewJob, seq: int, kind: EventType, actor: ActorType, facts: dict[str, Any]) -> tuple[Any, ...]:
    job = new.job
    text = json_text(facts)
    return astuple(
        Event(ORG, job.job_id, seq, new_id(), kind, job.queued_at, actor, text, job.trace_id, job.request_id)
    )


def _snapshot(new: NewJob, result_id: str, kind: ResultKind, seq: int, now: int) -> tuple[Any, ...]:
    kept = Snapshot(ORG, result_id, new.job.job_id, kind, seq, SCHEMA_VERSION, INLINE, now, None)
    return (*astuple(kept), RESULT, None)


def _notification(new: NewJob, result_id: str, now: int) -> tuple[Any, ...]:
    template = TEMPLATES[Status.COMPLETED]
    facts = {
        "job_id": new.job.job_id,
        "status": Status.COMPLETED,
        "result_id": result_id,
        "progress_percent": 100,
        "error_code": None,
        "retry_hint": None,
        "finished_at": to_text(now),
    }
    key = dedupe_key(new.job.job_id, "in_app", template)
    return astuple(
        Notification(
            ORG, new_id(), new.job.job_id, "in_app", template, "pending", 0, None, key, now, None, now, json_text(facts)
        )
    )
