"""What a stream may cost: its silence, its length, its place, a client that does not read, and one that leaves."""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from langlauf.auth.caller import Caller
from langlauf.clock import new_id
from tests.http.test_errors import assert_problem
from tests.support.event_stream import PATIENCE, Stream, port_of, stream_of
from tests.support.keys import bearer, make_key
from tests.support.live import GATES, Live, live
from tests.support.raw_http import RawConnection, get
from tests.support.sqlite_edits import lengthen_log

CUT = 'langlauf_log_events_total{event="stream_cut"}'
STREAM = {"Accept": "text/event-stream"}


@pytest.fixture
def gate() -> Iterator[str]:
    """A gate that is open at the end, whatever happened: no job is left waiting."""
    name = new_id()
    yield name
    GATES.open(name)


def _live(folder: Path, **environment: str) -> AbstractContextManager[Live]:
    """A server that does not wait for jobs when it stops."""
    return live(folder, None, LANGLAUF_SHUTDOWN_GRACE="0", **environment)


def _metric(server: Live, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", server.http.get("/metrics").text, re.MULTILINE)
    assert found, name
    return float(found[1])


class Calls:
    """A function that remembers what it was called with."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self.arguments: list[Any] = []

    def __call__(self, argument: Any) -> Any:
        self.arguments.append(argument)
        return self.function(argument)


async def _until(condition: Callable[[], bool]) -> None:
    """Ask again and again: what is asked for has no event that a test could wait for."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def _until_open(server: Live, count: int) -> None:
    """Waits for the moment at which so many streams are open."""
    await _until(lambda: _metric(server, "langlauf_streams_open") == count)


async def _caught_up(stream: Stream, last: str = "job.running") -> None:
    while (await stream.next()).kind != last:
        pass


def test_a_silent_stream_sends_comments(tmp_path: Path, gate: str) -> None:
    """They are no events and move no cursor; news does not wait for them."""

    async def body(server: Live, job_id: str) -> None:
        began = time.monotonic()
        async with stream_of(port_of(server.url), job_id) as stream:
            await _caught_up(stream)
            before = len(stream.parser.comments)
            while len(stream.parser.comments) < before + 4:
                assert set((await stream.piece()).split(b"\n\n")) == {b":", b""}
            assert len(stream.parser.comments) - before <= (time.monotonic() - began) / 0.1 + 1
            assert stream.parser.last_event_id == "2"
            GATES.open(gate)
            assert (await stream.next()).kind == "job.completed"

    with _live(tmp_path, LANGLAUF_LIMITS="stream_heartbeat=0.1") as server:
        asyncio.run(body(server, server.submit("gated", gate=gate)["job_id"]))


def test_a_stream_has_a_lifetime_and_the_client_goes_on(tmp_path: Path, gate: str) -> None:
    """It ends cleanly, and the next one brings what came between, and nothing twice."""

    async def body(server: Live, job_id: str) -> None:
        began = time.monotonic()
        async with stream_of(port_of(server.url), job_id) as stream:
            seen = await stream.rest()
            assert time.monotonic() - began >= 0.8
        GATES.open(gate)
        async with stream_of(port_of(server.url), job_id, Last_Event_ID=seen[-1].last_event_id) as stream:
            seen += await stream.rest()
        assert [event.kind for event in seen] == ["job.queued", "job.running", "job.completed"]

    with _live(tmp_path, LANGLAUF_LIMITS="stream_lifetime=1") as server:
        asyncio.run(body(server, server.submit("gated", gate=gate)["job_id"]))


def test_an_org_has_so_many_places_and_no_more(tmp_path: Path, gate: str) -> None:
    """Streams and long polls count together; over it 429 with Retry-After. Who leaves makes room."""

    async def body(server: Live, job_id: str, other: str) -> None:
        port = port_of(server.url)
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(stream_of(port, job_id))
            await stack.enter_async_context(stream_of(port, job_id))
            refused = server.http.get(f"/analyze/jobs/{job_id}/events", headers=STREAM)
            assert_problem(refused, 429, "rate_limited")
            assert 5 <= int(refused.headers["retry-after"]) <= 15
            assert_problem(server.http.get(f"/analyze/jobs/{job_id}?wait=20"), 429, "rate_limited")
            assert server.http.get(f"/analyze/jobs/{job_id}").status_code == 200
            assert server.http.head(f"/analyze/jobs/{job_id}/events", headers=STREAM).status_code == 200
            known = server.http.get(f"/analyze/jobs/{job_id}").headers["etag"]
            changed = server.http.get(f"/analyze/jobs/{job_id}?wait=20", headers={"If-None-Match": f'{known[:-1]}x"'})
            assert changed.status_code == 200, "an answer that needs no waiting needs no place"
            theirs = await stack.enter_async_context(stream_of(port, other, X_Org_Id="org-b"))
            assert theirs.status == 200
            first.cut()
            await _until_open(server, 2)
            again = await stack.enter_async_context(stream_of(port, job_id))
            assert again.status == 200
        await _until_open(server, 0)

    with _live(tmp_path, LANGLAUF_LIMITS="max_streams_org=2") as server:
        other = server.submit("gated", "org-b", gate=gate)["job_id"]
        job_id = server.submit("gated", gate=gate)["job_id"]
        GATES.wait_until_reached(gate)
        asyncio.run(body(server, job_id, other))


def test_a_token_leaves_others_of_its_org_their_places(tmp_path: Path, gate: str) -> None:
    """One token for one job takes a part; the keys of the org have the rest."""
    first, second = (make_key(tmp_path / "store.db", "org-a").text for _ in range(2))

    async def body(server: Live, job_id: str, token: str) -> None:
        path = f"/analyze/jobs/{job_id}/events"
        async with AsyncExitStack() as stack:
            for shown, places, full in ((token, 2, token), (first, 5, token), (second, 1, first)):
                for _ in range(places):
                    opened = stream_of(port_of(server.url), job_id, Authorization=f"Bearer {shown}")
                    assert (await stack.enter_async_context(opened)).status == 200
                refused = server.http.get(path, headers={**STREAM, **bearer(full)})
                assert_problem(refused, 429, "rate_limited")
                assert int(refused.headers["retry-after"]) >= 5

    with _live(tmp_path, LANGLAUF_LIMITS="max_streams_org=8") as server:
        asked = {"analysis": "gated", "gate": gate, "options": {"async_mode": {"requested": True}}}
        job_id = server.http.post("/analyze", json=asked, headers=bearer(first)).json()["job"]["job_id"]
        token = server.http.post(f"/analyze/jobs/{job_id}/token", headers=bearer(first)).json()["token"]
        asyncio.run(body(server, job_id, token))


def test_a_long_poll_whose_client_leaves_gives_its_place_back(tmp_path: Path, gate: str) -> None:
    """At once, not when its time is over: asking and leaving would else take every place and cost nothing."""
    with _live(tmp_path, LANGLAUF_LIMITS="max_streams_org=5") as server:
        job_id = server.submit("gated", gate=gate)["job_id"]
        GATES.wait_until_reached(gate)
        server.wait(job_id, until="running")
        for _ in range(3):
            wires = [RawConnection(server.url) for _ in range(5)]
            for wire in wires:
                wire.send(get(f"/analyze/jobs/{job_id}?wait=30"))
            _until_metric(server, "langlauf_polls_open", 5)
            for wire in wires:
                wire.socket.close()
            _until_metric(server, "langlauf_polls_open", 0)


def _until_metric(server: Live, name: str, value: float) -> None:
    deadline = time.monotonic() + PATIENCE
    while _metric(server, name) != value:
        assert time.monotonic() < deadline, name


def test_a_long_poll_takes_a_place_while_it_waits(tmp_path: Path, gate: str) -> None:
    """And gives it back."""

    async def body(server: Live, job_id: str) -> None:
        async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE, trust_env=False) as http:
            poll = asyncio.create_task(http.get(f"/analyze/jobs/{job_id}?wait=30"))
            await _until(lambda: _metric(server, "langlauf_polls_open") == 1)
            refused = await http.get(f"/analyze/jobs/{job_id}/events", headers=STREAM)
            assert_problem(refused, 429, "rate_limited")
            GATES.open(gate)
            assert (await poll).json()["job"]["status"] == "completed"
            await _until(lambda: _metric(server, "langlauf_polls_open") == 0)

    with _live(tmp_path, LANGLAUF_LIMITS="max_streams_org=1") as server:
        job_id = server.submit("gated", gate=gate)["job_id"]
        GATES.wait_until_reached(gate)
        asyncio.run(body(server, job_id))


