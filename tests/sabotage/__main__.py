"""`python -m tests.sabotage [WORDS]`: break a copy of the product, and see which test of `make test` tells.

Each way is applied to a copy of the tree, and the tests named for it run there until one fails. Exit 1 where none does.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.sabotage.kinds import KINDS, Sabotage
from tests.support.server import ROOT

_COPIED = (
    "src",
    "tests",
    "docs",
    "examples",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Makefile",
)
_IGNORED = shutil.ignore_patterns("__pycache__")


def broken_tree(kind: Sabotage, folder: Path) -> None:
    """Copy the tree and edit its one file; a text that is not there is an error."""
    for name in _COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=_IGNORED)
        else:
            shutil.copy(ROOT / name, folder / name)
    text = (folder / kind.file).read_text("utf-8")
    for old, new in kind.edits:
        assert old in text, f"{kind.file} has no {old!r}"
        text = text.replace(old, new)
    (folder / kind.file).write_text(text, "utf-8")


def first_failure(kind: Sabotage) -> str | None:
    """Return the id of the first test that sees it."""
    with tempfile.TemporaryDirectory(prefix="langlauf-sabotage-") as place:
        folder = Path(place)
        broken_tree(kind, folder)
        env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder / "src"), str(folder)))}
        words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *kind.tests]
        done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)
    found = re.search(r"^(?:FAILED|ERROR) (tests/\S+)", done.stdout, re.MULTILINE)
    return found[1] if found else None


def main() -> None:
    """Print a line for each way, as they are found."""
    wanted = " ".join(sys.argv[1:])
    unseen = 0
    for kind in KINDS:
        if wanted in kind.name:
            found = first_failure(kind)
            unseen += found is None
            print(f"| {kind.name} | {found or '**nothing**'} |", flush=True)
    sys.exit(unseen > 0)


if __name__ == "__main__":
    main()
