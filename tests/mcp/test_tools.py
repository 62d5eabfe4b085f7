"""Tools: one per analysis, called as a submission is, with results that a model can read."""

import base64
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from langlauf import Job, Langlauf
from langlauf.domain.errors import RegistrationError
from tests.mcp.conftest import TwoOrgs
from tests.mcp.rpc import Mcp
from tests.mcp.tool_app import png, tool_app
from tests.support.live import GATES, Live, live


def tools(mcp: Mcp) -> dict[str, Any]:
    """Return the tools by name."""
    return {tool["name"]: tool for tool in mcp.result("tools/list")["tools"]}


def texts(result: dict[str, Any]) -> list[str]:
    """Return the texts of a result."""
    return [block["text"] for block in result["content"] if block["type"] == "text"]


def test_every_analysis_is_a_tool(mcp: Mcp) -> None:
    """In the order of registration, described by docstring, hints and `mcp=`; one may be hidden."""
    found = tools(mcp)
    assert list(found)[:3] == ["echo", "find_place", "greet"]
    assert "hidden" not in found
    place = found["find_place"]
    assert (place["title"], place["description"]) == ("Find a place", "Find a place by its name.")
    assert place["annotations"] == {"readOnlyHint": True, "openWorldHint": False}
    assert place["inputSchema"]["type"] == "object"
    assert place["inputSchema"]["required"] == ["name"]
    assert place["inputSchema"]["properties"]["name"]["description"] == "Its name, such as Bern."
    assert list(place["inputSchema"]["properties"]) == ["name", "options"]
    assert list(place["inputSchema"]["properties"]["options"]["properties"]) == ["run_at", "delay_seconds", "start_by"]
    assert place["outputSchema"]["properties"]["people"] == {"type": "integer"}
    assert "outputSchema" not in found["echo"]
    assert list(found)[-1] == "job_status"


def test_a_wrong_description_is_refused_at_registration() -> None:
    """The error names the keys that there are."""
    app = Langlauf()
    wrong: Any = {"readonly": True}

    async def analysis(job: Job) -> None:
        """Do nothing."""

    with pytest.raises(RegistrationError, match="description, read_only"):
        app.analysis(mcp=wrong)(analysis)


def test_a_short_call_returns_its_result(mcp: Mcp) -> None:
    """Structured, as text, and with links to the result and its page."""
    result = mcp.finish("find_place", name="Bern")
    assert result["resultType"] == "complete"
    assert result["structuredContent"] == {"name": "Bern", "people": 140_000}
    assert texts(result) == ['{"name":"Bern","people":140000}']
    links = [block["uri"] for block in result["content"] if block["type"] == "resource_link"]
    assert links[0].startswith("langlauf:///results/")
    assert mcp.http.get(links[1]).status_code == 200
    assert texts(mcp.finish("greet", name="Ada")) == ["Hello, Ada!"]


def test_views_are_content_for_a_model(mcp: Mcp) -> None:
    """A short Markdown table, texts, pictures, sounds, small files, and the sentence of a chart."""
    result = mcp.finish("show", rows=30)
    shown = {block["type"]: block for block in result["content"]}
    table, remark, chart = texts(result)[1:]
    assert table.startswith("### Places\n\n| Place | People |\n| --- | --- |\n| Place 0 | 0 |\n")
    assert table.endswith("… 10 more rows in the result.")
    assert remark == "### Remark\n\n**Two** words."
    assert chart == "Chart: It rises."
    assert base64.b64decode(shown["image"]["data"]) == png()
    assert shown["audio"]["mimeType"] == "audio/wav"
    assert shown["resource"]["resource"]["text"] == "place,people\nBern,1\n"
    assert mcp.http.get(shown["resource"]["resource"]["uri"]).text == "place,people\nBern,1\n"


