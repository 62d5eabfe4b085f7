"""`tools/call`: a submission like any other, answered with its result, a task, or a stream of its progress."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from langlauf.analysis.schema import read_input
from langlauf.api.context import ApiContext
from langlauf.api.middleware import problem_of
from langlauf.api.request_schemas import LaterStart
from langlauf.api.sse import EVENT_STREAM, HEARTBEAT, EventStreamResponse, StreamSender
from langlauf.api.submit import WaitingClient, queue_full
from langlauf.api.submit_request import with_start
from langlauf.auth.caller import Caller
from langlauf.domain.access import Scope
from langlauf.domain.errors import NoStreamSlot
from langlauf.domain.job import JobRecord, KeyReused, Phase, QueueFull
from langlauf.domain.read_models import JobFingerprint, JobView
from langlauf.mcp.protocol import (
    RpcError,
    RpcRequest,
    as_event,
    error_message,
    invalid_params,
    notification_message,
    result_message,
    tasks_required,
)
from langlauf.mcp.tasks import Tasks
from langlauf.mcp.tool_result import ToolResults, refused
from langlauf.mcp.tools import JOB_STATUS, OPTIONS, ToolList
from langlauf.problems import bad_request
from langlauf.service.follower import JobFollower
from langlauf.service.submit import SubmitRequest

#: Statuses of a refusal that a model can do something about.
_READABLE = frozenset({400, 409, 422, 429, 503})
_PAGE_EVENTS, _PAGE_BYTES = 100, 65_536
_LONGEST_NAME = 64


class ToolCalls:
    """Calls of tools.

    Nothing of a call is kept between requests: a client that lost its connection calls again, and gets the job that
    runs already.
    """

    def __init__(self, context: ApiContext, tools: ToolList, tasks: Tasks, results: ToolResults) -> None:
        self._context = context
        self._services = context.services
        self._tools = tools
        self._tasks = tasks
        self._results = results

    async def call(self, request: Request, rpc: RpcRequest, caller: Caller) -> dict[str, Any] | Response:
        """Run an analysis, and return its result, a task, or a stream; a refusal is a result, for the model to read."""
        name, arguments = rpc.text("name"), rpc.members("arguments")
        if self._tools.get(name) is None and name != JOB_STATUS:
            raise invalid_params(f"There is no tool {name[:_LONGEST_NAME]!r}; tools/list names those there are.")
        try:
            return await self._answer(request, rpc, caller, name, arguments)
        except (ClientDisconnect, RpcError):
            raise
        except Exception as error:
            problem = problem_of(error, request.scope)
            if problem.status not in _READABLE:
                raise problem from error
            if problem.after:
                await asyncio.sleep(problem.after)
            return refused(problem)

    async def _answer(
        self, request: Request, rpc: RpcRequest, caller: Caller, name: str, arguments: dict[str, Any]
    ) -> dict[str, Any] | Response:
        analysis = self._tools.get(name)
        self._context.authorize(request, caller, Scope.READ if analysis is None else Scope.SUBMIT)
        follows_tasks = rpc.tasks and analysis is not None
        always_task = analysis is not None and analysis.tool is not None and analysis.tool.task
        if always_task and not follows_tasks:
            raise tasks_required()
        with ExitStack() as stay:
            # The slot is taken before the job is accepted: a refused client can repeat the same request.
            waits = not always_task and self._take_slot(caller, stay, needed=not follows_tasks)
            if analysis is None:
                job = await self._existing(caller, arguments)
            else:
                job = await self._submit(caller, rpc, name, arguments)
            if job is None:
                return refused(bad_request("There is no such job, or it belongs to another org."))
            # No call waits for a job that waits for its time; `job_status` waits for any.
            view = JobView(job, None)
            later = analysis is not None and self._services.reads.phase(view) is Phase.SCHEDULED
            if follows_tasks and (later or not waits):
                return await self._tasks.created(view)
            if later:
                return await self._results.running(view, self._results.root(request))
            return await self._wait(request, rpc, caller, job, stay, follows_tasks=follows_tasks)

    def _take_slot(self, caller: Caller, stay: ExitStack, *, needed: bool) -> bool:
        """Take the slot of a request that waits; a client that follows tasks can do without waiting."""
        if not needed and not self._context.settings.mcp_inline:
            return False
        try:
            stay.enter_context(self._services.followers.slots.take(caller.counted_as, "wait"))
        except NoStreamSlot:
            if needed:
                raise
            return False
        return True

    async def _existing(self, caller: Caller, arguments: dict[str, Any]) -> JobRecord | None:
        job_id = arguments.get("job_id")
        if not isinstance(job_id, str) or len(arguments) > 1:
            raise bad_request("job_id: give the id of a job, and nothing else.", "job_id")
        view = await self._services.reads.of(caller).job(job_id)
        return None if view is None else view.job

    async def _submit(self, caller: Caller, rpc: RpcRequest, name: str, arguments: dict[str, Any]) -> JobRecord:
        """Submit a job, or return the one that runs with the same arguments."""
        if rpc.trace is not None:
            caller = msgspec.structs.replace(
                caller,
                trace_id=rpc.trace.trace_id,
                traceparent=rpc.trace.traceparent,
                tracestate=rpc.trace.tracestate,
            )
        values = dict(arguments)
        start = read_input(LaterStart, values.pop(OPTIONS, None) or {}, f"{OPTIONS}.")
        submission = SubmitRequest(analysis=name, input=values, checked=True, tool_client=rpc.client)
        submitted = await self._services.submissions.submit(caller, with_start(submission, start, f"{OPTIONS}."))
        if isinstance(submitted, QueueFull):
            raise queue_full(submitted)
        if isinstance(submitted, KeyReused):
            raise TypeError("a call has no idempotency key")
        return submitted.job

    async def _wait(
        self, request: Request, rpc: RpcRequest, caller: Caller, job: JobRecord, stay: ExitStack, *, follows_tasks: bool
    ) -> dict[str, Any] | Response:
        root, settings = self._results.root(request), self._context.settings
        streams = not follows_tasks and EVENT_STREAM in request.headers.get("accept", "")

        async def finish(view: JobView) -> dict[str, Any]:
            if view.job.terminal:
                return await self._results.ended(caller, view.job, root)
            why = "The server is about to stop. " if self._services.followers.closing else ""
            return await self._results.running(view, root, why=why)

        if streams and rpc.progress_token is not None:
            return ToolCallStream(self._context, caller, rpc, job, stay.pop_all(), finish)
        seconds = settings.mcp_inline if follows_tasks or streams else settings.sync_limit
        client = WaitingClient(request)
        view = await self._services.followers.until(
            caller, job.job_id, seconds, lambda view: view.job.terminal, watch=client.watch
        ) or JobView(job, None)
        if client.left and not view.job.terminal:  # the job goes on: the client calls again
            raise ClientDisconnect
        if view.job.terminal or not (follows_tasks or streams):
            return await finish(view)
        if follows_tasks:
            return await self._tasks.created(view)
        return ToolCallStream(self._context, caller, rpc, view.job, stay.pop_all(), finish)


class ToolCallStream(EventStreamResponse[JobFollower]):
    """The answer to one call as a stream: progress where the client asked for it, then the result."""

    def __init__(
        self,
        context: ApiContext,
        caller: Caller,
        rpc: RpcRequest,
        job: JobRecord,
        slot: ExitStack,
        finish: Callable[[JobView], Awaitable[dict[str, Any]]],
    ) -> None:
        super().__init__(context, caller, HEARTBEAT, job_id=job.job_id)
        self._reads = context.services.reads.of(caller)
        self._seconds = context.settings.sync_limit
        self._rpc = rpc
        self._job = job
        self._slot = slot
        self._finish = finish
        self._seen = 0
        self._position = max(0, job.event_seq - 1)
        self._percent = -1

    def slot(self) -> ExitStack:
        """Keep the slot that was taken before the job was accepted."""
        return self._slot

    def following(self) -> JobFollower:
        """Follow the job."""
        return self.followers.following(self.caller, self._job.job_id, self._is_news)

    def _is_news(self, pulse: JobFingerprint | None) -> bool:
        return pulse is None or pulse.event_seq > self._seen

    async def follow(self, follower: JobFollower, /, sender: StreamSender, ends_at: float) -> None:
        """Send progress until the job ends, or the limit of a synchronous request is over."""
        loop = asyncio.get_running_loop()
        deadline = min(ends_at, loop.time() + self._seconds)
        await self._send_percent(self._job.progress_percent, self._job.step, sender)
        view = JobView(self._job, None)
        while not view.job.terminal:
            follower.event.clear()
            view = await self._reads.job(self._job.job_id) or view
            self._seen = view.job.event_seq
            await self._send_log(sender)
            if follower.left or follower.turned_away:
                return
            if view.job.terminal or self.followers.closing or loop.time() >= deadline:
                break
            await self.wait(follower, sender, deadline)
        await sender.send(as_event(await self._message(view)))

    async def _send_log(self, sender: StreamSender) -> None:
        """Send the progress that was written since."""
        more = self._rpc.progress_token is not None
        while more:
            page = await self._reads.log(
                self._job.job_id, after=self._position, limit=_PAGE_EVENTS, most_bytes=_PAGE_BYTES
            )
            for event in page.events:
                self._position = event.event_seq
                told = msgspec.json.decode(event.payload_json)
                if isinstance(told.get("progress_percent"), int):
                    await self._send_percent(told["progress_percent"], told.get("step"), sender)
            more = page.more

    async def _send_percent(self, percent: int, step: str | None, sender: StreamSender) -> None:
        """Send progress, which always rises."""
        if self._rpc.progress_token is None or percent <= self._percent:
            return
        self._percent = percent
        params = {"progressToken": self._rpc.progress_token, "progress": percent, "total": 100}
        message = notification_message(
            "notifications/progress", params if step is None else {**params, "message": step}
        )
        await sender.send(as_event(message))

    async def _message(self, view: JobView) -> bytes:
        try:
            return result_message(self._rpc.id, await self._finish(view), legacy=self._rpc.legacy)
        except RpcError as error:
            return error_message(self._rpc.id, error)
