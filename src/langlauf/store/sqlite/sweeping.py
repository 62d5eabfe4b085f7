"""Taking jobs back from workers that vanished or did not stop in time. Not a job itself: it needs no free slot."""

import msgspec

from langlauf.clock import draw
from langlauf.domain.attempt import Lease
from langlauf.domain.instant import Instant, after
from langlauf.domain.outcome import Canceled, Failed, Lost, Outcome, Retry, after_loss, after_timeout
from langlauf.domain.retry import Backoff
from langlauf.store.protocol import Swept
from langlauf.store.sqlite.ending import take_lease, write_end
from langlauf.store.sqlite.transaction import Row, Transaction


class SweepRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One page of the sweep, starting after a job."""

    grace_seconds: float
    backoff: Backoff
    limit: int
    after: tuple[str, str]


def sweep(tx: Transaction, request: SweepRequest) -> list[Swept]:
    """Handles one page of attempts whose lease or time is over; running it again finds nothing."""
    rows = tx.rows(
        "sweepable",
        now=tx.now,
        grace=after(0, request.grace_seconds),
        after_org=request.after[0],
        after_job=request.after[1],
        limit=request.limit,
    )
    swept = []
    for row in rows:
        lease = Lease(*row[:3])
        outcome = _decide(row, tx.now, request.backoff)
        if take_lease(tx, lease) and write_end(tx, lease, outcome):
            swept.append(Swept(lease.org_id, lease.job_id, _word(outcome)))
    return swept


def _decide(row: Row, now: Instant, backoff: Backoff) -> Lost | Retry | Failed | Canceled:
    _, _, _, _, deadline_at, started_at, timeout_seconds, retry_count, max_retries, lost_count, *cancel = row
    if cancel[0] is None and deadline_at <= now:
        return after_timeout(
            limit_seconds=timeout_seconds,
            started_at=started_at,
            detected_at=now,
            retry_count=retry_count,
            max_retries=max_retries,
            delay_seconds=backoff.delay(retry_count, draw()),
        )
    return after_loss(cancel_requested=cancel[0] is not None, cancel_reason=cancel[1], lost_before=lost_count)


def _word(outcome: Outcome) -> str:
    return type(outcome).__name__.lower()
