"""How attempts and jobs end. Whoever takes the lease away, and nobody else, writes the end."""

from collections.abc import Mapping
from typing import Any

from langlauf.domain.attempt import Lease
from langlauf.domain.eta import whole_run
from langlauf.domain.event import ActorType, EventType
from langlauf.domain.instant import after, to_text
from langlauf.domain.outcome import Canceled, Completed, Crashed, Failed, Lost, Outcome, Released, Retry, after_crash
from langlauf.domain.state import Status
from langlauf.domain.views import CancelRequest, JobView
from langlauf.store.rows import json_text
from langlauf.store.sqlite.transaction import Transaction


def give_up_lease(tx: Transaction, lease: Lease) -> bool:
    """An attempt ends itself: True where it still held its lease."""
    return tx.run("give_up_lease", **tx.fenced(lease)) == 1


def take_lease(tx: Transaction, lease: Lease) -> bool:
    """The sweep ends an attempt in its worker's place."""
    return tx.run("take_lease", org_id=lease.org_id, job_id=lease.job_id, attempt=lease.attempt) == 1


def write_end(tx: Transaction, lease: Lease, outcome: Outcome | Crashed) -> bool:
    """Writes an outcome for an attempt whose lease was just taken."""
    if isinstance(outcome, Crashed):
        [(crashes, losses, wished, reason)] = tx.rows("crashes_so_far", org_id=lease.org_id, job_id=lease.job_id)
        outcome = after_crash(
            outcome,
            cancel_requested=bool(wished),
            cancel_reason=reason,
            crashed_before=crashes,
            lost_before=losses,
        )
    if isinstance(outcome, Completed):
        return _completed(tx, lease, outcome)
    if isinstance(outcome, Failed):
        return _failed(tx, lease, outcome)
    if isinstance(outcome, Canceled):
        return end_canceled(tx, lease.org_id, lease.job_id, outcome, actor="worker")
    goes_on = _retry(tx, lease, outcome) if isinstance(outcome, Retry) else _given_back(tx, lease, outcome)
    # Refused only because somebody asked the job to stop meanwhile: then it must not go on.
    return goes_on or end_canceled(
        tx, lease.org_id, lease.job_id, Canceled(by="system", reason="canceled between attempts"), actor="system"
    )


def _completed(tx: Transaction, lease: Lease, outcome: Completed) -> bool:
    row = tx.one("end_completed", **tx.fenced(lease), result_id=outcome.result_id)
    if row is None:
        return False
    seq, partials, analysis, paced_percent, paced_at, *ids = row
    result_seq = partials + 1
    tx.snapshot(lease, "final", result_seq, outcome)
    facts = {"result_id": outcome.result_id, "result_seq": result_seq, "progress_percent": 100}
    tx.event(lease.org_id, lease.job_id, seq, EventType.COMPLETED, "worker", (ids[0], ids[1]), facts)
    message = {"result_id": outcome.result_id, "progress_percent": 100, "error_code": None, "retry_hint": None}
    tx.notify(lease.org_id, lease.job_id, Status.COMPLETED, message)
    seconds = whole_run(paced_percent, paced_at, tx.now)
    if seconds is not None:
        tx.ran(analysis, seconds)
    return True


def _failed(tx: Transaction, lease: Lease, outcome: Failed) -> bool:
    row = tx.one(
        "end_failed",
        **tx.fenced(lease),
        code=outcome.code,
        message=outcome.message,
        meta=json_text(outcome.meta) if outcome.meta else None,
        retryable=int(outcome.retryable),
        hint=outcome.hint,
        lost=int(outcome.code == "worker_lost" and not outcome.crashed),
        crashed=int(outcome.crashed),
        events=1 + outcome.timed_out,
    )
    if row is None:
        return False
    seq, result_id, percent, *ids = row
    # A time limit is enforced by whoever notices; a vanished worker cannot have said so itself.
    actor: ActorType = "system" if outcome.code == "worker_lost" or outcome.timed_out else "worker"
    if outcome.timed_out:
        _timeout_event(tx, lease, seq - 1, outcome.meta, (ids[0], ids[1]))
    facts = {
        "error_code": outcome.code,
        "error_message": outcome.message,
        "retryable": outcome.retryable,
        "retry_hint": outcome.hint,
        "attempt": lease.attempt,
    }
    tx.event(lease.org_id, lease.job_id, seq, EventType.FAILED, actor, (ids[0], ids[1]), facts)
    message = {
        "result_id": result_id,
        "progress_percent": percent,
        "error_code": outcome.code,
        "retry_hint": outcome.hint,
    }
    tx.notify(lease.org_id, lease.job_id, Status.FAILED, message)
    return True


