"""The script that measures how readable a tree is runs anywhere and finds what it says it finds."""

import json
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT

SCRIPT = ROOT / "scripts" / "house_figures.py"


def _figures(*arguments: str) -> dict[str, int]:
    command = [sys.executable, "-I", str(SCRIPT), "--json", *arguments]
    figures: dict[str, int] = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)
    return figures


def test_it_measures_this_clone() -> None:
    """Without an argument the figures are those of this tree, and every one is there."""
    figures = _figures()
    assert figures["modules"] > 100
    assert figures["store_lines"] > 1_000
    assert 20 < figures["file_p95"] < 1_000
    assert figures["repeated_functions"] == 0


def test_it_finds_what_it_counts(tmp_path: Path) -> None:
    """A small tree with one example of each: the figures are known."""
    package = tmp_path / "src" / "langlauf" / "store"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "holding.py").write_text("class Row:\n    '''For whoever asks.'''\n")
    (package / "driver.py").write_text("from langlauf.store.holding import Row\n\nclass Row(Row):\n    pass\n")
    (package / "functions.sql").write_text("CREATE FUNCTION one() \nCREATE OR REPLACE FUNCTION one()\n")
    (tmp_path / "README.md").write_text("Nobody reads `nobody`.\n```\n" + "x" * 300 + "\n```\n")
    assert _figures(str(tmp_path)) == {
        "modules": 3,
        "file_p95": 2,
        "long_files": 0,
        "small_with_one_importer": 1,
        "repeated_classes": 1,
        "gerund_modules": 1,
        "repeated_functions": 1,
        "vague_words": 2,
        "longest_document_line": 22,
        "store_lines": 8,
    }
