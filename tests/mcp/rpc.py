"""Requests to `/mcp`, as raw as a test needs them."""

import base64
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import msgspec

from tests.support.processes import eventually

VERSION = "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"
PREFIX = "io.modelcontextprotocol/"
_NAMED = {"tools/call": "name", "resources/read": "uri"}
_ids = itertools.count(1)


def meta(*, tasks: bool = True, **more: Any) -> dict[str, Any]:
    """Return the `_meta` of a request."""
    extensions: dict[str, Any] = {"extensions": {TASKS: {}}} if tasks else {}
    return {
        f"{PREFIX}protocolVersion": VERSION,
        f"{PREFIX}clientCapabilities": extensions,
        f"{PREFIX}clientInfo": {"name": "Test agent", "version": "1.2"},
        **more,
    }


def encoded(value: str) -> str:
    """Return a header value that may hold any text."""
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def headers_for(method: str, params: dict[str, Any], **more: str) -> dict[str, str]:
    """Return the headers that repeat what a body says."""
    headers = {
        "MCP-Protocol-Version": VERSION,
        "Mcp-Method": method,
        "Accept": "application/json, text/event-stream",
    }
    name = params.get(_NAMED.get(method, "taskId"))
    if name is not None:
        headers["Mcp-Name"] = name if name.isascii() else encoded(name)
    return {**headers, **more}


class Mcp:
    """A client of `/mcp` without a library. `tasks` says whether it follows tasks, `headers` what every request has."""

    def __init__(self, http: httpx2.Client, *, tasks: bool = True, **headers: str) -> None:
        self.http = http
        self._tasks = tasks
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def post(self, method: str, params: dict[str, Any] | None = None, **headers: str) -> httpx2.Response:
        """Send a request, and return the response as it is."""
        content, known = self._request(method, params or {})
        return self.http.post("/mcp", content=content, headers={**known, **headers})

    def result(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of a request that must succeed."""
        response = self.post(method, params)
        assert response.status_code == 200, response.text
        found: dict[str, Any] = answer(response)["result"]
        return found

    def error(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the error of a request that must fail."""
        found: dict[str, Any] = answer(self.post(method, params))["error"]
        return found

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool, and return its result or its task."""
        return self.result("tools/call", name=tool, arguments=arguments)

    def finish(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool, and return its result, also where the machine is so busy that the call became a task."""
        result = self.call(tool, **arguments)
        return self.ended(result["taskId"])["result"] if "taskId" in result else result

    def ended(self, task_id: str) -> Any:
        """Return a task once it has ended."""

        def look() -> dict[str, Any] | None:
            task = self.result("tasks/get", taskId=task_id)
            return None if task["status"] == "working" else task

        return eventually(look)

    @contextmanager
    def stream(self, method: str, **params: Any) -> Iterator[Iterator[dict[str, Any]]]:
        """Send a request that is answered with a stream, and return its messages."""
        content, known = self._request(method, params)
        with self.http.stream("POST", "/mcp", content=content, headers=known) as response:
            assert response.status_code == 200, response.read()
            assert response.headers["content-type"].startswith("text/event-stream")
            yield messages(response)

    def _request(self, method: str, params: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
        given = params.get("_meta", {})
        body = {"_meta": {**meta(tasks=self._tasks), **given}, **{k: v for k, v in params.items() if k != "_meta"}}
        request = {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": body}
        known = headers_for(method, body, **{"Content-Type": "application/json", **self._headers})
        return msgspec.json.encode(request), known


def answer(response: httpx2.Response) -> dict[str, Any]:
    """Return the answer to a request: the body, or the last message of the stream that a slow call is answered with."""
    if response.headers["content-type"].startswith("text/event-stream"):
        return list(messages(response))[-1]
    found: dict[str, Any] = response.json()
    return found


def messages(response: httpx2.Response) -> Iterator[dict[str, Any]]:
    """Return the messages of a stream as they come."""
    for line in response.iter_lines():
        if line.startswith("data: "):
            yield msgspec.json.decode(line.removeprefix("data: "))
