"""The page for contributors names files and folders that exist, and the tree as it is."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks, read, sections, words

PAGE = "CONTRIBUTING.md"
PACKAGE = ROOT / "src" / "langlauf"
#: Changes that most contributors make; each section lists the files to touch.
CHANGES = (
    "A field of a job",
    "An event",
    "An endpoint",
    "A command",
    "A setting",
    "A metric",
    "A view kind",
    "A retention rule",
    "A webhook retry rule",
    "A health rule",
)
_FILE = re.compile(r"[\w./-]+(?:\.(?:py|sql|md|json|txt|yml)|/)")


def _exists(path: str) -> bool:
    return (PACKAGE / path).exists() or (ROOT / path).exists()


def _files(text: str) -> list[str]:
    return [word for word in words(text) if _FILE.fullmatch(word) and not word.startswith("/") and "NNNN" not in word]


def test_every_file_that_is_named_exists() -> None:
    """A module that moves takes its mention along."""
    named = _files(re.sub(r"^```.*?^```", "", read(PAGE), flags=re.MULTILINE | re.DOTALL))
    assert len(named) > 40
    assert [path for path in named if not _exists(path) and path != "verify.sql"] == []


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_lists_its_files(change: str) -> None:
    """Each says where to begin."""
    assert _files(sections(PAGE)[change])


def test_the_tree_is_the_one_that_is_there() -> None:
    """Every package and module at the top of the source is in the tree, and none besides."""
    [tree] = [block.text for block in blocks(PAGE, "text") if block.text.startswith("src/langlauf/")]
    listed = [line.split()[0] for line in tree.splitlines()[1:] if line.startswith("  ")]
    assert [name for name in listed if not (PACKAGE / name).exists()] == []
    there = {path.name + "/" * path.is_dir() for path in PACKAGE.iterdir() if _is_source(path)}
    assert there - {name for name in listed if name.count("/") < 2} == set()


def _is_source(path: Path) -> bool:
    if path.is_dir():
        return (path / "__init__.py").exists()
    return path.suffix == ".py" and not path.name.startswith("__")


def test_every_folder_of_tests_is_in_the_table() -> None:
    """A newcomer finds what each is for."""
    listed = {word for word in words(sections(PAGE)["The tests"]) if word.startswith("tests/")}
    there = {f"tests/{path.name}" for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert there - listed == set()
