"""The server that the README talks to."""

from collections.abc import Iterator

import pytest

from tests.docs.serving import served


@pytest.fixture(scope="module")
def bundled_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What `make run` serves, on another port and with a store of its own."""
    with served(tmp_path_factory.mktemp("readme") / "store.db") as server:
        yield server.url
