"""A job's log as server-sent events: what is sent, where it starts, when it ends, and who gets none."""

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from langlauf.clock import new_id
from tests.http.test_errors import assert_problem
from tests.support.event_stream import Stream, port_of, stream_of
from tests.support.live import GATES, Live, live
from tests.support.server import ROOT, command, environment

STREAM = {"Accept": "text/event-stream"}


@pytest.fixture(scope="module")
def finished(server: Live) -> dict[str, Any]:
    """A job that has ended, with a log of several kinds of events."""
    return server.wait(server.submit("chunked", parts=3)["job_id"])


@pytest.fixture
def gate() -> Iterator[str]:
    """A gate that is open at the end, whatever happened: no job is left waiting."""
    name = new_id()
    yield name
    GATES.open(name)


def _log(server: Live, job_id: str, after: int = 0) -> list[dict[str, Any]]:
    answer = server.http.get(f"/analyze/jobs/{job_id}/events", params={"after": after, "limit": 1000})
    assert answer.headers["content-type"] == "application/json"
    events: list[dict[str, Any]] = answer.json()["events"]
    return events


def _with_stream(
    server: Live, job_id: str, use: Callable[[Stream], Awaitable[None]], query: str = "", **how: Any
) -> None:
    async def body() -> None:
        async with stream_of(port_of(server.url), job_id, query, **how) as stream:
            await use(stream)

    asyncio.run(body())


def _get(server: Live, job_id: str, query: str = "", **headers: str) -> Any:
    """An answer that is no stream."""
    return server.http.get(f"/analyze/jobs/{job_id}/events{query}", headers={**STREAM, **headers})


def test_a_finished_job_is_told_to_its_end(server: Live, finished: dict[str, Any]) -> None:
    """The events of the JSON page, in one line each, under their numbers and kinds; then the clean end."""

    async def use(stream: Stream) -> None:
        assert stream.status == 200
        events = await stream.rest()
        log = _log(server, finished["job_id"])
        assert [json.loads(event.data) for event in events] == log
        assert [event.last_event_id for event in events] == [str(one["event_seq"]) for one in log]
        assert [event.kind for event in events] == [one["event_type"] for one in log]
        assert events[-1].kind == "job.completed"
        assert all("\n" not in event.data for event in events)
        assert stream.parser.unknown == []

    _with_stream(server, finished["job_id"], use)


def test_the_head_is_for_caches_and_proxies(server: Live, finished: dict[str, Any]) -> None:
    """Nothing is stored or held back, and what selects the answer is named; the first bytes say when to come back."""

    async def use(stream: Stream) -> None:
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.headers["cache-control"] == "no-store"
        assert stream.headers["x-accel-buffering"] == "no"
        assert stream.headers["x-request-id"] == "mine"
        vary = {name.strip() for name in stream.headers["vary"].split(",")}
        assert {"Accept", "Authorization", "X-Org-Id", "Last-Event-ID"} <= vary
        assert not {"content-encoding", "content-length"} & set(stream.headers)
        await stream.piece()
        first, second = stream.body.split(b"\n")[:2]
        assert first.startswith(b"retry: ")
        assert second.startswith(b":")
        assert 2_000 <= (stream.parser.retry or 0) < 4_000

    _with_stream(server, finished["job_id"], use, X_Request_Id="mine")


@pytest.mark.parametrize(
    ("accept", "streams"),
    [
        ("text/event-stream", True),
        ("text/event-stream, */*;q=0.5", True),
        ("application/json;q=0.9, text/event-stream", True),
        ("text/*", True),
        ("*/*", False),
        ("text/event-stream, application/json", False),
        ("text/event-stream;q=0.5, application/json", False),
        ("text/event-stream;q=0", False),
        ("application/json", False),
        ("image/png", False),
    ],
)
def test_who_likes_a_stream_better_gets_one(server: Live, finished: dict[str, Any], accept: str, streams: bool) -> None:
    """JSON is for everybody else, also for those who like both alike."""
    answer = server.http.get(f"/analyze/jobs/{finished['job_id']}/events", headers={"Accept": accept})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream" if streams else "application/json")


@pytest.mark.parametrize(
    ("query", "headers", "start"),
    [
        ("", {"Last_Event_ID": "2"}, 2),
        ("?after=3", {}, 3),
        ("?after=1", {"Last_Event_ID": "4"}, 4),
        ("?after=4", {"Last_Event_ID": "1"}, 1),
        ("?after=2", {"Last_Event_ID": ""}, 2),
        ("", {"Last_Event_ID": ""}, 0),
        ("", {"Last_Event_ID": "0"}, 0),
    ],
)
def test_a_stream_goes_on_after_a_number(
    server: Live, finished: dict[str, Any], query: str, headers: dict[str, str], start: int
) -> None:
    """Last-Event-ID wins over `after`: a client that connects again keeps its address. An empty one counts as none."""

    async def use(stream: Stream) -> None:
        events = await stream.rest()
        assert [int(event.last_event_id) for event in events] == list(range(start + 1, finished["event_seq"] + 1))

    _with_stream(server, finished["job_id"], use, query, **headers)


