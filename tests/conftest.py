"""What tests of several folders share."""

from collections.abc import Iterator

import pytest

from langlauf.clock import new_id
from tests.support.server import ServerProcess, serving


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server with the sample application, for all tests that only need some server."""
    with serving(tmp_path_factory.mktemp("server") / "store.db") as running:
        yield running


@pytest.fixture
def org() -> str:
    """An org of the test's own: nothing of another test is in it."""
    return f"org-{new_id()}"
