"""Sentences of the contract that no other file holds: bodies, forms of values, callers that go away."""

import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from langlauf.clock import new_id
from tests.http.test_errors import assert_problem
from tests.support.live import GATES, Live

ASYNC = {"Prefer": "respond-async"}


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
        "application/json; profile=x; charset=utf-8",
        "application/json; version=1",
    ],
)
def test_parameters_of_the_media_type_that_mean_nothing_are_no_obstacle(server: Live, kind: str) -> None:
    """Only another charset is."""
    response = server.http.post("/analyze", content=b'{"query": "x"}', headers={"Content-Type": kind})
    assert response.status_code == 200


@pytest.mark.parametrize(
    ("value", "kept"),
    [(5, 5), (0.5, 0.5), ("5", 5), ("5s", 5), ("1m", 60), ("0.5h", 1800), ("90d", 1800), (10**15, 1800), (None, 1800)],
)
def test_a_time_limit_has_many_forms_and_is_only_lowered(server: Live, value: Any, kept: float) -> None:
    """Seconds or a text with a unit."""
    response = server.http.post("/analyze", json={"query": "x", "timeout_seconds": value}, headers=ASYNC)
    assert response.json()["job"]["timeout_seconds"] == kept


@pytest.mark.parametrize("value", [0, -1, "", "-5", "5x", "m", [5], {}, True, "1e9", "nan", "inf"])
def test_other_time_limits_are_refused(server: Live, value: Any) -> None:
    """400 with the name."""
    response = server.http.post("/analyze", json={"query": "x", "timeout_seconds": value}, headers=ASYNC)
    assert assert_problem(response, 400, "bad_request")["field"] == "timeout_seconds"


def test_an_unknown_parameter_of_a_submission_is_refused(server: Live) -> None:
    """As at every other address: ?async=true would otherwise be ignored in silence."""
    for path in ("/analyze?async=true", "/analyze/jobs/x/cancel?force=1", "/analyze/jobs/x/retry?resume=0"):
        assert_problem(server.http.post(path, json={"query": "x"}), 400, "bad_request")


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("cancel", {"reason": 1}, "reason"),
        ("cancel", {"reason": "x" * 501}, "reason"),
        ("cancel", {"why": "x"}, "why"),
        ("retry", {"resume": "yes"}, "resume"),
        ("retry", {"resume": None}, "resume"),
        ("retry", {"restart": True}, "restart"),
    ],
)
def test_a_body_of_cancel_or_retry_is_checked(server: Live, verb: str, body: dict[str, Any], field: str) -> None:
    """400 with the name, and the job is as it was."""
    gate = new_id()
    job_id = server.submit("gated", gate=gate)["job_id"]
    response = server.http.post(f"/analyze/jobs/{job_id}/{verb}", json=body)
    assert assert_problem(response, 400, "bad_request")["field"] == field
    assert server.job(job_id)["cancel_requested_at"] is None
    GATES.open(gate)
    server.wait(job_id)


@pytest.mark.parametrize("verb", ["cancel", "retry"])
@pytest.mark.parametrize("body", [b"[]", b"null", b'"x"', b"{", b"1"])
def test_a_body_that_is_no_object_is_refused(server: Live, verb: str, body: bytes) -> None:
    """Nothing at all is fine, anything else must be an object."""
    headers = {"Content-Type": "application/json"}
    response = server.http.post(f"/analyze/jobs/{new_id()}/{verb}", content=body, headers=headers)
    assert_problem(response, 400, "bad_request")


def test_a_caller_that_goes_away_does_not_stop_the_job(server: Live) -> None:
    """One that asked for a job and waits a little first; a synchronous job ends with its caller."""
    gate, org = new_id(), new_id()
    body = b'{"analysis": "gated", "gate": "%s"}' % gate.encode()
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port)) as caller:
        head = b"POST /analyze HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        head += b"X-Org-Id: %s\r\nPrefer: respond-async, wait=30\r\n" % org.encode()
        caller.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        GATES.wait_until_reached(gate)
    GATES.open(gate)
    [job] = server.http.get("/analyze/jobs", headers={"X-Org-Id": org}).json()["jobs"]
    assert server.wait(job["job_id"], org)["status"] == "completed"