@pytest.mark.parametrize("cursor", ["abc", "-1", "1.5", "1e3", "0x1", " ", "999", "99999999999999999999", "1,2", "+1"])
def test_a_cursor_that_is_none_is_refused(server: Live, finished: dict[str, Any], cursor: str) -> None:
    """As an ordinary problem that names it, in the header and in the query."""
    given = {"Last-Event-ID": cursor} if cursor.strip() else {"Last-Event-ID": "x"}
    problem = assert_problem(_get(server, finished["job_id"], **given), 400, "bad_request")
    assert problem["field"] == "Last-Event-ID"
    answer = server.http.get(f"/analyze/jobs/{finished['job_id']}/events", params={"after": cursor}, headers=STREAM)
    assert assert_problem(answer, 400, "bad_request")["field"] == "after"


def test_a_cursor_that_is_given_twice_is_refused(server: Live, finished: dict[str, Any]) -> None:
    """Nobody guesses which one was meant."""
    twice = [("Accept", "text/event-stream"), ("Last-Event-ID", "1"), ("Last-Event-ID", "2")]
    answer = server.http.get(f"/analyze/jobs/{finished['job_id']}/events", headers=twice)
    assert_problem(answer, 400, "bad_request")


@pytest.mark.parametrize(
    ("query", "field"), [("?limit=5", "limit"), ("?afer=5", "afer"), ("?after=1&after=2", "after")]
)
def test_a_parameter_that_a_stream_does_not_have_is_refused(
    server: Live, finished: dict[str, Any], query: str, field: str
) -> None:
    """A stream has no pages, so it has no `limit`."""
    assert assert_problem(_get(server, finished["job_id"], query), 400, "bad_request")["field"] == field


def test_who_has_the_last_event_is_told_to_stop(server: Live, finished: dict[str, Any]) -> None:
    """204 ends a browser's reconnecting."""
    last = str(finished["event_seq"])
    for answer in (
        _get(server, finished["job_id"], **{"Last-Event-ID": last}),
        _get(server, finished["job_id"], f"?after={last}"),
    ):
        assert (answer.status_code, answer.content) == (204, b"")
        assert answer.headers["cache-control"] == "no-store"
        assert "content-length" not in answer.headers


def test_head_has_the_headers_alone(server: Live, gate: str) -> None:
    """It neither waits nor takes a place, also for a job that goes on."""
    job_id = server.submit("gated", gate=gate)["job_id"]
    answer = server.http.head(f"/analyze/jobs/{job_id}/events", headers=STREAM)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert server.http.head(f"/analyze/jobs/{new_id()}/events", headers=STREAM).status_code == 404


def test_a_foreign_job_is_like_none_at_all(server: Live, finished: dict[str, Any]) -> None:
    """An ordinary 404, the same to the byte."""
    given = {"X-Org-Id": "org-b", "X-Request-Id": "same", "Last-Event-ID": "1"}
    foreign, unknown = _get(server, finished["job_id"], **given), _get(server, new_id(), **given)
    assert_problem(foreign, 404, "not_found")
    assert foreign.content == unknown.content
    assert {**foreign.headers, "date": ""} == {**unknown.headers, "date": ""}


def test_without_a_key_there_is_no_stream(tmp_path: Path) -> None:
    """401 with the challenge, before anything is looked up."""
    with live(tmp_path, API_AUTH_TOKEN="secret") as server:
        answer = _get(server, new_id())
        assert_problem(answer, 401, "unauthorized")
        assert "www-authenticate" in answer.headers


def test_events_come_as_they_happen(server: Live, gate: str) -> None:
    """A stream of a job that runs gets what is stored, then each event, and ends with the job."""

    async def use(stream: Stream) -> None:
        told = [(await stream.next()).kind for _ in range(3)]
        assert told == ["job.queued", "job.running", "job.partial"]
        GATES.open(gate)
        assert [event.kind for event in await stream.rest()] == ["job.completed"]

    _with_stream(server, server.submit("gated", gate=gate, partials=1)["job_id"], use)


def test_a_cancel_ends_the_stream(server: Live, gate: str) -> None:
    """The last event tells how the job ended, whatever the end."""
    job_id = server.submit("gated", gate=gate)["job_id"]

    async def use(stream: Stream) -> None:
        while (await stream.next()).kind != "job.running":
            pass
        server.http.post(f"/analyze/jobs/{job_id}/cancel")
        assert [event.kind for event in await stream.rest()][-1] == "job.canceled"

    _with_stream(server, job_id, use)


def test_retention_leaves_nothing_to_stream(tmp_path: Path) -> None:
    """After it took the events: 204, also for a client that had not seen all of them."""
    with live(tmp_path) as server:
        job = server.wait(server.submit("echo", query="x")["job_id"])
        words = ("cleanup", "--store-file", str(tmp_path / "store.db"), "--events-ttl-seconds", "0")
        subprocess.run(command(*words), cwd=ROOT, env=environment(), capture_output=True, check=True)
        for cursor in ("", "1", str(job["event_seq"])):
            assert _get(server, job["job_id"], **{"Last-Event-ID": cursor}).status_code == 204
        assert_problem(_get(server, job["job_id"], **{"Last-Event-ID": "99"}), 400, "bad_request")
