"""Full queues and estimates over HTTP: what a caller is told, and when to come back."""

import json
import select
from pathlib import Path
from typing import Any

import pytest

from langlauf import Job, Langlauf
from langlauf.clock import new_id
from langlauf.domain.job import NewJob, SubmitOutcome
from langlauf.service.start_times import Estimates
from tests.http.test_errors import assert_problem
from tests.support.live import GATES, Live, live
from tests.support.raw_http import RawConnection, post
from tests.support.stores import query

ASYNC = {"Prefer": "respond-async"}


def limited_app() -> Langlauf:
    """One analysis that waits at a gate, and one of which no more than one may wait."""
    app = Langlauf()

    @app.analysis(duplicates=True)
    async def gated(job: Job, gate: str) -> None:
        await GATES.wait(gate)

    @app.analysis(duplicates=True, queue_limit=1)
    async def narrow(job: Job, gate: str) -> None:
        await GATES.wait(gate)

    return app


@pytest.fixture(autouse=True)
def unremembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates are looked up at each request: what is remembered, and how long, depends on how fast the machine is."""
    defaults = Estimates.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "fresh_seconds", 0.0)


def _post(server: Live, analysis: str, gate: str, org: str, **headers: str) -> Any:
    body = {"analysis": analysis, "input": {"gate": gate}}
    return server.http.post("/analyze", json=body, headers={"X-Org-Id": org, **headers})


def _teach(folder: Path, **paces: float) -> None:
    """Lets the store know what runs took, without taking that long."""
    for name, seconds in paces.items():
        query(folder / "store.db", "INSERT INTO pace (analysis, runs, mean_seconds) VALUES (?, 5, ?)", name, seconds)


@pytest.mark.parametrize(("pace", "lowest", "highest"), [(120.0, 60, 250), (7_200.0, 300, 300), (0.01, 1, 1)])
def test_a_full_queue_tells_when_there_is_room(tmp_path: Path, pace: float, lowest: int, highest: int) -> None:
    """429 for the org and for the analysis, 503 for all, each with an estimate from 1 to 300 seconds."""
    gate = new_id()
    limits = {"LANGLAUF_MAX_RUNNING": "1", "LANGLAUF_MAX_WAITING_PER_ORG": "1", "LANGLAUF_MAX_WAITING": "3"}
    with live(tmp_path, limited_app(), **limits) as server:
        _teach(tmp_path, gated=pace, narrow=pace)
        server.submit("gated", "org-a", gate=gate)
        GATES.wait_until_reached(gate)
        for org, analysis in (("org-a", "gated"), ("org-b", "narrow")):
            server.submit(analysis, org, gate=gate)
        answers = [(429, _post(server, "gated", gate, "org-a", **ASYNC))]
        answers += [(429, _post(server, "narrow", gate, "org-c", **ASYNC))]
        server.submit("gated", "org-c", gate=gate)
        answers += [(503, _post(server, "gated", gate, "org-d", **ASYNC)), (503, _post(server, "gated", gate, "org-d"))]
        for status, answer in answers:
            assert_problem(answer, status, "queue_full")
            assert lowest <= int(answer.headers["retry-after"]) <= highest
            assert f"try again in {answer.headers['retry-after']} s" in answer.json()["message"]
        assert not any(digit in answers[-1][1].json()["message"].split(";")[0] for digit in "123456789")
        GATES.open(gate)


def test_where_nothing_is_known_a_refusal_says_ten_seconds(tmp_path: Path) -> None:
    """No run was ever seen, and none is under way."""
    with live(tmp_path, LANGLAUF_MAX_WAITING_PER_ORG="1", LANGLAUF_WORKERS="0") as server:
        server.submit("echo", query="x")
        full = server.http.post("/analyze", json={"query": "y"}, headers=ASYNC)
        assert_problem(full, 429, "queue_full")
        assert full.headers["retry-after"] == "10"


def test_a_refused_request_may_be_sent_again_as_it_is(tmp_path: Path) -> None:
    """Its key was not used up, and it is not taken for a duplicate of itself."""
    gate, key = new_id(), {"Idempotency-Key": "again", **ASYNC}
    with live(tmp_path, limited_app(), LANGLAUF_MAX_RUNNING="1", LANGLAUF_MAX_WAITING_PER_ORG="1") as server:
        server.submit("gated", gate=gate)
        GATES.wait_until_reached(gate)
        waiting = server.submit("gated", gate=gate)
        assert _post(server, "gated", gate, "default-org", **key).status_code == 429
        server.http.post(f"/analyze/jobs/{waiting['job_id']}/cancel")
        accepted = _post(server, "gated", gate, "default-org", **key)
        assert accepted.status_code == 202
        assert "idempotent-replayed" not in accepted.headers
        GATES.open(gate)


def test_the_estimate_of_a_waiting_job_has_its_queue_in_it(tmp_path: Path) -> None:
    """A run that is under way, one before it, its own: and less when one of them is gone."""
    gate = new_id()
    with live(tmp_path, limited_app(), LANGLAUF_MAX_RUNNING="1") as server:
        _teach(tmp_path, gated=1_000.0)
        server.submit("gated", gate=gate)
        GATES.wait_until_reached(gate)
        before, job = server.submit("gated", gate=gate), server.submit("gated", gate=gate)
        assert 2_700 <= job["estimated_seconds"] <= 3_000
        response = server.http.get(f"/analyze/jobs/{job['job_id']}")
        assert 2_700 <= response.json()["job"]["estimated_seconds"] <= 3_000
        assert response.headers["retry-after"] == "30"
        server.http.post(f"/analyze/jobs/{before['job_id']}/cancel")
        assert 1_700 <= server.job(job["job_id"])["estimated_seconds"] <= 2_000
        GATES.open(gate)


def test_more_submissions_than_the_process_can_write_are_refused_before_they_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 with Retry-After, and nothing of them is kept; what was accepted is there, and /health is answered."""
    with live(tmp_path, LANGLAUF_LIMITS="max_submitting=2", LANGLAUF_WORKERS="0") as server:
        assert server.app.runtime is not None
        gate, store = new_id(), server.app.runtime.store
        submit = store.submit

        async def write_behind_a_gate(new: NewJob) -> SubmitOutcome:
            await GATES.wait(gate)
            return await submit(new)

        monkeypatch.setattr(store, "submit", write_behind_a_gate)
        wires = [RawConnection(server.url) for _ in range(30)]
        for number, wire in enumerate(wires):
            wire.send(post(b'{"query": "%d"}' % number))
        assert server.http.get("/health").status_code == 200
        while len(answered := select.select([wire.socket for wire in wires], [], [], 60)[0]) < 28:
            pass
        assert len(answered) == 28, "two are being written"
        GATES.open(gate)
        replies = [wire.reply() for wire in wires]
        for wire in wires:
            wire.socket.close()
        accepted = {json.loads(reply.body)["job"]["job_id"] for reply in replies if reply.status == 202}
        refused = [reply for reply in replies if reply.status != 202]
        assert (len(accepted), len(refused)) == (2, 28)
        for reply in refused:
            reply.assert_problem(503, "unavailable")
            assert reply.headers["retry-after"] == "1"
        listed = server.http.get("/analyze/jobs", params={"limit": 200}).json()["jobs"]
        assert {job["job_id"] for job in listed} == accepted
