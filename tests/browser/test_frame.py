"""What all pages have in common, in a real browser."""

from playwright.sync_api import Page, expect


def test_the_keyboard_skips_to_the_content(page: Page) -> None:
    """The first stop is the way past the head of the page."""
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
