"""Handing out jobs under a lease, and keeping the leases alive."""

import msgspec

from langlauf.domain.attempt import Claim, ClaimRequest, Lease, Renewal
from langlauf.domain.event import EventType
from langlauf.domain.instant import Instant, after
from langlauf.domain.job import LONGEST_TIMEOUT
from langlauf.store.sqlite.picking import pick
from langlauf.store.sqlite.transaction import Row, Transaction


class RenewRequest(msgspec.Struct, frozen=True):
    """A heartbeat for all leases of a worker."""

    leases: tuple[Lease, ...]
    lease_seconds: float


def claim(tx: Transaction, request: ClaimRequest) -> list[Claim]:
    """Claims as many jobs as there are free slots, here and in the whole deployment."""
    tx.flush()
    expires_at = after(tx.now, request.lease_seconds)
    claims: list[Claim] = []
    for rows in pick(tx, request):
        made = [_claim_of(tx, row, expires_at) for row in rows]
        _start(tx, made, request.worker_id)
        claims += made
    return claims


def _start(tx: Transaction, claims: list[Claim], worker_id: str) -> None:
    keys = [{"org_id": made.lease.org_id, "job_id": made.lease.job_id, "now": tx.now} for made in claims]
    if tx.run_many("claim_job", keys) != len(claims):
        raise RuntimeError("a job was picked that cannot be claimed")
    tx.run_many("insert_lease", [_lease_row(made, worker_id) for made in claims])


def _claim_of(tx: Transaction, row: Row, expires_at: Instant) -> Claim:
    """The claim of a picked job, with its event."""
    org_id, job_id, attempt, seq, analysis, timeout, percent, retries, max_retries, trace_id, request_id, *rest = row
    _, queued_at, traceparent, tracestate, payload = rest
    kind = EventType.RUNNING if attempt == 1 else EventType.ATTEMPT_STARTED
    tx.event(org_id, job_id, seq, kind, "worker", (trace_id, request_id), {"attempt": attempt})
    return Claim(
        lease=Lease(org_id, job_id, attempt),
        analysis=analysis,
        payload=payload,
        started_at=tx.now,
        expires_at=expires_at,
        timeout_seconds=timeout,
        progress_percent=percent,
        retry_count=retries,
        max_retries=max_retries,
        trace_id=trace_id,
        request_id=request_id,
        traceparent=traceparent,
        tracestate=tracestate,
        queued_at=queued_at,
    )


def _lease_row(made: Claim, worker_id: str) -> tuple[str, str, int, str, Instant, Instant]:
    lease = made.lease
    deadline = after(made.started_at, min(made.timeout_seconds, LONGEST_TIMEOUT))
    return (lease.org_id, lease.job_id, lease.attempt, worker_id, made.expires_at, deadline)


def renew(tx: Transaction, request: RenewRequest) -> list[Renewal]:
    """Extends each lease that is still held."""
    expires_at = after(tx.now, request.lease_seconds)
    renewals = []
    for lease in request.leases:
        row = tx.one(
            "renew_lease",
            org_id=lease.org_id,
            job_id=lease.job_id,
            attempt=lease.attempt,
            expires_at=expires_at,
            now=tx.now,
        )
        renewals.append(Renewal(lease, held=row is not None, cancel_reason=row[0] if row else None))
    return renewals
