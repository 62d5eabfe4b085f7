"""Every store passes the same suite. A new one is added to `STORES`, and no test changes."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from langlauf.hints import Hints
from langlauf.store.blobs.files import FileBlobs
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.protocol import Store
from langlauf.store.sqlite.driver import SqliteStore
from tests.support.postgres_stores import ReusedDatabase
from tests.support.store_kinds import StoreUnderTest, store_under_test
from tests.support.stores import SetClock

Body = Callable[[Store, SetClock], Awaitable[None]]
#: A test of several stores at one place, such as several hosts have them.
BodyOfMany = Callable[[list[Store], SetClock], Awaitable[None]]
#: Opens the store that is at a place.
Opener = Callable[[SetClock, Hints], Awaitable[Store]]
#: A test, given what opens its store.
Test = Callable[[Opener], Coroutine[Any, Any, None]]
#: Runs a test on a store of one kind; files go to the folder.
Place = Callable[[Path, Test], None]


def _opener(folder: Path | None) -> Opener:
    async def opened(clock: SetClock, hints: Hints) -> Store:
        path = ":memory:" if folder is None else str(folder / "store.db")
        return await SqliteStore.open(path, clock=clock, hints=hints)

    return opened


def _sqlite(folder: Path, test: Test) -> None:
    asyncio.run(test(_opener(folder)))


def _memory(_: Path, test: Test) -> None:
    asyncio.run(test(_opener(None)))


def _blobs(folder: Path, test: Test) -> None:
    """Not a byte stays in a row."""

    async def opened(clock: SetClock, hints: Hints) -> Store:
        store = await _opener(folder)(clock, hints)
        store.blobs.use(FileBlobs(folder / "blobs"), largest_inline=0, seconds=10)
        return store

    asyncio.run(test(opened))


def _postgres(_: Path, test: Test) -> None:
    async def use(url: str) -> None:
        async def opened(clock: SetClock, hints: Hints) -> Store:
            return await PostgresStore.open(url, clock=clock, hints=hints)

        await test(opened)

    _REUSED.run(use)


_REUSED = ReusedDatabase()


@pytest.fixture(scope="session", autouse=True)
def _dropped() -> Iterator[None]:
    """The database that the tests share goes with the last of them."""
    yield
    _REUSED.close()


STORES: dict[str, Place] = {"sqlite": _sqlite, "memory": _memory, "blobs": _blobs, "postgres": _postgres}
#: Those that several programs may open at the same time.
SHARED = ("sqlite", "postgres")


class Harness:
    """Runs a test against one kind of store, with a clock that the test moves."""

    def __init__(self, place: Place, folder: Path) -> None:
        self._place = place
        self._folder = folder
        self.clock = SetClock()

    def beside(self, name: str) -> "Harness":
        """Another store of this kind, with a clock of its own."""
        folder = self._folder / name
        folder.mkdir()
        return Harness(self._place, folder)

    def run(self, body: Body) -> None:
        """Opens the store, runs the test and closes the store."""
        self.run_many(1, lambda stores, clock: body(stores[0], clock))

    def run_many(self, number: int, body: BodyOfMany) -> None:
        """The same for several stores that are one: each has connections and queues of its own."""

        async def main(opened: Opener) -> None:
            async with AsyncExitStack() as stack:
                stores = []
                for _ in range(number):
                    stores.append(await opened(self.clock, Hints()))
                    stack.push_async_callback(stores[-1].close)
                await body(stores, self.clock)

        self._place(self._folder, main)


@pytest.fixture(params=sorted(STORES))
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    """One store per kind."""
    return Harness(STORES[request.param], tmp_path)


@pytest.fixture(params=sorted(SHARED))
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    """One store per kind that several programs may open."""
    return Harness(STORES[request.param], tmp_path)


@pytest.fixture(params=["postgres", "sqlite"])
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreUnderTest]:
    """A store of each kind that keeps what it was told, to look into past its driver."""
    with store_under_test(request.param, tmp_path) as place:
        yield place


@pytest.fixture(params=["memory", "postgres", "sqlite"])
def any_bed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreUnderTest]:
    """A store of each kind."""
    with store_under_test(request.param, tmp_path) as place:
        yield place
