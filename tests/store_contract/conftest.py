"""Every store passes the same suite. A new one is added to `STORES`, and no test changes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from langlauf.hints import Hints
from langlauf.store.blobs.files import FileBlobs
from langlauf.store.blobs.store import StoreWithBlobs
from langlauf.store.protocol import Store
from langlauf.store.sqlite.driver import SqliteStore
from tests.support.stores import SetClock

Body = Callable[[Store, SetClock], Awaitable[None]]
Opener = Callable[[Path, SetClock, Hints], Awaitable[Store]]


async def _open_sqlite(folder: Path, clock: SetClock, hints: Hints) -> Store:
    return await SqliteStore.open(str(folder / "store.db"), clock=clock, hints=hints)


async def _open_memory(_: Path, clock: SetClock, hints: Hints) -> Store:
    return await SqliteStore.open(":memory:", clock=clock, hints=hints)


async def _open_with_blobs(folder: Path, clock: SetClock, hints: Hints) -> Store:
    """Not a byte stays in a row."""
    inner = await _open_sqlite(folder, clock, hints)
    return StoreWithBlobs(inner, FileBlobs(folder / "blobs"), largest_inline=0, seconds=10)


STORES: dict[str, Opener] = {"sqlite": _open_sqlite, "memory": _open_memory, "blobs": _open_with_blobs}


class Harness:
    """Runs a test against one kind of store, with a clock that the test moves."""

    def __init__(self, opener: Opener, folder: Path) -> None:
        self._opener = opener
        self._folder = folder
        self.clock = SetClock()

    def run(self, body: Body) -> None:
        """Opens the store, runs the test and closes the store."""

        async def main() -> None:
            store = await self._opener(self._folder, self.clock, Hints())
            try:
                await body(store, self.clock)
            finally:
                await store.close()

        asyncio.run(main())


@pytest.fixture(params=sorted(STORES))
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    """One store per kind."""
    return Harness(STORES[request.param], tmp_path)
