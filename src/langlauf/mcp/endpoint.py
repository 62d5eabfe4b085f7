"""The endpoint `/mcp`: one request per POST, checked and answered without anything kept from an earlier one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from langlauf.api.app import RouteHandler
from langlauf.api.context import ApiContext, TenantJsonResponse
from langlauf.api.middleware import problem_of
from langlauf.api.requests import OPERATION, read_body, read_json
from langlauf.auth.caller import Caller
from langlauf.auth.sessions import is_cross_site, is_same_origin
from langlauf.domain.access import Scope
from langlauf.mcp.protocol import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    LEGACY,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    SERVER_INFO,
    SUPPORTED,
    TASKS_EXTENSION,
    RequestId,
    RpcError,
    RpcRequest,
    check_name,
    error_message,
    id_of,
    is_legacy,
    read_request,
    result_message,
)
from langlauf.mcp.resources import Resources
from langlauf.mcp.tasks import Subscriptions, Tasks
from langlauf.mcp.tool_call import ToolCalls
from langlauf.mcp.tool_result import ToolResults
from langlauf.mcp.tools import ToolList
from langlauf.problems import Problem, forbidden
from langlauf.server.asgi import limit_response_memory

MCP_PATH = "/mcp"
_METRIC = "mcp"
#: The list of tools changes with the program only.
_LIST_MILLISECONDS = 300_000
_INSTRUCTIONS = (
    "Each tool is an analysis that may run for seconds to hours, as a durable job. A call that is repeated with the "
    "same arguments while the job runs returns that job, so that calling again after a lost connection is safe. A job "
    "that has not ended is a task, or is looked up with job_status. Interim results are resources: "
    "langlauf:///jobs/{job_id}/latest."
)
Answer = dict[str, Any] | Response
Handler = Callable[[Request, RpcRequest, Caller], Awaitable[Answer]]


class Method(NamedTuple):
    """A method of the protocol. Without a scope, its handler authorizes the caller."""

    handler: Handler
    scope: Scope | None = Scope.READ


def mcp_routes(context: ApiContext) -> list[Route]:
    """Return the route of the endpoint; none where the settings switch it off."""
    if not context.settings.mcp:
        return []
    return [Route(MCP_PATH, RouteHandler(McpEndpoint(context).answer, _METRIC), methods=["POST"])]


class McpEndpoint:
    """Dispatches requests to methods."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._tools = ToolList(context.services.registry)
        results = ToolResults(context)
        tasks = Tasks(context, results)
        calls = ToolCalls(context, self._tools, tasks, results)
        resources = Resources(context)
        both = {
            "tools/list": Method(self._list_tools),
            "tools/call": Method(calls.call, None),
            "resources/list": Method(resources.list),
            "resources/templates/list": Method(resources.templates),
            "resources/read": Method(resources.read),
        }
        self._methods: dict[str, Method] = {
            **both,
            "server/discover": Method(self._discover),
            "tasks/get": Method(tasks.get),
            "tasks/update": Method(tasks.update),
            "tasks/cancel": Method(tasks.cancel, Scope.CANCEL),
            "subscriptions/listen": Method(Subscriptions(context, tasks, results).listen),
        }
        self._legacy_methods: dict[str, Method] = {
            **both,
            "initialize": Method(self._initialize),
            "ping": Method(self._ping),
        }

    async def answer(self, request: Request) -> Response:
        """Answer one request or notification; every error is a JSON-RPC error."""
        request_id: RequestId | None = None
        legacy = False
        try:
            caller = await self._caller(request)
            body = await self._body(request)
            request_id, legacy = id_of(body), is_legacy(request, body)
            rpc = read_request(request, body)
            if rpc is None:
                return Response(status_code=202, headers={"Cache-Control": "no-store"})
            response = await self._dispatch(request, rpc, caller)
        except ClientDisconnect:
            raise
        except RpcError as error:
            return _error_response(request_id, error, {}, legacy=legacy)
        except Exception as error:  # noqa: BLE001 - every error is answered in the same form
            return await self._problem_response(request_id, problem_of(error, request.scope))
        return limit_response_memory(response, self._context.services.response_memory, caller.org_id)

    async def _caller(self, request: Request) -> Caller:
        """Authenticate the caller. A browser's page of another site is refused, whatever key it shows."""
        settings = self._context.settings
        if "origin" in request.headers and is_cross_site(request, settings) and not is_same_origin(request, settings):
            raise forbidden(
                "other_site",
                "A page of this Origin may not call tools here: the operator allows some with LANGLAUF_CORS_ORIGINS.",
            )
        return await self._context.authenticate(request)

    async def _body(self, request: Request) -> Any:
        limits = self._context.settings
        content = await read_body(request, limits.max_body, limits.body_seconds)
        try:
            return await read_json(request, content, limits.max_depth)
        except Problem as problem:
            if problem.status != 400:  # noqa: PLR2004 - the media type, for example
                raise
            raise RpcError(PARSE_ERROR, problem.message) from None

    async def _dispatch(self, request: Request, rpc: RpcRequest, caller: Caller) -> Response:
        method = (self._legacy_methods if rpc.legacy else self._methods).get(rpc.method)
        if method is None:
            raise RpcError(METHOD_NOT_FOUND, "This server does not have that method.")
        request.scope[OPERATION] = f"{_METRIC} {rpc.method}"
        check_name(request, rpc)
        if method.scope is not None:
            self._context.authorize(request, caller, method.scope)
        answer = await method.handler(request, rpc, caller)
        if isinstance(answer, Response):
            return answer
        return TenantJsonResponse(result_message(rpc.id, answer, legacy=rpc.legacy), 200, {}, "no-store")

    async def _problem_response(self, request_id: RequestId | None, problem: Problem) -> Response:
        if problem.after:
            await asyncio.sleep(problem.after)
        codes = {400: INVALID_REQUEST, 401: 401, 403: 403, 429: 429}
        code = codes.get(problem.status, INVALID_REQUEST if problem.status < 500 else INTERNAL_ERROR)  # noqa: PLR2004
        error = RpcError(code, problem.message, {"error": problem.code}, problem.status)
        return _error_response(request_id, error, problem.headers, legacy=False)

    async def _discover(self, _: Request, __: RpcRequest, ___: Caller) -> Answer:
        """Return what this server can do."""
        return {
            "supportedVersions": list(SUPPORTED),
            "capabilities": {"tools": {}, "resources": {"subscribe": True}, "extensions": {TASKS_EXTENSION: {}}},
            "instructions": _INSTRUCTIONS,
            "ttlMs": _LIST_MILLISECONDS,
            "cacheScope": "public",
        }

    async def _initialize(self, _: Request, rpc: RpcRequest, __: Caller) -> Answer:
        """Answer the handshake of earlier revisions; no session begins."""
        asked = rpc.params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in LEGACY else LEGACY[0],
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": SERVER_INFO,
            "instructions": _INSTRUCTIONS,
        }

    async def _ping(self, _: Request, __: RpcRequest, ___: Caller) -> Answer:
        return {}

    async def _list_tools(self, _: Request, __: RpcRequest, ___: Caller) -> Answer:
        """Return all tools, on one page."""
        return {"tools": self._tools.listed(), "ttlMs": _LIST_MILLISECONDS, "cacheScope": "public"}


def _error_response(
    request_id: RequestId | None, error: RpcError, headers: dict[str, str], *, legacy: bool
) -> Response:
    body = error_message(request_id, error)
    return TenantJsonResponse(body, error.http_status(legacy=legacy), headers, "no-store")