@pytest.mark.parametrize("prefer", [None, "respond-async", "respond-async, wait=5", "return=minimal"])
def test_what_was_preferred_is_part_of_what_selects_an_answer(server: Live, prefer: str | None) -> None:
    """Vary names it even where the request had none."""
    headers = {} if prefer is None else {"Prefer": prefer}
    assert "Prefer" in server.http.post("/analyze", json={"query": "x"}, headers=headers).headers["vary"]


def test_a_synchronous_failure_keeps_where_its_job_is(server: Live) -> None:
    """The problem has the job's id and its place, so that partial results can be found."""
    response = server.http.post("/analyze", json={"analysis": "failing", "how": "permanent"})
    job_id = assert_problem(response, 422, "address_intel")["job_id"]
    assert response.headers["content-location"] == f"/analyze/jobs/{job_id}"
    assert server.job(job_id)["partial_count"] == 1


def test_a_synchronous_request_that_took_too_long_keeps_it_as_well(server: Live) -> None:
    """504 with the place of the job, which the system canceled."""
    response = server.http.post("/analyze", json={"analysis": "stubborn", "gate": new_id()})
    job_id = assert_problem(response, 504, "timeout")["job_id"]
    assert response.headers["content-location"] == f"/analyze/jobs/{job_id}"
    job = server.wait(job_id)
    assert (job["status"], job["canceled_by"]) == ("canceled", "system")


def test_an_analysis_that_runs_out_of_time_is_a_504(server: Live) -> None:
    """The attempt's own limit, under the limit of the request."""
    mode = {"async_mode": {"max_retries": 0}}
    body = {"analysis": "gated", "gate": new_id(), "timeout_seconds": 0.2, "options": mode}
    response = server.http.post("/analyze", json=body)
    assert assert_problem(response, 504, "timeout")["retry_hint"] == "retry_with_backoff"


def test_every_advice_to_come_back_is_whole_seconds(server: Live) -> None:
    """On acceptance, on status whether it runs or has ended, on 304, on a duplicate and on a cancel."""
    gate = new_id()
    body = {"analysis": "gated", "gate": gate}
    accepted = server.http.post("/analyze", json=body, headers=ASYNC)
    path = accepted.headers["location"]
    status = server.http.get(path)
    answers = [
        accepted,
        status,
        server.http.get(path, headers={"If-None-Match": "*"}),
        server.http.post("/analyze", json=body, headers=ASYNC),
        server.http.post(f"{path}/cancel"),
    ]
    server.wait(accepted.json()["job"]["job_id"])
    answers += [server.http.get(path), server.http.post(f"{path}/cancel")]
    assert [answer.status_code for answer in answers[:4]] == [202, 200, 304, 409]
    for answer in answers:
        assert answer.headers["retry-after"].isdigit()
    GATES.open(gate)


def test_a_canceled_job_is_where_the_answer_says(server: Live) -> None:
    """A cache that knows the job's status learns by Content-Location that it has changed."""
    job_id = server.wait(server.submit("echo", query="x")["job_id"])["job_id"]
    response = server.http.post(f"/analyze/jobs/{job_id}/cancel", json={"reason": None})
    assert (response.status_code, response.headers["content-location"]) == (200, f"/analyze/jobs/{job_id}")
    assert set(response.json()) == {"ok", "job", "request_id"}


def test_a_status_has_the_latest_hundred_events(server: Live) -> None:
    """Ascending up to the newest; the others are in the log."""
    job = server.wait(server.submit("chunked", parts=130)["job_id"])
    assert job["event_seq"] > 100
    assert [event["event_seq"] for event in job["events"]] == list(range(job["event_seq"] - 99, job["event_seq"] + 1))
    log = server.http.get(f"{job['status_url']}/events", params={"limit": 1000}).json()["events"]
    assert [event["event_seq"] for event in log] == list(range(1, job["event_seq"] + 1))
