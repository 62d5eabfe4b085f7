"""Facts with their labels and numbers, and the first rows of a large result, as a reader sees them."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import assert_accessible, assert_fits
from tests.browser.conftest import OpenTab
from tests.support.live import Live, live
from tests.ui.test_facts import app


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with an analysis that has facts and texts."""
    with live(tmp_path_factory.mktemp("facts"), app) as running:
        yield running


@pytest.mark.parametrize(
    ("locale", "shown"),
    [
        ("en-GB", ("Rows in all", "123,456", "First 200 of 2000 rows")),
        ("de-CH", ("Zeilen insgesamt", "123’456", "Die ersten 200 von 2000 Zeilen")),  # noqa: RUF001 - as it is written there
    ],
)
def test_facts_and_a_large_result_can_be_read(tab: OpenTab, site: Live, locale: str, shown: tuple[str, ...]) -> None:
    """With their label and grouped digits, and the first rows of the table; on a phone as well."""
    job = site.wait(site.submit("count")["job_id"])
    page = tab(locale=locale, viewport={"width": 320, "height": 700})
    page.goto(f"/results/{job['result_id']}")
    for text in shown:
        expect(page.locator("main")).to_contain_text(text)
    assert_accessible(page)
    assert_fits(page)
