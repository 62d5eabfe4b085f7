"""The list of what is long names tests that there are."""

import subprocess
import sys

import pytest

from tests.long import is_long, unused
from tests.support.server import ROOT, environment


@pytest.mark.parametrize(
    ("test_id", "long"),
    [
        ("tests/fuzz/test_fuzz.py::test_anything", True),
        ("tests/http/test_submit.py::test_x[postgres]", True),
        ("tests/http/test_submit.py::test_x[sqlite-postgres-a]", True),
        ("tests/http/test_submit.py::test_x[sqlite]", False),
        ("tests/postgres/test_links.py::test_x[postgres]", False),
        ("tests/store_contract/test_record.py::test_x[blobs-2]", True),
    ],
)
def test_paths_and_parameters_are_matched(test_id: str, long: bool) -> None:
    """Whole parameters below the path, not parts of them."""
    assert is_long(test_id) is long


def test_every_line_names_a_test() -> None:
    """A test that was renamed would else come back into `make test` without a word."""
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q"]
    env = environment(LANGLAUF_TEST_ALL="1")
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2_000:]
    assert unused({line for line in done.stdout.splitlines() if "::" in line}) == []