def test_a_large_result_is_a_summary_and_a_resource(mcp: Mcp) -> None:
    """A model gets what it can read; the link says how large the rest is."""
    result = mcp.finish("large", size=100_000)
    assert "structuredContent" not in result
    assert "100,011 bytes" in texts(result)[0]
    assert "members: text" in texts(result)[0]
    assert next(block["size"] for block in result["content"] if block["type"] == "resource_link") == 100_011
    assert len(str(result)) < 3_000


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("find_place", {}, "name is required"),
        ("find_place", {"name": 5}, "name must be a text"),
        ("find_place", {"nmae": "x", "name": "xx"}, "did you mean"),
        ("find_place", {"name": "x"}, "at least 2 characters"),
    ],
)
def test_wrong_arguments_are_told_to_the_model(mcp: Mcp, tool: str, arguments: dict[str, Any], words: str) -> None:
    """A result with `isError`, which names the field."""
    result = mcp.call(tool, **arguments)
    assert result["isError"]
    assert words in texts(result)[0]


def test_a_call_may_start_later(server: Live, mcp: Mcp, plain: Mcp) -> None:
    """It is answered at once: with a task, or for a client without tasks with the time and `job_status`."""
    later = {"run_at": "2096-01-31T06:00:00+01:00", "start_by": "2096-02-01T06:00:00Z"}
    task = mcp.call("wait", gate="later", options=later)
    assert task["statusMessage"].startswith("Starts at 2096-01-31T05:00:00Z")
    job = server.job(task["taskId"])
    assert (job["phase"], job["run_at"], job["start_by"]) == (
        "scheduled",
        "2096-01-31T05:00:00Z",
        "2096-02-01T06:00:00Z",
    )
    told = plain.call("wait", gate="later")  # the same arguments: the job that is there
    assert "Starts at 2096-01-31T05:00:00Z" in texts(told)[0]
    assert told["_meta"]["io.langlauf/job"]["job_id"] == task["taskId"]
    mcp.result("tasks/cancel", taskId=task["taskId"])
    soon = mcp.call("find_place", name="Bern", options={"delay_seconds": 0.2})["taskId"]
    assert mcp.ended(soon)["result"]["structuredContent"]["people"] == 140_000
    assert server.job(soon)["started_at"] >= server.job(soon)["run_at"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"run_at": "2096-01-31T06:00:00"}, "options.run_at"),
        ({"delay_seconds": "soon"}, "options.delay_seconds"),
        ({"delay_seconds": "1h", "run_at": "2096-01-31T06:00:00Z"}, "not both"),
        ({"start_by": "2001-01-01T00:00:00Z"}, "start_by must be in the future"),
        ({"run_ta": "2096-01-31T06:00:00Z"}, "did you mean"),
        ("tomorrow", "options"),
    ],
)
def test_wrong_times_are_told_to_the_model(mcp: Mcp, options: Any, words: str) -> None:
    """With `isError` and the field; nothing is accepted."""
    result = mcp.call("find_place", name="Bern", options=options)
    assert result["isError"]
    assert words in texts(result)[0]


def test_an_unknown_tool_is_an_error_of_the_request(mcp: Mcp) -> None:
    """-32602, also for a hidden one."""
    for name in ("made_up", "hidden", "langlauf.probe"):
        assert mcp.error("tools/call", name=name, arguments={})["code"] == -32602
    assert mcp.error("tools/call", name="echo", arguments=[])["code"] == -32602


def test_a_failure_by_the_input_is_a_result_and_one_of_the_code_an_error(plain: Mcp) -> None:
    """The model reads why it failed; a mistake in the code is -32603, without its trace."""
    result = plain.call("fail", how="input")
    assert result["isError"]
    assert texts(result) == ["There is no such place (unknown_place). Check the input, then call the tool again."]
    assert any(block.get("uri", "").endswith("/latest") for block in result["content"])
    error = plain.error("tools/call", name="fail", arguments={"how": "bug"})
    assert error["code"] == -32603
    assert "Traceback" not in str(error)


def test_a_full_queue_and_a_rate_limit_are_told_to_the_model(tmp_path: Path) -> None:
    """With when to come back."""
    settings = {"LANGLAUF_MAX_WAITING_PER_ORG": "1", "LANGLAUF_WORKERS": "0", "LANGLAUF_MCP_INLINE": "0"}
    with live(tmp_path, tool_app(), **settings, LANGLAUF_RATE_LIMIT_SUBMIT="3/1m") as running:
        mcp = Mcp(running.http)
        assert mcp.call("echo", value=1)["resultType"] == "task"
        full = mcp.call("echo", value=2)
        assert full["isError"]
        assert "waiting already; try again in" in texts(full)[0]
        mcp.call("echo", value=3)
        limited = mcp.call("echo", value=4)
        assert limited["isError"]
        assert "too many requests" in texts(limited)[0]


