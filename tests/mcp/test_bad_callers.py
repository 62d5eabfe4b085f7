"""Bad callers: what is malformed or does not match gets a 4xx, changes nothing, and shows nothing of another org."""

import random
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from langlauf.clock import new_id
from tests.mcp.conftest import TwoOrgs
from tests.mcp.rpc import PREFIX, VERSION, Mcp, headers_for, meta
from tests.support.live import GATES, Live
from tests.support.processes import eventually
from tests.support.tiers import choose_seed

SECRET = "the-secret-of-org-a"
METHODS = (
    "server/discover", "tools/list", "tools/call", "tasks/get", "tasks/update", "tasks/cancel", "resources/list",
    "resources/templates/list", "resources/read", "subscriptions/listen", "initialize", "ping", "made/up", "",
)  # fmt: skip
JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, 1.5, "", "x", "ü\n", "\x00", "../..", "{}", [], [[]], {}, {"a": {}}, "x" * 5_000,
)  # fmt: skip


class Fuzzer:
    """Makes requests that are wrong in one or several places."""

    def __init__(self, seed: int, foreign: list[str]) -> None:
        self._random = random.Random(seed)
        self._foreign = foreign

    def request(self) -> tuple[bytes, dict[str, str]]:
        """Return a body and its headers."""
        choose = self._random.choice
        method = choose(METHODS)
        params: dict[str, Any] = {"_meta": meta(tasks=choose((True, False)))}
        for name in ("name", "uri", "taskId", "arguments", "inputResponses", "notifications", "cursor"):
            if self._random.random() < 0.6:
                params[name] = self._value()
        body: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": choose((1, "a", self._junk())),
            "method": method,
            "params": params,
        }
        headers = {"Content-Type": "application/json", **_texts(headers_for(method, {}))}
        named = params.get("name", params.get("uri", params.get("taskId")))
        if isinstance(named, str):
            headers |= _texts({"Mcp-Name": named})
        for _ in range(self._random.randrange(3)):
            self._damage(body, headers)
        content = msgspec.json.encode(body)
        if self._random.random() < 0.1:
            place = self._random.randrange(len(content) + 1)
            content = choose((content[:place], content + content, b"[" + content + b"]", content.replace(b":", b"", 1)))
        if self._random.random() < 0.02:
            content = b'{"a":' * 100 + content + b"}" * 100
        return content, headers

    def _junk(self) -> Any:
        return deepcopy(self._random.choice(JUNK))  # it may be damaged further

    def _value(self) -> Any:
        choose = self._random.choice
        some = (
            choose(self._foreign),
            f"langlauf:///jobs/{choose(self._foreign)}/latest",
            f"langlauf:///results/{choose(self._foreign)}",
            {"taskIds": self._foreign, "resourceSubscriptions": [f"langlauf:///jobs/{self._foreign[0]}/results"]},
            {"job_id": choose(self._foreign)},
            "find_place",
            "job_status",
            {"name": 1},
        )
        return choose((*some, self._junk()))

    def _damage(self, body: dict[str, Any], headers: dict[str, str]) -> None:
        choose = self._random.choice
        match self._random.randrange(6):
            case 0:
                body.pop(choose(list(body)), None) if body else None
            case 1:
                body[choose(("jsonrpc", "id", "method", "params", "extra"))] = self._junk()
            case 2:
                headers.pop(choose(list(headers)), None)
            case 3:
                known = [VERSION, "2025-11-25", "1999-01-01", "x", "=?base64?!?=", "tools/call"]
                headers[choose(("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Accept"))] = choose(known)
            case 4 if isinstance(body.get("params"), dict):
                keys = [
                    f"{PREFIX}protocolVersion",
                    f"{PREFIX}clientCapabilities",
                    f"{PREFIX}clientInfo",
                    "progressToken",
                ]
                body["params"]["_meta"] = {**meta(), choose(keys): self._junk()}
            case _:
                headers[choose(("Content-Type", "Origin", "X-Org-Id"))] = choose(
                    ("text/plain", "https://x.example", "org-a")
                )


