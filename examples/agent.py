"""An agent without a model: plays the calls of one, to see what an agent sees.

Serve the bundled analyses with `langlauf serve`, then: python examples/agent.py http://127.0.0.1:8080
"""

import sys
import time
from typing import Any

import httpx2

VERSION = "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "Example agent", "version": "1.0"},
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}},
}


class Agent:
    """Calls tools over HTTP, and follows the tasks that come of them."""

    def __init__(self, url: str, key: str | None = None) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = httpx2.Client(base_url=url, headers=headers, timeout=60)
        self._requests = 0

    def ask(self, method: str, name: str | None = None, /, **params: Any) -> dict[str, Any]:
        """Send one request; its headers repeat what the body says."""
        self._requests += 1
        body = {"jsonrpc": "2.0", "id": self._requests, "method": method, "params": {**params, "_meta": META}}
        headers = {"MCP-Protocol-Version": VERSION, "Mcp-Method": method}
        if name is not None:
            headers["Mcp-Name"] = name
        answer = self._http.post("/mcp", json=body, headers=headers).json()
        if "error" in answer:
            raise RuntimeError(answer["error"]["message"])
        result: dict[str, Any] = answer["result"]
        return result

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool. A task is looked up as often as the server asks for, also by an agent that starts anew."""
        answer = self.ask("tools/call", tool, name=tool, arguments=arguments)
        while answer["resultType"] == "task" or answer.get("status") == "working":
            print(f"  {answer['statusMessage']}")
            time.sleep(answer["pollIntervalMs"] / 1_000)
            answer = self.ask("tasks/get", answer["taskId"], taskId=answer["taskId"])
        result: dict[str, Any] = answer.get("result", answer)
        return result


def main(url: str, key: str | None = None) -> None:
    """Look at the tools, call one, and read its result."""
    agent = Agent(url, key)
    for tool in agent.ask("tools/list")["tools"]:
        print(f"{tool['name']}: {tool['description'].partition('. ')[0]}.")
    print("\nWhere is the Bundesplatz?")
    result = agent.call("address", query="Bundesplatz 3, 3005 Bern", intelligence_mode="extended")
    for block in result["content"]:
        if block["type"] == "resource_link":
            print(f"  {block['name']}: {block['uri']}")
    print(f"  {result['structuredContent']['summary']}")
    wrong = agent.call("address", query="xqzvw")
    print(f"\nAnd xqzvw?\n  {wrong['content'][0]['text']}")


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["http://127.0.0.1:8080"]))
