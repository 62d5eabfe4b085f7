"""Webhooks in a real browser: added by keyboard, without a script, with the secret on one page alone."""

from playwright.sync_api import expect

from langlauf.clock import new_id
from tests.browser.accessibility import assert_accessible, assert_fits
from tests.browser.conftest import OpenTab


def test_an_endpoint_is_added_by_keyboard_and_without_a_script(tab: OpenTab) -> None:
    """Also on a phone; the secret is gone when the page is loaded again."""
    org = f"org-{new_id()}"
    for options in ({}, {"java_script_enabled": False, "viewport": {"width": 320, "height": 640}}):
        page = tab(extra_http_headers={"X-Org-Id": org}, **options)
        page.goto("/webhooks")
        page.get_by_label("Web address").focus()
        page.keyboard.type(f"https://hooks.example/{new_id()}")
        page.keyboard.press("Enter")
        secret = page.locator(".secret code")
        expect(secret).to_contain_text("whsec_")
        if not options:
            assert_accessible(page)
        assert_fits(page)
        page.goto("/webhooks")
        expect(page.locator(".secret")).to_have_count(0)
    expect(page.locator("article.endpoint")).to_have_count(2)
