"""Labels of jobs: given with the request, or made by the analysis; stored, listed, searched and kept by a retry."""

from typing import Any

import pytest

from tests.support.live import Live

pytestmark = pytest.mark.both_stores


def _submitted(server: Live, body: dict[str, Any], label: str | None = None) -> dict[str, Any]:
    mode = {"requested": True} | ({} if label is None else {"label": label})
    response = server.http.post("/analyze", json={**body, "options": {"async_mode": mode}})
    assert response.status_code == 202, response.text
    job: dict[str, Any] = response.json()["job"]
    return job


def test_a_label_is_given_or_made_by_the_analysis(server: Live) -> None:
    """The given one wins; without either it is null. What is answered is what is stored."""
    made = _submitted(server, {"analysis": "named", "input": {"place": "Chur", "code": "7000"}})
    given = _submitted(server, {"analysis": "named", "input": {"place": "Chur"}}, " Branch\n office ")
    none = _submitted(server, {"query": "Chur"})
    assert [job["label"] for job in (made, given, none)] == ["Chur (7000)", "Branch office", None]
    for job in (made, given, none):
        assert server.wait(job["job_id"])["label"] == job["label"]


def test_a_label_is_searched_and_kept_by_a_retry(server: Live) -> None:
    """Also where the input does not have its words."""
    job = _submitted(server, {"query": "Chur"}, "Quarterly check")
    server.wait(job["job_id"])
    found = server.http.get("/analyze/jobs", params={"q": "quarterly"}).json()["jobs"]
    assert [one["job_id"] for one in found] == [job["job_id"]]
    again = server.http.post(f"/analyze/jobs/{job['job_id']}/retry", json={}).json()["job"]
    assert again["label"] == "Quarterly check"
    assert server.wait(again["job_id"])["label"] == "Quarterly check"


def test_a_label_has_no_secret_and_a_bound(server: Live) -> None:
    """It is shown to everyone who may read the job."""
    assert _submitted(server, {"query": "a"}, "at redis://:made-up@cache")["label"] == "at redis://:[redacted]@cache"
    for label in ("", "x" * 121, 7):
        body = {"query": "a", "options": {"async_mode": {"requested": True, "label": label}}}
        response = server.http.post("/analyze", json=body)
        assert (response.status_code, response.json()["field"]) == (400, "options.async_mode.label")