def test_all_orgs_together_have_so_many_places(tmp_path: Path, gate: str) -> None:
    """Over it 503 with Retry-After, before anything is sent."""

    async def body(server: Live, job_id: str, other: str) -> None:
        async with stream_of(port_of(server.url), job_id):
            refused = server.http.get(f"/analyze/jobs/{other}/events", headers={**STREAM, "X-Org-Id": "org-b"})
            assert_problem(refused, 503, "unavailable")
            assert int(refused.headers["retry-after"]) >= 5

    with _live(tmp_path, LANGLAUF_LIMITS="max_streams=1") as server:
        job_id = server.submit("gated", gate=gate)["job_id"]
        asyncio.run(body(server, job_id, server.submit("gated", "org-b", gate=gate)["job_id"]))


def test_a_client_that_does_not_read_is_cut_and_nobody_else_notices(
    tmp_path: Path, gate: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What waits for it never grows: it is behind in the log, not in a buffer. Its neighbour has everything at once."""
    size, count = 100_000, 150

    async def body(server: Live, job_id: str) -> None:
        port = port_of(server.url)
        cut_before = _metric(server, CUT)
        async with stream_of(port, job_id, buffer=4_096) as slow, AsyncExitStack() as stack:
            last = lengthen_log(tmp_path / "store.db", job_id, count, size)
            await _until(lambda: _waiting(server) > 0)
            largest = _waiting(server)
            quick = await stack.enter_async_context(stream_of(port, job_id))
            while (await quick.next()).last_event_id != str(last):
                largest = max(largest, _waiting(server))
            assert len(quick.parser.events) == last
            assert largest < 4 * size
            await _until_open(server, 1)
            assert _metric(server, CUT) == cut_before + 1
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await slow.rest()
            GATES.open(gate)
            assert (await quick.rest())[-1].kind == "job.completed"

    with _live(tmp_path, LANGLAUF_LIMITS="stream_patience=2; stream_heartbeat=0.2") as server:
        asyncio.run(body(server, server.submit("gated", gate=gate)["job_id"]))
    assert [record for record in caplog.records if record.exc_info or record.levelno >= logging.WARNING] == []


def _waiting(server: Live) -> int:
    """The most bytes that wait for any one client."""
    return max(
        (one.transport.get_write_buffer_size() for one in list(server.server.connection_limit.connections)), default=0
    )


@pytest.mark.parametrize("how", ["abort", "close", "pipeline"])
def test_a_client_that_leaves_is_noticed_and_forgotten(
    tmp_path: Path, gate: str, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """Its place and its connection come back; nothing is logged; its job goes on."""

    async def body(server: Live, job_id: str) -> None:
        for _ in range(10):
            stream = await Stream.open(port_of(server.url), job_id)
            await stream.piece()
            if how == "pipeline":  # uvicorn tells the newest request of a connection alone that it is gone
                stream.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await asyncio.sleep(0.01)
            await stream.close() if how == "close" else stream.cut()
        await _until_open(server, 0)
        await _until(lambda: _metric(server, CUT) >= 0 and len(server.server.connection_limit.connections) == 1)

    with _live(tmp_path, LANGLAUF_LIMITS="stream_heartbeat=0.2") as server:
        job_id = server.submit("gated", gate=gate)["job_id"]
        asyncio.run(body(server, job_id))
        GATES.open(gate)
        assert server.wait(job_id)["status"] == "completed"
    assert [record for record in caplog.records if record.exc_info or record.levelno >= logging.WARNING] == []


def test_who_may_no_longer_look_is_sent_away(tmp_path: Path, gate: str) -> None:
    """A stream ends cleanly, a long poll is answered with 401, both within five seconds; others stay."""
    revoked: set[str] = set()

    async def allowed(caller: Caller) -> bool:
        return caller.request_id not in revoked

    async def body(server: Live, job_id: str) -> None:
        port = port_of(server.url)
        async with (
            stream_of(port, job_id, X_Request_Id="mine") as mine,
            stream_of(port, job_id, X_Request_Id="theirs") as theirs,
            httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE, trust_env=False) as http,
        ):
            headers = {"X-Request-Id": "polls"}
            poll = asyncio.create_task(http.get(f"/analyze/jobs/{job_id}?wait=30", headers=headers))
            await _caught_up(mine)
            await _caught_up(theirs)
            revoked.update({"mine", "polls"})
            began = time.monotonic()
            assert await mine.rest() == []
            assert_problem(await poll, 401, "unauthorized")
            assert time.monotonic() - began < 25, "the poll was answered because of that, not at the end of its time"
            GATES.open(gate)
            assert [event.kind for event in await theirs.rest()] == ["job.completed"]

    with _live(tmp_path) as server:
        assert server.app.runtime is not None
        server.app.runtime.services.followers._allowed = allowed
        job_id = server.submit("gated", gate=gate)["job_id"]
        GATES.wait_until_reached(gate)
        asyncio.run(body(server, job_id))


def test_idle_streams_cost_one_look_for_all(tmp_path: Path, gate: str) -> None:
    """Whatever their number, nothing is read for a stream to which nothing happens."""

    async def body(server: Live, job_ids: list[str]) -> None:
        assert server.app.runtime is not None
        store: Any = server.app.runtime.store
        async with AsyncExitStack() as stack:
            for number in range(60):
                stream = await stack.enter_async_context(stream_of(port_of(server.url), job_ids[number % 3]))
                await _caught_up(stream, "job.running")
            looks = Calls(store.job_fingerprints)
            store.job_fingerprints = looks
            await _until(lambda: len(looks.arguments) >= 2)  # what the last streams read at their beginning is over
            reads = Calls(store._read)
            store._read = reads
            before, began = len(looks.arguments), time.monotonic()
            await _until(lambda: len(looks.arguments) >= before + 3)
            store.job_fingerprints, store._read = looks.function, reads.function
            assert len(looks.arguments) - before <= time.monotonic() - began + 2, "one a second"
            assert all(sorted(job for _, job in jobs) == sorted(job_ids) for jobs in looks.arguments)
            assert len(reads.arguments) < 60, "there are sixty streams; the sweep reads as well"

    with _live(tmp_path) as server:
        job_ids = [server.submit("gated", gate=gate, partials=number)["job_id"] for number in range(3)]
        asyncio.run(body(server, job_ids))
