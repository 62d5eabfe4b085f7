"""Requests that wait for their job: they take places like streams, and their clients are watched."""

import json
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from langlauf.api.submit import SubmitHandler
from langlauf.clock import new_id
from tests.http.test_errors import assert_problem
from tests.support.live import GATES, Live, live
from tests.support.processes import eventually
from tests.support.raw_http import RawConnection

STREAM = {"Accept": "text/event-stream"}
WAITING = {"Prefer": "respond-async, wait=20"}


@pytest.fixture
def gate() -> Iterator[str]:
    """A gate that is open at the end, whatever happened: no job is left waiting."""
    name = new_id()
    yield name
    GATES.open(name)


def _live(folder: Path, **environment: str) -> AbstractContextManager[Live]:
    return live(folder, None, LANGLAUF_SHUTDOWN_GRACE="0", LANGLAUF_CANCEL_GRACE="0", **environment)


def _body(gate: str) -> dict[str, Any]:
    return {"analysis": "gated", "input": {"gate": gate}}


def synchronous(gate: str, **headers: str) -> bytes:
    """The bytes of a request that is answered when its job has passed the gate."""
    body = json.dumps(_body(gate))
    fields = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join(["POST /analyze HTTP/1.1", *lines, "", body]).encode()


def _follow(server: Live) -> int:
    """How many have come so far that they follow a job: before that they only have a place."""
    assert server.app.runtime is not None
    return len(server.app.runtime.services.followers._present)


def _waits(server: Live) -> int:
    [value] = re.findall(r"^langlauf_waits_open (\d+)", server.http.get("/metrics").text, re.MULTILINE)
    return int(value)


def _jobs(server: Live) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.http.get("/analyze/jobs").json()["jobs"]
    return found


def test_synchronous_requests_take_the_places_of_their_org(tmp_path: Path, gate: str) -> None:
    """With streams and long polls; past them 429 before anything is accepted. Who needs no place goes on."""
    with _live(tmp_path, LANGLAUF_LIMITS="max_streams_org=2") as server:
        wires = [RawConnection(server.url) for _ in range(2)]
        wires[0].send(synchronous(gate, Prefer=WAITING["Prefer"]))
        GATES.wait_until_reached(gate)
        wires[1].send(synchronous(gate))
        eventually(lambda: _waits(server) == 2 and len(_jobs(server)) == 2)
        jobs = _jobs(server)
        for headers in ({}, WAITING):
            refused = server.http.post("/analyze", json=_body(gate), headers=headers)
            assert_problem(refused, 429, "rate_limited")
            assert int(refused.headers["retry-after"]) >= 5
        path = f"/analyze/jobs/{jobs[0]['job_id']}"
        assert_problem(server.http.get(f"{path}/events", headers=STREAM), 429, "rate_limited")
        assert_problem(server.http.get(f"{path}?wait=20"), 429, "rate_limited")
        assert {job["job_id"] for job in _jobs(server)} == {job["job_id"] for job in jobs}
        server.submit("echo", query="needs no place")
        other = server.http.post("/analyze", json={"query": "x"}, headers={"X-Org-Id": "other"})
        assert other.status_code == 200
        GATES.open(gate)
        assert [wire.reply().status for wire in wires] == [200, 200]
        assert server.http.post("/analyze", json={"query": "there is room again"}).status_code == 200
        for wire in wires:
            wire.socket.close()


def test_all_orgs_together_have_so_many_places_to_wait(tmp_path: Path, gate: str) -> None:
    """Over it 503 with Retry-After, and nothing is accepted."""
    with _live(tmp_path, LANGLAUF_LIMITS="max_streams=1") as server, RawConnection(server.url) as wire:
        wire.send(synchronous(gate))
        eventually(lambda: _waits(server) == 1)
        refused = server.http.post("/analyze", json={"query": "x"}, headers={"X-Org-Id": "other"})
        assert_problem(refused, 503, "unavailable")
        assert int(refused.headers["retry-after"]) >= 5
        assert server.http.get("/analyze/jobs", headers={"X-Org-Id": "other"}).json()["jobs"] == []


@pytest.mark.both_stores
def test_a_synchronous_job_whose_caller_left_is_canceled(server: Live, gate: str) -> None:
    """By the system, as one that takes too long; its place comes back."""
    with RawConnection(server.url) as wire:
        wire.send(synchronous(gate, X_Request_Id=gate[:32]))
        GATES.wait_until_reached(gate)
        assert _waits(server) == 1
    [job] = [one for one in _jobs(server) if one["analysis"] == "gated"]
    ended = server.wait(job["job_id"])
    assert (ended["status"], ended["canceled_by"]) == ("canceled", "system")
    assert "went away" in ended["cancel_reason"]
    assert _waits(server) == 0


def test_an_asynchronous_job_whose_caller_left_goes_on(tmp_path: Path, gate: str) -> None:
    """The caller asked for a job and for a moment of waiting: the job is its own, the place is not."""
    with _live(tmp_path) as server:
        with RawConnection(server.url) as wire:
            wire.send(synchronous(gate, Prefer=WAITING["Prefer"]))
            GATES.wait_until_reached(gate)
        eventually(lambda: _waits(server) == 0)
        [job] = _jobs(server)
        assert job["status"] == "running"
        GATES.open(gate)
        assert server.wait(job["job_id"])["status"] == "completed"


def test_a_job_that_another_caller_waits_for_goes_on(tmp_path: Path, gate: str) -> None:
    """The same request again with its key: the job lives until the last of them has left."""
    with _live(tmp_path) as server:
        for opens in (True, False):
            name = gate if opens else new_id()
            request = synchronous(name, Idempotency_Key=name)
            first, second = RawConnection(server.url), RawConnection(server.url)
            first.send(request)
            GATES.wait_until_reached(name)
            second.send(request)
            eventually(lambda: _follow(server) == 2)
            first.socket.close()
            eventually(lambda: _waits(server) == 1)
            job = _jobs(server)[0]
            assert job["status"] == "running"
            if opens:
                GATES.open(name)
                reply = second.reply()
                assert (reply.status, reply.headers["idempotent-replayed"]) == (200, "true")
            second.socket.close()
            assert server.wait(job["job_id"])["canceled_by"] == (None if opens else "system")


def test_requests_that_began_together_do_not_end_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits a little longer than the limit: hundreds that end in one moment would hold up everybody else."""
    waited: list[float] = []
    until_ended = SubmitHandler._until_ended

    def observed(self: SubmitHandler, caller: Any, job: Any, seconds: float, client: Any) -> Any:
        waited.append(seconds)
        return until_ended(self, caller, job, seconds, client)

    monkeypatch.setattr(SubmitHandler, "_until_ended", observed)
    with _live(tmp_path, LANGLAUF_SYNC_LIMIT="0.1") as server:
        for _ in range(5):
            assert_problem(server.http.post("/analyze", json=_body(new_id())), 504, "timeout")
    assert len(set(waited)) == 5
    assert all(0.1 <= seconds <= 0.105 for seconds in waited)
