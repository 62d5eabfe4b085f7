"""What people are to see of a snapshot, for whoever draws it elsewhere."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from langlauf import Job, Langlauf, Result, views
from tests.http.test_errors import assert_problem
from tests.http.test_expiry import _clean_up
from tests.support.live import Live, live

KEYS = {"ok", "request_id", "result_id", "job_id", "result_kind", "result_seq", "views"}
TEXT = {"kind": "markdown", "text": "half", "title": "So far"}
TABLE = {"kind": "table", "at": "/rows", "columns": [{"name": "a", "title": "Number"}]}


def _app() -> Langlauf:
    app = Langlauf()

    @app.analysis(duplicates=True)
    async def shows(job: Job, plainly: bool = False) -> Any:
        await job.partial({}, views=[views.markdown("half", title="So far")])
        rows = {"rows": [{"a": 1}]}
        return rows if plainly else Result(rows, views=[views.table(at="/rows", columns={"a": "Number"})])

    return app


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server whose analysis has views."""
    with live(tmp_path_factory.mktemp("shown"), _app()) as server:
        yield server


def _snapshots(server: Live, **values: Any) -> list[str]:
    job_id = server.wait(server.submit("shows", **values)["job_id"])["job_id"]
    return [one["result_id"] for one in server.http.get(f"/analyze/jobs/{job_id}/results").json()["results"]]


def test_views_are_those_of_the_latest_or_as_asked(shown: Live) -> None:
    """As with results: the newest of the job, or exactly this one."""
    partial, final = _snapshots(shown)
    latest = shown.http.get(f"/analyze/results/{partial}/views").json()
    assert set(latest) == KEYS
    assert (latest["result_id"], latest["result_kind"], latest["result_seq"]) == (final, "final", 2)
    assert latest["views"] == [TABLE]
    exact = shown.http.get(f"/analyze/results/{partial}/views", params={"view": "requested"}).json()
    assert (exact["result_id"], exact["views"]) == (partial, [TEXT])


def test_a_snapshot_without_views_has_none(shown: Live) -> None:
    """An empty list, which needs no case of its own."""
    _, final = _snapshots(shown, plainly=True)
    assert shown.http.get(f"/analyze/results/{final}/views").json()["views"] == []


def test_views_that_are_known_are_not_sent_again(shown: Live) -> None:
    """304 by the tag of the snapshot."""
    _, final = _snapshots(shown)
    path = f"/analyze/results/{final}/views"
    first = shown.http.get(path)
    assert first.headers["cache-control"] == "private, no-cache"
    again = shown.http.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert shown.http.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_strangers_and_wrong_words_are_refused(shown: Live) -> None:
    """Like a result: it does not exist for another org, and an unknown parameter is told."""
    _, final = _snapshots(shown)
    path = f"/analyze/results/{final}/views"
    assert_problem(shown.http.get(path, headers={"X-Org-Id": "stranger"}), 404, "not_found")
    assert_problem(shown.http.get("/analyze/results/nothing/views"), 404, "not_found")
    assert_problem(shown.http.get(path, params={"view": "newest"}), 400, "bad_request")


def test_a_token_for_another_job_sees_nothing(shown: Live) -> None:
    """One for this job does."""
    jobs = [shown.wait(shown.submit("shows")["job_id"]) for _ in range(2)]
    token = shown.http.post(f"/analyze/jobs/{jobs[0]['job_id']}/token").json()["token"]
    own, other = (
        shown.http.get(f"/analyze/results/{job['result_id']}/views", params={"access_token": token}) for job in jobs
    )
    assert own.json()["views"] == [TABLE]
    assert_problem(other, 404, "not_found")


def test_views_of_a_removed_result_are_gone_with_it(tmp_path: Path) -> None:
    """410, as for the result."""
    with live(tmp_path, _app()) as server:
        partial, _ = _snapshots(server)
        _clean_up(tmp_path / "store.db")
        for view in ("latest", "requested"):
            gone = server.http.get(f"/analyze/results/{partial}/views", params={"view": view})
            assert_problem(gone, 410, "expired")
