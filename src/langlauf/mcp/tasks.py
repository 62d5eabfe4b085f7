"""Tasks: a job as the extension shows it. The id of a task is the id of its job, so that it outlives any process."""

from typing import Any

import msgspec
from starlette.requests import Request

from langlauf.api.context import ApiContext
from langlauf.api.responses import CachedStatus, StatusCache, StatusCacheKey
from langlauf.auth.caller import Caller
from langlauf.domain.eta import LONGEST_POLL
from langlauf.domain.instant import after, seconds_between, to_text
from langlauf.domain.job import JobRecord
from langlauf.domain.read_models import JobView, fingerprint_of
from langlauf.domain.result import RetentionPolicy
from langlauf.domain.state import Status
from langlauf.mcp.job_text import job_fields, status_sentence
from langlauf.mcp.message import RpcRequest
from langlauf.mcp.protocol import JOB_KEY, RpcError, invalid_params, tasks_required
from langlauf.mcp.tool_result import ToolResults

_STATUSES = {Status.COMPLETED: "completed", Status.FAILED: "completed", Status.CANCELED: "cancelled"}
_CANCEL_REASON = "canceled by an agent"
_MILLISECONDS = 1_000


class Tasks:
    """Reads and cancels tasks."""

    def __init__(self, context: ApiContext, results: ToolResults) -> None:
        self._context = context
        self._reads = context.services.reads
        self._results = results
        self._kept = StatusCache()

    async def get(self, request: Request, rpc: RpcRequest, caller: Caller) -> dict[str, Any]:
        """Return a task, with its result or error once it has ended."""
        return await self.detailed(await self._view(rpc, caller), caller, self._results.root(request))

    async def update(self, _: Request, rpc: RpcRequest, caller: Caller) -> dict[str, Any]:
        """Acknowledge answers to a task. No task asks anything, so that every key is unknown, and ignored."""
        await self._view(rpc, caller)
        rpc.members("inputResponses")
        return {}

    async def cancel(self, _: Request, rpc: RpcRequest, caller: Caller) -> dict[str, Any]:
        """Ask a task to stop; one that has ended, or cannot be canceled, stays as it is."""
        view = await self._view(rpc, caller)
        await self._context.services.control.cancel(caller, view.job.job_id, _CANCEL_REASON)
        return {}

    async def _view(self, rpc: RpcRequest, caller: Caller) -> JobView:
        if not rpc.tasks:
            raise tasks_required()
        view = await self.find(rpc.text("taskId"), caller)
        if view is None:
            raise unknown_task()
        return view

    async def find(self, task_id: str, caller: Caller) -> JobView | None:
        """Return the job of a task; None where there is none for the caller, or its result has expired."""
        view = await self._reads.of(caller).job(task_id)
        return None if view is None or _has_expired(view.job) else view

    async def created(self, view: JobView) -> dict[str, Any]:
        """Return a task in answer to the call of a tool."""
        return {"resultType": "task", **await self._fields(view)}

    async def detailed(self, view: JobView, caller: Caller, root: str) -> dict[str, Any]:
        """Return a task as `tasks/get` and notifications show it."""
        task = await self._fields(view)
        if view.job.status not in (Status.COMPLETED, Status.FAILED):
            return task
        try:
            return {**task, "result": await self._result(view, caller, root)}
        except RpcError as error:
            return {**task, "status": "failed", "error": error.member()}

    async def _result(self, view: JobView, caller: Caller, root: str) -> msgspec.Raw:
        """Return the result of a task that has ended; one that is looked up again and again comes from memory."""
        key, pulse = StatusCacheKey(caller.org_id, view.job.job_id, trace=False, base=root), fingerprint_of(view)
        kept = self._kept.get(key)
        if kept is None or kept.pulse != pulse:
            result = {"resultType": "complete", **await self._results.ended(caller, view.job, root)}
            kept = CachedStatus(pulse, {}, msgspec.json.encode(result))
            self._kept.put(key, kept)
        return msgspec.Raw(kept.job)

    async def _fields(self, view: JobView) -> dict[str, Any]:
        job = view.job
        derived = await self._reads.derived_fields(view)
        return {
            "taskId": job.job_id,
            "status": _STATUSES.get(job.status, "working"),
            "statusMessage": status_sentence(job, derived),
            "createdAt": to_text(job.queued_at),
            "lastUpdatedAt": to_text(job.updated_at),
            "ttlMs": _ttl(job, self._context.settings.retention),
            "pollIntervalMs": min(derived.poll_after, LONGEST_POLL) * _MILLISECONDS,
            "_meta": {JOB_KEY: job_fields(view, derived)},
        }


def unknown_task() -> RpcError:
    """Return the error for a task that does not exist, belongs to another org or has expired: always the same."""
    return invalid_params("There is no such task, or it has expired.")


def _has_expired(job: JobRecord) -> bool:
    return job.status is Status.COMPLETED and job.result_expired_at is not None


def _ttl(job: JobRecord, policy: RetentionPolicy) -> int | None:
    """Return how long a task is kept from its creation; None while nothing will remove it."""
    kept = policy.final_results if job.status is Status.COMPLETED else policy.jobs
    if job.finished_at is None or job.held_at is not None or kept is None:
        return None
    return round(seconds_between(job.queued_at, after(job.finished_at, kept)) * _MILLISECONDS)