def test_a_client_without_tasks_gets_progress_and_the_result(server: Live, plain: Mcp) -> None:
    """As a stream: rising progress for its token, then the response."""
    with plain.stream(
        "tools/call", name="wait", arguments={"gate": "p", "partials": 3}, _meta={"progressToken": "t"}
    ) as s:
        GATES.wait_until_reached("p")
        GATES.open("p")
        *progress, last = list(s)
    assert {one["method"] for one in progress} == {"notifications/progress"}
    assert {one["params"]["progressToken"] for one in progress} == {"t"}
    percents = [one["params"]["progress"] for one in progress]
    assert percents == sorted(set(percents))
    assert [one for one in percents if 5 < one < 100] == [10, 15, 20]
    assert last["result"]["structuredContent"] == {"gate": "p"}


def test_a_client_without_tasks_is_never_given_one(plain: Mcp) -> None:
    """Past the limit of synchronous requests it is told that the job goes on, and asks with `job_status`."""
    with plain.stream("tools/call", name="wait", arguments={"gate": "long"}) as stream:
        [told] = list(stream)
    result = told["result"]
    assert result["resultType"] == "complete"
    assert "has not ended yet" in texts(result)[0]
    job_id = result["_meta"]["io.langlauf/job"]["job_id"]
    GATES.open("long")
    assert plain.call("job_status", job_id=job_id)["structuredContent"] == {"gate": "long"}


def test_job_status_knows_only_jobs_of_the_org(orgs: TwoOrgs) -> None:
    """Another org's job is as unknown as a made-up one."""
    task = orgs.a.call("wait", gate="a-status")["taskId"]
    foreign, made_up = orgs.b.call("job_status", job_id=task), orgs.b.call("job_status", job_id="x")
    assert foreign == made_up
    assert foreign["isError"]
    GATES.open("a-status")
    assert orgs.a.call("job_status", job_id=task)["structuredContent"] == {"gate": "a-status"}


def test_two_hundred_equal_calls_run_once(server: Live, mcp: Mcp) -> None:
    """All get the same task, or its result; a second call attaches instead of being refused."""
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda _: mcp.call("wait", gate="crowd"), range(200)))
    [task_id] = {answer["taskId"] for answer in answers}
    GATES.open("crowd")
    assert server.wait(task_id)["attempt"] == 1
    listed = server.http.get("/analyze/jobs", params={"analysis": "wait", "q": "crowd"}).json()["jobs"]
    assert [job["job_id"] for job in listed] == [task_id]


def test_a_job_knows_which_agent_called_it(server: Live, mcp: Mcp) -> None:
    """Name and version of the client, cleaned; nothing for other submissions."""
    task = mcp.call("wait", gate="who")["taskId"]
    assert server.job(task)["tool_client"] == "Test agent 1.2"
    name = {"io.modelcontextprotocol/clientInfo": {"name": "Evil\x07\n" + "x" * 500, "version": "token=abcdef123456"}}
    other = mcp.result("tools/call", name="wait", arguments={"gate": "other"}, _meta=name)["taskId"]
    shown = server.job(other)["tool_client"]
    assert len(shown) < 100
    assert "abcdef" not in shown
    assert "\n" not in shown
    assert server.submit("echo", value=1)["tool_client"] is None
    GATES.open("who")
    GATES.open("other")


def test_the_trace_of_a_call_is_that_of_its_job(server: Live, mcp: Mcp) -> None:
    """`traceparent` in `_meta` names it."""
    parent = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}
    task = mcp.result("tools/call", name="wait", arguments={"gate": "traced"}, _meta=parent)["taskId"]
    assert server.job(task)["trace_id"] == "ab" * 16
    GATES.open("traced")
