"""Types are checked beside the other tests: `make check` does the same alone."""

import subprocess
import sys

import pytest

from tests.support.server import ROOT


@pytest.mark.limit(600)  # half a minute without its cache on a quiet machine
def test_types_hold() -> None:
    """The strict check finds nothing in source, tests, scripts and examples."""
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
