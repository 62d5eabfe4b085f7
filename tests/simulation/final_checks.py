"""Compares what lies in the store with what the oracle knows, after each step and at the end of a schedule."""

from collections import defaultdict
from typing import Any

import msgspec

from tests.simulation.disagreement import Disagreement, agree
from tests.simulation.environment import Stage
from tests.simulation.model import ModelJob, views_named
from tests.simulation.oracle import JOB_FIELDS, LEASE_FIELDS, Oracle


def _held(field: str) -> str:
    """A field of a lease, which is in the job's row."""
    if field == "attempt":
        return "CASE WHEN job.lease_expires_at IS NOT NULL THEN job.attempt END"
    return f"job.{'lease_expires_at' if field == 'expires_at' else field}"


_STATE = f"""
SELECT {", ".join(f"job.{name}" for name in JOB_FIELDS)}, {", ".join(map(_held, LEASE_FIELDS))}
FROM jobs AS job ORDER BY {{arrival}}
"""
_NAMES = (*JOB_FIELDS, *(f"lease.{name}" for name in LEASE_FIELDS))
_TOTALS = """
SELECT (SELECT count(*) FROM job_events), (SELECT count(*) FROM job_results), (SELECT count(*) FROM job_chunks),
    (SELECT count(*) FROM notifications), (SELECT coalesce(sum(waiting + scheduled), 0) FROM lanes),
    (SELECT coalesce(sum(waiting + scheduled), 0) FROM waiting_counts)
"""
_TOTAL_NAMES = ("events", "snapshots", "chunks", "messages", "waiting jobs in the lanes", "waiting jobs in the counts")
_LOGS = "SELECT org_id, job_id, event_seq, event_type, payload_json FROM job_events ORDER BY org_id, job_id, event_seq"
_FINALS = frozenset({"job.completed", "job.failed", "job.canceled"})


def judge_state(world: Stage, oracle: Oracle) -> None:
    """Every job's row and lease, and how much there is of everything else."""
    (there, [totals]), wanted = world.seen(_STATE.format(arrival=world.arrival), _TOTALS), oracle.rows()
    if there != wanted:
        raise Disagreement(_difference(there, wanted))
    right = oracle.totals()
    if totals != right:
        agree(
            "how much there is",
            dict(zip(_TOTAL_NAMES, totals, strict=True)),
            dict(zip(_TOTAL_NAMES, right, strict=True)),
        )


def _difference(there: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]]) -> str:
    if [row[:2] for row in there] != [row[:2] for row in wanted]:
        return f"jobs in the store: {[row[1] for row in there]}, by the contract: {[row[1] for row in wanted]}"
    words = [
        f"{name} of {row[1]} is {got!r} and must be {right!r}"
        for row, other in zip(there, wanted, strict=True)
        for name, got, right in zip(_NAMES, row, other, strict=True)
        if got != right
    ]
    return "; ".join(words)


def judge_end(world: Stage, oracle: Oracle) -> None:
    """Every job has exactly one end, its log has no gap and tells of it, and nothing of it is left running."""
    logs: dict[tuple[Any, Any], list[tuple[Any, ...]]] = defaultdict(list)
    for org_id, job_id, *event in world.rows(_LOGS):
        logs[org_id, job_id].append(tuple(event))
    snapshots = world.rows(
        "SELECT org_id, job_id, result_seq, result_id, result_kind, views FROM job_results ORDER BY 1, 2, 3"
    )
    chunks = world.rows("SELECT org_id, job_id, chunk_key, payload FROM job_chunks ORDER BY 1, 2, 3")
    agree("leases left", world.rows("SELECT * FROM leases"), [])
    agree("snapshots", snapshots, [row for key in sorted(oracle.jobs) for row in _snapshots(oracle.jobs[key])])
    agree("chunks", chunks, [row for key in sorted(oracle.jobs) for row in _chunks(oracle.jobs[key])])
    for key, job in oracle.jobs.items():
        _judge_log(job, logs[key])


def _snapshots(job: ModelJob) -> list[tuple[Any, ...]]:
    kinds = list(job.snapshots.values())
    agree(f"final snapshots of {job.job_id}", kinds.count("final"), int(job.status == "completed"))
    found = enumerate(job.snapshots.items(), start=1)
    return [(job.org_id, job.job_id, seq, name, kind, views_named(name)) for seq, (name, kind) in found]


def _chunks(job: ModelJob) -> list[tuple[Any, ...]]:
    return [(job.org_id, job.job_id, key, value) for key, value in sorted(job.chunks.items())]


def _judge_log(job: ModelJob, events: list[tuple[Any, ...]]) -> None:
    numbers, kinds, payloads = zip(*events, strict=True)
    agree(f"numbers of the events of {job.job_id}", numbers, tuple(range(1, len(events) + 1)))
    agree(f"log of {job.job_id}", list(kinds), job.log)
    agree(f"finals of {job.job_id}", [kind for kind in kinds if kind in _FINALS], [f"job.{job.status}"])
    agree(f"last event of {job.job_id}", kinds[-1], f"job.{job.status}")
    told = [facts["progress_percent"] for facts in map(_decode, payloads) if "progress_percent" in facts]
    agree(f"progress told of {job.job_id}", told, sorted(told))


_decode = msgspec.json.Decoder(dict[str, Any]).decode
