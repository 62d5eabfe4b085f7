"""The promise: a task handle survives `kill -9` of the server, a restart, and the move to another API host."""

import signal
from pathlib import Path

import httpx2
import pytest

from tests.mcp.rpc import Mcp
from tests.support.processes import eventually
from tests.support.server import serving
from tests.support.store_kinds import store_under_test

SETTINGS = {
    "LANGLAUF_MCP_INLINE": "0",
    "LANGLAUF_LEASE_SECONDS": "2",
    "LANGLAUF_POLL_SECONDS": "0.1",
    "LANGLAUF_MAX_RUNNING": "100",
}


def wait_for_half(mcp: Mcp, task_id: str) -> None:
    """Wait until the task has run half of its way."""
    eventually(lambda: "50 %" in mcp.result("tasks/get", taskId=task_id)["statusMessage"])


@pytest.mark.parametrize("kills", [3, 50])
def test_a_client_polls_the_same_task_over_kills(tmp_path: Path, kills: int) -> None:
    """Each round starts a task and kills the server; the same client gets the result of the task from the next one."""
    store, port = tmp_path / "s.db", 0
    tasks: dict[str, Path] = {}
    with httpx2.Client(timeout=60, trust_env=False) as http:
        mcp = Mcp(http)
        for number in range(kills):
            with serving(store, port=port, settings=SETTINGS) as server:
                http.base_url, port = server.url, server.port
                for task, go in tasks.items():  # started before the server was killed
                    go.touch()
                    assert mcp.ended(task)["result"]["structuredContent"] == {"passed": str(go)}
                go = tmp_path / f"go-{number}"
                tasks = {mcp.call("gate", path=str(go))["taskId"]: go}
                [task] = tasks
                wait_for_half(mcp, task)
                server.stop(signal.SIGKILL)
        with serving(store, port=port, settings=SETTINGS):
            for task, go in tasks.items():
                go.touch()
                assert mcp.ended(task)["status"] == "completed"


@pytest.mark.parametrize("kills", [1, 5])
def test_a_client_moves_to_another_host(tmp_path: Path, kills: int) -> None:
    """On PostgreSQL two servers share the tasks: one is killed, and the client goes on with the other."""
    with (
        store_under_test("postgres", tmp_path) as bed,
        serving(bed.place, settings=SETTINGS) as stays,
        httpx2.Client(timeout=60, trust_env=False) as http,
    ):
        mcp = Mcp(http)
        for number in range(kills):
            go = tmp_path / f"go-{number}"
            with serving(bed.place, settings=SETTINGS) as killed:
                http.base_url = killed.url
                task = mcp.call("gate", path=str(go))["taskId"]
                wait_for_half(mcp, task)
                killed.stop(signal.SIGKILL)
            http.base_url = stays.url
            go.touch()
            assert mcp.ended(task)["result"]["structuredContent"] == {"passed": str(go)}
