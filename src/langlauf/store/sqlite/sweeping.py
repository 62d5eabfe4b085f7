"""Taking jobs back from workers that vanished or did not stop in time. Not a job itself: it needs no free slot."""

import msgspec

from langlauf.clock import draw
from langlauf.domain.attempt import Lease
from langlauf.domain.instant import Instant, after
from langlauf.domain.outcome import Canceled, Failed, Lost, Outcome, Retry, after_loss, after_timeout
from langlauf.domain.retry import Backoff
from langlauf.domain.views import Swept
from langlauf.store.sqlite.ending import take_lease, write_end
from langlauf.store.sqlite.transaction import Row, Transaction


class SweepOne(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt whose lease or time seems over. Each is a write of its own: a broken row holds up no other."""

    lease: Lease
    grace_seconds: float
    backoff: Backoff


class TidyLanes(msgspec.Struct, frozen=True):
    """Lanes that say nothing any more are to go."""


def tidy_lanes(tx: Transaction, _: TidyLanes) -> int:
    """Removes them, so that orgs that came once cost nothing for ever."""
    tx.flush()
    return tx.run("tidy_lanes")


def sweep_one(tx: Transaction, request: SweepOne) -> Swept | None:
    """Takes the job back, if that is still right; running it again does nothing."""
    lease = request.lease
    row = tx.one("sweepable_one", **tx.fenced(lease), grace=after(0, request.grace_seconds))
    if row is None:
        return None
    outcome = _decide(row, tx.now, request.backoff)
    if take_lease(tx, lease) and write_end(tx, lease, outcome):
        return Swept(lease.org_id, lease.job_id, _word(outcome))
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


def _word(outcome: Outcome) -> str:
    return type(outcome).__name__.lower()
