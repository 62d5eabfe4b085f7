"""`/analyze/schedules`: made, changed, paused, run and removed over HTTP; due ones become jobs."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.live import Live
from tests.support.processes import eventually

pytestmark = pytest.mark.both_stores


def _ask(server: Live, org: str, method: str, path: str = "", **body: Any) -> Any:
    sent: dict[str, Any] = {"json": body} if body or method in ("POST", "PATCH") else {}
    return server.http.request(method, f"/analyze/schedules{path}", headers={"X-Org-Id": org}, **sent)


def _made(server: Live, org: str, **fields: Any) -> dict[str, Any]:
    known = {"name": "morning", "input": {"query": "Bern"}, "cron": "0 6 * * 1-5", "zone": "Europe/Zurich"}
    answer = _ask(server, org, "POST", **{**known, **fields})
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"/analyze/schedules/{fields.get('name', 'morning')}"
    schedule: dict[str, Any] = answer.json()["schedule"]
    return schedule


def test_a_schedule_is_made_listed_changed_and_removed(server: Live, org: str) -> None:
    """With its next five runs, in order, on working days."""
    made = _made(server, org)
    assert (made["analysis"], made["overlap"], made["missed"], made["source"]) == ("echo", "skip", "once", "api")
    runs = [datetime.fromisoformat(at) for at in made["next_runs"]]
    assert (len(runs), runs) == (5, sorted(runs))
    assert all(at.weekday() < 5 for at in runs)
    assert _ask(server, org, "GET").json()["schedules"] == [made]
    again = _ask(server, org, "POST", name="morning", input={"query": "Brig"}, cron="0 7 * * *")
    assert (again.status_code, again.json()["error"]) == (409, "schedule_exists")
    changed = _ask(server, org, "PATCH", "/morning", every_seconds="15m", input={"query": "Biel"}).json()["schedule"]
    assert (changed["cron"], changed["every_seconds"], changed["input"]["query"]) == (None, 900.0, "Biel")
    paused = _ask(server, org, "PATCH", "/morning", paused=True).json()["schedule"]
    assert (paused["paused"], paused["next_runs"]) == (True, [])
    assert len(_ask(server, org, "PATCH", "/morning", paused=False).json()["schedule"]["next_runs"]) == 5
    assert _ask(server, org, "DELETE", "/morning").json()["name"] == "morning"
    assert _ask(server, org, "DELETE", "/morning").status_code == 404
    assert _ask(server, org, "GET", "/morning").status_code == 404


def test_a_due_schedule_becomes_a_job(server: Live, org: str) -> None:
    """It shows the schedule and the planned time, and the schedule shows it."""
    _made(server, org, name="often", cron=None, every_seconds=1)

    def fired() -> dict[str, Any] | None:
        found: dict[str, Any] = _ask(server, org, "GET", "/often").json()
        return found if found["schedule"]["last_outcome"] else None

    found = eventually(fired)
    _ask(server, org, "DELETE", "/often")
    assert "langlauf_schedule_delay_seconds_count" in server.http.get("/metrics").text
    job = server.wait(found["runs"][-1]["job_id"], org)
    assert (job["status"], job["schedule"]) == ("completed", "often")
    assert job["planned_at"] <= job["queued_at"]
    assert (found["schedule"]["last_outcome"], found["schedule"]["last_run_at"] is None) == ("submitted", False)


def test_a_run_can_be_had_now(server: Live, org: str) -> None:
    """Also while it is paused, and once for one Idempotency-Key."""
    _made(server, org, paused=True)
    headers = {"X-Org-Id": org, "Idempotency-Key": "now"}
    answers = [server.http.post("/analyze/schedules/morning/run", headers=headers) for _ in range(2)]
    first, second = (answer.json()["job"]["job_id"] for answer in answers)
    assert (first, [answer.status_code for answer in answers]) == (second, [202, 202])
    assert server.wait(first, org)["schedule"] == "morning"
    assert [one["job_id"] for one in _ask(server, org, "GET", "/morning").json()["runs"]] == [first]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "no name"}, "name"),
        ({"cron": "every day"}, "cron"),
        ({"cron": None}, "cron"),
        ({"every_seconds": 60}, "cron"),
        ({"cron": None, "every_seconds": 0.1}, "every_seconds"),
        ({"cron": None, "every_seconds": "soon"}, "every_seconds"),
        ({"zone": "Mars/Base"}, "zone"),
        ({"analysis": "unknown"}, "analysis"),
        ({"input": {"query": 5}}, "input.query"),
        ({"overlap": "both"}, "overlap"),
        ({"notify": {"email": "nobody"}}, "options.async_mode.notify.email"),
        ({"color": "red"}, "color"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    server: Live, org: str, fields: dict[str, Any], field: str
) -> None:
    """400 with the field."""
    known = {"name": "morning", "input": {"query": "Bern"}, "cron": "0 6 * * 1-5"}
    answer = _ask(server, org, "POST", **{**known, **fields})
    assert (answer.status_code, answer.json()["field"]) == (400, field), answer.text
    assert _ask(server, org, "GET").json()["schedules"] == []


def test_orgs_do_not_see_each_other(server: Live, org: str) -> None:
    """Neither by name nor in a list."""
    _made(server, org)
    other = f"{org}-other"
    assert _ask(server, other, "GET").json()["schedules"] == []
    for method, path in (("GET", "/morning"), ("PATCH", "/morning"), ("DELETE", "/morning"), ("POST", "/morning/run")):
        assert _ask(server, other, method, path).status_code == 404
    assert datetime.fromisoformat(_ask(server, org, "GET", "/morning").json()["schedule"]["next_runs"][0]) < (
        datetime.now(UTC) + timedelta(days=4)
    )
