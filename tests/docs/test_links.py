"""Links that lead somewhere."""

from pathlib import Path

import pytest
from tests.docs.pages import ROOT, anchors, links, pages

PAGES = [str(page.relative_to(ROOT)) for page in pages()]


def test_the_pages_are_found() -> None:
    """The documents that everybody looks for are among those that are checked."""
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/index.md", "docs/http_api.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_resolves(page: str) -> None:
    """The file is there, and so is the heading behind the #."""
    for link in links((ROOT / page).read_text("utf-8")):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text("utf-8")), link


def test_the_index_leads_to_every_page() -> None:
    """No document can be found only by those who know it."""
    folder = ROOT / "docs"
    reached = {(folder / link.partition("#")[0]).resolve() for link in links((folder / "index.md").read_text("utf-8"))}
    missing = {page for page in pages() if page.resolve() not in reached} - {folder / "index.md"}
    assert len(reached) > 8
    assert missing <= _elsewhere(), missing


def _elsewhere() -> set[Path]:
    """Pages that need not be in the index."""
    return {ROOT / "LICENSE.md"}
