"""What all pages have in common, in a real browser."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenTab
from tests.browser.reading import assert_accessible, assert_fits

ADDRESSES = ["/", "/ops", "/docs", "/problems", "/problems/timeout", "/nowhere"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("address", ADDRESSES)
def test_pages_without_a_job_are_accessible(tab: OpenTab, troubles: list[str], address: str, scheme: str) -> None:
    """In both colour schemes, on a phone as well."""
    page = tab(color_scheme=scheme, viewport={"width": 320, "height": 640})
    page.goto(address)
    assert_accessible(page)
    assert_fits(page)
    troubles[:] = [one for one in troubles if "404" not in one]  # the page that does not exist


def test_the_keyboard_skips_to_the_content(page: Page) -> None:
    """The first stop is the way past the head of the page."""
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
