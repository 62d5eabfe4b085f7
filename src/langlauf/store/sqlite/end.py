"""Ends of attempts and jobs: by the holder of the lease, or by the sweep where a worker vanished or did not stop."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from langlauf.clock import draw
from langlauf.domain.attempt import Backoff, Lease
from langlauf.domain.errors import SENTENCE
from langlauf.domain.eta import full_run_seconds
from langlauf.domain.event import ActorType, EventType
from langlauf.domain.instant import Instant, after, to_text
from langlauf.domain.outcome import (
    CANCEL_MARGIN,
    Canceled,
    Completed,
    Crashed,
    Failed,
    Lost,
    Outcome,
    Released,
    Retry,
    after_crash,
    after_loss,
    after_timeout,
)
from langlauf.domain.read_models import CancelRequest, JobView, SweptJob
from langlauf.store.sql import json_text
from langlauf.store.sqlite.connection import RunRead
from langlauf.store.sqlite.transaction import Key, Row, Transaction
from langlauf.telemetry.log import LogEvent, log_event


def complete(tx: Transaction, ends: Sequence[tuple[Lease, Completed]]) -> list[bool]:
    """End jobs with their final snapshots; False where the lease is lost."""
    now = tx.now
    asked = [(place, lease.job_id, tx.org(lease.org_id), lease.attempt, now) for place, (lease, _) in enumerate(ends)]
    answers = [False] * len(ends)
    changes: list[Row] = []
    ended: Counter[int] = Counter()
    for place, job, seq, partials, analysis, paced_percent, paced_at in tx.each("completing_jobs", asked):
        lease, outcome = ends[place]
        key = (job, asked[place][2], lease.job_id)
        tx.snapshot(key, seq, "final", partials + 1, 100, outcome)
        ended[analysis] += 1
        seconds = full_run_seconds(paced_percent, paced_at, now)
        if seconds is not None:
            tx.record_run_time(analysis, seconds)
        changes.append((job, outcome.result_id, now, lease.attempt))
        answers[place] = True
    if changes and tx.run_many("end_completed", changes) != len(changes):
        raise RuntimeError("a job was found under its lease that cannot be ended")
    for analysis, ends_of_it in ended.items():
        tx.running(analysis, -ends_of_it)
    return answers


def write_end(
    tx: Transaction, lease: Lease, outcome: Outcome | Crashed, *, alive: bool = True, actor: ActorType = "worker"
) -> bool:
    """Write the outcome of an attempt that still holds its lease. `actor` is the actor of a cancellation.

    With `alive` the lease must not have expired; the sweep handles expired ones.
    """
    held = tx.fenced(lease, alive=alive)
    if isinstance(outcome, Crashed):
        row = tx.one("crashes_so_far", **held)
        if row is None:
            return False
        crashes, losses, wished, reason = row
        outcome = after_crash(
            outcome,
            cancel_requested=bool(wished),
            cancel_reason=reason,
            crashed_before=crashes,
            lost_before=losses,
        )
    if isinstance(outcome, Completed):
        return complete(tx, [(lease, outcome)])[0]
    if isinstance(outcome, Failed):
        return _failed(tx, lease, held, outcome)
    if isinstance(outcome, Canceled):
        return end_canceled(tx, held, outcome, actor=actor)
    goes_on = _retry(tx, lease, held, outcome) if isinstance(outcome, Retry) else _give_back(tx, lease, held, outcome)
    # Refused although it holds its lease: a cancel was requested meanwhile, and the job must not continue.
    return goes_on or end_canceled(tx, held, Canceled(by="system", reason="canceled between attempts"), actor="system")


def _failed(tx: Transaction, lease: Lease, held: dict[str, Any], outcome: Failed) -> bool:
    row = tx.one(
        "end_failed",
        **held,
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
    job, seq, analysis = row
    key = (job, held["org"], lease.job_id)
    # A time limit is enforced by any process that notices; a vanished worker cannot have reported itself.
    actor: ActorType = "system" if outcome.code == "worker_lost" or outcome.timed_out else "worker"
    if outcome.timed_out:
        _timeout_event(tx, key, lease, seq - 1, outcome.meta)
    facts = {
        "error_code": outcome.code,
        "error_message": outcome.message,
        "retryable": outcome.retryable,
        "retry_hint": outcome.hint,
        "attempt": lease.attempt,
        **_sentence(outcome.meta),
    }
    tx.event(key, seq, EventType.FAILED, actor, facts)
    tx.running(analysis, -1)
    return True


def _sentence(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sentence of Langlauf that the message is, where it is one."""
    return {SENTENCE: meta[SENTENCE]} if SENTENCE in meta else {}


