"""The extension for tasks, as small as a client of the Python SDK needs it: the SDK itself has none."""

from typing import Any, Literal

import anyio
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp_types import CallToolResult, Request, RequestParams, Result
from pydantic import Field

from tests.mcp.rpc import TASKS

_PAUSE_SECONDS = 0.05


class CreatedTask(Result):  # type: ignore[misc]  # the SDK's types are not followed
    """A task in answer to a call."""

    result_type: Literal["task"] = Field(alias="resultType")
    task_id: str = Field(alias="taskId")


class FoundTask(Result):  # type: ignore[misc]  # the SDK's types are not followed
    """A task as `tasks/get` returns it."""

    status: str
    status_message: str | None = Field(default=None, alias="statusMessage")
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class TaskParams(RequestParams):  # type: ignore[misc]  # the SDK's types are not followed
    """The parameters of every request about a task."""

    task_id: str = Field(serialization_alias="taskId")


async def ask(session: ClientSession, method: str, task_id: str, answer: Any) -> Any:
    """Send a request about a task."""
    kind = Request[TaskParams, str]
    return await session.send_request(kind(method=method, params=TaskParams(task_id=task_id)), answer)


async def follow(session: ClientSession, task_id: str) -> FoundTask:
    """Return a task once it has ended."""
    while True:
        task: FoundTask = await ask(session, "tasks/get", task_id, FoundTask)
        if task.status != "working":
            return task
        await anyio.sleep(_PAUSE_SECONDS)


class TaskExtension(ClientExtension):  # type: ignore[misc]  # the SDK's types are not followed
    """Says that the client follows tasks, and follows them."""

    identifier = TASKS

    def settings(self) -> dict[str, Any]:
        """Return no settings: there are none."""
        return {}

    def claims(self) -> tuple[Any, ...]:
        """Take results that are tasks."""
        return (ResultClaim(result_type="task", model=CreatedTask, resolve=self._resolve),)

    async def _resolve(self, created: CreatedTask, context: ClaimContext) -> CallToolResult:
        task = await follow(context.session, created.task_id)
        assert task.status == "completed", task
        return CallToolResult.model_validate(task.result)
