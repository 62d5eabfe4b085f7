"""The sweep: takes jobs back from workers that vanished or did not stop in time. It needs no free slot."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import msgspec

from langlauf.clock import draw
from langlauf.domain.attempt import Backoff, Lease
from langlauf.domain.instant import Instant, after
from langlauf.domain.outcome import (
    CANCEL_MARGIN,
    Canceled,
    Failed,
    Lost,
    Outcome,
    Retry,
    after_loss,
    after_timeout,
)
from langlauf.domain.read_models import SweptJob
from langlauf.store.sqlite.connection import RunRead
from langlauf.store.sqlite.end import write_end
from langlauf.store.sqlite.transaction import Row, Transaction
from langlauf.telemetry.log import LogEvent, log_event


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