def _timeout_event(tx: Transaction, key: Key, lease: Lease, seq: int, meta: Mapping[str, Any]) -> None:
    facts = {"attempt": lease.attempt, "threshold_seconds": meta.get("threshold_seconds")}
    tx.event(key, seq, EventType.TIMEOUT, "system", facts)


def _retry(tx: Transaction, lease: Lease, held: dict[str, Any], outcome: Retry) -> bool:
    next_attempt_at = after(tx.now, outcome.delay_seconds)
    row = tx.one(
        "end_retry",
        **held,
        reason=f"{outcome.code}: {outcome.message}",
        next_attempt_at=next_attempt_at,
        events=1 + outcome.timed_out,
    )
    if row is None:
        return False
    job, seq, analysis, retry_count = row
    key = (job, held["org"], lease.job_id)
    if outcome.timed_out:
        _timeout_event(tx, key, lease, seq - 1, outcome.meta)
    facts = {
        "attempt": lease.attempt,
        "retry_count": retry_count,
        "error_code": outcome.code,
        "error_message": outcome.message,
        "next_attempt_at": to_text(next_attempt_at),
        **_sentence(outcome.meta),
    }
    tx.event(key, seq, EventType.RETRY_SCHEDULED, "system", facts)
    tx.run("keep_attempt", job=job, ran=job, now=tx.now, outcome="retried", why=outcome.code)
    tx.running(analysis, -1)
    tx.due(held["org"], analysis, next_attempt_at)
    return True


def _give_back(tx: Transaction, lease: Lease, held: dict[str, Any], outcome: Released | Lost) -> bool:
    lost = isinstance(outcome, Lost)
    crash = outcome.crash if isinstance(outcome, Lost) else None
    crashed = crash is not None
    deaths = outcome.deaths if isinstance(outcome, Lost) and crashed else 0
    row = tx.one("end_given_back", **held, lost=int(lost and not crashed), crashed=deaths)
    if row is None:
        return False
    job, seq, analysis = row
    kind = EventType.LEASE_LOST if lost else EventType.RELEASED
    facts = {"attempt": lease.attempt, "crash": crash} if crashed else {"attempt": lease.attempt}
    tx.event((job, held["org"], lease.job_id), seq, kind, "system" if lost else "worker", facts)
    tx.run("keep_attempt", job=job, ran=job, now=tx.now, outcome="lost" if lost else "released", why=None)
    tx.running(analysis, -1)
    tx.due(held["org"], analysis, tx.now)
    return True


def end_canceled(
    tx: Transaction,
    held: dict[str, Any],
    outcome: Canceled,
    *,
    actor: ActorType,
    leased: bool = True,
    unheld: bool = False,
) -> bool:
    """End a job as canceled: one that an attempt holds or, with `unheld`, one without a live lease."""
    row = tx.one("end_canceled", **held, by=outcome.by, reason=outcome.reason, unheld=unheld)
    if row is None:
        return False
    job, seq, analysis, by, reason, result_id, attempt, ticket = row
    if attempt == 0 and ticket < 0:
        tx.scheduled(held["org"], analysis, -1)
    elif attempt == 0:
        tx.waiting(held["org"], analysis, -1)
    elif leased:
        tx.running(analysis, -1)
    facts = {"canceled_by": by, "cancel_reason": reason, "result_id": result_id}
    tx.event((job, held["org"], held["job_id"]), seq, EventType.CANCELED, actor, facts)
    return True


def cancel(tx: Transaction, request: CancelRequest) -> JobView | None:
    """Cancel a job that is not running at once; ask the worker of a running one. Idempotent."""
    view = tx.view(request.org_id, request.job_id)
    if view is None or view.job.terminal:
        return view
    actor: ActorType = "user" if request.by == "user" else "system"
    held = tx.fenced(Lease(request.org_id, request.job_id, view.job.attempt))
    if view.lease_expires_at is not None and view.lease_expires_at > tx.now:
        _request_cancel(tx, request, held, actor)
    else:
        outcome = Canceled(by=request.by, reason=request.reason)
        leased = view.lease_expires_at is not None
        end_canceled(tx, held, outcome, actor=actor, leased=leased, unheld=True)
    return tx.view(request.org_id, request.job_id)


