"""Holding a result over HTTP: who may, what is told, and what cannot be held."""

from typing import Any

import pytest

from langlauf.domain.access import Scope
from tests.http.keyed_server import KeyedServer, run_job
from tests.http.test_errors import assert_problem
from tests.support.keys import OPERATOR, bearer, make_key
from tests.support.live import Live
from tests.support.stores import query


@pytest.fixture
def done(server: Live) -> dict[str, Any]:
    """A job that has ended, with its result."""
    return server.wait(server.submit("echo", query="Bern")["job_id"])


def test_a_hold_is_shown_with_its_job(server: Live, done: dict[str, Any]) -> None:
    """Since when, by whom and why; holding again changes nothing; released, nothing is left of it."""
    path = f"/analyze/results/{done['result_id']}"
    of_job = f"/analyze/jobs/{done['job_id']}"
    before = server.http.get(of_job)
    job = before.json()["job"]
    assert (job["held_at"], job["held_by"], job["hold_reason"]) == (None, None, None)
    held = server.http.post(f"{path}/hold", json={"reason": "audit"}, headers={"X-User-Id": "ann"}).json()["job"]
    assert (held["job_id"], held["held_by"], held["hold_reason"]) == (done["job_id"], "ann", "audit")
    again = server.http.post(f"{path}/hold", json={"reason": "other"}, headers={"X-User-Id": "bob"}).json()["job"]
    assert (again["held_at"], again["held_by"], again["hold_reason"]) == (held["held_at"], "ann", "audit")
    shown = server.http.get(of_job, headers={"If-None-Match": before.headers["ETag"]})
    assert shown.status_code == 200  # it is not as it was
    assert (shown.json()["job"]["held_at"], shown.json()["job"]["hold_reason"]) == (held["held_at"], "audit")
    assert done["job_id"] in [one["job_id"] for one in server.http.get("/analyze/held").json()["jobs"]]
    for _ in range(2):
        released = server.http.delete(f"{path}/hold")
        assert (released.status_code, released.json()["job"]["held_at"]) == (200, None)
    assert server.http.get(of_job).headers["ETag"] == before.headers["ETag"]
    assert done["job_id"] not in [one["job_id"] for one in server.http.get("/analyze/held").json()["jobs"]]


def test_what_is_held_comes_in_pages(server: Live) -> None:
    """The last first; a cursor belongs to this list and to no other."""
    org = {"X-Org-Id": "org-pages"}
    jobs = [server.wait(server.submit("echo", "org-pages", query=str(n))["job_id"], "org-pages") for n in range(3)]
    for job in jobs:
        assert server.http.post(f"/analyze/results/{job['result_id']}/hold", headers=org).status_code == 200
    first = server.http.get("/analyze/held?limit=2", headers=org)
    assert [one["job_id"] for one in first.json()["jobs"]] == [jobs[2]["job_id"], jobs[1]["job_id"]]
    assert 'rel="next"' in first.headers["Link"]
    cursor = first.json()["next_cursor"]
    rest = server.http.get(f"/analyze/held?limit=2&cursor={cursor}", headers=org).json()
    assert ([one["job_id"] for one in rest["jobs"]], rest["next_cursor"]) == ([jobs[0]["job_id"]], None)
    assert_problem(server.http.get(f"/analyze/jobs?cursor={cursor}", headers=org), 400, "bad_request")
    assert_problem(server.http.get("/analyze/held?limit=0", headers=org), 400, "bad_request")


def test_bad_wishes_change_nothing(server: Live, done: dict[str, Any]) -> None:
    """An unknown field, a reason that is too long, another org's result."""
    path = f"/analyze/results/{done['result_id']}/hold"
    assert_problem(server.http.post(path, json={"why": "x"}), 400, "bad_request")
    assert_problem(server.http.post(path, json={"reason": "x" * 501}), 400, "bad_request")
    for method in ("POST", "DELETE"):
        other = server.http.request(method, path, headers={"X-Org-Id": "org-b"})
        unknown = server.http.request(method, "/analyze/results/nothing/hold", headers={"X-Org-Id": "org-b"})
        assert_problem(other, 404, "not_found")
        assert other.json() | {"request_id": ""} == unknown.json() | {"request_id": ""}
    assert server.job(done["job_id"])["held_at"] is None


def test_a_key_is_told_by_its_id_and_a_reason_without_its_secrets(closed: KeyedServer) -> None:
    """Only an admin may; the operator is told as such; what looks like a secret is not kept."""
    job = run_job(closed.live, bearer(closed.admin))
    path = f"/analyze/results/{job['result_id']}/hold"
    usual = make_key(closed.store, "org-a", Scope.SUBMIT, Scope.READ, Scope.CANCEL)
    assert_problem(closed.live.http.post(path, headers=bearer(usual.text)), 403, "forbidden")
    admin = make_key(closed.store, "org-a", Scope.ADMIN)
    body = {"reason": f"token=abcdef1234567890 {admin.text}"}
    held = closed.live.http.post(path, json=body, headers=bearer(admin.text)).json()["job"]
    assert held["held_by"] == admin.key.key_id
    assert admin.text not in held["hold_reason"]
    operator = bearer(OPERATOR, **{"X-Org-Id": "org-a"})
    assert closed.live.http.delete(path, headers=operator).json()["job"]["held_by"] is None
    assert closed.live.http.post(path, headers=operator).json()["job"]["held_by"] == "operator"


def test_a_result_that_went_cannot_be_held(closed: KeyedServer) -> None:
    """410 with the time it went; nothing is marked as held."""
    job = run_job(closed.live, bearer(closed.admin))
    sql = "UPDATE result_rows SET removed_at = created_at, payload = NULL, summary_json = NULL, views = NULL"
    query(closed.store, f"{sql} WHERE result_id = ?", job["result_id"])
    answer = closed.live.http.post(f"/analyze/results/{job['result_id']}/hold", headers=bearer(closed.admin))
    assert_problem(answer, 410, "expired")
    assert answer.json()["expired_at"]
    assert query(closed.store, "SELECT held_at FROM jobs WHERE job_id = ?", job["job_id"]) == [(None,)]
