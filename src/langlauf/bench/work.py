"""The job that is measured: a small input, one small partial, one small result."""

import hashlib

from langlauf.clock import Clock, new_id, new_trace_id
from langlauf.domain.attempt import ClaimRequest
from langlauf.domain.job import INLINE_REF, JobRecord, NewJob
from langlauf.domain.state import Status

ORG = "bench-org"
ANALYSIS = "bench"
RESULT = '{"found":true,"query":"Bahnhofstrasse 1, 9000 St. Gallen","score":0.93}'
LEASE_SECONDS = 15.0
_NO_LIMIT = 1_000_000_000


def new_job(clock: Clock, org: str = ORG, analysis: str = ANALYSIS, *, payload_bytes: int = 0) -> NewJob:
    """A submission that equals no other one; its input has so many bytes, or as few as it needs."""
    now = clock.now()
    job_id = new_id()
    payload = f'{{"query":"Bahnhofstrasse 1, {job_id}"}}'
    payload = payload[:-2] + "." * (payload_bytes - len(payload)) + payload[-2:]
    job = JobRecord(
        job_id=job_id,
        org_id=org,
        analysis=analysis,
        status=Status.QUEUED,
        priority_class="default",
        request_payload_hash=hashlib.sha256(payload.encode()).hexdigest(),
        request_payload_ref=INLINE_REF,
        queued_at=now,
        updated_at=now,
        timeout_seconds=1_800.0,
        max_retries=3,
        trace_id=new_trace_id(),
        request_id=new_id(),
    )
    return NewJob(job=job, payload=payload, max_waiting_org=_NO_LIMIT, max_waiting_all=_NO_LIMIT)


def claim_request(
    slots: int,
    analyses: tuple[str, ...] = (ANALYSIS,),
    *,
    lease_seconds: float = LEASE_SECONDS,
    max_running_org: int | None = None,
) -> ClaimRequest:
    """The wish of a worker with so many free slots."""
    return ClaimRequest(
        worker_id="bench-worker",
        slots=slots,
        analyses=analyses,
        lease_seconds=lease_seconds,
        max_running=_NO_LIMIT,
        max_running_org=max_running_org,
    )
