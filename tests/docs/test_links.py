"""Links that lead somewhere."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, anchors, links, pages

SOURCES = (ROOT, ROOT / "src" / "langlauf")
PAGES = [str(page.relative_to(ROOT)) for page in pages()]


def test_the_pages_are_found() -> None:
    """The documents that everybody looks for are among those that are checked."""
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/index.md", "docs/http_api.md"} <= set(PAGES)
    relative = [link for page in pages() for link in links(page.read_text("utf-8")) if "://" not in link]
    assert len(relative) > 50
    assert sum("#" in link for link in relative) > 20


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


@pytest.mark.parametrize("page", PAGES)
def test_a_link_that_names_a_page_leads_to_it(page: str) -> None:
    """A label such as `python.md` is not left behind when its target moves to another page."""
    for label, path in re.findall(r"\[([\w/.]+\.md)\]\(([^)#\s]+)", (ROOT / page).read_text("utf-8")):
        assert Path(label).name == Path(path).name, f"[{label}]({path})"


@pytest.mark.parametrize("page", PAGES)
def test_every_source_file_that_a_page_names_exists(page: str) -> None:
    """A module that moves takes its mentions along; a bare file name is one of the reader's own."""
    named = re.findall(r"`([\w-]+(?:/[\w-]+)+\.(?:py|sql|json|toml))`", (ROOT / page).read_text("utf-8"))
    assert [path for path in named if not any((top / path).exists() for top in SOURCES)] == []


def test_the_index_leads_to_every_page() -> None:
    """No document can be found only by those who know it."""
    folder = ROOT / "docs"
    reached = {(folder / link.partition("#")[0]).resolve() for link in links((folder / "index.md").read_text("utf-8"))}
    missing = {page for page in pages() if page.resolve() not in reached} - {folder / "index.md"}
    assert len(reached) > 8
    assert missing <= {folder / "benchmarks.md"}, missing  # figures; the pages that speak of them lead there
