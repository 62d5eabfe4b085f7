"""The transport: one JSON-RPC request per POST, its copy in the headers, versions, origins, and errors in one form."""

from typing import Any

import msgspec
import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from langlauf.settings import load_settings
from tests.mcp.conftest import TwoOrgs
from tests.mcp.rpc import PREFIX, VERSION, Mcp, encoded, headers_for, meta
from tests.mcp.tool_app import tool_app
from tests.support.live import Live, live


def send(server: Live, body: Any, method: str = "tools/list", /, **headers: str) -> Any:
    """Send a body as it is, with the headers of a method."""
    content = body if isinstance(body, bytes) else msgspec.json.encode(body)
    known = {**headers_for(method, {}), "Content-Type": "application/json", **headers}
    return server.http.post("/mcp", content=content, headers={name: value for name, value in known.items() if value})


def request(method: str = "tools/list", /, **members: Any) -> dict[str, Any]:
    """Return a request with some members replaced."""
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"_meta": meta()}, **members}


def test_discovery_says_what_the_server_can_do(mcp: Mcp) -> None:
    """Versions, capabilities with the extension for tasks, instructions, and how long that holds."""
    found = mcp.result("server/discover")
    assert found["resultType"] == "complete"
    assert found["supportedVersions"][0] == VERSION
    assert found["capabilities"]["extensions"] == {"io.modelcontextprotocol/tasks": {}}
    assert found["_meta"][f"{PREFIX}serverInfo"]["name"] == "langlauf"
    assert {"instructions", "ttlMs", "cacheScope"} <= set(found)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"tools/list"}',
        b'{"a":' * 65 + b"1" + b"}" * 65,
        b'{"id":1e999}',
    ],
)
def test_a_body_that_is_no_json_is_a_parse_error(server: Live, body: bytes) -> None:
    """HTTP 400 and -32700, without an id."""
    response = send(server, body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32700)
    assert "id" not in response.json()


@pytest.mark.parametrize(
    "body",
    [
        [request()],
        [],
        "tools/list",
        {},
        {"id": 7, "method": "tools/list"},
        request(id=None),
        request(id=1.5),
        request(id=True),
        request(id={}),
        request(method=5),
        request(params=[]),
        request(params={"_meta": 3}),
        {"jsonrpc": "2.0", "id": 7, "result": {}},
        {"jsonrpc": "2.0", "method": "tools/list"},
    ],
)
def test_what_is_no_request_is_refused(server: Live, body: Any) -> None:
    """HTTP 400 and -32600: also a batch, a response, and a request without an id."""
    response = send(server, body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32600), response.text


@pytest.mark.parametrize("body", ["notifications/cancelled", "notifications/initialized", "notifications/made/up"])
def test_a_notification_is_accepted_without_a_body(server: Live, body: str) -> None:
    """202, whatever it tells."""
    response = send(server, {"jsonrpc": "2.0", "method": body}, body)
    assert (response.status_code, response.content) == (202, b"")


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_is_no_stream_and_no_session(server: Live, method: str) -> None:
    """Only POST: 405 for what earlier revisions had."""
    response = server.http.request(method, "/mcp")
    assert (response.status_code, response.headers["allow"]) == (405, "OPTIONS, POST")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Mcp-Method": ""}, -32020),
        ({"Mcp-Method": "tools/call"}, -32020),
        ({"Mcp-Method": "TOOLS/LIST"}, -32020),
        ({"MCP-Protocol-Version": ""}, -32020),
        ({"MCP-Protocol-Version": "2025-11-25"}, -32020),
    ],
)
def test_headers_must_repeat_the_body(server: Live, headers: dict[str, str], code: int) -> None:
    """HTTP 400 and -32020 for a header that is missing or differs."""
    response = send(server, request(), **headers)
    assert (response.status_code, response.json()["error"]["code"], response.json()["id"]) == (400, code, 7)


def test_a_name_is_compared_after_decoding(server: Live) -> None:
    """`Mcp-Name` may be encoded; a wrong, broken or missing one is refused."""
    body = request("tools/call", params={"_meta": meta(), "name": "greet", "arguments": {"name": "Ada"}})
    assert send(server, body, "tools/call", **{"Mcp-Name": encoded("greet")}).status_code == 200
    for name in ("", "echo", encoded("echo"), "=?base64?!?=", "=?base64?/w==?="):
        response = send(server, body, "tools/call", **{"Mcp-Name": name})
        assert (response.status_code, response.json()["error"]["code"]) == (400, -32020), name


