"""`POST /analyze`: synchronous and asynchronous, preferences, keys, duplicates."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from langlauf.clock import new_id
from tests.support.live import GATES, Live, live

pytestmark = pytest.mark.both_stores
ASYNC = {"options": {"async_mode": {"requested": True}}}


def test_a_synchronous_request_is_answered_with_the_result(server: Live) -> None:
    """200 with ok, result, result_id, job_id and request_id; flat parameters go to the default analysis."""
    response = server.http.post("/analyze", json={"query": "Bern"})
    body = response.json()
    assert response.status_code == 200
    assert set(body) == {"ok", "result", "result_id", "job_id", "request_id"}
    assert body["result"] == {"query": "Bern", "intelligence_mode": "basic", "org": "default-org"}
    assert body["request_id"] == response.headers["x-request-id"]
    assert server.job(body["job_id"])["status"] == "completed"


@pytest.mark.parametrize(
    ("body", "headers"),
    [(ASYNC, {}), ({}, {"Prefer": "respond-async"}), ({}, {"Prefer": 'foo=1; x="y", RESPOND-ASYNC'})],
)
def test_an_asynchronous_request_is_accepted(server: Live, body: dict[str, Any], headers: dict[str, str]) -> None:
    """202 with the job, its place and when to ask, by option or by preference."""
    response = server.http.post("/analyze", json={"query": "Bern", **body}, headers=headers)
    answer = response.json()
    assert response.status_code == 202
    assert set(answer) == {"ok", "accepted", "job", "request_id"}
    assert (answer["ok"], answer["accepted"], answer["job"]["status"]) == (True, True, "queued")
    assert response.headers["location"] == f"/analyze/jobs/{answer['job']['job_id']}"
    assert int(response.headers["retry-after"]) >= 1
    assert uuid.UUID(answer["job"]["job_id"]).version == 7
    assert ("preference-applied" in response.headers) == bool(headers)
    assert server.wait(answer["job"]["job_id"])["status"] == "completed"


def test_flat_and_nested_input_are_the_same_job(server: Live) -> None:
    """The hash covers the validated input with defaults, not how it was written, nor the options."""
    flat = server.http.post("/analyze", json={"query": "Chur", **ASYNC}).json()["job"]
    nested = {"analysis": "echo", "input": {"intelligence_mode": "basic", "query": "Chur"}}
    other = server.http.post("/analyze", json=nested, headers={"Prefer": "respond-async"}).json()["job"]
    assert flat["request_payload_hash"] == other["request_payload_hash"]


def test_a_caller_may_wait_a_little_first(server: Live) -> None:
    """respond-async with wait: 200 with the result if it ends in time, else 202; wait alone is ignored."""
    prefer = {"Prefer": "respond-async, wait=5"}
    response = server.http.post("/analyze", json={"query": "Bern"}, headers=prefer)
    assert (response.status_code, response.json()["result"]["query"]) == (200, "Bern")
    assert response.headers["preference-applied"] == "respond-async, wait=5"
    gate = new_id()
    body = {"analysis": "gated", "gate": gate}
    response = server.http.post("/analyze", json=body, headers={"Prefer": "respond-async, wait=1"})
    assert (response.status_code, response.json()["job"]["status"]) == (202, "running")
    GATES.open(gate)
    response = server.http.post("/analyze", json={"query": "Bern"}, headers={"Prefer": "wait=5"})
    assert response.status_code == 200
    assert "preference-applied" not in response.headers


def test_a_synchronous_request_that_takes_too_long_is_stopped(server: Live) -> None:
    """504 timeout past the limit, and the job is canceled by the system."""
    response = server.http.post("/analyze", json={"analysis": "gated", "gate": new_id()})
    problem = response.json()
    assert (response.status_code, problem["error"]) == (504, "timeout")
    job = server.wait(problem["job_id"])
    assert (job["status"], job["canceled_by"]) == ("canceled", "system")


@pytest.mark.parametrize(
    ("how", "status", "error"),
    [
        ("permanent", 422, "address_intel"),
        ("transient", 502, "network_error"),
        ("broken", 500, "internal"),
        ("unstorable", 500, "result_unstorable"),
        ("large", 500, "result_too_large"),
    ],
)
def test_a_failed_analysis_maps_to_a_status(server: Live, how: str, status: int, error: str) -> None:
    """Input gives 422, the network 502, the rest 500; `error` is the job's code."""
    response = server.http.post("/analyze", json={"analysis": "failing", "how": how})
    assert (response.status_code, response.json()["error"]) == (status, error)
    job = server.job(response.json()["job_id"])
    assert (job["status"], job["error_code"], job["partial_count"] >= 1) == ("failed", error, True)
    assert "token=abcdef" not in response.text
    assert "Traceback" not in response.text


