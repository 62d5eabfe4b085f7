"""Stopping a job, and doing it again."""

import msgspec

from langlauf.analysis.registry import Registry
from langlauf.domain.job import CanceledBy, Submitted
from langlauf.domain.redact import clean_message
from langlauf.domain.views import CancelRequest, JobView
from langlauf.service.submit import Order, Submissions
from langlauf.service.tenant import Caller
from langlauf.store.protocol import Store

DEFAULT_REASON = "canceled on request"


class NotCancelable(msgspec.Struct, frozen=True):
    """The analysis was registered as not cancelable."""

    view: JobView


class NotTerminal(msgspec.Struct, frozen=True):
    """Only a job that has ended can be done again."""

    view: JobView


class Control:
    """What a person may do with a job that exists."""

    def __init__(self, store: Store, registry: Registry, submissions: Submissions) -> None:
        self._store = store
        self._registry = registry
        self._submissions = submissions

    async def cancel(
        self, caller: Caller, job_id: str, reason: str | None, by: CanceledBy = "user"
    ) -> JobView | NotCancelable | None:
        """Stops a job, or asks its worker to. Repeating it changes nothing."""
        view = await self._store.tenant(caller.org_id).job(job_id)
        if view is None or view.job.terminal:
            return view
        analysis = self._registry.get(view.job.analysis)
        if by == "user" and analysis is not None and not analysis.cancelable:
            return NotCancelable(view)
        request = CancelRequest(
            org_id=caller.org_id,
            job_id=job_id,
            by=by,
            reason=clean_message(reason or DEFAULT_REASON),
            request_id=caller.request_id,
        )
        return await self._store.cancel(request)

    async def retry(
        self, caller: Caller, job_id: str, *, resume: bool, idempotency_key: str | None
    ) -> Submitted | NotTerminal | None:
        """Makes a new job of one that has ended; with `resume` it starts with the finished chunks."""
        tenant = self._store.tenant(caller.org_id)
        view = await tenant.job(job_id)
        payload = await tenant.payload(job_id)
        if view is None or payload is None:
            return None
        job = view.job
        if not job.terminal:
            return NotTerminal(view)
        order = Order(
            analysis=job.analysis,
            input=msgspec.json.decode(payload),
            timeout_seconds=job.timeout_seconds,
            max_retries=job.max_retries,
            priority_class=job.priority_class,
            idempotency_key=idempotency_key,
            retry_of=job.job_id,
            resume=resume,
        )
        return await self._submissions.submit(caller, order)
