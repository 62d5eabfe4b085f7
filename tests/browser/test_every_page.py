"""Every page and state can be read by everybody, on a phone and in the dark."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import listened
from tests.browser.gallery import Gallery, gallery
from tests.browser.reading import assert_accessible, assert_fits
from tests.browser.screenshots import Scheme, addresses


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gallery]:
    """Jobs in all states."""
    with gallery(tmp_path_factory.mktemp("gallery")) as made:
        yield made


@pytest.mark.parametrize(("scheme", "width"), [("light", 320), ("dark", 1280)])
def test_every_page_is_accessible_and_fits(browser: Browser, shown: Gallery, scheme: Scheme, width: int) -> None:
    """Axe finds nothing serious, nothing is cut off, and no script complains."""
    troubles: list[str] = []
    context = browser.new_context(
        base_url=shown.site.url, color_scheme=scheme, viewport={"width": width, "height": 800}
    )
    for name, address in addresses(shown).items():
        if scheme == "dark" and name == "docs":
            continue  # so long that axe takes as much time for it as for all the others
        page = listened(context.new_page(), shown.site.url, troubles)
        page.goto(address)
        try:
            assert_accessible(page)
            assert_fits(page)
        except AssertionError as error:
            raise AssertionError(f"{name} ({address})") from error
        page.close()
    context.close()
    assert [one for one in troubles if "404" not in one] == []
