"""Resources and subscriptions: every snapshot under a URI, each new one told once and in order, over reconnects."""

from itertools import islice
from typing import Any

import pytest

from langlauf.clock import new_id
from tests.mcp.conftest import TwoOrgs
from tests.mcp.rpc import PREFIX, Mcp
from tests.support.live import GATES, Live

pytestmark = pytest.mark.both_stores
SUBSCRIPTION = f"{PREFIX}subscriptionId"
SNAPSHOT = "io.langlauf/snapshot"


def read(mcp: Mcp, uri: str) -> str:
    """Return the text of a resource."""
    [content] = mcp.result("resources/read", uri=uri)["contents"]
    assert content["uri"] == uri
    return str(content["text"])


def test_a_result_is_read_under_its_uri(mcp: Mcp) -> None:
    """By its own, and as the newest of its job; it is in the list."""
    result = mcp.finish("large", size=200_000)
    uri = next(block["uri"] for block in result["content"] if block["type"] == "resource_link")
    assert len(read(mcp, uri)) == 200_011
    found = mcp.result("resources/read", uri=uri)
    assert (found["cacheScope"], found["ttlMs"]) == ("private", 60_000)
    about = found["contents"][0]["_meta"][SNAPSHOT]
    assert about["job_status"] == "completed"
    assert read(mcp, f"langlauf:///jobs/{about['job_id']}/latest") == read(mcp, uri)
    assert uri in {one["uri"] for one in mcp.result("resources/list")["resources"]}


def test_interim_results_are_resources(server: Live, mcp: Mcp) -> None:
    """The newest one, and all after a number; nothing is there before the first."""
    gate, empty = new_id(), new_id()
    task = mcp.call("wait", gate=gate, partials=3)["taskId"]
    GATES.wait_until_reached(gate)
    assert read(mcp, f"langlauf:///jobs/{task}/latest") == '{"n":3}'
    assert read(mcp, f"langlauf:///jobs/{task}/results?after=2").count('"result_seq"') == 1
    assert read(mcp, f"langlauf:///jobs/{task}/results").count('"result_seq"') == 3
    other = mcp.call("wait", gate=empty)["taskId"]
    assert mcp.result("resources/read", uri=f"langlauf:///jobs/{other}/latest")["contents"] == []
    GATES.open(gate)
    GATES.open(empty)


def test_templates_name_every_kind(mcp: Mcp) -> None:
    """With how long that holds."""
    found = mcp.result("resources/templates/list")
    assert [one["name"] for one in found["resourceTemplates"]] == ["latest", "results", "result"]
    assert {"ttlMs", "cacheScope"} <= set(found)


def test_unknown_and_foreign_resources_are_answered_alike(orgs: TwoOrgs) -> None:
    """Byte for byte, but for the URI that was asked for."""
    result = orgs.a.finish("echo", value="secret of a")
    uri = next(block["uri"] for block in result["content"] if block["type"] == "resource_link")
    job = orgs.a.result("resources/read", uri=uri)["contents"][0]["_meta"][SNAPSHOT]["job_id"]
    uris = (
        uri,
        f"langlauf:///jobs/{job}/latest",
        f"langlauf:///jobs/{job}/results",
        "langlauf:///results/x",
        "x:y",
        "",
    )
    for one in uris:
        error = orgs.b.error("resources/read", uri=one)
        assert error == {**orgs.b.error("resources/read", uri="langlauf:///results/made-up"), "data": {"uri": one}}
    assert "secret of a" not in orgs.b.post("resources/list").text
    assert orgs.b.error("resources/list", cursor="made up")["code"] == -32602


