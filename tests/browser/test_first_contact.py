"""The first minutes with the bundled analysis: a mistake in an address, its correction, and what the result says."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from langlauf.bundled import app
from tests.browser.accessibility import assert_accessible, assert_fits
from tests.browser.conftest import OpenTab
from tests.support.live import Live, live


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with the bundled analyses."""
    with live(tmp_path_factory.mktemp("bundled"), app) as running:
        yield running


def test_a_misspelt_town_is_asked_about_and_mended(tab: OpenTab) -> None:
    """On a phone: the form says what is looked up, the error names the town, and the way back is at the field."""
    page = tab(viewport={"width": 320, "height": 700})
    page.goto("/?analysis=address")
    expect(page.locator("[id='hint-in.query']")).to_contain_text("street and house number are read, but not looked up")
    page.get_by_label("Address or place").fill("Bundesplatz 3, 3005 Bren")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator("#part-state")).to_contain_text("No place called Bren was found. Did you mean Bern?")
    assert_accessible(page)
    assert_fits(page)
    page.get_by_role("link", name="Change the input and run again").click()
    field = page.get_by_label("Address or place")
    expect(field).to_have_value("Bundesplatz 3, 3005 Bren")
    reason = page.locator("[id='error-in.query']")
    expect(reason).to_contain_text("Did you mean Bern?")
    for seen in (page.locator("label[for='in.query']"), reason, field):
        expect(seen).to_be_in_viewport(ratio=1)
    assert_accessible(page)
    field.fill("Bundesplatz 3, 3005 Bern")
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url(re.compile("/results/"))
    expect(page.locator("main")).to_contain_text("Around Bern")
    assert_fits(page)


def test_the_last_interim_result_is_said_to_be_the_final_one(tab: OpenTab, site: Live) -> None:
    """Comparing the two says so, instead of showing nothing."""
    job = site.wait(site.submit("address", query="Thun")["job_id"])
    versions = site.http.get(f"/analyze/jobs/{job['job_id']}/results").json()["results"]
    last = max(one["result_seq"] for one in versions)
    page = tab()
    page.goto(f"/results/{job['result_id']}/diff?from={last - 1}&to={last}")
    expect(page.get_by_role("note")).to_have_text(
        "The last interim result was already complete: the final result is the same."
    )
    assert_accessible(page)


def test_a_printed_page_has_tables_and_nothing_to_click(tab: OpenTab, site: Live) -> None:
    """On paper the log is a table as on a wide screen, and neither filters nor drawers are left over."""
    job = site.wait(site.submit("address", query="Chur")["job_id"])
    page = tab(viewport={"width": 718, "height": 1000})
    page.emulate_media(media="print")
    page.goto(f"/jobs/{job['job_id']}?refresh=off")
    expect(page.locator(".log thead")).to_be_visible()
    expect(page.locator(".log tbody tr").first).to_have_css("display", "table-row")
    assert_fits(page)
    for left in (".sorts", ".drawers", "#part-actions", "#panel-json"):
        for one in page.locator(left).all():
            expect(one).to_be_hidden()
    page.goto(f"/results/{job['result_id']}")
    expect(page.get_by_role("heading", name="Around Chur")).to_be_visible()
    expect(page.locator(".hold")).to_be_hidden()
