"""The stream that tells pages of changes: what it says, how often, of what, and to whom."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from langlauf.clock import new_id
from tests.support.keys import make_key, revoke_key
from tests.support.live import GATES, Live, live

ORG = "default-org"


@pytest.fixture
def gate() -> Iterator[str]:
    """A gate that is open at the end, whatever happened: no job is left waiting."""
    name = new_id()
    yield name
    GATES.open(name)


class Hints:
    """The messages of a stream, one after the other."""

    def __init__(self, response: httpx2.Response) -> None:
        self._lines = response.iter_lines()

    def next(self) -> dict[str, Any]:
        """The next message; what is no message is passed over."""
        for line in self._lines:
            if line.startswith("data: "):
                message: dict[str, Any] = json.loads(line[6:])
                return message
        raise EOFError

    def until(self, **wished: Any) -> list[dict[str, Any]]:
        """All messages up to one that is as wished."""
        heard = [self.next()]
        while heard[-1] != wished:
            heard.append(self.next())
        return heard


def _running(server: Live, gate: str, **values: Any) -> dict[str, Any]:
    job_id = server.submit("gated", gate=gate, **values)["job_id"]
    GATES.wait_until_reached(gate)
    return server.job(job_id)


def test_a_stream_tells_what_is_so_and_then_what_changes(server: Live, gate: str) -> None:
    """Nothing between a page and its stream is lost: the number comes first, then each newer one."""
    job = _running(server, gate)
    with server.http.stream("GET", "/stream", params={"jobs": job["job_id"]}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-accel-buffering"] == "no"
        hints = Hints(response)
        assert hints.next() == {"job": job["job_id"], "seq": job["event_seq"]}
        GATES.open(gate)
        ended = server.wait(job["job_id"])
        assert hints.until(job=job["job_id"], seq=ended["event_seq"])


def test_a_stream_says_when_to_come_back_and_carries_no_data(server: Live, gate: str) -> None:
    """A time to wait, and messages of a job and a number alone."""
    job = _running(server, gate, partials=3)
    with server.http.stream("GET", "/stream", params={"jobs": job["job_id"], "org": "1"}) as response:
        lines = response.iter_lines()
        assert re.fullmatch(r"retry: \d+", next(lines))
        data = (json.loads(line[6:]) for line in lines if line.startswith("data: "))
        told = [next(data), next(data)]
    assert sorted(map(sorted, told)) == [["job", "seq"], ["org"]]


def test_any_change_of_the_org_changes_its_mark(server: Live) -> None:
    """A job that is accepted, and its end; another org's job changes nothing."""
    with server.http.stream("GET", "/stream", params={"org": "1"}, headers={"X-Org-Id": "org-s"}) as response:
        hints = Hints(response)
        first = hints.next()
        server.wait(server.submit("echo", "org-t", query="other")["job_id"], "org-t")
        server.wait(server.submit("echo", "org-s", query="mine")["job_id"], "org-s")
        second = hints.next()
        assert set(second) == {"org"}
        assert second != first


def test_a_burst_becomes_few_messages_and_its_end_is_told(server: Live) -> None:
    """At most two a second of a job, and the last of them is the newest."""
    first, second = new_id(), new_id()
    job_id = server.submit("stepwise", gates=[first, second])["job_id"]
    GATES.wait_until_reached(first)
    with server.http.stream("GET", "/stream", params={"jobs": job_id}) as response:
        hints = Hints(response)
        hints.next()
        started = time.monotonic()
        GATES.open(first)
        GATES.open(second)
        ended = server.wait(job_id)
        heard = hints.until(job=job_id, seq=ended["event_seq"])
        assert len(heard) <= 2 * (time.monotonic() - started) + 1


def test_what_is_not_the_callers_is_never_mentioned(server: Live, gate: str) -> None:
    """Another org's job, or none: there is silence, as for one that does not exist."""
    foreign = _running(server, gate)
    mine = server.wait(server.submit("echo", "org-u", query="x")["job_id"], "org-u")
    jobs = ",".join([foreign["job_id"], new_id(), mine["job_id"]])
    with server.http.stream("GET", "/stream", params={"jobs": jobs}, headers={"X-Org-Id": "org-u"}) as response:
        hints = Hints(response)
        assert hints.next() == {"job": mine["job_id"], "seq": mine["event_seq"]}
        GATES.open(gate)
        server.wait(foreign["job_id"])
        again = server.http.post(f"/analyze/jobs/{mine['job_id']}/cancel", headers={"X-Org-Id": "org-u"})
        assert again.status_code == 200
    assert server.http.get("/stream", params={"jobs": ",".join(new_id() for _ in range(51))}).status_code == 400


@pytest.mark.parametrize("query", ["", "?jobs=", "?jobs=,,", "?org=2", "?topic=jobs&org=1"])
def test_a_stream_of_nothing_is_refused(server: Live, query: str) -> None:
    """With the API's error: it is a script that reads it."""
    answer = server.http.get(f"/stream{query}")
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")


def test_streams_of_pages_take_places_and_need_a_key(tmp_path: Path) -> None:
    """401 without one; beyond the places of the org 429; the end of the key is the end of the stream."""
    with live(tmp_path, API_AUTH_TOKEN="s3cret-operator-token", LANGLAUF_LIMITS="max_streams_org=1") as guarded:
        store = tmp_path / "store.db"
        made = make_key(store, ORG)
        mine = {"Authorization": f"Bearer {made.text}"}
        assert guarded.http.get("/stream?org=1").status_code == 401
        with guarded.http.stream("GET", "/stream?org=1", headers=mine) as response:
            hints = Hints(response)
            hints.next()
            refused = guarded.http.get("/stream?org=1", headers=mine)
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) > 0
            revoke_key(store, made.key.key_id)
            with pytest.raises(EOFError):
                hints.until(never="told")


def test_a_stop_ends_the_stream_cleanly(tmp_path: Path) -> None:
    """The server does not wait for it."""
    with live(tmp_path) as short, short.http.stream("GET", "/stream?org=1") as response:
        hints = Hints(response)
        hints.next()
        short.stop()
        with pytest.raises(EOFError):
            hints.next()
