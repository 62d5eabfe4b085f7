"""Pages that keep themselves as the server would show them now."""

from playwright.sync_api import Page, expect

from langlauf.clock import new_id
from tests.browser.conftest import OpenTab
from tests.support.live import GATES, Live


def test_a_job_is_seen_from_its_start_to_its_result(page: Page, site: Live) -> None:
    """Parts change without a load of the page, then the tab goes on to the result."""
    gate = new_id()
    job_id = site.submit("gated", gate=gate, partials=3)["job_id"]
    GATES.wait_until_reached(gate)
    page.goto(f"/jobs/{job_id}")
    expect(page.locator(".live-text")).to_have_text("Live")
    GATES.open(gate)
    page.wait_for_url("**/results/**")
