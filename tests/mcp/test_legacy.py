"""Clients of earlier revisions: a handshake without a session, the same tools, no tasks."""

from typing import Any

import pytest

from tests.support.live import GATES, Live

ACCEPT = {"Accept": "application/json, text/event-stream"}


def send(server: Live, method: str, version: str | None = "2025-11-25", /, **params: Any) -> Any:
    """Send a request of an earlier revision."""
    headers = ACCEPT if version is None else {**ACCEPT, "MCP-Protocol-Version": version}
    body = {"jsonrpc": "2.0", "id": 3, "method": method, "params": params}
    return server.http.post("/mcp", json=body, headers=headers)


@pytest.mark.parametrize(
    ("asked", "answered"),
    [("2025-11-25", "2025-11-25"), ("2025-06-18", "2025-06-18"), ("2024-11-05", "2025-11-25"), ("x", "2025-11-25")],
)
def test_the_handshake_begins_no_session(server: Live, asked: str, answered: str) -> None:
    """It names a version that both know, or the newest of ours."""
    info = {"name": "old", "version": "1"}
    response = send(server, "initialize", None, protocolVersion=asked, capabilities={}, clientInfo=info)
    assert response.status_code == 200
    assert response.json()["result"]["protocolVersion"] == answered
    assert response.json()["result"]["serverInfo"]["name"] == "langlauf"
    assert "mcp-session-id" not in response.headers
    assert send(server, "ping").json()["result"] == {}


def test_its_tools_are_the_same(server: Live) -> None:
    """Without the members that came later."""
    found = send(server, "tools/list").json()["result"]
    assert set(found) == {"tools"}
    assert {"echo", "job_status"} <= {tool["name"] for tool in found["tools"]}
    result = send(server, "tools/call", name="greet", arguments={"name": "Ada"}).json()["result"]
    assert result["content"][0]["text"] == "Hello, Ada!"
    assert "resultType" not in result


def test_a_long_call_is_a_stream_with_progress(server: Live) -> None:
    """No task, whatever the client names."""
    meta = {"progressToken": 5, "io.modelcontextprotocol/clientCapabilities": {"extensions": {}}}
    GATES.open("old")
    response = send(server, "tools/call", name="wait", arguments={"gate": "old", "partials": 2}, _meta=meta)
    assert response.headers["content-type"].startswith("text/event-stream")
    assert '"progressToken":5' in response.text
    assert '"structuredContent":{"gate":"old"}' in response.text


@pytest.mark.parametrize("method", ["server/discover", "tasks/get", "made/up", "prompts/list"])
def test_an_unknown_method_is_an_error_with_200(server: Live, method: str) -> None:
    """To these clients 404 means that their session has ended."""
    response = send(server, method)
    assert (response.status_code, response.json()["error"]["code"]) == (200, -32601)