def _request_cancel(tx: Transaction, request: CancelRequest, held: dict[str, Any], actor: ActorType) -> None:
    row = tx.one("request_cancel", **held, by=request.by, reason=request.reason)
    if row is None:
        return
    job, seq = row
    facts = {"canceled_by": request.by, "cancel_reason": request.reason}
    key = (job, held["org"], request.job_id)
    tx.event(key, seq, EventType.CANCEL_REQUESTED, actor, facts, request_id=request.request_id)


# -- sweep -------------------------------------------------------------------------------------------------------------


class SweepOne(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt that seems overdue. Each is a write of its own, so that a broken row blocks no other."""

    lease: Lease
    grace_seconds: float
    backoff: Backoff


class TidyLanes(msgspec.Struct, frozen=True):
    """Deletes empty lanes."""


class Sweep:
    """One sweep: a reader finds overdue attempts page by page; the writer checks each again."""

    def __init__(self, read: RunRead, write: Callable[[SweepOne], Awaitable[Any]], query: str) -> None:
        self._read = read
        self._write = write
        self._query = query

    async def pages(
        self, now: Instant, *, grace_seconds: float, backoff: Backoff, limit: int
    ) -> AsyncIterator[list[SweptJob]]:
        """Yield swept jobs page by page. A job that cannot be swept is logged, and the others continue."""
        position = 0
        while rows := await self._page(now, grace_seconds, position, limit):
            page = [Lease(org_id, job_id, attempt) for org_id, job_id, attempt, _ in rows]
            requests = [SweepOne(lease=one, grace_seconds=grace_seconds, backoff=backoff) for one in page]
            answers = await asyncio.gather(*map(self._write, requests), return_exceptions=True)
            _log_failures(zip(page, answers, strict=True))
            yield [answer for answer in answers if isinstance(answer, SweptJob)]
            position = rows[-1][-1]

    async def _page(self, now: Instant, grace_seconds: float, position: int, limit: int) -> list[Row]:
        values = {"now": now, **grace_periods(grace_seconds), "after": position, "limit": limit}
        return await self._read(lambda connection: connection.execute(self._query, values).fetchall())


def _log_failures(answers: Iterable[tuple[Lease, object]]) -> None:
    """Log failures, one line per reason: an unavailable store fails a whole page for the same one."""
    failed: dict[str, list[str]] = {}
    for lease, answer in answers:
        if isinstance(answer, BaseException):
            failed.setdefault(str(answer), []).append(lease.job_id)
    for reason, job_ids in failed.items():
        log_event(
            LogEvent.MAINTENANCE_FAILED,
            logging.ERROR,
            duty="sweep",
            reason=reason,
            jobs=len(job_ids),
            job_id=job_ids[0],
        )


def grace_periods(seconds: float) -> dict[str, int]:
    """Return the grace periods; a canceled attempt has a margin, so that its worker can still write the end."""
    return {"grace": after(0, seconds), "cancel_grace": after(0, seconds + CANCEL_MARGIN)}


def tidy_lanes(tx: Transaction, _: TidyLanes) -> int:
    """Delete empty lanes, so that an org that came once costs nothing later."""
    tx.flush()
    return tx.run("tidy_lanes")


def sweep_one(tx: Transaction, request: SweepOne) -> SweptJob | None:
    """Take the job back if it is still overdue. Idempotent."""
    lease = request.lease
    row = tx.one("sweepable_one", **tx.fenced(lease), **grace_periods(request.grace_seconds))
    if row is None:
        return None
    outcome = _decide(row, tx.now, request.backoff)
    # The event log says that the system ended it, not the worker.
    if write_end(tx, lease, outcome, alive=False, actor="system"):
        return SweptJob(lease.org_id, lease.job_id, _outcome_name(outcome))
    return None


def _decide(row: Row, now: Instant, backoff: Backoff) -> Lost | Retry | Failed | Canceled:
    deadline_at, started_at, timeout_seconds, retry_count, max_retries, lost_count, cancel_at, cancel_reason = row
    if cancel_at is None and deadline_at <= now:
        return after_timeout(
            limit_seconds=timeout_seconds,
            started_at=started_at,
            detected_at=now,
            retry_count=retry_count,
            max_retries=max_retries,
            delay_seconds=backoff.delay(retry_count, draw()),
        )
    return after_loss(cancel_requested=cancel_at is not None, cancel_reason=cancel_reason, lost_before=lost_count)


def _outcome_name(outcome: Outcome) -> str:
    return type(outcome).__name__.lower()
