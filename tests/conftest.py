"""What tests of several folders share."""

from collections.abc import Iterator

import pytest

from langlauf.clock import new_id
from tests.support.postgres import begin_run, fresh_database, shared_server
from tests.support.server import ServerProcess, serving


def pytest_configure(config: pytest.Config) -> None:
    """The process that leads the run is the one whose end ends what the run shares; its workers have nothing to end."""
    if not hasattr(config, "workerinput"):
        config.add_cleanup(begin_run())


@pytest.fixture(scope="session")
def postgres() -> str:
    """The URL of the PostgreSQL server that all tests of the run share."""
    return shared_server()


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    """The URL of an empty database of the test's own."""
    with fresh_database(server=postgres) as url:
        yield url


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server with the sample application, for all tests that only need some server."""
    with serving(tmp_path_factory.mktemp("server") / "store.db") as running:
        yield running


@pytest.fixture
def org() -> str:
    """An org of the test's own: nothing of another test is in it."""
    return f"org-{new_id()}"
