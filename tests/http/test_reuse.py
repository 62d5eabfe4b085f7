"""Reuse over HTTP: the stored result at once, how old it is, and how to get a run instead."""

from collections.abc import Iterator

import pytest

from langlauf import Job, Langlauf
from langlauf.api import submit
from tests.support.live import Live, live
from tests.support.store_kinds import store_under_test

pytestmark = pytest.mark.both_stores
RUNS: list[str] = []


def _app() -> Langlauf:
    app = Langlauf()

    @app.analysis(version="2026.3", reuse="7d")
    async def survey(job: Job, region: str) -> dict[str, str]:
        RUNS.append(region)
        return {"region": region}

    return app


@pytest.fixture(scope="module")
def served(store_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server whose one analysis has reuse."""
    folder = tmp_path_factory.mktemp("reuse")
    RUNS.clear()
    with store_under_test(store_kind, folder) as bed, live(folder, _app(), LANGLAUF_STORE=bed.place) as server:
        yield server


def test_a_synchronous_request_gets_the_stored_result(served: Live) -> None:
    """200 with Age and reused_from; another org, other input and no-cache run."""
    first = served.http.post("/analyze", json={"region": "BE"})
    assert "Age" not in first.headers
    assert "reused_from" not in first.json()
    again = served.http.post("/analyze", json={"region": "BE"})
    assert again.status_code == 200
    assert (again.json()["result"], again.json()["reused_from"]) == ({"region": "BE"}, first.json()["job_id"])
    assert int(again.headers["Age"]) >= 0
    assert again.json()["result_id"] != first.json()["result_id"]
    assert RUNS.count("BE") == 1
    for headers in ({"Cache-Control": "no-cache"}, {"Cache-Control": "max-age=0"}, {"X-Org-Id": "org-other"}):
        fresh = served.http.post("/analyze", json={"region": "BE"}, headers=headers)
        assert "reused_from" not in fresh.json()
    forced = served.http.post("/analyze", json={"region": "BE", "options": {"async_mode": {"reuse": False}}})
    assert "reused_from" not in forced.json()
    assert RUNS.count("BE") == 5


def test_an_asynchronous_request_gets_a_completed_job(served: Live) -> None:
    """202 with the job as it ended, its events and its result; a retry runs."""
    first = served.wait(served.submit("survey", region="ZH")["job_id"])
    job = served.submit("survey", region="ZH")
    assert (job["status"], job["phase"], job["reused_from"]) == ("completed", "done", first["job_id"])
    stored = served.job(job["job_id"])
    assert [event["event_type"] for event in stored["events"]] == ["job.queued", "job.running", "job.completed"]
    assert stored["events"][1]["payload_json"]["reused_from"] == first["job_id"]
    assert stored["result"] == {"region": "ZH"}
    page = served.http.get(f"/jobs/{job['job_id']}")
    assert page.status_code == 200
    retried = served.http.post(f"/analyze/jobs/{job['job_id']}/retry").json()["job"]
    assert retried["reused_from"] is None
    assert RUNS.count("ZH") >= 1
    served.wait(retried["job_id"])
    assert RUNS.count("ZH") == 2


def test_a_server_that_ignores_the_wish_for_a_run_is_found_out(served: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the look at `Cache-Control` the stored result comes, as the test above would see."""
    first = served.http.post("/analyze", json={"region": "AG"}).json()
    monkeypatch.setattr(submit, "_wants_fresh", lambda _: False)
    again = served.http.post("/analyze", json={"region": "AG"}, headers={"Cache-Control": "no-cache"}).json()
    assert again["reused_from"] == first["job_id"]