def _texts(headers: dict[str, str]) -> dict[str, str]:
    """Return the headers that HTTP can carry."""
    return {name: value for name, value in headers.items() if value.isascii() and value.isprintable()}


@pytest.mark.parametrize("requests", [600, 10_000])
def test_no_request_breaks_the_server_or_shows_another_org(orgs: TwoOrgs, requests: int) -> None:
    """Thousands of malformed or mismatched requests of one org: no 5xx, and no byte of the other."""
    gate = new_id()
    result = orgs.a.finish("echo", value=SECRET)
    task = orgs.a.call("wait", gate=gate)["taskId"]
    uri = next(block["uri"] for block in result["content"] if block["type"] == "resource_link")
    fuzzer = Fuzzer(choose_seed(), [task, uri.rpartition("/")[2], "made-up"])
    lock = threading.Lock()
    seen: dict[int, int] = {}

    def send(_: int) -> None:
        with lock:
            content, headers = fuzzer.request()
        own = {**headers, "Authorization": orgs.b._headers["Authorization"]}
        with orgs.live.http.stream("POST", "/mcp", content=content, headers=own) as response:
            found = next(response.iter_bytes(), b"")  # a subscription goes on: its beginning will do
        seen[response.status_code] = seen.get(response.status_code, 0) + 1
        assert response.status_code < 500, (content, headers, found)
        assert SECRET.encode() not in found, (content, headers, found)
        assert b'"status":"working"' not in found or task.encode() not in found, (content, headers, found)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(send, range(requests)))
    assert {200, 400, 404} <= set(seen), seen
    assert orgs.a.result("tasks/get", taskId=task)["status"] == "working"
    assert orgs.live.run(orgs.live.app.runtime.services.reads.check()) is None  # type: ignore[union-attr]
    GATES.open(gate)


def test_a_flood_of_looks_leaves_the_server_answering(server: Live, mcp: Mcp) -> None:
    """Hundreds of `tasks/get` at once are served, each with the pause that it should make."""
    gate = new_id()
    task = mcp.call("wait", gate=gate)["taskId"]
    with ThreadPoolExecutor(20) as pool:
        tasks = list(pool.map(lambda _: mcp.result("tasks/get", taskId=task), range(400)))
    assert {one["status"] for one in tasks} == {"working"}
    assert min(one["pollIntervalMs"] for one in tasks) >= 1_000
    GATES.open(gate)
    assert mcp.ended(task)["status"] == "completed"


def test_streams_left_open_are_bounded_and_given_back(server: Live, mcp: Mcp) -> None:
    """A client that vanishes gives its slot back, and its job goes on."""
    gate = new_id()
    slots = server.app.runtime.services.followers.slots  # type: ignore[union-attr]
    plain = Mcp(server.http, tasks=False)
    with plain.stream("tools/call", name="wait", arguments={"gate": gate}, _meta={"progressToken": 1}) as stream:
        next(stream)
        assert slots.taken("wait") == 1
    with mcp.stream("subscriptions/listen", notifications={}) as stream:
        next(stream)
        assert slots.taken("stream") == 1
    eventually(lambda: slots.taken("wait") == slots.taken("stream") == 0)
    GATES.open(gate)
    again = plain.call("wait", gate=gate)
    assert again["structuredContent"] == {"gate": gate}


def test_a_client_that_vanishes_in_the_middle_of_a_request(server: Live) -> None:
    """Half a body, then nothing: the server goes on, and nothing was submitted."""
    before = server.http.get("/analyze/jobs").json()["jobs"]
    head = f"POST /mcp HTTP/1.1\r\nHost: {server.url.partition('//')[2]}\r\nContent-Type: application/json\r\n"
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as connection:
            connection.sendall(f'{head}Content-Length: 1000\r\n\r\n{{"jsonrpc":'.encode())
    assert server.http.get("/analyze/jobs").json()["jobs"] == before
