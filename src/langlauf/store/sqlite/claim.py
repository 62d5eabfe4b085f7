"""Claims of jobs under a lease, renewals of leases, and jobs that enter the line when their time has come."""

from collections import Counter

import msgspec

from langlauf.domain.attempt import Claim, ClaimRequest, Lease, LeaseRenewal
from langlauf.domain.event import EventType
from langlauf.domain.instant import Instant, after
from langlauf.domain.job import LONGEST_TIMEOUT, TOO_LATE
from langlauf.domain.outcome import Canceled
from langlauf.domain.read_models import SweptJob
from langlauf.store.sqlite.end import end_canceled
from langlauf.store.sqlite.fair_choice import choose_jobs
from langlauf.store.sqlite.transaction import Row, Transaction
from langlauf.telemetry.metrics import count_end

# -- jobs that wait for their time -------------------------------------------------------------------------------------

#: Lanes, jobs of one of them, and late jobs that one transaction handles: the rest is left to the next.
_MOST_LANES = 100
_MOST_JOBS = 100
_MOST_LATE = 100


class SettleTimes(msgspec.Struct, frozen=True):
    """Does what is due without a claim: all slots may be taken, or no worker may be there."""


def settle_times(tx: Transaction, _: SettleTimes | None = None) -> list[SweptJob]:
    """Cancel what should have started by now, and let into the line what may start; mostly there is neither."""
    late = [one for one in tx.rows("late_jobs", now=tx.now, most=_MOST_LATE) if _cancel(tx, *one)]
    lanes = tx.rows("lanes_to_run", now=tx.now, lanes=_MOST_LANES)
    for org, analysis in lanes:
        _enter_line(tx, org, analysis)
    if late or lanes:
        tx.flush()
    for org, analysis in lanes:
        tx.run("lane_next_run", org=org, analysis=analysis)
    return [SweptJob(tx.org_id(org), job_id, "canceled") for org, job_id in late]


def _cancel(tx: Transaction, org: int, job_id: str) -> bool:
    held = tx.fenced(Lease(tx.org_id(org), job_id, 0))
    return end_canceled(tx, held, Canceled(by="system", reason=TOO_LATE), actor="system", unheld=True)


def _enter_line(tx: Transaction, org: int, analysis: int) -> None:
    """Give tickets to the jobs of a lane whose time has come, in the order of their times."""
    lane = {"org": org, "analysis": analysis, "now": tx.now, "most": _MOST_JOBS}
    due = [row for expedite in (1, 0) for row in tx.rows("jobs_to_run", **lane, expedite=expedite)]
    entered = [(job, tx.next_ticket(org, analysis, expedite)) for job, expedite, _ in due]
    if tx.run_many("enter_line", entered) != len(due):
        raise RuntimeError("a job was found that does not wait for its time")
    tx.scheduled(org, analysis, -len(due))
    tx.waiting(org, analysis, +len(due))


# -- claims ------------------------------------------------------------------------------------------------------------

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
