"""Every store passes the same suite. A new one is added to `STORES`, and no test changes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager
from pathlib import Path

import pytest

from langlauf.hints import Hints
from langlauf.store.blobs.files import FileBlobs
from langlauf.store.blobs.store import StoreWithBlobs
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.protocol import Store
from langlauf.store.sqlite.driver import SqliteStore
from tests.support.beds import Bed, bed_of
from tests.support.postgres_stores import migrated_database
from tests.support.stores import SetClock

Body = Callable[[Store, SetClock], Awaitable[None]]
#: A test of several stores at one place, such as several hosts have them.
BodyOfMany = Callable[[list[Store], SetClock], Awaitable[None]]
#: Opens the store that is at a place.
Opener = Callable[[SetClock, Hints], Awaitable[Store]]
#: Makes such a place, and removes it.
Place = Callable[[Path], AbstractContextManager[Opener]]


@contextmanager
def _sqlite(folder: Path) -> Iterator[Opener]:
    async def opened(clock: SetClock, hints: Hints) -> Store:
        return await SqliteStore.open(str(folder / "store.db"), clock=clock, hints=hints)

    yield opened


@contextmanager
def _memory(_: Path) -> Iterator[Opener]:
    async def opened(clock: SetClock, hints: Hints) -> Store:
        return await SqliteStore.open(":memory:", clock=clock, hints=hints)

    yield opened


@contextmanager
def _blobs(folder: Path) -> Iterator[Opener]:
    """Not a byte stays in a row."""
    with _sqlite(folder) as open_inner:

        async def opened(clock: SetClock, hints: Hints) -> Store:
            inner = await open_inner(clock, hints)
            return StoreWithBlobs(inner, FileBlobs(folder / "blobs"), largest_inline=0, seconds=10)

        yield opened


@contextmanager
def _postgres(_: Path) -> Iterator[Opener]:
    with migrated_database() as url:

        async def opened(clock: SetClock, hints: Hints) -> Store:
            return await PostgresStore.open(url, clock=clock, hints=hints)

        yield opened


STORES: dict[str, Place] = {"sqlite": _sqlite, "memory": _memory, "blobs": _blobs, "postgres": _postgres}
#: Those that several programs may open at the same time.
SHARED = ("sqlite", "postgres")


class Harness:
    """Runs a test against one kind of store, with a clock that the test moves."""

    def __init__(self, place: Place, folder: Path) -> None:
        self._place = place
        self._folder = folder
        self.clock = SetClock()

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

        with self._place(self._folder) as opened:
            asyncio.run(main(opened))


@pytest.fixture(params=sorted(STORES))
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    """One store per kind."""
    return Harness(STORES[request.param], tmp_path)


@pytest.fixture(params=sorted(SHARED))
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    """One store per kind that several programs may open."""
    return Harness(STORES[request.param], tmp_path)


@pytest.fixture(params=["postgres", "sqlite"])
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bed]:
    """A store of each kind that keeps what it was told, to look into past its driver."""
    with bed_of(request.param, tmp_path) as place:
        yield place


@pytest.fixture(params=["memory", "postgres", "sqlite"])
def any_bed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bed]:
    """A store of each kind."""
    with bed_of(request.param, tmp_path) as place:
        yield place
