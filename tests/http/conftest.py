"""One server for the tests of a module: one that is open, and one that asks for keys.

It runs over SQLite. In a module or at a test marked `both_stores` it runs over PostgreSQL as well.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from langlauf.domain.access import GRANTABLE_SCOPES
from tests.http.keyed_server import KeyedServer, run_job
from tests.support.keys import OPERATOR, bearer, make_key
from tests.support.live import Live, live
from tests.support.store_kinds import store_under_test

#: Stores by the names that the ids of tests have.
STORES = ("sqlite", "postgres")


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", "both_stores: tests that use a server run over each store")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is marked once for each store, if a store has anything to do with it."""
    if "store_kind" in metafunc.fixturenames and metafunc.definition.get_closest_marker("both_stores"):
        metafunc.parametrize("store_kind", STORES, indirect=True, scope="module")


@pytest.fixture(scope="module")
def store_kind(request: pytest.FixtureRequest) -> str:
    """The kind of store that a server of the module runs over."""
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture(scope="module")
def server(store_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with the sample analyses and fault injection."""
    folder = tmp_path_factory.mktemp("live")
    with (
        store_under_test(store_kind, folder) as bed,
        live(
            folder,
            LANGLAUF_STORE=bed.place,
            ENABLE_E2E_FAULT_INJECTION="1",
            LANGLAUF_MAX_RUNNING="16",
            LANGLAUF_MAX_RESULT="2000000",
            LANGLAUF_CORS_ORIGINS="https://ui.example",
            LANGLAUF_SYNC_LIMIT="8",
            LANGLAUF_DELIVERIES="0",
        ) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def closed(store_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedServer]:
    """Keys in the store, and an operator's token."""
    folder = tmp_path_factory.mktemp("keys")
    with store_under_test(store_kind, folder) as bed:
        admin = make_key(bed.place, "org-a", *GRANTABLE_SCOPES)
        settings = {"LANGLAUF_STORE": bed.place, "API_AUTH_TOKEN": OPERATOR, "LANGLAUF_SYNC_LIMIT": "20"}
        with live(folder, **settings) as running:
            yield KeyedServer(running, bed.place, admin.text)


@pytest.fixture(scope="module")
def job(closed: KeyedServer) -> dict[str, Any]:
    """A job of org-a that has ended."""
    return run_job(closed.live, bearer(closed.admin))
