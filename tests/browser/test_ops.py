"""The page for operators in a real browser: read by everybody, on a phone, by keyboard, and without scripts."""

from collections.abc import Iterator
from contextlib import ExitStack

import apsw
import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessibility import assert_accessible, assert_fits
from tests.browser.conftest import OpenTab
from tests.support.live import GATES, Live


@pytest.fixture
def busy(site: Live) -> Iterator[Live]:
    """Something has ended, something failed, something runs."""
    gate = "ops-browser"
    site.wait(site.submit("echo", query="Bern")["job_id"])
    site.wait(site.submit("failing", how="permanent")["job_id"])
    running = site.submit("gated", gate=gate)
    GATES.wait_until_reached(gate)
    with ExitStack() as stack:
        stack.callback(site.wait, running["job_id"])
        stack.callback(GATES.open, gate)
        yield site


@pytest.mark.parametrize(("scheme", "width"), [("light", 320), ("dark", 1280)])
def test_everybody_can_read_it(busy: Live, tab: OpenTab, scheme: str, width: int) -> None:
    """With all that opens opened, and a worker that is silent."""
    _silence(busy)
    page = tab(color_scheme=scheme, viewport={"width": width, "height": 800})
    for address in ("/ops?range=15m", "/ops/workers?lang=de", "/ops/orgs"):
        page.goto(address)
        for summary in page.locator("main summary").all():
            summary.click()
        assert_accessible(page)
        assert_fits(page)
    page.goto("/ops")
    assert page.locator("tr.wrong").count() == 1


def _silence(site: Live) -> None:
    """A worker of which nothing was heard for a minute."""
    connection = apsw.Connection(site.app.settings.store_path)
    try:
        connection.set_busy_timeout(60_000)
        connection.execute(
            """INSERT OR REPLACE INTO workers
            SELECT 'w-silent', 'host-2', 991, '1.0', '["gated"]', 8, 2, 5, seen_at - 7200000000, 0, seen_at - 60000000
            FROM workers WHERE worker_id <> 'w-silent' LIMIT 1"""
        )
    finally:
        connection.close()


def test_the_keyboard_chooses_range_and_org(busy: Live, page: Page) -> None:
    """Both end up in the address, and the choice can be seen."""
    page.goto("/ops")
    page.get_by_role("link", name="24 h").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="24 h")).to_have_attribute("aria-current", "true")
    page.get_by_role("textbox", name="Organisation").focus()
    page.keyboard.type("default-org")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{busy.url}/ops?range=24h&org=default-org")
    expect(page.get_by_role("textbox", name="Organisation")).to_have_value("default-org")
    expect(page.locator(".lead")).to_have_text("Organisation: default-org")


def test_it_is_all_there_without_scripts(busy: Live, tab: OpenTab) -> None:
    """Health first, then figures with their charts."""
    page = tab(java_script_enabled=False)
    page.goto("/ops")
    expect(page.locator("main h2").first).to_be_visible()
    for drawing in page.locator("svg.drawing").all():
        box = drawing.bounding_box()
        assert box is not None
        assert box["height"] == 48
    page.locator("details.series summary").click()
    expect(page.locator("#series tbody tr")).to_have_count(30)


def test_an_open_page_follows(busy: Live, page: Page) -> None:
    """What happens is there after a moment, and what its reader opened stays open."""
    page.goto("/ops")
    page.locator("details.series summary").click()
    busy.wait(busy.submit("failing", how="unheard_of")["job_id"])
    expect(page.locator("#errors")).to_contain_text("internal")
    expect(page.locator("#series tbody tr").first).to_be_visible()
