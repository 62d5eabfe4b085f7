"""Stopping a job, and doing it again."""

import msgspec

from langlauf.analysis.registry import Registry
from langlauf.auth.caller import Caller
from langlauf.domain.job import CanceledBy, Submitted
from langlauf.domain.outcome import CANCEL_MARGIN
from langlauf.domain.redact import clean_message
from langlauf.domain.views import CancelRequest, JobView
from langlauf.hints import Hints
from langlauf.service.submit import Order, Submissions
from langlauf.service.visible import visible
from langlauf.store.protocol import Store
from langlauf.telemetry.metrics import count_end

DEFAULT_REASON = "canceled on request"
#: The store's clock and the one of the hint tick apart: the sweep that is woken must not look a moment too early.
_TICK = 0.05


class NotCancelable(msgspec.Struct, frozen=True):
    """The analysis was registered as not cancelable."""

    view: JobView


class NotTerminal(msgspec.Struct, frozen=True):
    """Only a job that has ended can be done again."""

    view: JobView


class Control:
    """What a person may do with a job that exists."""

    def __init__(
        self, store: Store, registry: Registry, submissions: Submissions, hints: Hints, *, cancel_grace: float
    ) -> None:
        self._store = store
        self._registry = registry
        self._submissions = submissions
        self._hints = hints
        self._patience = cancel_grace + CANCEL_MARGIN + _TICK

    async def cancel(
        self, caller: Caller, job_id: str, reason: str | None, by: CanceledBy = "user"
    ) -> JobView | NotCancelable | None:
        """Stops a job, or asks its worker to; one that does not is not waited for. Repeating it changes nothing."""
        view = await visible(self._store, caller).job(job_id)
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
        asked = await self._store.cancel(request)
        if asked is not None and not asked.job.terminal and view.job.cancel_requested_at is None:
            self._hints.overdue_after(self._patience)
        if asked is not None and asked.job.terminal and _was_at_rest(view, asked):
            count_end(asked.job.analysis, asked.job.status, None)
        return asked

    async def retry(
        self, caller: Caller, job_id: str, *, resume: bool, idempotency_key: str | None
    ) -> Submitted | NotTerminal | None:
        """Makes a new job of one that has ended; with `resume` it starts with the finished chunks.

        Whoever was to be told of the end of the one is told of the end of the other: it is the same wish.
        """
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
            subscriptions=await tenant.subscriptions(job_id),
        )
        return await self._submissions.submit(caller, order)


def _was_at_rest(before: JobView, after: JobView) -> bool:
    """Whether nobody held a job when it was canceled: the end of one that runs is counted by whoever writes it."""
    held_until, ended_at = before.lease_expires_at, after.job.finished_at or 0
    return before.job.attempt == after.job.attempt and (held_until is None or held_until <= ended_at)
