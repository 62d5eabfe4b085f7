"""One server for the tests of a module: one that is open, and one that asks for keys."""

from collections.abc import Iterator
from typing import Any

import pytest

from langlauf.domain.access import GRANTABLE
from tests.http.closed import Closed, run_job
from tests.support.keys import OPERATOR, bearer, make_key
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
        LANGLAUF_DELIVERIES="0",
    ) as running:
        yield running


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    """Keys in the store, and an operator's token."""
    folder = tmp_path_factory.mktemp("keys")
    store = folder / "store.db"
    admin = make_key(store, "org-a", *GRANTABLE)
    with live(folder, API_AUTH_TOKEN=OPERATOR, LANGLAUF_SYNC_LIMIT="5") as running:
        yield Closed(running, store, admin.text)


@pytest.fixture(scope="module")
def job(closed: Closed) -> dict[str, Any]:
    """A job of org-a that has ended."""
    return run_job(closed.live, bearer(closed.admin))
