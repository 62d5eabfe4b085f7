"""Writes of attempts as columns."""

from collections.abc import Sequence
from typing import Any

from langlauf.domain.attempt import Checkpoint, Lease, Partial, Progress
from langlauf.domain.bounds import Recorded, recorded
from langlauf.domain.instant import after
from langlauf.domain.job import INLINE, JobRecord
from langlauf.domain.outcome import (
    MOST_CRASHES,
    MOST_LOST_LEASES,
    Canceled,
    Completed,
    Crashed,
    Failed,
    Retry,
)
from langlauf.domain.progress import stored_percent
from langlauf.domain.state import Status
from langlauf.store.group_commit import Recording
from langlauf.store.postgres.batching import packed
from langlauf.store.postgres.submitting import FindJobs
from langlauf.store.postgres.texts import key_of, odd_name
from langlauf.store.rows import json_text

#: Ends of jobs: a job shows them for ever.
_ENDS = (Completed, Failed, Canceled)

#: What a write may say beside its lease, in the order of the database's arguments.
_DETAILS = (
    "percent",
    "step",
    "replayed",
    "last_news",
    "size",
    "most_bytes",
    "key",
    "result",
    "result_name",
    "payload",
    "ref",
    "summary",
    "views",
    "code",
    "message",
    "meta",
    "retryable",
    "hint",
    "delay",
    "timed_out",
    "threshold",
    "own",
    "deaths",
    "actor",
    "by",
)
_PLACES = {name: place for place, name in enumerate(_DETAILS)}
_EMPTY = (None,) * len(_DETAILS)


def keys_in(recording: Recording) -> list[tuple[str, str]]:
    """No two writes of one statement may be for the same job."""
    return [(recording.lease.org_id, recording.lease.job_id)]


def order_of_locks(lease: Lease) -> tuple[str, str]:
    """Whoever locks rows of several jobs does it in this order, so that nobody waits in a circle."""
    return key_of(lease.job_id), lease.org_id


def size_of(recording: Recording) -> int:
    """About how many bytes it carries."""
    write = recording.write
    views = write.views if isinstance(write, Partial | Completed) else None
    return len(getattr(write, "payload", None) or "") + len(views or "") + 200


def values_of(batch: Sequence[Recording]) -> list[Any]:
    """The writes, column by column, and the limits that a decision may need."""
    leases = [one.lease for one in batch]
    described = [_described(one) for one in batch]
    details = zip(*(values for _, values in described), strict=True)
    return [
        [lease.org_id for lease in leases],
        [key_of(lease.job_id) for lease in leases],
        packed([odd_name(lease.job_id) for lease in leases]),
        [lease.attempt for lease in leases],
        [kind for kind, _ in described],
        *map(packed, details),
        MOST_LOST_LEASES,
        MOST_CRASHES,
    ]


def answer_of(said: str) -> Recorded:
    """What the database says of a write: that it was refused, that it was made, or which bound its job has reached."""
    return Recorded.REFUSED if said == "false" else recorded(None if said == "true" else said)


async def written(batch: Sequence[Recording], answers: Sequence[Recorded], find: FindJobs) -> list[Recorded]:
    """The answers, with ends that stand although they were refused: their first answer was lost, and they came again.

    A batch whose answer did not come in time is given up, and its writes are sent anew. Where it was committed after
    all, the lease is gone; what the job then shows is what the attempt wanted to write.
    """
    refused = [one for one, said in zip(batch, answers, strict=True) if not said and isinstance(one.write, _ENDS)]
    if not refused:
        return list(answers)
    known = await find([(one.lease.org_id, one.lease.job_id) for one in refused])
    return [
        said or Recorded(_stands(one, known.get((one.lease.org_id, one.lease.job_id))))
        for one, said in zip(batch, answers, strict=True)
    ]


def _stands(recording: Recording, job: JobRecord | None) -> bool:
    """Whether a job ended as this write says, in this attempt."""
    if job is None or job.attempt != recording.lease.attempt:
        return False
    match recording.write:
        case Completed(result_id=result_id):
            return job.status is Status.COMPLETED and job.result_id == result_id
        case Failed(code=code, message=message):
            return job.status is Status.FAILED and (job.error_code, job.error_message) == (code, message)
        case Canceled(by=by, reason=reason):
            return job.status is Status.CANCELED and (job.canceled_by, job.cancel_reason) == (by, reason)
    return False


def _row(**said: Any) -> tuple[Any, ...]:
    row = list(_EMPTY)
    for name, value in said.items():
        row[_PLACES[name]] = value
    return tuple(row)


def _described(recording: Recording) -> tuple[str, tuple[Any, ...]]:
    """The kind of a write and its values."""
    write = recording.write
    if isinstance(write, Completed):
        return "completed", _row(**_shown(write))
    if isinstance(write, Progress | Partial | Checkpoint):
        return _under_way(write)
    if isinstance(write, Failed | Retry):
        return _failure(write)
    if isinstance(write, Canceled):
        return "canceled", _row(by=write.by, message=write.reason)
    if isinstance(write, Crashed):
        return "crashed", _row(message=write.how, own=write.own, deaths=write.deaths)
    return "released", _EMPTY


def _under_way(write: Progress | Partial | Checkpoint) -> tuple[str, tuple[Any, ...]]:
    if isinstance(write, Checkpoint):
        return "checkpoint", _row(key=write.key, payload=write.payload)
    shared = {
        "percent": stored_percent(write.percent),
        "step": write.step,
        "replayed": write.replayed or None,
        "last_news": write.bounds.last_news,
    }
    if isinstance(write, Progress):
        return "progress", _row(**shared)
    bounds = {"size": write.stored_bytes, "most_bytes": write.bounds.partial_bytes}
    return "partial", _row(**shared, **bounds, **_shown(write))


def _shown(write: Partial | Completed) -> dict[str, Any]:
    return {
        "result": key_of(write.result_id),
        "result_name": odd_name(write.result_id),
        "payload": write.payload,
        "ref": None if write.payload_ref == INLINE else write.payload_ref,
        "summary": write.summary,
        "views": write.views,
    }


def _failure(write: Failed | Retry) -> tuple[str, tuple[Any, ...]]:
    threshold = write.meta.get("threshold_seconds")
    common = {
        "code": write.code,
        "message": write.message,
        "timed_out": write.timed_out or None,
        "threshold": None if threshold is None else json_text(threshold),
    }
    if isinstance(write, Retry):
        return "retry", _row(**common, delay=after(0, write.delay_seconds), actor="system")
    # A time limit is enforced by whoever notices; a vanished worker cannot have said so itself.
    actor = "system" if write.code == "worker_lost" or write.timed_out else None
    return "failed", _row(
        **common,
        meta=json_text(write.meta) if write.meta else None,
        retryable=write.retryable,
        hint=write.hint,
        actor=actor,
    )
