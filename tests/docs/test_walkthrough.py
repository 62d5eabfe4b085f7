"""The walkthrough links files that exist, and the way from a handler to the commit stays short."""

from tests.docs.pages import ROOT, links, read, sections

PAGE = "docs/walkthrough.md"
#: A newcomer opens so many files to understand a submission.
MOST_FILES = 9


def _files(text: str) -> list[str]:
    return [link.removeprefix("../src/langlauf/") for link in links(text) if "/src/langlauf/" in link]


def test_every_file_exists() -> None:
    """A module that moves takes its link along, and the label is the path."""
    named = _files(read(PAGE))
    assert len(named) > 30
    for path in named:
        assert (ROOT / "src" / "langlauf" / path).is_file(), path
        assert f"[{path}](" in read(PAGE), path


def test_a_submission_is_few_files() -> None:
    """From the handler to the commit, on SQLite."""
    steps, _, elsewhere = sections(PAGE)["From the handler to the commit"].partition("On PostgreSQL")
    assert 5 <= len(set(_files(steps))) <= MOST_FILES
    assert _files(elsewhere)


def test_the_page_can_be_read_at_once() -> None:
    """About eighty lines."""
    assert len(read(PAGE).splitlines()) < 95