def test_an_unknown_version_names_those_that_are_known(server: Live) -> None:
    """HTTP 400 and -32022, with the versions to choose from and the one that was asked for."""
    body = request(params={"_meta": {**meta(), f"{PREFIX}protocolVersion": "1999-01-01"}})
    response = send(server, body, **{"MCP-Protocol-Version": "1999-01-01"})
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["code"], error["data"]["requested"]) == (-32022, "1999-01-01")
    assert error["data"]["supported"][0] == VERSION


@pytest.mark.parametrize("left_out", [f"{PREFIX}protocolVersion", f"{PREFIX}clientCapabilities", None])
def test_every_request_carries_version_and_capabilities(server: Live, left_out: str | None) -> None:
    """HTTP 400 and -32602 where one is missing."""
    params = {} if left_out is None else {"_meta": {k: v for k, v in meta().items() if k != left_out}}
    response = send(server, request(params=params))
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32602)


@pytest.mark.parametrize("method", ["initialize", "ping", "tasks/list", "tasks/result", "prompts/list", "made/up", ""])
def test_an_unknown_method_is_not_found(mcp: Mcp, method: str) -> None:
    """HTTP 404 and -32601, also for methods of earlier revisions."""
    response = mcp.post(method)
    assert (response.status_code, response.json()["error"]["code"]) == (404, -32601)


def test_a_foreign_origin_is_refused(server: Live, orgs: TwoOrgs) -> None:
    """403 for a page of another site, with or without keys; a configured origin and none are fine."""
    for origin, status in (("https://evil.example", 403), ("null", 403), ("https://ui.example", 200)):
        assert send(server, request(), Origin=origin).status_code == status, origin
    assert send(server, request(), Origin=server.url).status_code == 200
    refused = orgs.a.post("tools/list", Origin="https://evil.example")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, 403)


def test_a_made_up_host_is_refused_without_keys(server: Live) -> None:
    """The protection against DNS rebinding is that of the API."""
    response = send(server, request(), Host="evil.example")
    assert response.status_code == 403
    assert response.json()["jsonrpc"] == "2.0"


def test_every_request_needs_a_key_where_there_are_keys(orgs: TwoOrgs) -> None:
    """401 before anything is read, 403 for a missing scope; errors are JSON-RPC."""
    for method in ("server/discover", "tools/list", "tools/call", "tasks/get"):
        response = Mcp(orgs.live.http).post(method, {"name": "greet", "taskId": "x"})
        assert (response.status_code, response.json()["error"]["code"]) == (401, 401)
        assert "www-authenticate" in response.headers
    assert orgs.reader.result("tools/list")["tools"]
    refused = orgs.reader.post("tools/call", {"name": "greet", "arguments": {"name": "Ada"}})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, 403)


def test_large_and_foreign_bodies_are_refused(server: Live) -> None:
    """The limits of the API: size and media type."""
    assert send(server, b" " * 1_100_000).status_code == 413
    assert send(server, request(), **{"Content-Type": "text/plain"}).status_code == 415


def test_it_can_be_switched_off(tmp_path: Any) -> None:
    """`LANGLAUF_MCP=off` leaves nothing at the address."""
    with live(tmp_path, tool_app(), LANGLAUF_MCP="off") as running:
        assert Mcp(running.http).post("tools/list").status_code == 404


def test_it_moves_with_the_mount_point(tmp_path: Any) -> None:
    """Links in results have the prefix, and lead to the page."""
    app = tool_app()
    app.use(load_settings({"ASYNC_JOBS_STORE_FILE": str(tmp_path / "s.db"), "LANGLAUF_WATCHDOG": "0"}))
    with TestClient(app.mount_in(PlainTextResponse("outside"), "/jobs-api"), base_url="http://localhost") as http:
        body = {**request("tools/call"), "params": {"_meta": meta(), "name": "greet", "arguments": {"name": "Ada"}}}
        headers = headers_for("tools/call", body["params"])
        result = http.post("/jobs-api/mcp", json=body, headers=headers).json()["result"]
        [page] = [one["uri"] for one in result["content"] if one.get("name") == "result page"]
        assert page.startswith("http://localhost/jobs-api/results/")
        assert http.get(page).status_code == 200