def test_a_subscription_tells_how_a_task_is_doing(server: Live, mcp: Mcp) -> None:
    """First the acknowledgement, then whole tasks with the id of the subscription; the last one has the result."""
    gates = [new_id(), new_id()]
    task = mcp.call("stepwise", gates=gates)["taskId"]
    GATES.wait_until_reached(gates[0])
    asked = {"taskIds": [task, "made up"], "toolsListChanged": True}
    with mcp.stream("subscriptions/listen", notifications=asked) as stream:
        first = next(stream)
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"]["notifications"] == {"taskIds": [task]}
        told = next(stream)
        GATES.open(gates[0])
        GATES.open(gates[1])
        while told["params"]["status"] == "working":
            assert told["method"] == "notifications/tasks"
            assert told["params"]["_meta"][SUBSCRIPTION] == first["params"]["_meta"][SUBSCRIPTION]
            told = next(stream)
    assert told["params"]["result"]["structuredContent"] == {"n": 2}


def test_ten_partials_are_told_once_and_in_order_over_a_reconnect(server: Live, mcp: Mcp) -> None:
    """A client that names the last number it has seen misses none and sees none twice."""
    gates = [new_id() for _ in range(11)]
    task = mcp.call("stepwise", gates=gates)["taskId"]
    seen: list[int] = []
    opened = iter(gates)

    def collect(stream: Any, most: int) -> None:
        for told in islice(stream, most):
            seen.append(told["params"]["_meta"][SNAPSHOT]["result_seq"])
            assert told["params"]["uri"] == f"langlauf:///results/{told['params']['_meta'][SNAPSHOT]['result_id']}"
            if (gate := next(opened, None)) is not None:
                GATES.open(gate)

    GATES.open(next(opened))
    for most in (3, 1, 4, 3):  # each stream is left in the middle
        uri = f"langlauf:///jobs/{task}/results?after={seen[-1] if seen else 0}"
        with mcp.stream("subscriptions/listen", notifications={"resourceSubscriptions": [uri]}) as stream:
            assert next(stream)["params"]["notifications"] == {"resourceSubscriptions": [uri]}
            collect(stream, most)
    assert seen == list(range(1, 12))


def test_the_newest_result_is_told_as_such(server: Live, mcp: Mcp) -> None:
    """A subscription to `latest` tells of each new one from now on, under the same URI."""
    gates = [new_id() for _ in range(3)]
    task = mcp.call("stepwise", gates=gates)["taskId"]
    GATES.open(gates[0])
    GATES.wait_until_reached(gates[1])
    uri = f"langlauf:///jobs/{task}/latest"
    with mcp.stream(
        "subscriptions/listen", notifications={"resourceSubscriptions": [uri], "taskIds": [task]}
    ) as stream:
        next(stream)
        assert next(stream)["method"] == "notifications/tasks"  # the stream has begun
        GATES.open(gates[1])
        GATES.open(gates[2])
        updates = islice((one for one in stream if one["method"] == "notifications/resources/updated"), 2)
        assert [(one["params"]["uri"], one["params"]["_meta"][SNAPSHOT]["result_seq"]) for one in updates] == [
            (uri, 2),
            (uri, 3),
        ]


def test_a_subscription_is_for_the_own_org_and_bounded(orgs: TwoOrgs, plain: Mcp) -> None:
    """What is not the caller's is not acknowledged; too many, wrong types and no extension are refused."""
    gate = new_id()
    task = orgs.a.call("wait", gate=gate)["taskId"]
    asked: dict[str, Any] = {"taskIds": [task], "resourceSubscriptions": [f"langlauf:///jobs/{task}/latest", "x"]}
    with orgs.b.stream("subscriptions/listen", notifications=asked) as stream:
        assert next(stream)["params"]["notifications"] == {"taskIds": [], "resourceSubscriptions": []}
    too_many = [str(number) for number in range(51)]
    for wrong in ({"taskIds": too_many}, {"taskIds": "x"}, {"resourceSubscriptions": [1]}):
        assert orgs.a.error("subscriptions/listen", notifications=wrong)["code"] == -32602
    assert plain.error("subscriptions/listen", notifications={"taskIds": []})["code"] == -32021
    GATES.open(gate)
