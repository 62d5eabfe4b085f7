"""One store in good health of each kind; each test has it to itself."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doctor.checked_store import CheckedStore, copied, healthy, opened, refilled
from tests.support.postgres_stores import migrated_database


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that nothing is wrong with."""
    path = tmp_path_factory.mktemp("sound") / "store.db"

    async def fill() -> None:
        store = await opened("sqlite", str(path))
        try:
            await healthy(store)
        finally:
            await store.close()

    asyncio.run(fill())
    return path


@pytest.fixture(scope="module")
def reused() -> Iterator[str]:
    """A database whose rows are made anew for each test; its schema must stay as it is."""
    with migrated_database() as url:
        yield url


@pytest.fixture
def sqlite(tmp_path: Path, sound: Path) -> CheckedStore:
    """A file."""
    return copied(sound, tmp_path)


@pytest.fixture
def rows(tmp_path: Path, reused: str) -> CheckedStore:
    """A database of which only rows are changed, or what the test takes back."""
    return refilled(reused, tmp_path)


@pytest.fixture
def schema(tmp_path: Path) -> Iterator[CheckedStore]:
    """A database that may be changed in every way."""
    with migrated_database() as url:
        yield refilled(url, tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def either(request: pytest.FixtureRequest) -> CheckedStore:
    """A store of each kind, of which only rows are changed."""
    made = request.getfixturevalue("rows" if request.param == "postgres" else "sqlite")
    assert isinstance(made, CheckedStore)
    return made


@pytest.fixture(params=["sqlite", "postgres"])
def either_schema(request: pytest.FixtureRequest) -> CheckedStore:
    """A store of each kind that may be changed in every way."""
    made = request.getfixturevalue("schema" if request.param == "postgres" else "sqlite")
    assert isinstance(made, CheckedStore)
    return made
