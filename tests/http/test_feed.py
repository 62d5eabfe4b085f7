"""The event feed of an org over HTTP: pages and streams of CloudEvents, from any place to the end."""

import asyncio
import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from langlauf.clock import new_id
from langlauf.domain.event import CloudEvent, OutboundType
from tests.http.keyed_server import KeyedServer
from tests.http.test_errors import assert_problem
from tests.support.event_stream import ServerEvent, Stream, feed_of, port_of
from tests.support.keys import bearer
from tests.support.live import GATES, Live, live
from tests.support.server import ROOT, command, environment

FEED = "/analyze/events"
STREAM = {"Accept": "text/event-stream"}


@pytest.fixture(scope="module")
def history(server: Live) -> list[dict[str, Any]]:
    """What an org of its own has to tell: two jobs, one after the other."""
    for values in ({"how": "permanent"}, {"how": "unstorable"}):
        server.wait(server.submit("failing", "org-feed", **values)["job_id"], "org-feed")
    return _pages(server, "org-feed")


@pytest.fixture
def gate() -> Iterator[str]:
    """A gate that is open at the end, whatever happened."""
    name = new_id()
    yield name
    GATES.open(name)


def _page(server: Live, org: str, **query: Any) -> dict[str, Any]:
    response = server.http.get(FEED, params=query, headers={"X-Org-Id": org})
    assert response.status_code == 200, response.text
    page: dict[str, Any] = response.json()
    assert set(page) == {"ok", "events", "next_after", "more", "request_id"}
    return page


def _pages(server: Live, org: str, **query: Any) -> list[dict[str, Any]]:
    """All events, page by page."""
    found, more = list[dict[str, Any]](), True
    while more:
        page = _page(server, org, **query)
        found += page["events"]
        query["after"], more = page["next_after"], page["more"]
    return found


def _kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].rpartition(".")[2] for event in events]


def test_a_page_has_cloud_events_of_all_jobs(server: Live, history: list[dict[str, Any]]) -> None:
    """Every member of the contract; ids and numbers are those of the jobs' own logs."""
    assert _kinds(history) == 2 * ["queued", "started", "partial", "failed"]
    first = history[0]
    job = server.job(first["subject"], "org-feed")
    assert first == {
        "specversion": "1.0",
        "id": job["events"][0]["event_id"],
        "source": "/analyze",
        "type": "api.analyze.job.queued",
        "subject": job["job_id"],
        "time": job["events"][0]["occurred_at"],
        "timestamp": job["events"][0]["occurred_at"],
        "datacontenttype": "application/json",
        "data": {
            "job_id": job["job_id"],
            "org_id": "org-feed",
            "status": "queued",
            "event_seq": 1,
            "occurred_at": job["events"][0]["occurred_at"],
            "trace_id": job["trace_id"],
            "result_id": None,
        },
    }
    assert history[3]["data"]["result_id"] == job["result_id"]
    assert set(first) == set(CloudEvent.__struct_fields__)


def test_any_place_leads_to_the_rest(server: Live, history: list[dict[str, Any]]) -> None:
    """Page by page, whatever their size; a stream from there gives the same."""
    places = ["start"]
    for _ in history:
        places.append(_page(server, "org-feed", after=places[-1], limit=1)["next_after"])
    port = port_of(server.url)

    async def streamed(place: str, count: int) -> list[ServerEvent]:
        async with feed_of(port, Last_Event_ID=place, X_Org_Id="org-feed") as stream:
            return [await stream.next() for _ in range(count)]

    for number, place in enumerate(places):
        for limit in (1, 3, 200):
            assert _pages(server, "org-feed", after=place, limit=limit) == history[number:]
        events = asyncio.run(streamed(place, len(history) - number))
        assert [json.loads(event.data) for event in events] == history[number:]
        assert [event.kind for event in events] == [event["type"] for event in history[number:]]
        assert [event.last_event_id for event in events] == places[number + 1 :]


