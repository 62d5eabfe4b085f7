"""The list of jobs: what is looked for stands in the address, and what is done to chosen jobs is asked about first."""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import pytest

from langlauf.clock import new_id
from langlauf.domain.access import Scope
from langlauf.store import reads
from langlauf.ui.pages import job_list as jobs_page
from tests.support.keys import bearer, make_key
from tests.support.live import GATES, Live, live
from tests.ui.html_page import HtmlPage, assert_page


def listed(server: Live, org: str, address: str = "/jobs") -> HtmlPage:
    """The list of an org."""
    return assert_page(server.http.get(address, headers={"X-Org-Id": org}))


def jobs_in(made: HtmlPage) -> list[str]:
    """The jobs of its rows, in their order."""
    return [row["data-job"] for row in made.all("tr") if "data-job" in row]


def ended(server: Live, org: str, analysis: str, **values: Any) -> dict[str, Any]:
    """A job that has ended."""
    return server.wait(server.submit(analysis, org, **values)["job_id"], org)


def test_filters_stand_in_the_address_and_can_be_taken_away(server: Live, org: str) -> None:
    """Each is a chip that leads to the list without it; the others stay."""
    broken = ended(server, org, "failing", how="permanent")
    ended(server, org, "failing", how="x")
    ended(server, org, "echo", query="Bern")
    address = "/jobs?status=failed&analysis=failing&error=address_intel&range=24h&q=PLACE"
    made = listed(server, org, address)
    assert jobs_in(made) == [broken["job_id"]]
    chips = {link for link in made.links() if link.startswith("./jobs?") and link.count("&") == 3}
    assert sorted(len(parse_qs(urlsplit(link).query)) for link in chips) == [4] * 5
    without_all = [set(parse_qs(urlsplit(link).query)) for link in chips]
    assert set.union(*without_all) == {"status", "analysis", "error", "range", "q"}
    assert jobs_in(listed(server, org, "/jobs?status=nothing&range=forever")) == jobs_in(listed(server, org))


