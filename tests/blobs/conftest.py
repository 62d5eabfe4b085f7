"""Every place for blobs passes the same tests. A new one is added to `PLACES`, and no test changes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from langlauf.clock import new_id
from langlauf.store.blobs.large import open_blobs
from langlauf.store.blobs.protocol import Blobs
from tests.blobs.object_store import CREDENTIALS, ObjectStore, object_store

SECONDS = 20.0
PLACES = ("files", "objects")
Open = Callable[[], Blobs]


@pytest.fixture(scope="session")
def objects() -> Iterator[ObjectStore]:
    """One object store for all tests; each has a bucket of its own."""
    with object_store() as running:
        yield running


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty place, as LANGLAUF_BLOBS names it."""
    if request.param == "files":
        return str(tmp_path / "blobs")
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    server: ObjectStore = request.getfixturevalue("objects")
    bucket = f"tests-{new_id()}"
    server.make(bucket)
    return server.url(bucket, "some/prefix")


@pytest.fixture
def opened(place: str) -> Open:
    """Opens the place; inside of an event loop."""
    return lambda: open_blobs(place, seconds=SECONDS)
