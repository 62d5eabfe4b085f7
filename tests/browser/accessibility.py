"""Whether a page can be read by everybody: axe over a tab, and nothing wider than the window."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

_GRAVE = ("serious", "critical")
_AXE = Axe()


def assert_accessible(page: Page, *rules: str, within: str | None = None) -> None:
    """No serious finding of axe: by all its rules or by some, on the whole page or in a part of it."""
    options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    found = _AXE.run(page, context=within, options=options).response["violations"]
    grave = [
        (one["id"], one["help"], [node["html"] for node in one["nodes"]]) for one in found if one["impact"] in _GRAVE
    ]
    assert not grave, grave


def assert_fits(page: Page) -> None:
    """The page as a whole never scrolls sideways."""
    wide, window = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= window, f"{wide} px wide in a window of {window} px"
