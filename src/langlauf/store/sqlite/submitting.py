"""Accepting a job: the key first, then duplicates, then room in the queue, then everything at once."""

import msgspec
from msgspec.structs import replace

from langlauf.domain.event import EventType
from langlauf.domain.job import Accepted, Duplicate, Job, KeyReused, NewJob, QueueFull, Replayed, Submitted
from langlauf.store.sqlite.transaction import Transaction


def submit(tx: Transaction, new: NewJob) -> Submitted:
    """Accepts the job, or tells why not; nothing is written in that case."""
    # Times are the store's, at the moment of the write: nothing of a job can seem to have happened before it came.
    new = replace(new, job=replace(new.job, queued_at=tx.now, updated_at=tx.now))
    job = new.job
    if new.idempotency_key is not None and (known := _by_key(tx, job, new.idempotency_key)):
        return known
    if new.refuse_duplicate:
        found = tx.one(
            "find_duplicate", org_id=job.org_id, analysis=job.analysis, payload_hash=job.request_payload_hash
        )
        if found:
            return Duplicate(_job(tx, job.org_id, found[0]))
    if full := _queue_full(tx, new):
        return full
    return Accepted(_insert(tx, new))


def _by_key(tx: Transaction, job: Job, key: str) -> Replayed | KeyReused | None:
    used = tx.one("find_idempotency_key", org_id=job.org_id, key=key)
    if used is None:
        return None
    job_id, payload_hash = used
    if payload_hash != job.request_payload_hash:
        return KeyReused()
    return Replayed(_job(tx, job.org_id, job_id))


def _job(tx: Transaction, org_id: str, job_id: str) -> Job:
    view = tx.view(org_id, job_id)
    if view is None:
        raise LookupError(f"the job {job_id} was there a moment ago")
    return view.job


def _queue_full(tx: Transaction, new: NewJob) -> QueueFull | None:
    of_org, of_all = tx.waiting_counts(new.job.org_id)
    if of_org >= new.max_waiting_org:
        return QueueFull("org", of_org)
    if of_all >= new.max_waiting_all:
        return QueueFull("all", of_all)
    if new.max_waiting_analysis is not None:
        of_analysis = tx.waiting_of_analysis(new.job.analysis)
        if of_analysis >= new.max_waiting_analysis:
            return QueueFull("analysis", of_analysis)
    return None


def _insert(tx: Transaction, new: NewJob) -> Job:
    job = tx.ticketed(new.job)
    tx.run_many("insert_job", [msgspec.structs.astuple(job)])
    tx.append("insert_input", (job.org_id, job.job_id, new.payload))
    if new.idempotency_key is not None:
        tx.run(
            "insert_key",
            org_id=job.org_id,
            key=new.idempotency_key,
            job_id=job.job_id,
            payload_hash=job.request_payload_hash,
            now=tx.now,
        )
    if new.resume_from is not None:
        tx.run("copy_chunks", org_id=job.org_id, job_id=job.job_id, resume_from=new.resume_from)
    for wish in new.wishes:
        # At once, not at the end: the events of this very transaction must find it.
        values = (job.org_id, job.job_id, wish.channel, wish.target, wish.lane, wish.language)
        tx.run_many("insert_wish", [values])
    tx.waiting(job.org_id, job.analysis, +1)
    facts = {"analysis": job.analysis, "retry_of": job.retry_of} if job.retry_of else {"analysis": job.analysis}
    tx.event(job.org_id, job.job_id, 1, EventType.QUEUED, "user", (job.trace_id, job.request_id), facts)
    return job
