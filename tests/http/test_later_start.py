"""Jobs that are submitted for later: times are checked, shown and kept, and a worker is woken at them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.live import Live

pytestmark = pytest.mark.both_stores


def _post(server: Live, org: str = "default-org", *, query: str = "later", **mode: Any) -> Any:
    body = {"query": query, "options": {"async_mode": mode}}
    return server.http.post("/analyze", json=body, headers={"X-Org-Id": org})


def _in(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_a_job_with_a_time_is_accepted_and_scheduled(server: Live, org: str) -> None:
    """Without asking for it: no caller waits for a result of tomorrow. The time is kept in UTC."""
    answer = _post(server, org, run_at="2096-01-31T06:00:00+01:00", start_by="2096-02-01T06:00:00Z")
    job = answer.json()["job"]
    assert answer.status_code == 202
    assert (job["status"], job["phase"]) == ("queued", "scheduled")
    assert (job["run_at"], job["start_by"]) == ("2096-01-31T05:00:00Z", "2096-02-01T06:00:00Z")
    assert job["estimated_seconds"] > 86_400
    shown = server.job(job["job_id"], org)
    assert (shown["phase"], shown["run_at"]) == ("scheduled", job["run_at"])
    listed = server.http.get("/analyze/jobs?status=queued", headers={"X-Org-Id": org}).json()["jobs"]
    assert [one["job_id"] for one in listed] == [job["job_id"]]


def test_it_starts_at_its_time_and_is_canceled_before_at_once(server: Live, org: str) -> None:
    """The worker is woken for it."""
    soon = _post(server, org, delay_seconds=0.3).json()["job"]
    far = _post(server, org, query="far", delay_seconds="1d").json()["job"]
    done = server.wait(soon["job_id"], org)
    assert done["status"] == "completed"
    assert soon["run_at"] <= done["started_at"]
    canceled = server.http.post(f"/analyze/jobs/{far['job_id']}/cancel", json={}, headers={"X-Org-Id": org})
    assert (canceled.status_code, canceled.json()["job"]["status"]) == (200, "canceled")


@pytest.mark.parametrize(
    ("mode", "field"),
    [
        ({"run_at": "2096-01-31T06:00:00"}, "options.async_mode.run_at"),
        ({"run_at": "tomorrow"}, "options.async_mode.run_at"),
        ({"run_at": "9096-01-31T06:00:00Z"}, "options.async_mode.run_at"),
        ({"delay_seconds": -1}, "options.async_mode.delay_seconds"),
        ({"delay_seconds": "soon"}, "options.async_mode.delay_seconds"),
        ({"delay_seconds": "99y"}, "options.async_mode.delay_seconds"),
        ({"delay_seconds": 60, "run_at": "2096-01-31T06:00:00Z"}, "options.async_mode.delay_seconds"),
        ({"start_by": "2001-01-01T00:00:00Z"}, "options.async_mode.start_by"),
        ({"delay_seconds": "2d", "start_by": _in(86_400)}, "options.async_mode.start_by"),
    ],
)
def test_times_that_make_no_sense_are_refused(server: Live, mode: dict[str, Any], field: str) -> None:
    """With the field that is wrong, and nothing is accepted."""
    answer = _post(server, **mode)
    assert (answer.status_code, answer.json()["field"]) == (400, field), answer.text


def test_a_duplicate_may_wait_for_its_time(server: Live, org: str) -> None:
    """It is an unfinished job like any other."""
    body = {"analysis": "gated", "input": {"gate": org}}
    later = {"options": {"async_mode": {"delay_seconds": "1h"}}}
    headers = {"X-Org-Id": org, "Prefer": "respond-async"}
    first = server.http.post("/analyze", json={**body, **later}, headers=headers).json()["job"]
    again = server.http.post("/analyze", json=body, headers=headers)
    assert (again.status_code, again.json()["job"]["job_id"]) == (409, first["job_id"])