def test_tabs_count_states_no_further_than_told(server: Live, org: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figure of a state, and a plus where the count was not taken to its end."""
    for number in range(3):
        ended(server, org, "echo", query=f"{number}")
    ended(server, org, "failing", how="x")
    assert "All 4" in listed(server, org).text
    assert "Completed 3" in listed(server, org).text
    monkeypatch.setattr(jobs_page, "MAX_JOB_COUNT", 2)
    text = listed(server, org).text
    assert ("All 2+" in text, "Completed 2+" in text, "Failed 1" in text) == (True, True, True)


def test_pages_lead_to_older_jobs_and_back(server: Live, org: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through all of them and back again, with the filters kept."""
    monkeypatch.setattr(jobs_page, "JOBS_PAGE_SIZE", 2)
    made = [ended(server, org, "echo", query=f"{number}")["job_id"] for number in range(7)]
    address, seen = "/jobs?status=completed", list[str]()
    pages = [address]
    while True:
        shown = listed(server, org, address)
        seen += jobs_in(shown)
        older = [link["href"] for link in shown.all("a") if link.get("rel") == "next"]
        if not older:
            break
        assert "status=completed" in older[0]
        address = urljoin(address, older[0])
        pages.append(address)
    assert seen == list(reversed(made))
    for earlier in reversed(pages[:-1]):
        [newer] = [link["href"] for link in listed(server, org, address).all("a") if link.get("rel") == "prev"]
        address = urljoin(address, newer)
        assert jobs_in(listed(server, org, address)) == jobs_in(listed(server, org, earlier))


def test_an_empty_list_says_why(server: Live, org: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No jobs at all, none that fit, or none found so far: three different things."""
    assert f"{org} has no jobs yet." in listed(server, org).text
    for number in range(3):
        server.submit("echo", org, query=f"{number}")
    assert "No job matches these filters." in listed(server, org, "/jobs?q=nowhere").text
    monkeypatch.setattr(reads, "_FIRST_ROWS", 1)
    monkeypatch.setattr(reads, "MOST_LOOKED_AT", 1)
    made = listed(server, org, "/jobs?q=nowhere")
    assert "Searched jobs so far: 1." in made.text
    assert "No job matches" not in made.text
    assert any("at=" in link and "q=nowhere" in link for link in made.links())


def test_an_id_leads_straight_to_its_page(server: Live, org: str) -> None:
    """That of a job or of a result of one's own org; anything else is looked for."""
    job = ended(server, org, "echo", query="Bern")
    for name, way in ((job["job_id"], "jobs"), (job["result_id"], "results")):
        for text in (name, f" {name.upper()} "):
            response = server.http.get("/jobs", params={"q": text, "lang": "de"}, headers={"X-Org-Id": org})
            assert (response.status_code, response.headers["location"]) == (303, f"./{way}/{name}?lang=de")
        assert jobs_in(listed(server, new_id(), f"/jobs?q={name}")) == []


def test_every_page_of_an_org_has_a_search(server: Live, org: str) -> None:
    """A form that asks the list; on the list itself it is the one that keeps the filters."""
    for address in ("/", "/jobs", "/errors", "/inbox"):
        made = listed(server, org, address)
        assert len([one for one in made.all("input") if one.get("type") == "search"]) == 1
        assert "./jobs" in [one["action"] for one in made.all("form") if one["method"] == "get"]


def chosen(org: str, action: str, *jobs: str, **filters: str) -> dict[str, Any]:
    """The request that choosing jobs makes."""
    return {"params": {"do": action, "job": list(jobs), **filters}, "headers": {"X-Org-Id": org}}


def fields_of(made: HtmlPage) -> dict[str, str]:
    """What the form of a page would send."""
    return {one["name"]: one["value"] for one in made.all("input") if one.get("type") == "hidden" and "name" in one}


def send(server: Live, org: str, action: str, made: HtmlPage) -> str:
    """Sends the form that asked, and gives where it leads."""
    target = f"/selected/{action}"
    response = server.http.post(target, data=fields_of(made), headers={"X-Org-Id": org, "Origin": server.url})
    assert response.status_code == 303, response.text
    return urljoin(target, response.headers["location"])


def test_chosen_jobs_are_stopped_after_a_page_that_asks(server: Live, org: str) -> None:
    """It says how many; those that have ended are left; the filter is there again afterwards."""
    gate = new_id()
    running = [server.submit("gated", org, gate=gate, partials=number)["job_id"] for number in range(2)]
    GATES.wait_until_reached(gate)
    done = ended(server, org, "echo", query="Bern")["job_id"]
    asked = assert_page(
        server.http.get("/selected", **chosen(org, "cancel", *running, done, new_id(), analysis="gated", q="g"))
    )
    assert "Cancel these jobs? (2)" in asked.text
    assert "Already ended and left unchanged: 2." in asked.text
    assert server.job(running[0], org)["status"] != "canceled"
    back = send(server, org, "cancel", asked)
    assert parse_qs(urlsplit(back).query) == {
        "analysis": ["gated"], "q": ["g"], "canceled": ["2"], "left": ["0"],
    }  # fmt: skip
    assert "Cancel requested. Jobs: 2." in listed(server, org, back).text
    assert [server.wait(job, org)["status"] for job in running] == ["canceled", "canceled"]
    assert server.job(done, org)["status"] == "completed"


def test_chosen_jobs_run_again_once(server: Live, org: str) -> None:
    """Each becomes a new job; the same form sent twice makes no second ones."""
    jobs = [ended(server, org, "echo", query=f"{number}")["job_id"] for number in range(2)]
    asked = assert_page(server.http.get("/selected", **chosen(org, "again", *jobs)))
    assert "Run these jobs again? (2)" in asked.text
    for _ in range(2):
        assert "repeated=2" in send(server, org, "again", asked)
    found = server.http.get("/analyze/jobs", headers={"X-Org-Id": org}).json()["jobs"]
    assert sorted(one["retry_of"] for one in found if one["retry_of"]) == sorted(jobs)


def test_nothing_chosen_is_nothing_to_do(server: Live, org: str) -> None:
    """The page says so and has no form; another org's jobs are not there."""
    foreign = ended(server, new_id(), "echo", query="Bern")["job_id"]
    for jobs in ((), (foreign,)):
        made = assert_page(server.http.get("/selected", **chosen(org, "again", *jobs)))
        assert "No job selected" in made.text
        assert not [one for one in made.all("form") if "selected" in one["action"]]
    sent = {"jobs": foreign, "wish": "x", "back": "status=failed&next=//elsewhere.test"}
    response = server.http.post("/selected/again", data=sent, headers={"X-Org-Id": org})
    assert response.headers["location"] == "../jobs?status=failed&repeated=0&left=1"


def test_no_more_than_so_many_at_once(server: Live, org: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says so, and takes the first."""
    monkeypatch.setattr(jobs_page, "MOST_AT_ONCE", 100)
    jobs = [ended(server, org, "echo", query="Bern")["job_id"], *(new_id() for _ in range(100))]
    made = assert_page(server.http.get("/selected", **chosen(org, "again", *jobs)))
    assert "Selected: 101. At most 100 jobs are handled at once." in made.text


def test_what_a_reader_may_not_do_is_not_offered(tmp_path: Path) -> None:
    """A key that only reads sees no boxes, and is refused where it tries all the same."""
    reader = make_key(tmp_path / "store.db", "org-a", Scope.READ)
    full = make_key(tmp_path / "store.db", "org-a", Scope.READ, Scope.SUBMIT, Scope.CANCEL)
    with live(tmp_path) as closed:
        body = {"analysis": "echo", "input": {"query": "Bern"}}
        assert closed.http.post("/analyze", json=body, headers=bearer(full.text)).status_code == 200
        assert assert_page(closed.http.get("/jobs", headers=bearer(full.text))).all("form")[-1]["id"] == "chosen"
        made = assert_page(closed.http.get("/jobs", headers=bearer(reader.text)))
        assert not [one for one in made.all("input") if one.get("type") == "checkbox"]
        for action in ("cancel", "again"):
            response = closed.http.post(f"/selected/{action}", data={"jobs": "x"}, headers=bearer(reader.text))
            assert response.status_code == 403


def test_tabs_count_what_the_filters_leave(server: Live, org: str) -> None:
    """And a value that there is not is named; the list is shown without it."""
    for number in range(3):
        ended(server, org, "echo", query=f"Bern {number}")
    ended(server, org, "failing", how="permanent")
    text = listed(server, org, "/jobs?analysis=echo").text
    assert ("All 3" in text, "Completed 3" in text, "Failed 0" in text) == (True, True, True)
    made = listed(server, org, "/jobs?status=broken&range=9y&analysis=failing")
    assert "State: there is no value “broken”." in made.text
    assert "Accepted: there is no value “9y”." in made.text
    german = listed(server, org, "/jobs?status=broken&lang=de")
    assert "Den Wert «broken» gibt es nicht." in german.text


def test_all_that_match_are_taken_at_once(server: Live, org: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a page of them, by one form; what does not match is left alone."""
    monkeypatch.setattr(jobs_page, "JOBS_PAGE_SIZE", 2)
    jobs = [ended(server, org, "echo", query=f"many {number}")["job_id"] for number in range(3)]
    ended(server, org, "failing", how="permanent")
    assert "All 3 that match" in listed(server, org, "/jobs?analysis=echo").text
    asked = assert_page(server.http.get("/selected", **chosen(org, "again", analysis="echo", all="yes")))
    assert "Run these jobs again? (3)" in asked.text
    assert "repeated=3" in send(server, org, "again", asked)
    found = server.http.get("/analyze/jobs", headers={"X-Org-Id": org}).json()["jobs"]
    assert sorted(one["retry_of"] for one in found if one["retry_of"]) == sorted(jobs)
