"""Every page and state can be read by everybody, on a phone and in the dark."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ViewportSize, expect

from tests.browser.accessibility import assert_accessible, assert_fits
from tests.browser.conftest import listened
from tests.browser.gallery import Gallery, gallery
from tests.browser.screenshots import PAGES, Scheme

#: What the page of a job says first, by the state that the job is in.
HEADLINES = {
    "completed": "Completed",
    "failed": "Failed",
    "partial": "Interim result, still running",
    "backoff": "Next attempt at",
    "canceled": "Canceled",
    "canceling": "Cancel requested",
    "running": "Running",
    "working": "Running",
    "silent": "Worker not responding",
    "queued": "Waiting to start",
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gallery]:
    """Jobs in all states."""
    with gallery(tmp_path_factory.mktemp("gallery")) as made:
        yield made


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("scheme", "width"), [("light", 320), ("dark", 1280)])
def test_every_page_is_accessible_and_fits(
    browser: Browser, shown: Gallery, scheme: Scheme, width: int, name: str
) -> None:
    """Axe finds nothing serious, nothing is cut off, and no script complains."""
    troubles: list[str] = []
    window: ViewportSize = {"width": width, "height": 800}
    with browser.new_context(base_url=shown.site.url, color_scheme=scheme, viewport=window) as context:
        page = listened(context.new_page(), shown.site.url, troubles)
        # In the dark the colours alone are others; and the reference is the same over and over.
        rules = () if scheme == "light" else ("color-contrast",)
        within = "main > :not(section), article:first-of-type" if name == "docs" else None
        page.goto(PAGES[name](shown))
        if within is None:
            page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        if name.startswith("job_"):
            expect(page.locator("#state")).to_contain_text(HEADLINES[name.removeprefix("job_")])
        assert_accessible(page, *rules, within=within)
        assert_fits(page)
    assert [one for one in troubles if "404" not in one] == []
