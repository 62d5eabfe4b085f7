"""Idempotency-Key: one key, one job, whatever became of it, and answers as the first request would get them now."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from langlauf.clock import new_id
from tests.http.test_errors import assert_problem
from tests.http.test_expiry import _clean_up
from tests.support.live import GATES, Live, live
from tests.support.store_kinds import store_under_test

pytestmark = pytest.mark.both_stores
ASYNC = {"Prefer": "respond-async"}


def _post(server: Live, key: str, headers: Any = None, /, **body: Any) -> httpx2.Response:
    return server.http.post("/analyze", json=body, headers={"Idempotency-Key": key, **(headers or {})})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("abc", '"abc"'),
        ('a"b', '"a\\"b"'),
        ("a\\b", '"a\\\\b"'),
        ("a,b;c=d", '"a,b;c=d"'),
        ("x" * 255, '"' + "x" * 255 + '"'),
        ("~!@#$%^&*()", '"~!@#$%^&*()"'),
    ],
)
def test_a_bare_and_a_quoted_key_are_the_same(server: Live, one: str, other: str) -> None:
    """Also with what is escaped inside quotes."""
    org = {**ASYNC, "X-Org-Id": new_id()}
    first, second = _post(server, one, org, query="Bern"), _post(server, other, org, query="Bern")
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.headers["location"] == second.headers["location"]
    assert ("idempotent-replayed" in first.headers, second.headers["idempotent-replayed"]) == (False, "true")


@pytest.mark.parametrize(
    "key",
    ["", '""', "a b", '"a b"', "x" * 256, '"' + "x" * 256 + '"', '"a', '"a"b"', '"a\\b"', '"a\\"', "ä", '"a"; p=1'],
)
def test_a_key_that_cannot_be_one_is_refused(server: Live, key: str) -> None:
    """400 that names the header, and nothing is written; as is a key that is given twice."""
    org = new_id()
    raw = [(b"Idempotency-Key", key.encode()), (b"Prefer", b"respond-async"), (b"X-Org-Id", org.encode())]
    for headers in (raw, [*raw, (b"Idempotency-Key", b"other")]):
        refused = server.http.post("/analyze", json={"query": "x"}, headers=headers)
        assert assert_problem(refused, 400, "bad_request")["field"] == "Idempotency-Key"
    assert server.http.get("/analyze/jobs", headers={"X-Org-Id": org}).json()["jobs"] == []


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"analysis": "failing", "how": "permanent"}, 422, "address_intel"),
        ({"analysis": "failing", "how": "transient"}, 502, "network_error"),
        ({"analysis": "failing", "how": "strange"}, 500, "internal"),
        ({"query": "__timeout__"}, 504, "timeout"),
    ],
)
def test_a_replay_tells_how_the_job_ended(server: Live, body: dict[str, Any], status: int, error: str) -> None:
    """A job that failed is not run again: synchronously its error, asynchronously 202 with the job as it is."""
    key = new_id()
    first = _post(server, key, **body)
    assert_problem(first, status, error)
    again = _post(server, key, **body)
    assert assert_problem(again, status, error)["job_id"] == first.json()["job_id"]
    assert (again.headers["idempotent-replayed"], "idempotent-replayed" in first.headers) == ("true", False)
    later = _post(server, key, ASYNC, **body)
    assert (later.status_code, later.json()["job"]["status"]) == (202, "failed")
    assert later.headers["location"] == again.headers["content-location"]
    waited = _post(server, key, {"Prefer": "respond-async, wait=5"}, **body)
    assert_problem(waited, status, error)
    assert (waited.headers["idempotent-replayed"], waited.headers["preference-applied"]) == (
        "true",
        "respond-async, wait=5",
    )


def test_a_replay_of_a_canceled_job_is_that_job(server: Live) -> None:
    """409 to whoever waits for a result, 202 to whoever wants the job."""
    key, gate = new_id(), new_id()
    body = {"analysis": "gated", "gate": gate}
    job_id = _post(server, key, ASYNC, **body).json()["job"]["job_id"]
    server.http.post(f"/analyze/jobs/{job_id}/cancel")
    server.wait(job_id)
    refused = _post(server, key, **body)
    assert assert_problem(refused, 409, "canceled")["job_id"] == job_id
    again = _post(server, key, ASYNC, **body)
    assert (again.status_code, again.json()["job"]["status"]) == (202, "canceled")
    assert int(again.headers["retry-after"]) >= 1


def test_a_replay_of_a_running_job_waits_for_it(server: Live) -> None:
    """It is looked up before duplicates, and a wait that is too long does not cancel what another started."""
    key, gate = new_id(), new_id()
    body = {"analysis": "gated", "gate": gate}
    job_id = _post(server, key, ASYNC, **body).json()["job"]["job_id"]
    GATES.wait_until_reached(gate)
    assert _post(server, key, ASYNC, **body).json()["job"]["status"] == "running"
    late = _post(server, key, **body)
    assert assert_problem(late, 504, "timeout")["job_id"] == job_id
    assert (late.headers["idempotent-replayed"], late.headers["content-location"][-36:]) == ("true", job_id)
    assert server.job(job_id)["cancel_requested_at"] is None
    GATES.open(gate)
    assert server.wait(job_id)["status"] == "completed"
    assert _post(server, key, **body).json()["result"] == {"gate": gate}


def test_a_replay_of_what_retention_removed_says_so(store_kind: str, tmp_path: Path) -> None:
    """410 with the header; asynchronously the job is still there."""
    with store_under_test(store_kind, tmp_path) as bed, live(tmp_path, LANGLAUF_STORE=bed.place) as server:
        assert _post(server, "k", query="x").status_code == 200
        _clean_up(bed.place)
        gone = _post(server, "k", query="x")
        assert_problem(gone, 410, "expired")
        assert gone.headers["idempotent-replayed"] == "true"
        later = _post(server, "k", ASYNC, query="x").json()["job"]
        assert (later["status"], later["result_expired_at"] is None) == ("completed", False)


def test_only_jobs_are_remembered(server: Live) -> None:
    """A request that was refused leaves its key free."""
    key = new_id()
    assert_problem(_post(server, key, qury="x"), 400, "bad_request")
    assert _post(server, key, query="x").status_code == 200


def test_options_are_not_part_of_what_a_key_stands_for(server: Live) -> None:
    """The analysis and its input are, with defaults filled in."""
    key = new_id()
    first = _post(server, key, ASYNC, query="Bern", timeout_seconds=5)
    options = {"async_mode": {"requested": True, "priority_class": "expedite", "max_retries": 0}}
    again = _post(server, key, query="Bern", intelligence_mode="basic", options=options)
    assert again.headers["location"] == first.headers["location"]
    assert_problem(_post(server, key, query="Bern", intelligence_mode="risk"), 422, "idempotency_mismatch")


def test_a_retry_has_its_own_keys(server: Live) -> None:
    """The same key gives the same new job; the key of the first submission would hide it, and is refused."""
    key, other = new_id(), new_id()
    body = {"analysis": "failing", "how": "permanent"}
    first = _post(server, key, **body).json()["job_id"]
    path = f"/analyze/jobs/{first}/retry"
    made = server.http.post(path, headers={"Idempotency-Key": other})
    server.wait(made.json()["job"]["job_id"])
    again = server.http.post(path, headers={"Idempotency-Key": other})
    assert (made.status_code, again.status_code) == (202, 202)
    assert made.headers["location"] == again.headers["location"]
    assert again.headers["idempotent-replayed"] == "true"
    assert_problem(server.http.post(path, headers={"Idempotency-Key": key}), 422, "idempotency_mismatch")
    assert_problem(_post(server, other, **body), 422, "idempotency_mismatch")
    second = f"/analyze/jobs/{made.json()['job']['job_id']}/retry"
    assert_problem(server.http.post(second, headers={"Idempotency-Key": other}), 422, "idempotency_mismatch")


def test_a_retry_of_what_runs_again_already_is_a_duplicate(server: Live) -> None:
    """409 with the job, its place and when to ask, as at submission."""
    gate = new_id()
    body = {"analysis": "gated", "gate": gate}
    first = server.http.post("/analyze", json=body, headers=ASYNC).json()["job"]["job_id"]
    server.http.post(f"/analyze/jobs/{first}/cancel")
    server.wait(first)
    running = server.http.post("/analyze", json=body, headers=ASYNC).json()["job"]["job_id"]
    refused = server.http.post(f"/analyze/jobs/{first}/retry")
    problem = assert_problem(refused, 409, "duplicate_job")
    assert problem["job"]["job_id"] == running
    assert refused.headers["location"] == f"/analyze/jobs/{running}"
    assert int(refused.headers["retry-after"]) >= 1
    GATES.open(gate)
    server.wait(running)


def test_callers_with_one_key_that_wait_together_get_one_result(server: Live) -> None:
    """One of them runs it, the others wait for the same job; exactly one answer is no replay."""
    key = new_id()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: _post(server, key, query="Bern"), range(16)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["job_id"] for answer in answers}) == 1
    assert sum("idempotent-replayed" not in answer.headers for answer in answers) == 1