def test_only_some_kinds(server: Live, history: list[dict[str, Any]]) -> None:
    """By their full names or the last word; a place goes with any choice."""
    for words in ("failed,queued", f"{OutboundType.FAILED},{OutboundType.QUEUED}"):
        assert _kinds(_pages(server, "org-feed", types=words, limit=1)) == 2 * ["queued", "failed"]
    place = _page(server, "org-feed", types="queued", limit=1)["next_after"]
    assert _pages(server, "org-feed", after=place) == history[1:]


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "201"},
        {"after": "x"},
        {"after": "Wzo"},
        {"after": "e30"},
        {"after": "bm8"},
        {"after": "x" * 2_000},
        {"types": "progress"},
        {"types": "queued,"},
        {"types": "queued,,failed"},
        {"wait": "31"},
        {"follow": "1"},
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(server: Live, query: dict[str, str]) -> None:
    """In both forms, with the name of what is wrong."""
    for headers in ({}, STREAM):
        problem = server.http.get(FEED, params=query, headers=headers)
        assert_problem(problem, 400, "bad_request")
        assert next(iter(query)) in problem.json()["message"]


def test_a_stream_refuses_what_is_for_pages_and_bad_ids(server: Live) -> None:
    """A page does not look at the header."""
    for query in ({"limit": "5"}, {"wait": "5"}):
        assert_problem(server.http.get(FEED, params=query, headers=STREAM), 400, "bad_request")
    problem = server.http.get(FEED, headers={**STREAM, "Last-Event-ID": "7"})
    assert_problem(problem, 400, "bad_request")
    assert "Last-Event-ID" in problem.json()["message"]
    assert server.http.get(FEED, headers={"Last-Event-ID": "7"}).status_code == 200


def test_places_with_impossible_numbers_are_refused(server: Live, history: list[dict[str, Any]]) -> None:
    """Made up, but of the right form: nothing of it reaches the store."""
    assert history
    place = json.loads(_decoded(_page(server, "org-feed", limit=1)["next_after"]))
    for number, bad in ((2, 2**70), (3, -(2**70)), (5, -1), (5, 2**31), (4, 7), (1, None)):
        changed = [bad if at == number else value for at, value in enumerate(place)]
        text = base64.urlsafe_b64encode(json.dumps(changed).encode()).decode().rstrip("=")
        answered = server.http.get(FEED, params={"after": text}, headers={"X-Org-Id": "org-feed"})
        assert_problem(answered, 400, "bad_request")


def _decoded(place: str) -> bytes:
    return base64.urlsafe_b64decode(place + "=" * (-len(place) % 4))


def test_an_org_has_its_own_feed_and_no_other(server: Live, history: list[dict[str, Any]]) -> None:
    """Nothing of another org, by page, by stream or by place."""
    assert history
    assert _page(server, "org-nobody")["events"] == []
    place = _page(server, "org-feed", limit=1)["next_after"]
    problem = server.http.get(FEED, params={"after": place}, headers={"X-Org-Id": "org-nobody"})
    assert_problem(problem, 400, "bad_request")
    made = server.submit("echo", "org-own", query="x")
    server.wait(made["job_id"], "org-own")

    async def main() -> ServerEvent:
        async with feed_of(port_of(server.url), X_Org_Id="org-own") as stream:
            return await stream.next()

    assert json.loads(asyncio.run(main()).data)["subject"] == made["job_id"]


def test_a_token_for_one_job_is_not_for_the_feed(closed: KeyedServer, job: dict[str, Any]) -> None:
    """Its own log is open to it, the org's feed is not; a key that may read may have it."""
    made = closed.live.http.post(f"/analyze/jobs/{job['job_id']}/token", json={}, headers=bearer(closed.admin))
    token = made.json()["token"]
    assert closed.live.http.get(f"/analyze/jobs/{job['job_id']}/events", headers=bearer(token)).status_code == 200
    assert_problem(closed.live.http.get(FEED, headers=bearer(token)), 403, "forbidden")
    assert_problem(closed.live.http.get(FEED), 401, "unauthorized")
    page = closed.live.http.get(FEED, headers=bearer(closed.admin)).json()
    assert job["job_id"] in {event["subject"] for event in page["events"]}


