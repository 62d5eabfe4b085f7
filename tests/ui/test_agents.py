"""What pages tell of agents: the address to give them, and which of them called a job."""

from pathlib import Path

from tests.mcp.rpc import Mcp
from tests.support.live import live


def test_the_start_page_has_the_address_for_agents(tmp_path: Path) -> None:
    """Absolute, in both languages, and not where the endpoint is switched off."""
    with live(tmp_path) as server:
        for language in ("en", "de"):
            page = server.http.get("/", headers={"Accept-Language": language}).text
            assert f"<code>{server.url}/mcp</code>" in page
    with live(tmp_path, LANGLAUF_MCP="0") as server:
        assert "/mcp" not in server.http.get("/").text


def test_the_page_of_a_job_names_its_agent(tmp_path: Path) -> None:
    """Tool and client, escaped; nothing for other jobs."""
    with live(tmp_path, LANGLAUF_MCP_INLINE="0") as server:
        info = {"io.modelcontextprotocol/clientInfo": {"name": "<b>Agent</b>", "version": "2"}}
        called = Mcp(server.http).result("tools/call", name="echo", arguments={"query": "Bern"}, _meta=info)
        page = server.http.get(f"/jobs/{called['taskId']}").text
        assert "echo, by the agent &lt;b&gt;Agent&lt;/b&gt; 2" in page
        other = server.wait(server.submit("echo", query="Bern")["job_id"])["job_id"]
        assert "by the agent" not in server.http.get(f"/jobs/{other}").text
