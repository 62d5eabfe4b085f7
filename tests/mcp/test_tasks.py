"""Tasks: a job under its own id, for its org alone, until retention removes it."""

from typing import Any

import pytest

from langlauf.clock import new_id
from tests.mcp.conftest import TwoOrgs
from tests.mcp.rpc import TASKS, Mcp
from tests.mcp.tool_app import tool_app
from tests.support.live import GATES, Live, live
from tests.support.processes import eventually

pytestmark = pytest.mark.both_stores


def test_a_task_is_followed_to_its_result(server: Live, mcp: Mcp) -> None:
    """Flat fields, a sentence about its progress, and at the end the result of the tool."""
    gate = new_id()
    created = mcp.call("wait", gate=gate, partials=2)
    assert created["resultType"] == "task"
    assert not {"result", "error", "inputRequests", "task"} & set(created)
    GATES.wait_until_reached(gate)
    working = mcp.result("tasks/get", taskId=created["taskId"])
    assert (working["resultType"], working["status"], working["ttlMs"]) == ("complete", "working", None)
    assert working["statusMessage"].startswith("Part 2 · 15 %")
    assert working["statusMessage"].endswith("interim result 2")
    assert 1_000 <= working["pollIntervalMs"] <= 30_000
    assert working["createdAt"] <= working["lastUpdatedAt"]
    assert working["_meta"]["io.langlauf/job"]["latest"] == f"langlauf:///jobs/{created['taskId']}/latest"
    GATES.open(gate)
    done = mcp.ended(created["taskId"])
    assert done["status"] == "completed"
    assert done["result"]["structuredContent"] == {"gate": gate}
    assert 7 * 86_400_000 <= done["ttlMs"] < 8 * 86_400_000
    assert server.job(created["taskId"])["status"] == "completed"


def test_a_task_can_be_canceled(server: Live, mcp: Mcp) -> None:
    """As the user; the acknowledgement is empty, also for a task that has ended."""
    task = mcp.call("wait", gate="never")["taskId"]
    acknowledged = mcp.result("tasks/cancel", taskId=task)
    assert set(acknowledged) == {"resultType", "_meta"}
    done = mcp.ended(task)
    assert done["status"] == "cancelled"
    assert "result" not in done
    assert server.job(task)["canceled_by"] == "user"
    assert mcp.result("tasks/cancel", taskId=task) == acknowledged
    assert mcp.result("tasks/update", taskId=task, inputResponses={"made up": {}}) == acknowledged


def test_a_tool_that_failed_is_completed_and_a_fault_failed(server: Live, mcp: Mcp) -> None:
    """`failed` is for faults that the caller did not cause. Any job of the org is a task."""
    by_input, by_bug = (mcp.ended(server.submit("fail", how=how)["job_id"]) for how in ("input", "bug"))
    assert (by_input["status"], by_input["result"]["isError"]) == ("completed", True)
    assert by_bug["status"] == "failed"
    assert by_bug["error"]["code"] == -32603
    assert "result" not in by_bug


def test_tasks_are_for_clients_that_name_the_extension(plain: Mcp) -> None:
    """-32021, with the capability that is missing."""
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        error = plain.error(method, taskId="x", inputResponses={})
        assert error["code"] == -32021
        assert error["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}


def test_a_tool_can_be_a_task_always(server: Live, mcp: Mcp, plain: Mcp) -> None:
    """At once, however short the job; a client without tasks is refused, and no job comes of it."""
    created = mcp.call("recount", name="Bern")
    assert created["resultType"] == "task"
    assert mcp.ended(created["taskId"])["result"]["content"][0]["text"] == "Bern again"
    error = plain.error("tools/call", name="recount", arguments={"name": "Biel"})
    assert (error["code"], error["data"]["requiredCapabilities"]) == (-32021, {"extensions": {TASKS: {}}})
    assert server.http.get("/analyze/jobs", params={"q": "Biel"}).json()["jobs"] == []


def test_unknown_and_foreign_tasks_are_answered_alike(orgs: TwoOrgs) -> None:
    """Byte for byte, by every method, so that an id tells nothing."""
    gate = new_id()
    task = orgs.a.call("wait", gate=gate)["taskId"]
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        answers = {
            orgs.b.post(method, {"taskId": task_id, "inputResponses": {}}).text.partition('"error"')[2]
            for task_id in (task, "made up", task[:-1] + "0", "0" * 36, "ü", "'; DROP TABLE jobs")
        }
        [answer] = answers
        assert '"code":-32602' in answer
    assert orgs.a.result("tasks/get", taskId=task)["status"] == "working"
    GATES.open(gate)


def test_an_expired_task_is_unknown(tmp_path: Any) -> None:
    """Once retention has removed its result."""
    settings = {"LANGLAUF_FINAL_RETENTION": "0", "LANGLAUF_MCP_INLINE": "0"}
    with live(tmp_path, tool_app(), **settings, LANGLAUF_LIMITS="retention_every=0.05") as running:
        mcp = Mcp(running.http)
        task = mcp.call("echo", value=1)["taskId"]
        eventually(lambda: mcp.post("tasks/get", {"taskId": task}).status_code == 400)
        assert mcp.error("tasks/get", taskId=task) == mcp.error("tasks/get", taskId="made up")