def test_an_idempotency_key_is_replayed(server: Live) -> None:
    """The same key and payload give the same job with a header; quoted or bare; another payload is refused."""
    key = new_id()
    headers = {"Idempotency-Key": key, "Prefer": "respond-async"}
    first = server.http.post("/analyze", json={"query": "Bern"}, headers=headers)
    quoted = {**headers, "Idempotency-Key": f'"{key}"'}
    again = server.http.post("/analyze", json={"input": {"query": "Bern"}}, headers=quoted)
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.headers["location"] == again.headers["location"]
    assert ("idempotent-replayed" in first.headers, again.headers["idempotent-replayed"]) == (False, "true")
    other = server.http.post("/analyze", json={"query": "Basel"}, headers=headers)
    assert (other.status_code, other.json()["error"]) == (422, "idempotency_mismatch")
    foreign = server.http.post("/analyze", json={"query": "Basel"}, headers={**headers, "X-Org-Id": "org-b"})
    assert foreign.status_code == 202
    waited = server.http.post("/analyze", json={"query": "Bern"}, headers={"Idempotency-Key": key})
    assert (waited.status_code, waited.json()["job_id"]) == (200, first.json()["job"]["job_id"])


def test_many_requests_with_one_key_make_one_job(server: Live) -> None:
    """A client that retries in panic gets one job and no errors."""
    headers = {"Idempotency-Key": new_id(), "Prefer": "respond-async"}

    def post(_: int) -> tuple[int, str]:
        response = server.http.post("/analyze", json={"query": "Bern"}, headers=headers)
        return response.status_code, response.json()["job"]["job_id"]

    with ThreadPoolExecutor(16) as pool:
        answers = set(pool.map(post, range(64)))
    assert len(answers) == 1
    assert answers.pop()[0] == 202


def test_a_duplicate_is_pointed_to_the_first_job(server: Live) -> None:
    """409 with Location and the job, unless it is allowed or synchronous."""
    gate = new_id()
    first = server.submit("gated", gate=gate)
    body = {"analysis": "gated", "gate": gate}
    response = server.http.post("/analyze", json=body, headers={"Prefer": "respond-async"})
    assert (response.status_code, response.json()["error"]) == (409, "duplicate_job")
    assert response.headers["location"] == first["status_url"]
    assert response.json()["job"]["job_id"] == first["job_id"]
    allowed = {**body, "options": {"async_mode": {"requested": True, "allow_duplicate": True}}}
    assert server.http.post("/analyze", json=allowed).status_code == 202
    GATES.open(gate)
    assert server.http.post("/analyze", json=body).status_code == 200


def test_options_reach_the_job(server: Live) -> None:
    """Priority, retries and a lower time limit are kept; a higher limit is not."""
    mode = {"requested": True, "priority_class": "expedite", "max_retries": 1}
    body = {"query": "Bern", "timeout_seconds": 5, "options": {"async_mode": mode}}
    job = server.http.post("/analyze", json=body).json()["job"]
    assert (job["priority_class"], job["max_retries"], job["timeout_seconds"]) == ("expedite", 1, 5)
    job = server.http.post("/analyze", json={"query": "Bern", "timeout_seconds": "2h", **ASYNC}).json()["job"]
    assert job["timeout_seconds"] == 1800
    job = server.http.post("/analyze", json={"query": "Bern", "timeout_seconds": "9999999999d", **ASYNC}).json()["job"]
    assert job["timeout_seconds"] == 1800


