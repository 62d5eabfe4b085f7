"""Independent clients, the Python SDK and FastMCP: list, call, watch, cancel and read results of bundled analyses."""

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import fastmcp
import mcp
import pytest
from fastmcp_tasks.client import call_tool_task
from mcp_types import Result

from tests.bundled.clustering.test_analysis import blobs
from tests.bundled.ontology.documents import BEFORE
from tests.mcp.task_extension import CreatedTask, FoundTask, TaskExtension, ask, follow
from tests.support.server import ROOT, environment, serving

#: An input for each bundled analysis, and what its result tells first.
INPUTS: dict[str, tuple[dict[str, Any], str]] = {
    "address": ({"query": "Bundesplatz 3, 3005 Bern"}, "place"),
    "clustering": ({"table": blobs(3, 60), "k_max": 4}, "best_k"),
    "ontology": ({"text": BEFORE}, "terms"),
}


def endless() -> dict[str, Any]:
    """Return an input that takes far longer than a test waits: it is canceled."""
    drawn = random.Random(0)
    rows = "\n".join(f"{drawn.random():.6f},{drawn.random():.6f}" for _ in range(40_000))
    return {"table": f"x,y\n{rows}", "k_max": 20, "method": "gaussian"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server of the bundled analyses, which answers every call with a task."""
    store = tmp_path_factory.mktemp("bundled") / "s.db"
    with serving(
        store, app="langlauf.bundled:app", settings={"LANGLAUF_MCP_INLINE": "0", "LANGLAUF_SYNC_LIMIT": "100"}
    ) as server:
        yield f"{server.url}/mcp"


def uri_of(result: Any) -> str:
    """Return the URI of the whole result."""
    return next(str(block.uri) for block in result.content if block.type == "resource_link")


@pytest.mark.parametrize("name", INPUTS)
def test_the_sdk_calls_and_reads(url: str, name: str) -> None:
    """Its client lists the tool, follows the task by a small extension, and reads the result as a resource."""
    arguments, first = INPUTS[name]

    async def main() -> None:
        async with mcp.Client(url, extensions=[TaskExtension()]) as client:
            assert client.protocol_version == "2026-07-28"
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert tools[name].title
            assert tools[name].description
            result = await client.call_tool(name, arguments)
            assert first in result.structured_content["summary"]
            [content] = (await client.read_resource(uri_of(result))).contents
            assert json.loads(content.text) == result.structured_content

    asyncio.run(main())


@pytest.mark.parametrize("name", INPUTS)
def test_the_sdk_watches_interim_results(url: str, name: str) -> None:
    """A subscription names every snapshot of the job, the last of which is the result of its task."""

    async def main() -> None:
        async with mcp.Client(url, extensions=[TaskExtension()]) as client:
            created = await client.session.call_tool(name, INPUTS[name][0], allow_claimed=True)
            assert isinstance(created, CreatedTask)
            results = f"langlauf:///jobs/{created.task_id}/results?after=0"
            uris: list[str] = []
            async with client.listen(resource_subscriptions=[results]) as stream:
                async for event in stream:
                    uris.append(str(event.uri))
                    task = await ask(client.session, "tasks/get", created.task_id, FoundTask)
                    if task.status == "completed" and uri_in(task.result) == uris[-1]:
                        break
            assert len(uris) == len(set(uris)) > 1

    asyncio.run(main())


def uri_in(result: dict[str, Any] | None) -> str:
    """Return the URI of the whole result in a task."""
    return next(str(block["uri"]) for block in (result or {})["content"] if block["type"] == "resource_link")


def test_the_sdk_cancels(url: str) -> None:
    """The acknowledgement comes at once, the end when the process has stopped."""

    async def main() -> None:
        async with mcp.Client(url, extensions=[TaskExtension()]) as client:
            created = await client.session.call_tool("clustering", endless(), allow_claimed=True)
            await ask(client.session, "tasks/cancel", created.task_id, Result)
            assert (await follow(client.session, created.task_id)).status == "cancelled"

    asyncio.run(main())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("name", INPUTS)
def test_fastmcp_calls_and_reads(url: str, name: str, mode: str) -> None:
    """Its client drives tasks by itself; as an older client it waits with progress."""
    arguments, first = INPUTS[name]

    async def main() -> None:
        progress: list[float] = []

        async def note(percent: float, _: float | None, __: str | None) -> None:
            progress.append(percent)

        async with fastmcp.Client(url, mode=mode) as client:
            assert name in {tool.name for tool in await client.list_tools()}
            assert await client.list_resource_templates()
            result = await client.call_tool(name, arguments, progress_handler=note)
            assert first in result.structured_content["summary"]
            [content] = await client.read_resource(uri_of(result))
            assert json.loads(content.text) == result.structured_content
        assert progress[-1:] == ([100] if mode == "legacy" else [])

    asyncio.run(main())


@pytest.mark.parametrize("name", INPUTS)
def test_fastmcp_watches(url: str, name: str) -> None:
    """By the handle of a task."""
    arguments, first = INPUTS[name]

    async def main() -> None:
        async with fastmcp.Client(url, mode="auto") as client:
            task = await call_tool_task(client, name, arguments)
            assert (await task.status()).status in {"working", "completed"}
            assert (await task.wait()).status == "completed"
            assert first in (await task.result()).structured_content["summary"]

    asyncio.run(main())


def test_fastmcp_cancels(url: str) -> None:
    """By the handle of a task, too."""

    async def main() -> None:
        async with fastmcp.Client(url, mode="auto") as client:
            task = await call_tool_task(client, "clustering", endless())
            await task.cancel()
            assert (await task.wait()).status == "cancelled"

    asyncio.run(main())


def test_the_example_agent_plays_its_calls(url: str) -> None:
    """Without a model: it lists the tools, follows a task, reads its result, and is told of a wrong call."""
    script = [sys.executable, str(ROOT / "examples" / "agent.py"), url.removesuffix("/mcp")]
    done = subprocess.run(script, env=environment(), capture_output=True, text=True, timeout=100, check=True)
    assert "clustering: Group the rows" in done.stdout
    assert "'place': 'Bern'" in done.stdout
    assert "(address_intel)" in done.stdout