def _timeout_event(tx: Transaction, lease: Lease, seq: int, meta: Mapping[str, Any], ids: tuple[str, str]) -> None:
    facts = {"attempt": lease.attempt, "threshold_seconds": meta.get("threshold_seconds")}
    tx.event(lease.org_id, lease.job_id, seq, EventType.TIMEOUT, "system", ids, facts)


def _retry(tx: Transaction, lease: Lease, outcome: Retry) -> bool:
    next_attempt_at = after(tx.now, outcome.delay_seconds)
    row = tx.one(
        "end_retry",
        **tx.fenced(lease),
        reason=f"{outcome.code}: {outcome.message}",
        next_attempt_at=next_attempt_at,
        events=1 + outcome.timed_out,
    )
    if row is None:
        return False
    seq, retry_count, *ids = row
    if outcome.timed_out:
        _timeout_event(tx, lease, seq - 1, outcome.meta, (ids[0], ids[1]))
    facts = {
        "attempt": lease.attempt,
        "retry_count": retry_count,
        "error_code": outcome.code,
        "error_message": outcome.message,
        "next_attempt_at": to_text(next_attempt_at),
    }
    tx.event(lease.org_id, lease.job_id, seq, EventType.RETRY_SCHEDULED, "system", (ids[0], ids[1]), facts)
    return True


def _given_back(tx: Transaction, lease: Lease, outcome: Released | Lost) -> bool:
    lost = isinstance(outcome, Lost)
    crash = outcome.crash if isinstance(outcome, Lost) else None
    crashed = crash is not None
    deaths = outcome.deaths if isinstance(outcome, Lost) and crashed else 0
    row = tx.one("end_given_back", **tx.fenced(lease), lost=int(lost and not crashed), crashed=deaths)
    if row is None:
        return False
    seq, *ids = row
    kind = EventType.LEASE_LOST if lost else EventType.RELEASED
    facts = {"attempt": lease.attempt, "crash": crash} if crashed else {"attempt": lease.attempt}
    tx.event(lease.org_id, lease.job_id, seq, kind, "system" if lost else "worker", (ids[0], ids[1]), facts)
    return True


def end_canceled(tx: Transaction, org_id: str, job_id: str, outcome: Canceled, *, actor: ActorType) -> bool:
    """Ends a job as canceled, wherever it stands before its end."""
    row = tx.one("end_canceled", org_id=org_id, job_id=job_id, now=tx.now, by=outcome.by, reason=outcome.reason)
    if row is None:
        return False
    seq, by, reason, result_id, attempt, trace_id, request_id, analysis = row
    if attempt == 0:
        tx.waiting(org_id, analysis, -1)
    facts = {"canceled_by": by, "cancel_reason": reason, "result_id": result_id}
    tx.event(org_id, job_id, seq, EventType.CANCELED, actor, (trace_id, request_id), facts)
    return True


def cancel(tx: Transaction, request: CancelRequest) -> JobView | None:
    """Stops a job that nobody runs at once; asks the worker of one that runs. Repeating it changes nothing."""
    view = tx.view(request.org_id, request.job_id)
    if view is None or view.job.terminal:
        return view
    if view.lease_expires_at is not None and view.lease_expires_at > tx.now:
        _request_cancel(tx, request)
    else:
        if view.lease_expires_at is not None:
            take_lease(tx, Lease(request.org_id, request.job_id, view.job.attempt))
        outcome = Canceled(by=request.by, reason=request.reason)
        actor: ActorType = "user" if request.by == "user" else "system"
        end_canceled(tx, request.org_id, request.job_id, outcome, actor=actor)
    return tx.view(request.org_id, request.job_id)


def _request_cancel(tx: Transaction, request: CancelRequest) -> None:
    row = tx.one(
        "request_cancel",
        org_id=request.org_id,
        job_id=request.job_id,
        now=tx.now,
        by=request.by,
        reason=request.reason,
    )
    if row is None:
        return
    seq, trace_id = row
    actor: ActorType = "user" if request.by == "user" else "system"
    facts = {"canceled_by": request.by, "cancel_reason": request.reason}
    ids = (trace_id, request.request_id)
    tx.event(request.org_id, request.job_id, seq, EventType.CANCEL_REQUESTED, actor, ids, facts)
