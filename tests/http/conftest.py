"""One server for the tests of a module."""

from collections.abc import Iterator

import pytest

from tests.support.live import Live, live


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with the sample analyses and fault injection."""
    folder = tmp_path_factory.mktemp("live")
    with live(
        folder,
        ENABLE_E2E_FAULT_INJECTION="1",
        LANGLAUF_MAX_RUNNING="16",
        LANGLAUF_MAX_RESULT="2000000",
        LANGLAUF_CORS_ORIGINS="https://ui.example",
        LANGLAUF_SYNC_LIMIT="3",
    ) as running:
        yield running
