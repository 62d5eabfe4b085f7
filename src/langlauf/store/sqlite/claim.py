"""Claims of jobs under a lease, and renewals of leases."""

from collections import Counter

import msgspec

from langlauf.domain.attempt import Claim, ClaimRequest, Lease, LeaseRenewal
from langlauf.domain.event import EventType
from langlauf.domain.instant import Instant, after
from langlauf.domain.job import LONGEST_TIMEOUT
from langlauf.store.sqlite.fair_choice import choose_jobs
from langlauf.store.sqlite.later_start import settle_times
from langlauf.store.sqlite.transaction import Row, Transaction
from langlauf.telemetry.metrics import count_end

#: The index of the analysis in a row of `claimable_jobs`.
_ANALYSIS = 5


class RenewRequest(msgspec.Struct, frozen=True):
    """A heartbeat for all leases of a worker."""

    leases: tuple[Lease, ...]
    lease_seconds: float


def claim(tx: Transaction, request: ClaimRequest) -> list[Claim]:
    """Claim as many jobs as there are free slots, here and in the whole deployment."""
    tx.flush()
    for late in settle_times(tx):
        if view := tx.view(late.org_id, late.job_id):
            count_end(view.job.analysis, view.job.status, None)
    expires_at = after(tx.now, request.lease_seconds)
    claims: list[Claim] = []
    for jobs in choose_jobs(tx, request):
        # Jobs accepted in this transaction are known; the others are read.
        asked = [(job,) for job in jobs if job not in tx.accepted]
        rows = tx.accepted | {row[0]: row for row in tx.each("claimable_jobs", asked)} if asked else tx.accepted
        made = [_claim_of(tx, rows[job], expires_at) for job in jobs]
        for analysis, starts in Counter(rows[job][_ANALYSIS] for job in jobs).items():
            tx.running(analysis, starts)
        changes = [
            (job, tx.now, request.worker_id, expires_at, _deadline(claim), request.codes.get(claim.analysis))
            for job, claim in zip(jobs, made, strict=True)
        ]
        if tx.run_many("claim_jobs", changes) != len(jobs):
            raise RuntimeError("a job was picked that cannot be claimed")
        claims += made
    return claims


def _deadline(claim: Claim) -> Instant:
    return after(claim.started_at, min(claim.timeout_seconds, LONGEST_TIMEOUT))


def _claim_of(tx: Transaction, row: Row, expires_at: Instant) -> Claim:
    """Return the claim of a picked job, with its event."""
    job, org, job_id, attempt, seq, analysis, timeout, percent, retries, max_retries, trace_id, request_id, *rest = row
    queued_at, traceparent, tracestate, planned_at, payload = rest
    kind = EventType.RUNNING if attempt == 1 else EventType.ATTEMPT_STARTED
    tx.event((job, org, job_id), seq, kind, "worker", f'{{"attempt":{attempt}}}')
    return Claim(
        lease=Lease(tx.org_id(org), job_id, attempt),
        analysis=tx.analysis_name(analysis),
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
        planned_at=planned_at,
    )


def renew(tx: Transaction, request: RenewRequest) -> list[LeaseRenewal]:
    """Extend each lease that is still held."""
    expires_at = after(tx.now, request.lease_seconds)
    renewals = []
    for lease in request.leases:
        row = tx.one(
            "renew_lease",
            org=tx.org(lease.org_id),
            job_id=lease.job_id,
            attempt=lease.attempt,
            expires_at=expires_at,
            now=tx.now,
        )
        renewals.append(LeaseRenewal(lease, held=row is not None, cancel_reason=row[0] if row else None))
    return renewals
