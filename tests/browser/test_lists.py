"""Lists in a real browser: by keyboard, on a phone, and while jobs come and go."""

import re

import pytest
from playwright.sync_api import Page, expect

from langlauf.clock import new_id
from tests.browser.accessibility import assert_accessible, assert_fits
from tests.browser.conftest import OpenTab
from tests.support.live import GATES, Live

#: Jobs of tests in one module meet in one list: each test has an org of its own.
OPTIONS = "extra_http_headers"


@pytest.fixture
def org() -> str:
    """An org that nobody else has jobs of."""
    return f"org-{new_id()}"


def some_of_each(site: Live, org: str) -> str:
    """Jobs that wait, run, completed, failed and were canceled; the gate of those that run."""
    gate = new_id()
    site.wait(site.submit("echo", org, query="Bern")["job_id"], org)
    for how in ("permanent", "in row 7", "in row 8"):
        site.wait(site.submit("failing", org, how=how)["job_id"], org)
    stopped = site.submit("gated", org, gate=new_id())["job_id"]
    site.http.post(f"/analyze/jobs/{stopped}/cancel", json={"reason": "x" * 300}, headers={"X-Org-Id": org})
    site.wait(stopped, org)
    site.submit("gated", org, gate=gate, partials=3)
    GATES.wait_until_reached(gate)
    return gate


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lists_are_accessible_and_fit_a_phone(site: Live, tab: OpenTab, org: str, scheme: str) -> None:
    """Also with long texts, filters and the page that asks."""
    gate = some_of_each(site, org)
    page = tab(color_scheme=scheme, viewport={"width": 320, "height": 640}, **{OPTIONS: {"X-Org-Id": org}})
    job = site.http.get("/analyze/jobs", headers={"X-Org-Id": org}).json()["jobs"][0]["job_id"]
    for address in (
        "/jobs",
        "/jobs?status=failed&q=row&range=24h&lang=de",
        "/jobs?q=nowhere",
        f"/selected?do=cancel&job={job}",
        "/errors",
        "/inbox?lang=de",
    ):
        page.goto(address)
        assert_accessible(page)
        assert_fits(page)
    GATES.open(gate)


def test_jobs_are_filtered_chosen_and_run_again_by_keyboard(site: Live, tab: OpenTab, org: str) -> None:
    """The way a person without a mouse takes; the filter is there again at its end."""
    gate = some_of_each(site, org)
    page = tab(**{OPTIONS: {"X-Org-Id": org}})
    page.goto("/jobs")
    page.get_by_role("link", name="Failed 3").focus()
    page.keyboard.press("Enter")
    expect(page.locator("tr[data-job]")).to_have_count(3)
    field = page.get_by_label("Search", exact=True)
    field.focus()
    page.keyboard.type("in row")
    page.keyboard.press("Enter")
    expect(page.locator("tr[data-job]")).to_have_count(2)
    expect(page.get_by_role("button", name="Run again…")).to_be_disabled()
    page.locator("tr[data-job] input").first.focus()
    page.keyboard.press("Space")
    expect(page.get_by_text("1 selected")).to_be_visible()
    page.get_by_label("Select all on this page").focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Run again…").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Run these jobs again? (2)")
    expect(page.get_by_role("link", name="Back")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="Started again. Jobs: 2.")).to_be_visible()
    assert "status=failed" in page.url
    assert "q=in+row" in page.url
    GATES.open(gate)


def test_new_jobs_wait_behind_a_link(site: Live, tab: OpenTab, org: str) -> None:
    """Rows do not move under a reader: the state of those shown changes, and new ones are announced."""
    gate = new_id()
    job = site.submit("gated", org, gate=gate)["job_id"]
    GATES.wait_until_reached(gate)
    page = tab(**{OPTIONS: {"X-Org-Id": org}})
    page.goto("/jobs")
    page.locator("tr[data-job] input").check()
    GATES.open(gate)
    expect(page.locator(f"#state-{job}")).to_contain_text("Completed")
    site.wait(site.submit("echo", org, query="Bern")["job_id"], org)
    link = page.get_by_role("link", name="1 new job")
    expect(link).to_be_visible()
    expect(page.locator("tr[data-job]")).to_have_count(1)
    expect(page.locator("tr[data-job] input")).to_be_checked()
    expect(page.locator("#unread")).to_contain_text("2")
    link.click()
    expect(page.locator("tr[data-job]")).to_have_count(2)


def test_lists_work_without_a_script(site: Live, tab: OpenTab, org: str) -> None:
    """Choosing, the page that asks, and the inbox."""
    gate = some_of_each(site, org)
    page: Page = tab(java_script_enabled=False, **{OPTIONS: {"X-Org-Id": org}})
    page.goto("/jobs?status=partial")
    page.locator("tr[data-job] input").check()
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_label("Reason").fill("not needed any more")
    page.get_by_role("button", name="Cancel jobs (1)").click()
    expect(page.get_by_text("Cancel requested. Jobs: 1.")).to_be_visible()
    page.goto("/inbox")
    page.get_by_role("button", name="Mark all as read").click()
    expect(page.get_by_text("No unread messages.")).to_be_visible()
    GATES.open(gate)


def test_all_that_match_run_again_in_batches(
    site: Live, tab: OpenTab, org: str, monkeypatch: pytest.MonkeyPatch, troubles: list[str]
) -> None:
    """Beyond the page; what was not sent is said and sent again; the summary has the focus."""
    monkeypatch.setattr("langlauf.ui.pages.job_list.JOBS_PAGE_SIZE", 20)
    jobs = [site.submit("echo", org, query=f"{number}")["job_id"] for number in range(60)]
    for job_id in jobs:
        site.wait(job_id, org)
    page: Page = tab(**{OPTIONS: {"X-Org-Id": org}})
    page.goto("/jobs?status=completed&analysis=echo")
    page.get_by_label("All 60 that match").check()
    expect(page.locator(".how-many")).to_have_text("All 60 that match")
    page.get_by_role("button", name="Run again…").click()
    button = page.get_by_role("button", name="Run again (60)")
    expect(button).to_be_visible()
    page.wait_for_load_state()  # with its script, without which the browser sends the form itself
    page.context.set_offline(True)
    button.click()
    status = page.locator("form.confirm [role=status]")
    expect(status).to_have_text("0 of 60 done. Not sent. Check the connection, then try again.")
    assert_accessible(page)
    page.context.set_offline(False)
    button.click()
    outcome = page.locator("#bulk-outcome")
    expect(outcome).to_have_text("Started again. Jobs: 60.")
    expect(outcome).to_be_focused()
    troubles.clear()  # the browser complains of requests without a connection


def test_a_job_is_called_by_title_and_label(tab: OpenTab, site: Live, org: str) -> None:
    """In the list, which leads to its page, in the inbox, and in the title of the tab."""
    site.wait(site.submit("named", org, place="Chur", code="7000")["job_id"], org)
    page: Page = tab(**{OPTIONS: {"X-Org-Id": org}})
    page.goto("/inbox")
    expect(page.locator("main")).to_contain_text("Chur (7000)")
    page.goto("/jobs")
    expect(page.locator("main")).to_contain_text("Look up a place")
    page.get_by_role("link", name=re.compile(r"Chur \(7000\)")).first.click()
    expect(page).to_have_title(re.compile(r"Look up a place · Chur \(7000\)"))
    assert_accessible(page)
