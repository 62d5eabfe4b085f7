"""Failures by cause: few rows for many failures, and all of a cause run again after a page that asks."""

from typing import Any
from urllib.parse import urljoin

from langlauf.clock import new_id
from tests.support.live import Live
from tests.ui.html_page import HtmlPage, assert_page
from tests.ui.test_lists import ended, fields_of, jobs_in, listed


def groups(made: HtmlPage) -> list[str]:
    """Where the groups lead."""
    return [link for link in made.links() if "status=failed" in link]


def test_failures_with_one_cause_are_one_row(server: Live, org: str) -> None:
    """With their number, the shape of their message, and the list of exactly these jobs."""
    alike = [ended(server, org, "failing", how=f"in row {number}")["job_id"] for number in range(3)]
    other = ended(server, org, "failing", how="entirely")["job_id"]
    placed = ended(server, org, "failing", how="permanent")["job_id"]
    made = listed(server, org, "/errors")
    assert "RuntimeError: broken in row …" in made.text
    assert "For example: RuntimeError: broken in row 2 · RuntimeError: broken in row 1" in made.text
    assert "Raised in failing, live.py:" in made.text
    assert "Failed jobs: 5." in made.text
    found = [set(jobs_in(listed(server, org, urljoin("/errors", link)))) for link in groups(made)]
    assert sorted(map(sorted, found)) == sorted(map(sorted, ({*alike}, {other}, {placed})))
    assert "No job failed" in listed(server, new_id(), "/errors").text
    assert "No job has failed." in listed(server, new_id(), "/errors?range=all").text


def test_a_range_is_a_choice_that_is_seen(server: Live, org: str) -> None:
    """A day where nothing is said; the current one is marked."""
    current = [one for one in listed(server, org, "/errors").all("a") if one.get("aria-current") == "page"]
    assert [one["href"] for one in current] == ["./errors", "./errors?range=24h"]
    ended(server, org, "failing", how="x")
    assert all("range=7d" in link for link in groups(listed(server, org, "/errors?range=7d")))


def send(server: Live, org: str, fields: dict[str, Any]) -> str:
    """Sends the form that asked, and gives where it leads."""
    response = server.http.post("/errors/again", data=fields, headers={"X-Org-Id": org, "Origin": server.url})
    assert response.status_code == 303, response.text
    return urljoin("/errors/again", response.headers["location"])


def test_all_of_a_cause_run_again_once(server: Live, org: str) -> None:
    """Those that somebody had run again already are left; afterwards the row says so."""
    jobs = [ended(server, org, "failing", how=f"in row {number}")["job_id"] for number in range(3)]
    server.http.post(f"/analyze/jobs/{jobs[0]}/retry", headers={"X-Org-Id": org}, json={})
    ended(server, org, "echo", query="wait for it")
    made = listed(server, org, "/errors?range=1h")
    [way] = [link for link in made.links() if "errors/again" in link]
    asked = listed(server, org, urljoin("/errors", way))
    text = " ".join(asked.text.split())
    assert "already run again: 1" in text
    fields = fields_of(asked)
    told = listed(server, org, send(server, org, fields))
    assert "Started again." in told.text
    found = server.http.get("/analyze/jobs", headers={"X-Org-Id": org}).json()["jobs"]
    repeated = [one["retry_of"] for one in found if one["retry_of"] in jobs]
    assert sorted(repeated) == sorted(jobs)


def test_a_cause_that_is_not_there_is_not_found(server: Live, org: str) -> None:
    """Also one of another org."""
    ended(server, org, "failing", how="x")
    [way] = [link for link in listed(server, org, "/errors").links() if "errors/again" in link]
    foreign = server.http.get(urljoin("/errors", way), headers={"X-Org-Id": new_id()})
    assert "no longer in the list" in assert_page(foreign, 404).text
    assert server.http.post("/errors/again", data={"group": "x"}, headers={"X-Org-Id": org}).status_code == 404