def test_a_stream_goes_on_live_over_all_jobs(server: Live, gate: str) -> None:
    """From the end on, only what comes; who saw nothing yet comes back to where it was, not to a later end."""
    port = port_of(server.url)
    server.wait(server.submit("echo", "org-live", query="before")["job_id"], "org-live")

    async def main() -> None:
        async with feed_of(port, "?after=latest", X_Org_Id="org-live") as stream:
            while not stream.parser.last_event_id:
                await stream.piece()
            came_back_with = stream.parser.last_event_id
        made = await asyncio.to_thread(server.submit, "gated", "org-live", gate=gate, partials=1)
        async with feed_of(port, "?after=latest", X_Org_Id="org-live", Last_Event_ID=came_back_with) as stream:
            seen = [(await stream.next()).kind.rpartition(".")[2] for _ in range(3)]
            GATES.open(gate)
            last = await stream.next()
            assert [*seen, last.kind.rpartition(".")[2]] == ["queued", "started", "partial", "completed"]
            assert json.loads(last.data)["subject"] == made["job_id"]

    asyncio.run(main())


def test_a_page_is_held_until_there_is_something(server: Live, gate: str) -> None:
    """At most as long as was wished; what is there already is given at once."""
    end = _page(server, "org-held", after="latest")["next_after"]

    async def main() -> None:
        held = asyncio.create_task(asyncio.to_thread(_page, server, "org-held", after=end, wait=20))
        await asyncio.to_thread(server.submit, "gated", "org-held", gate=gate)
        page = await held
        assert _kinds(page["events"])[:1] == ["queued"]

    asyncio.run(main())
    assert _kinds(_page(server, "org-held", after=end, wait=30)["events"])[:1] == ["queued"]
    assert _page(server, "org-held", after="latest", wait=1, types="canceled")["events"] == []


def test_a_place_outlives_what_retention_took(tmp_path: Path) -> None:
    """Beside a running server every event goes, the newest too; who was behind it gets what comes next."""
    with live(tmp_path) as server:
        server.wait(server.submit("echo", query="old")["job_id"])
        place = _page(server, "default-org", limit=200)["next_after"]
        words = command("cleanup", "--store-file", str(tmp_path / "store.db"), "--events-ttl-seconds", "0")
        subprocess.run([*words, "--json"], cwd=ROOT, env=environment(), capture_output=True, check=True)
        assert _page(server, "default-org")["events"] == []
        made = server.submit("echo", query="new")
        server.wait(made["job_id"])
        events = _pages(server, "default-org", after=place)
        assert (_kinds(events), {event["subject"] for event in events}) == (
            ["queued", "started", "completed"],
            {made["job_id"]},
        )


def test_a_stream_is_bounded_as_those_of_jobs_are(tmp_path: Path) -> None:
    """Heartbeats while nothing happens, a clean end after its lifetime, and no more places than there are."""
    bounds = {
        "LANGLAUF_LIMITS": "stream_heartbeat=0.05; stream_lifetime=0.5; max_streams_org=1",
    }
    with live(tmp_path, **bounds) as server:
        port = port_of(server.url)

        async def main() -> None:
            async with feed_of(port) as stream:
                busy = await Stream.open(port, "", path=FEED)
                assert busy.status == 429
                busy.cut()
                assert await stream.rest() == []
                assert stream.ended
                assert stream.body.count(b":\n\n") >= 3

        asyncio.run(main())


def test_the_source_is_the_public_address(tmp_path: Path) -> None:
    """Where one is set, receivers can tell servers apart by it."""
    with live(tmp_path, None, True, LANGLAUF_PUBLIC_URL="https://jobs.example/base") as server:
        server.submit("echo", query="x")
        assert {event["source"] for event in _page(server, "default-org")["events"]} == {
            "https://jobs.example/base/analyze"
        }
