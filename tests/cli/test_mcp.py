"""`langlauf mcp`: an agent that starts programs lists, calls and cancels, also over a restart of the server."""

import asyncio
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.rpc import meta
from tests.support.server import command, environment, serving


def bridge(url: str) -> "subprocess.Popen[str]":
    """Start the bridge."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command("mcp", "--url", url), env=environment(), text=True, bufsize=1, **pipes)  # type: ignore[call-overload, no-any-return]


def ask(process: "subprocess.Popen[str]", request_id: int, method: str, /, **params: Any) -> None:
    """Write a request of an older client."""
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}) + "\n")


def answer(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """Return the next message."""
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_sdk_uses_it_as_a_server(tmp_path: Path, mode: str) -> None:
    """Over standard input and output, with and without tasks."""
    import mcp
    from mcp.client.stdio import StdioServerParameters

    from tests.mcp.task_extension import TaskExtension

    async def main(url: str) -> None:
        words = command("mcp", "--url", url)
        program = StdioServerParameters(command=words[0], args=words[1:], env=environment())
        async with mcp.Client(program, mode=mode, extensions=[TaskExtension()]) as client:
            assert "echo" in {tool.name for tool in (await client.list_tools()).tools}
            result = await client.call_tool("steps", {"count": 2})
            assert result.structured_content == {"done": [0, 1]}

    with serving(tmp_path / "s.db", settings={"LANGLAUF_MCP_INLINE": "0"}) as server:
        asyncio.run(main(server.url))


def test_a_call_survives_the_server(tmp_path: Path) -> None:
    """The bridge repeats it: the call attaches to the job that is still there."""
    store, go = tmp_path / "s.db", tmp_path / "go"
    with serving(store, settings={"LANGLAUF_LEASE_SECONDS": "2"}) as first:
        process = bridge(first.url)
        try:
            ask(process, 1, "initialize", protocolVersion="2025-11-25", capabilities={})
            assert answer(process)["result"]["protocolVersion"] == "2025-11-25"
            ask(process, 2, "tools/call", name="gate", arguments={"path": str(go)}, _meta={"progressToken": "p"})
            while answer(process)["params"]["progress"] != 50:
                pass
            first.stop(signal.SIGKILL)
            go.touch()
            with serving(store, port=first.port):
                while "id" not in (last := answer(process)):
                    pass
                assert last["result"]["structuredContent"] == {"passed": str(go)}
        finally:
            process.communicate(timeout=60)


def test_what_is_no_message_gets_an_error(tmp_path: Path) -> None:
    """From the server; and a server that is not there is named."""
    with serving(tmp_path / "s.db") as server:
        process = bridge(server.url)
        out, _ = process.communicate(
            "no json\n\n" + json.dumps({"jsonrpc": "2.0", "id": 5, "method": "x", "params": {"_meta": meta()}}) + "\n",
            timeout=60,
        )
        codes = {json.loads(line)["error"]["code"] for line in out.splitlines()}
        assert codes == {-32700, -32601}
