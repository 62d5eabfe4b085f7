"""Pages of a list: complete and without repeats, whatever is added meanwhile."""

from typing import Any

import pytest

from langlauf.clock import new_id
from tests.http.test_errors import assert_problem
from tests.support.live import Live


def _walk(server: Live, org: str, **query: Any) -> list[str]:
    seen, cursor = [], None
    while True:
        page = {**query, "cursor": cursor} if cursor else query
        body = server.http.get("/analyze/jobs", params=page, headers={"X-Org-Id": org}).json()
        seen += [job["job_id"] for job in body["jobs"]]
        cursor = body["next_cursor"]
        if cursor is None:
            return seen


@pytest.fixture(scope="module")
def org(server: Live) -> str:
    """An org with seven jobs."""
    org = new_id()
    for number in range(7):
        server.wait(server.submit("echo", org, query=f"place {number}")["job_id"], org)
    return org


def test_every_size_of_page_gives_the_same_list(server: Live, org: str) -> None:
    """The size may also change on the way: it is not part of the position."""
    whole = _walk(server, org)
    assert len(whole) == 7
    for limit in (1, 2, 3, 7, 200):
        assert _walk(server, org, limit=limit) == whole
    first = server.http.get("/analyze/jobs", params={"limit": 2}, headers={"X-Org-Id": org}).json()
    rest = {"limit": 200, "cursor": first["next_cursor"]}
    second = server.http.get("/analyze/jobs", params=rest, headers={"X-Org-Id": org}).json()
    assert [job["job_id"] for job in first["jobs"] + second["jobs"]] == whole


def test_jobs_that_come_meanwhile_move_nothing(server: Live) -> None:
    """They stand before the first page, and the rest is as it was."""
    org = new_id()
    made = [server.submit("echo", org, query=f"{number}")["job_id"] for number in range(4)]
    first = server.http.get("/analyze/jobs", params={"limit": 2}, headers={"X-Org-Id": org}).json()
    server.submit("echo", org, query="late")
    rest = {"limit": 2, "cursor": first["next_cursor"]}
    second = server.http.get("/analyze/jobs", params=rest, headers={"X-Org-Id": org}).json()
    assert [job["job_id"] for job in first["jobs"] + second["jobs"]] == made[::-1]
    assert second["next_cursor"] is None


def test_a_cursor_belongs_to_its_filters_and_its_org(server: Live, org: str) -> None:
    """With others it would pass over what was never seen: 400 that names it."""
    query: dict[str, Any] = {"limit": 2, "q": "place", "analysis": "echo", "status": "completed"}
    cursor = server.http.get("/analyze/jobs", params=query, headers={"X-Org-Id": org}).json()["next_cursor"]
    assert server.http.get("/analyze/jobs", params={**query, "cursor": cursor}, headers={"X-Org-Id": org}).is_success
    for other in ({"q": "x"}, {"q": ""}, {"analysis": "gated"}, {"status": "failed"}):
        changed = {**query, **other, "cursor": cursor}
        refused = server.http.get("/analyze/jobs", params=changed, headers={"X-Org-Id": org})
        assert assert_problem(refused, 400, "bad_request")["field"] == "cursor"
    foreign = server.http.get("/analyze/jobs", params={**query, "cursor": cursor}, headers={"X-Org-Id": new_id()})
    assert_problem(foreign, 400, "bad_request")


@pytest.mark.parametrize("path", ["/analyze/jobs", "/analyze/history"])
@pytest.mark.parametrize("limit", ["", "0", "-1", "201", "x", "1.0", "1e2", "9" * 30])
def test_a_size_that_cannot_be_is_refused(server: Live, path: str, limit: str) -> None:
    """1 to 200, nothing else."""
    problem = assert_problem(server.http.get(path, params={"limit": limit}), 400, "bad_request")
    assert problem["field"] == "limit"


def test_the_next_page_keeps_the_filters(server: Live, org: str) -> None:
    """Link is the address of this list from the next position on."""
    query = {"limit": "3", "q": "place 1 or not", "status": "completed"}
    assert "link" not in server.http.get("/analyze/jobs", params=query, headers={"X-Org-Id": org}).headers
    page = server.http.get("/analyze/jobs", params={"limit": 3, "q": "place"}, headers={"X-Org-Id": org})
    target, _, relation = page.headers["link"].partition(">; ")
    assert relation == 'rel="next"'
    following = server.http.get(target.removeprefix("<"), headers={"X-Org-Id": org}).json()
    assert [job["job_id"] for job in following["jobs"]] == _walk(server, org)[3:6]


def test_history_is_paged_by_offset(server: Live, org: str) -> None:
    """Every entry once; past the end there is nothing."""
    pages = [
        server.http.get("/analyze/history", params={"limit": 3, "offset": offset}, headers={"X-Org-Id": org}).json()
        for offset in (0, 3, 6, 9)
    ]
    assert [entry["job_id"] for page in pages for entry in page["history"]] == _walk(server, org)
    assert [(page["total"], page["limit"], page["offset"]) for page in pages] == [(7, 3, n) for n in (0, 3, 6, 9)]
    assert pages[-1]["history"] == []
