"""Pausing analyses over HTTP: who may, what waiting jobs show, and that nothing of it starts."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from langlauf.domain.access import Scope
from tests.http.keyed_server import KeyedServer
from tests.http.test_errors import assert_problem
from tests.support.keys import OPERATOR, bearer, make_key
from tests.support.live import Live

_PAUSE, _RESUME = "/analyze/analyses/gated/pause", "/analyze/analyses/gated/resume"
_WHY = {"because": "the source is down"}


def _soon() -> str:
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()


@pytest.mark.both_stores
def test_jobs_of_a_paused_analysis_wait_and_say_why(server: Live) -> None:
    """202 as ever, phase and reason in every answer, nothing starts; resumed, it runs."""
    org = {"X-Org-Id": "org-paused"}
    until = _soon()
    held = server.http.post("/analyze/analyses/echo/pause", json={**_WHY, "until": until}, headers=org)
    assert held.status_code == 200, held.text
    pause = held.json()["pause"]
    assert (pause["analysis"], pause["org_id"], pause["because"]) == ("echo", "org-paused", "the source is down")
    assert datetime.fromisoformat(pause["paused_until"]) == datetime.fromisoformat(until)
    job = server.submit("echo", "org-paused", query="x")
    shown = server.http.get(f"/analyze/jobs/{job['job_id']}", headers=org)
    for one in (job, shown.json()["job"], server.http.get("/analyze/jobs", headers=org).json()["jobs"][0]):
        assert (one["status"], one["phase"], one["paused_because"]) == ("queued", "paused", "the source is down")
        assert one["paused_until"] == pause["paused_until"]
    assert server.wait(server.submit("echo", "org-other", query="x")["job_id"], "org-other")["status"] == "completed"
    assert server.job(job["job_id"], "org-paused")["status"] == "queued"
    again = server.http.post("/analyze/analyses/echo/pause", json={"because": "still down"}, headers=org).json()
    assert (again["pause"]["paused_at"], again["pause"]["paused_until"]) == (pause["paused_at"], None)
    waiting = server.http.get(f"/analyze/jobs/{job['job_id']}", headers=org).json()["job"]
    assert (waiting["paused_because"], waiting["paused_until"], waiting["estimated_seconds"]) == (
        "still down",
        None,
        None,
    )
    for resumed in (True, False):
        answer = server.http.post("/analyze/analyses/echo/resume", headers=org)
        assert (answer.status_code, answer.json()["resumed"]) == (200, resumed)
    ended = server.wait(job["job_id"], "org-paused")
    assert (ended["status"], ended["phase"], ended["paused_because"]) == ("completed", "done", None)


def test_a_change_of_phase_changes_the_etag(server: Live) -> None:
    """A client that polls with If-None-Match sees the pause."""
    org = {"X-Org-Id": "org-etag"}
    server.http.post(_PAUSE, json=_WHY, headers=org)
    job = server.submit("gated", "org-etag", gate="etag")
    path = f"/analyze/jobs/{job['job_id']}"
    before = server.http.get(path, headers=org).headers["ETag"]
    assert server.http.get(path, headers={**org, "If-None-Match": before}).status_code == 304
    server.http.post("/analyze/jobs/" + job["job_id"] + "/cancel", headers=org)
    server.http.post(_RESUME, headers=org)
    assert server.http.get(path, headers={**org, "If-None-Match": before}).status_code == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "because"),
        ({"because": ""}, "because"),
        ({"because": "  "}, "because"),
        ({"because": "a\nb"}, "because"),
        ({"because": "x" * 501}, "because"),
        ({**_WHY, "until": "2020-01-01T00:00:00Z"}, "until"),
        ({**_WHY, "until": "2030-01-01T00:00:00"}, "until"),
        ({**_WHY, "until": "soon"}, "until"),
        ({**_WHY, "why": 1}, "why"),
    ],
)
def test_a_bad_request_pauses_nothing(server: Live, body: dict[str, Any], field: str) -> None:
    """400 with the field, and jobs start as before."""
    org = {"X-Org-Id": "org-bad"}
    problem = assert_problem(
        server.http.post("/analyze/analyses/echo/pause", json=body, headers=org), 400, "bad_request"
    )
    assert problem["field"] == field
    assert server.submit("echo", "org-bad", query=field)["phase"] != "paused"


def test_an_unknown_analysis_cannot_be_paused(server: Live) -> None:
    """404, which names those that can."""
    for path in ("/analyze/analyses/nothing/pause", "/analyze/analyses/nothing/resume"):
        problem = assert_problem(server.http.post(path, json=_WHY if "pause" in path else {}), 404, "not_found")
        assert "echo" in problem["message"]


def test_who_may_pause(closed: KeyedServer) -> None:
    """An admin of an org for that org, the operator for any and for all; no other key."""
    server = closed.live
    reader = bearer(make_key(closed.store, "org-a", Scope.READ, Scope.SUBMIT, Scope.CANCEL).text)
    admin, operator = bearer(closed.admin), bearer(OPERATOR)
    assert_problem(server.http.post(_PAUSE, json=_WHY, headers=reader), 403, "forbidden")
    assert_problem(server.http.post(_PAUSE, json={**_WHY, "all_orgs": True}, headers=admin), 403, "forbidden")
    assert_problem(server.http.post(_PAUSE, json=_WHY, headers={**admin, "X-Org-Id": "org-b"}), 403, "forbidden")
    assert server.http.post(_PAUSE, json=_WHY, headers=admin).json()["pause"]["org_id"] == "org-a"
    all_orgs = server.http.post(_PAUSE, json={**_WHY, "all_orgs": True}, headers=operator).json()["pause"]
    assert (all_orgs["org_id"], all_orgs["because"]) == (None, "the source is down")
    assert not server.http.post(_RESUME, headers={**operator, "X-Org-Id": "org-b"}).json()["resumed"]
    assert server.http.post(_RESUME, headers={**operator, "X-Org-Id": "org-a"}).json()["resumed"]
    assert_problem(server.http.post(_RESUME, json={"all_orgs": True}, headers=admin), 403, "forbidden")
    assert server.http.post(_RESUME, json={"all_orgs": True}, headers=operator).json()["resumed"]
