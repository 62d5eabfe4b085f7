"""What is known of a job when somebody is written to about its end: read through the reads of its org alone."""

from langlauf.domain.delivery import Delivery
from langlauf.domain.job import JobRecord
from langlauf.domain.mail import JobEnding
from langlauf.store.protocol import JobReads, Store


async def ending_of(store: Store, delivery: Delivery) -> JobEnding:
    """The job with what its result says at a glance; the result itself is not read."""
    reads = store.tenant(delivery.org_id)
    view = await reads.job(delivery.job_id)
    if view is None:
        return JobEnding()
    return JobEnding(job=view.job, summary_json=await _summary(reads, view.job))


async def _summary(reads: JobReads, job: JobRecord) -> str | None:
    if job.result_id is None or job.result_expired_at is not None:
        return None
    found = await reads.result(job.result_id, latest=False, payload=False)
    return None if found is None else found.delivered.snapshot.summary_json
