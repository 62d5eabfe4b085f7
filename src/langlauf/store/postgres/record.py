"""Claims and writes of attempts as the database takes them, and the outcomes that it returns."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from langlauf.clock import made_at
from langlauf.domain.attempt import (
    Checkpoint,
    Claim,
    ClaimRequest,
    Lease,
    LeaseRenewal,
    Partial,
    Progress,
    Write,
    WriteResult,
    stored_percent,
    write_result,
)
from langlauf.domain.errors import SENTENCE
from langlauf.domain.instant import after
from langlauf.domain.job import INLINE_REF, JobRecord
from langlauf.domain.outcome import (
    MOST_CRASHES,
    MOST_LOST_LEASES,
    Canceled,
    Completed,
    Crashed,
    Failed,
    Retry,
)
from langlauf.domain.state import Status
from langlauf.store.group_commit import Recording
from langlauf.store.postgres.batch import key_of, name_unless_uuid
from langlauf.store.postgres.submit import FindJobs
from langlauf.store.sql import json_text

#: Writes that end a job, whose outcome stays visible in the job.
_ENDS = (Completed, Failed, Canceled)


def keys_of(recording: Recording) -> list[tuple[str, str]]:
    """Return the job as key: no two writes of one statement may be for the same job."""
    return [(recording.lease.org_id, recording.lease.job_id)]


def lock_order(lease: Lease) -> tuple[str, str]:
    """Return the sort key of row locks: all statements lock jobs in this order, which prevents deadlocks."""
    return key_of(lease.job_id), lease.org_id


def size_of(recording: Recording) -> int:
    """Return the approximate size in bytes."""
    write = recording.write
    views = write.views if isinstance(write, Partial | Completed) else None
    return len(getattr(write, "payload", None) or "") + len(views or "") + 200


def parameters_of(batch: Sequence[Recording]) -> list[Any]:
    """Return the writes as records of `attempt_write`, their kinds, and the limits of crashes and losses."""
    records = [_record_of(place, one) for place, one in enumerate(batch, start=1)]
    return [records, sorted({one["kind"] for one in records}), MOST_LOST_LEASES, MOST_CRASHES]


def parse_outcome(text: str) -> WriteResult:
    """Return whether a write was refused or made, or which limit its job has reached."""
    return WriteResult.REFUSED if text == "false" else write_result(None if text == "true" else text)


async def accept_committed(
    batch: Sequence[Recording], outcomes: Sequence[WriteResult], find: FindJobs
) -> list[WriteResult]:
    """Return the outcomes, with refused ends accepted that an earlier try had committed.

    A batch that timed out is sent again. If the first try was committed, its leases are gone and its ends are refused,
    but the jobs already have the outcome that the attempt writes.
    """
    refused = [
        one for one, outcome in zip(batch, outcomes, strict=True) if not outcome and isinstance(one.write, _ENDS)
    ]
    if not refused:
        return list(outcomes)
    known = await find([(one.lease.org_id, one.lease.job_id) for one in refused])
    return [
        outcome or WriteResult(_is_committed(one, known.get((one.lease.org_id, one.lease.job_id))))
        for one, outcome in zip(batch, outcomes, strict=True)
    ]


def _is_committed(recording: Recording, job: JobRecord | None) -> bool:
    """Whether the job ended in this attempt as this write says."""
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


def _record_of(place: int, recording: Recording) -> dict[str, Any]:
    lease, write = recording.lease, recording.write
    fields = _fields_of(write)
    fields |= {"place": place, "org_id": lease.org_id, "job": key_of(lease.job_id), "attempt": lease.attempt}
    if (name := name_unless_uuid(lease.job_id)) is not None:
        fields["job_name"] = name
    return fields


def _fields_of(write: Write) -> dict[str, Any]:
    """Return the kind of a write and the fields that it sets."""
    if isinstance(write, Completed):
        return {"kind": "completed", **_result_fields(write)}
    if isinstance(write, Progress | Partial | Checkpoint):
        return _progress_fields(write)
    if isinstance(write, Failed | Retry):
        return _failure_fields(write)
    if isinstance(write, Canceled):
        return {"kind": "canceled", "canceled_by": write.by, "reason": write.reason}
    if isinstance(write, Crashed):
        return {"kind": "crashed", "crash": write.how, "own": write.own, "crashed": write.deaths}
    return {"kind": "released"}


def _progress_fields(write: Progress | Partial | Checkpoint) -> dict[str, Any]:
    if isinstance(write, Checkpoint):
        return {"kind": "checkpoint", "chunk_key": write.key, "payload": write.payload, "total": write.total}
    shared = {
        "percent": stored_percent(write.percent),
        "step": write.step,
        "replayed": write.replayed,
        "news_end": write.bounds.last_progress_event,
    }
    if isinstance(write, Progress):
        return {"kind": "progress", **shared}
    bounds = {"size": write.stored_bytes, "most_bytes": write.bounds.partial_bytes}
    return {"kind": "partial", **shared, **bounds, **_result_fields(write)}


def _result_fields(write: Partial | Completed) -> dict[str, Any]:
    return {
        "result": key_of(write.result_id),
        "result_name": name_unless_uuid(write.result_id),
        "payload": write.payload,
        "payload_ref": None if write.payload_ref == INLINE_REF else write.payload_ref,
        "summary": write.summary,
        "views": write.views,
    }


def _failure_fields(write: Failed | Retry) -> dict[str, Any]:
    threshold = write.meta.get("threshold_seconds")
    common = {
        "code": write.code,
        "message": write.message,
        "timed_out": write.timed_out,
        "threshold": None if threshold is None else json_text(threshold),
    }
    if isinstance(write, Retry):
        meta = json_text({SENTENCE: write.meta[SENTENCE]}) if SENTENCE in write.meta else None
        delay = after(0, write.delay_seconds)
        return {"kind": "retry", **common, "meta": meta, "delay": delay, "actor": "system"}
    lost = write.code == "worker_lost"
    return {
        "kind": "failed",
        **common,
        "meta": json_text(write.meta) if write.meta else None,
        "retryable": write.retryable,
        "hint": write.hint,
        "lost": int(lost),
        # A timeout is enforced by the system; a lost worker cannot have reported itself.
        "actor": "system" if lost or write.timed_out else None,
    }


# -- claims and leases -------------------------------------------------------------------------------------------------


def renewal_of(lease: Lease, answer: str | None) -> LeaseRenewal:
    """Return what the answer of the function `renew` says about a lease."""
    reason = answer[5:] if answer and answer.startswith("stop ") else None
    return LeaseRenewal(lease, held=answer is not None, cancel_reason=reason)


def request_of(request: ClaimRequest) -> dict[str, Any]:
    """Return a request of a worker as a record of `claim_request`."""
    return {
        "claim": uuid4(),
        "worker": request.worker_id,
        "slots": request.slots,
        "known": list(request.analyses),
        "lease_time": after(0, request.lease_seconds),
        "most": request.max_running,
        "limited": list(request.limits),
        "limits": list(request.limits.values()),
        "org_limit": request.max_running_org,
        "coded": list(request.codes),
        "codes": list(request.codes.values()),
    }


def claim_of(row: tuple[Any, ...]) -> Claim:
    """Return a claim from a row of the function `claim`."""
    (org_id, job_id, attempt, analysis, payload, started_at, expires_at, timeout_seconds, *rest) = row
    progress_percent, retry_count, max_retries, trace_id, request_id, traceparent, tracestate, planned_at = rest
    return Claim(
        lease=Lease(org_id, job_id, attempt),
        analysis=analysis,
        payload=payload,
        started_at=started_at,
        expires_at=expires_at,
        timeout_seconds=timeout_seconds,
        progress_percent=progress_percent,
        retry_count=retry_count,
        max_retries=max_retries,
        trace_id=trace_id,
        request_id=request_id,
        traceparent=traceparent,
        tracestate=tracestate,
        queued_at=made_at(job_id),
        planned_at=planned_at,
    )
