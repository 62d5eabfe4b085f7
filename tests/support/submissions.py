"""Submissions, claims and reads for the tests of the store contract."""

import hashlib
from collections.abc import Mapping
from typing import Any

from langlauf.clock import new_id, new_trace_id
from langlauf.domain.attempt import Claim, ClaimRequest
from langlauf.domain.job import INLINE_REF, Accepted, JobRecord, NewJob, PriorityClass
from langlauf.domain.read_models import CancelRequest, JobView
from langlauf.domain.state import Status
from langlauf.store.protocol import Store
from tests.support.stores import LEASE_SECONDS, SetClock

ORG = "org-a"


def new_job(
    clock: SetClock, *, org: str = ORG, analysis: str = "survey", query: str | None = None, **rules: Any
) -> NewJob:
    """Return a submission; without a query its payload is unique."""
    payload = f'{{"query":"{query or new_id()}"}}'
    priority: PriorityClass = rules.pop("priority_class", "default")
    job = JobRecord(
        job_id=rules.pop("job_id", None) or new_id(),
        org_id=org,
        analysis=analysis,
        status=Status.QUEUED,
        priority_class=priority,
        request_payload_hash=hashlib.sha256(payload.encode()).hexdigest(),
        request_payload_ref=INLINE_REF,
        queued_at=clock.now(),
        updated_at=clock.now(),
        timeout_seconds=rules.pop("timeout_seconds", 1800.0),
        max_retries=rules.pop("max_retries", 3),
        trace_id=new_trace_id(),
        request_id=new_id(),
    )
    limits = {"max_waiting_org": 1_000, "max_waiting_all": 10_000, **rules}
    return NewJob(job=job, payload=payload, **limits)


async def accept(store: Store, clock: SetClock, **rules: Any) -> JobRecord:
    """Submit a job that must be accepted, and advance the clock by a millisecond."""
    submitted = await store.submit(new_job(clock, **rules))
    assert isinstance(submitted, Accepted), submitted
    clock.pass_(0.001)
    return submitted.job


async def claim(
    store: Store,
    slots: int = 1,
    *,
    analyses: tuple[str, ...] = ("survey",),
    max_running: int = 1_000,
    limits: Mapping[str, int] | None = None,
    max_running_org: int | None = None,
) -> list[Claim]:
    """Claim jobs for a worker that knows these analyses."""
    request = ClaimRequest(
        worker_id=new_id(),
        slots=slots,
        analyses=analyses,
        lease_seconds=LEASE_SECONDS,
        max_running=max_running,
        limits=limits or {},
        max_running_org=max_running_org,
    )
    return await store.claim(request)


async def claim_for(store: Store, worker_id: str, slots: int) -> list[Claim]:
    """Claim jobs for a worker with this id."""
    request = ClaimRequest(
        worker_id=worker_id, slots=slots, analyses=("survey",), lease_seconds=LEASE_SECONDS, max_running=1_000
    )
    return await store.claim(request)


async def started(store: Store, clock: SetClock, **rules: Any) -> Claim:
    """Submit a job and claim it."""
    job = await accept(store, clock, **rules)
    [made] = await claim(store, analyses=(job.analysis,))
    assert made.lease.job_id == job.job_id
    return made


async def read_job(store: Store, job_id: str, org: str = ORG) -> JobView:
    """Return the job as its org sees it; it must exist."""
    view = await store.tenant(org).job(job_id)
    assert view is not None
    return view


async def event_types(store: Store, job_id: str, org: str = ORG) -> list[str]:
    """Return the types of a job's events, which must be numbered 1, 2, 3 …"""
    events = await store.tenant(org).events(job_id, after=0, limit=1_000)
    assert [event.event_seq for event in events] == list(range(1, len(events) + 1))
    return [str(event.event_type) for event in events]


def cancel_request(job_id: str, org: str = ORG) -> CancelRequest:
    """Return a cancel request by a user."""
    return CancelRequest(org_id=org, job_id=job_id, by="user", reason="not needed", request_id=new_id())
