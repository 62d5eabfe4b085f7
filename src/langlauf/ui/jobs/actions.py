"""What a person does with a job from its page: stop it, run it again, go on where it stopped.

Every form works without a script. What cannot be done is told on a page of its own: why, and what to do next.
"""

from collections.abc import Mapping

from starlette.responses import Response

from langlauf.analysis.schema import InvalidInput
from langlauf.api.context import Context
from langlauf.auth.caller import Caller
from langlauf.domain.job import Accepted, Duplicate, QueueFull, Replayed, Submitted
from langlauf.domain.views import JobView
from langlauf.problems import not_found
from langlauf.service.control import NotCancelable, NotTerminal
from langlauf.ui.formatting import face
from langlauf.ui.going import see_other
from langlauf.ui.rendering import Rendering
from langlauf.ui.visit import Visit

LONGEST_REASON = 500


class JobActions:
    """`/jobs/{job_id}/cancel` and `/jobs/{job_id}/retry`."""

    def __init__(self, context: Context, rendering: Rendering) -> None:
        self._services = context.services
        self._rendering = rendering

    async def ask_to_cancel(self, visit: Visit, caller: Caller) -> Response:
        """The question before a job is stopped, for readers without scripts."""
        view = await self._existing(visit, caller)
        if view.job.terminal:
            return self._go(visit, view.job.job_id)
        shown = face(view.job.status, self._services.reads.phase(view))
        return self._rendering.page(visit, "jobs/cancel.html", job=view.job, face=shown)

    async def cancel(self, visit: Visit, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Stops a job, or asks its worker to. One that has ended meanwhile is shown as it ended."""
        job_id = visit.request.path_params["job_id"]
        reason = fields.get("reason", "").strip()[:LONGEST_REASON]
        done = await self._services.control.cancel(caller, job_id, reason or None)
        if done is None:
            raise not_found()
        if isinstance(done, NotCancelable):
            return self._refused(visit, done.view, 409, "not_cancelable")
        return self._go(visit, job_id)

    async def retry(self, visit: Visit, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Makes a new job of one that has ended, and leads to it."""
        view = await self._existing(visit, caller)
        resume = fields.get("resume") == "yes"
        try:
            made = await self._services.control.retry(caller, view.job.job_id, resume=resume, idempotency_key=None)
        except InvalidInput as error:  # the analysis has changed since, or is not known here
            return self._refused(visit, view, 422, "validation_error", detail=error.message)
        return self._answer(visit, view, made)

    def _answer(self, visit: Visit, view: JobView, made: Submitted | NotTerminal | None) -> Response:
        match made:
            case Accepted(job=job) | Replayed(job=job):
                return self._go(visit, job.job_id)
            case NotTerminal(view=now):
                return self._refused(visit, now, 409, "not_terminal")
            case Duplicate(job=job):
                return self._refused(visit, view, 409, "duplicate_job", other=job.job_id)
            case QueueFull(scope=scope):
                status = 503 if scope == "all" else 429
                headers = {"Retry-After": str(made.retry_after)}
                return self._refused(visit, view, status, "queue_full", detail=made.reason, headers=headers)
        raise not_found()

    async def _existing(self, visit: Visit, caller: Caller) -> JobView:
        view = await self._services.reads.of(caller).job(visit.request.path_params["job_id"])
        if view is None:
            raise not_found()
        return view

    def _refused(
        self,
        visit: Visit,
        view: JobView,
        status: int,
        code: str,
        *,
        detail: str = "",
        other: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        return self._rendering.page(
            visit, "jobs/refused.html", status, headers=headers, job=view.job, code=code, detail=detail, other=other
        )

    def _go(self, visit: Visit, job_id: str) -> Response:
        return see_other(visit.link("jobs", job_id))
