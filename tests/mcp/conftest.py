"""Servers for the tests of a module: one that is open, and one that asks for keys; over PostgreSQL where marked."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from langlauf.domain.access import Scope
from tests.mcp.rpc import Mcp
from tests.mcp.tool_app import tool_app
from tests.support.keys import make_key
from tests.support.live import Live, live
from tests.support.store_kinds import store_under_test

STORES = ("sqlite", "postgres")


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", "both_stores: tests that use a server run over each store")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is marked once for each store."""
    if "store_kind" in metafunc.fixturenames and metafunc.definition.get_closest_marker("both_stores"):
        metafunc.parametrize("store_kind", STORES, indirect=True, scope="module")


@pytest.fixture(scope="module")
def store_kind(request: pytest.FixtureRequest) -> str:
    """The kind of store that a server of the module runs over."""
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture(scope="module")
def server(store_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server without keys, whose calls become tasks at once."""
    folder = tmp_path_factory.mktemp("live")
    with (
        store_under_test(store_kind, folder) as bed,
        live(
            folder,
            tool_app(),
            LANGLAUF_STORE=bed.place,
            LANGLAUF_MAX_RUNNING="32",
            LANGLAUF_SYNC_LIMIT="8",
            LANGLAUF_MCP_INLINE="0.2",
            LANGLAUF_DELIVERIES="0",
            LANGLAUF_CORS_ORIGINS="https://ui.example",
        ) as running,
    ):
        yield running


class TwoOrgs(NamedTuple):
    """A server that asks for keys, with a client of each of two orgs, and one that may only read."""

    live: Live
    a: Mcp
    b: Mcp
    reader: Mcp


@pytest.fixture(scope="module")
def orgs(store_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoOrgs]:
    """A server with keys of two orgs."""
    folder = tmp_path_factory.mktemp("keys")
    with store_under_test(store_kind, folder) as bed:
        keys = [make_key(bed.place, "org-a"), make_key(bed.place, "org-b"), make_key(bed.place, "org-a", Scope.READ)]
        with live(folder, tool_app(), LANGLAUF_STORE=bed.place, LANGLAUF_MCP_INLINE="0.2") as running:
            a, b, reader = (Mcp(running.http, Authorization=f"Bearer {key.text}") for key in keys)
            yield TwoOrgs(running, a, b, reader)


@pytest.fixture
def mcp(server: Live) -> Mcp:
    """A client that follows tasks."""
    return Mcp(server.http)


@pytest.fixture
def plain(server: Live) -> Mcp:
    """A client that does not follow tasks."""
    return Mcp(server.http, tasks=False)