def test_who_asked_and_the_trace_are_kept(server: Live) -> None:
    """X-User-Id, X-Request-Id and traceparent end up with the job and its events."""
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {
        "X-User-Id": "ada",
        "X-Request-Id": "my-request",
        "traceparent": f"00-{trace}-00f067aa0ba902b7-01",
        "Prefer": "respond-async",
    }
    response = server.http.post("/analyze", json={"query": "Bern"}, headers=headers)
    job = server.wait(response.json()["job"]["job_id"])
    assert response.headers["x-request-id"] == "my-request"
    assert (job["requested_by_user_id"], job["request_id"], job["trace_id"]) == ("ada", "my-request", trace)
    assert {event["trace_id"] for event in job["events"]} == {trace}


def test_an_estimate_follows_from_the_run_before(tmp_path: Path) -> None:
    """There is none until a first run has ended; then, with no job before it, a job takes as long as that run did."""
    held, still_held, open_ = new_id(), new_id(), new_id()
    GATES.open(open_)
    with live(tmp_path) as server:
        first = server.submit("gated", gate=held)
        assert first["estimated_seconds"] is None
        GATES.wait_until_reached(held)
        server.job(first["job_id"], wait=1)  # returns after a second: until then nothing happens to the job
        GATES.open(held)
        first = server.wait(first["job_id"])
        started, finished = (datetime.fromisoformat(first[name]) for name in ("started_at", "finished_at"))
        taken = (finished - started).total_seconds()
        assert taken > 0.5
        assert server.submit("gated", gate=open_)["estimated_seconds"] == pytest.approx(taken, abs=0.06)
        other = server.submit("deaf", gate=still_held)  # it cannot have ended before its answer was written
        assert other["estimated_seconds"] is None, "another analysis has not run yet"
        GATES.open(still_held)


@pytest.mark.parametrize(
    ("query", "code", "hint"),
    [
        ("__timeout__", "timeout", "retry_with_backoff"),
        ("__internal__", "internal", "retry_with_backoff"),
        ("__address_intel__", "address_intel", "check_input_and_retry"),
    ],
)
def test_faults_can_be_injected(server: Live, query: str, code: str, hint: str) -> None:
    """With the switch on, certain queries fail at once, without retries, in a known way."""
    job = server.wait(server.submit("echo", query=query)["job_id"])
    assert (job["status"], job["error_code"], job["retry_hint"]) == ("failed", code, hint)
    assert job["error_message"].startswith("forced")
    assert (job["attempt"], job["retry_count"]) == (1, 0)


def test_the_injected_success_completes(server: Live) -> None:
    """__ok__ completes quickly."""
    assert server.wait(server.submit("echo", query="__ok__")["job_id"])["status"] == "completed"


def test_a_job_remembers_whose_input_it_started_from(server: Live) -> None:
    """One of its own org; another's is refused in the words for one that does not exist."""
    first = server.wait(server.submit("echo", query="Bern")["job_id"])["job_id"]

    def submit(org: str, based_on: str) -> httpx2.Response:
        mode = {"requested": True, "based_on": based_on}
        body = {"query": "Basel", "options": {"async_mode": mode}}
        return server.http.post("/analyze", json=body, headers={"X-Org-Id": org, "X-Request-Id": "same"})

    made = submit("default-org", first).json()["job"]
    assert (made["based_on"], made["retry_of"]) == (first, None)
    assert server.wait(made["job_id"])["based_on"] == first
    foreign, unknown = submit("org-b", first), submit("org-b", new_id())
    assert (foreign.status_code, foreign.json()["error"]) == (400, "bad_request")
    assert foreign.json()["field"] == "options.async_mode.based_on"
    assert foreign.json() == unknown.json()
